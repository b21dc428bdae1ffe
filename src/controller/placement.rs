//! Which brokers hold which partition (Kafka's `StripedReplicaPlacer`): racks are visited in turn from a random
//! start that moves on by one a partition; within a rack, brokers in turn; a broker holds a partition once, and the
//! first replica is never on a fenced broker.

use super::{BrokerRegistration, ControllerError};
use crate::base::NodeId;
use crate::base::entropy::Entropy;

/// Replicas for `partitions` partitions of `factor` replicas each, the preferred leader first.
///
/// # Errors
/// If there are fewer brokers than replicas, or none that may lead.
pub fn place(
    brokers: &[BrokerRegistration],
    partitions: usize,
    factor: i16,
    entropy: &mut Entropy,
) -> Result<Vec<Vec<NodeId>>, ControllerError> {
    let unfenced = brokers.iter().filter(|broker| !broker.fenced).count();
    let wanted = usize::try_from(factor).unwrap_or(0);
    if wanted > brokers.len() || unfenced == 0 {
        return Err(ControllerError::TooFewBrokers { factor, brokers: unfenced.min(brokers.len()) });
    }
    let mut racks = racks(brokers, entropy);
    let mut start = entropy.below(racks.len() as u64) as usize;
    let count = racks.len();
    let placed = (0..partitions).map(|partition| {
        if partition > 0 && partition % count == 0 {
            // Else the racks' turns and the brokers' go in step, and some broker never leads.
            racks.iter_mut().for_each(|rack| rack.turn += 1);
        }
        let replicas = place_one(&mut racks, start, wanted);
        start += 1;
        replicas
    });
    Ok(placed.collect())
}

/// The brokers of one rack, and where its next turn starts.
struct Rack {
    unfenced: Vec<NodeId>,
    fenced: Vec<NodeId>,
    turn: usize,
}

impl Rack {
    /// The rack's brokers in the order of this turn, those that live before those that are fenced.
    fn turn(&mut self) -> Vec<NodeId> {
        let turned = |ids: &[NodeId]| -> Vec<NodeId> {
            (0..ids.len()).map(|at| ids[(at + self.turn) % ids.len()]).collect()
        };
        let mut order = turned(&self.unfenced);
        order.extend(turned(&self.fenced));
        self.turn += 1;
        order
    }
}

fn racks(brokers: &[BrokerRegistration], entropy: &mut Entropy) -> Vec<Rack> {
    let mut named: std::collections::BTreeMap<Option<&str>, Rack> = Default::default();
    for broker in brokers {
        let rack = named.entry(broker.rack.as_deref()).or_insert_with(|| Rack {
            unfenced: Vec::new(),
            fenced: Vec::new(),
            turn: 0,
        });
        if broker.fenced { rack.fenced.push(broker.id) } else { rack.unfenced.push(broker.id) }
    }
    let mut racks: Vec<Rack> = named.into_values().collect();
    for rack in &mut racks {
        rack.turn = entropy.below(rack.unfenced.len().max(1) as u64) as usize;
    }
    racks
}

fn place_one(racks: &mut [Rack], start: usize, wanted: usize) -> Vec<NodeId> {
    let count = racks.len();
    let first = (0..count).map(|step| (start + step) % count).find(|&rack| !racks[rack].unfenced.is_empty());
    let start = first.unwrap_or(start % count);
    let mut turns: Vec<std::vec::IntoIter<NodeId>> =
        (0..count).map(|step| racks[(start + step) % count].turn().into_iter()).collect();
    let mut replicas = Vec::with_capacity(wanted);
    while replicas.len() < wanted {
        let before = replicas.len();
        for turn in &mut turns {
            if replicas.len() < wanted {
                replicas.extend(turn.next());
            }
        }
        if replicas.len() == before {
            break;
        }
    }
    replicas
}

#[cfg(test)]
mod tests {
    use super::*;

    fn broker(id: i32, rack: Option<&str>, fenced: bool) -> BrokerRegistration {
        BrokerRegistration {
            id: NodeId(id),
            rack: rack.map(Into::into),
            epoch: 1,
            fenced,
            in_controlled_shutdown: false,
            endpoints: Vec::new(),
        }
    }

    #[test]
    fn replicas_are_distinct_and_spread_over_racks() {
        let brokers = [
            broker(1, Some("a"), false),
            broker(2, Some("a"), false),
            broker(3, Some("b"), false),
            broker(4, Some("b"), true),
        ];
        let placed = place(&brokers, 40, 2, &mut Entropy::new(3)).unwrap();
        let rack_of = |id: NodeId| brokers.iter().find(|broker| broker.id == id).unwrap().rack.clone();
        for replicas in &placed {
            assert_eq!(replicas.len(), 2);
            assert_ne!(rack_of(replicas[0]), rack_of(replicas[1]), "{replicas:?}");
            assert_ne!(replicas[0], NodeId(4), "a fenced broker never leads");
        }
        for id in [1, 2, 3] {
            assert!(placed.iter().any(|replicas| replicas[0] == NodeId(id)), "broker {id} leads something");
        }
    }

    #[test]
    fn too_few_brokers_are_refused() {
        let brokers = [broker(1, None, false)];
        assert!(matches!(
            place(&brokers, 1, 2, &mut Entropy::new(1)),
            Err(ControllerError::TooFewBrokers { factor: 2, brokers: 1 })
        ));
        assert!(place(&[broker(1, None, true)], 1, 1, &mut Entropy::new(1)).is_err());
    }
}
