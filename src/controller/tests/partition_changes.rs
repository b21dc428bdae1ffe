//! Changes of partitions, held against what Kafka's own PartitionChangeBuilder makes of the same.

use std::collections::BTreeMap;

use super::*;
use crate::controller::partition_change::{Candidates, PartitionChange};

type Fields<'a> = BTreeMap<&'a str, &'a str>;

fn fields(text: &str) -> Fields<'_> {
    text.split_whitespace().map(|field| field.split_once('=').unwrap()).collect()
}

fn listed(text: &str) -> Vec<NodeId> {
    text.split(',').filter(|id| *id != "-").map(|id| NodeId(id.parse().unwrap())).collect()
}

fn partition(fields: &Fields<'_>, partition_epoch: i32) -> Partition {
    let leader: i32 = fields["leader"].parse().unwrap();
    Partition {
        replicas: listed(fields["replicas"]).into(),
        isr: listed(fields["isr"]).into(),
        elr: listed(fields["elr"]).into(),
        last_known_elr: listed(fields["last"]).into(),
        adding_replicas: listed(fields["adding"]).into(),
        removing_replicas: listed(fields["removing"]).into(),
        leader: (leader >= 0).then_some(NodeId(leader)),
        leader_epoch: fields["epoch"].parse().unwrap(),
        partition_epoch,
        recovery: match fields["recovering"] {
            "true" => LeaderRecovery::Recovering,
            _ => LeaderRecovery::Recovered,
        },
    }
}

#[test]
fn partitions_change_as_in_kafka() {
    let cases = include_str!("../../../fixtures/controller/partition_changes.txt");
    let mut held = 0;
    for case in cases.lines().filter(|line| !line.starts_with('#')) {
        let (before, rest) = case.split_once(" | ").unwrap();
        let (wanted, after) = rest.split_once(" => ").unwrap();
        let before = partition(&fields(before), 1);
        let wanted = fields(wanted);
        let active = listed(wanted["active"]);
        let min_isr = wanted["min"].parse().unwrap();
        let mut change = PartitionChange::new(&before, |id| active.contains(&id), min_isr);
        change.candidates = match wanted["election"] {
            "preferred" => Candidates::Preferred,
            "online" => Candidates::Online,
            _ => Candidates::Unclean,
        };
        for (name, value) in &wanted {
            match *name {
                "to_isr" => change.isr = listed(value),
                "to_replicas" => change.replicas = listed(value),
                "to_adding" => change.adding = listed(value),
                "to_removing" => change.removing = listed(value),
                "recovered" => change.recovery = LeaderRecovery::Recovered,
                "unclean_shutdown" => change.uncleanly_shut_down = listed(value).first().copied(),
                _ => {}
            }
        }
        let expected = (after != "none").then(|| partition(&fields(after), 2));
        assert_eq!(change.build(), expected, "{case}");
        held += 1;
    }
    assert_eq!(held, 600);
}
