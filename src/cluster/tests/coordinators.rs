//! Who coordinates, as a client sees it.

use kafka_protocol::messages::create_partitions_request::CreatePartitionsTopic;
use kafka_protocol::messages::{CreatePartitionsRequest, FindCoordinatorRequest};

use super::*;

#[test]
fn the_one_broker_coordinates_groups_and_transactions() {
    let mut world = World::new();
    let client = world.connect();
    let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("key"));
    let one = world.ask(client, 0, &request);
    assert_eq!((one.error_code, one.node_id.0, one.host.as_str(), one.port), (0, 1, "127.0.0.1", 9092));

    // As Apache Kafka 4.1 answers, but for the last: there a share coordinator is on its way.
    let cases = [
        (0, "", 0),
        (1, "t", 0),
        (3, "k", 42),
        (-1, "k", 42),
        (2, "k", 42),
        (2, "g:AAAAAAAAAAAAAAAAAAAAAQ:0", 15),
    ];
    for (kind, key, error) in cases {
        let keys = vec![StrBytes::from_static_str(key), StrBytes::from_static_str(key)];
        let request = FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(keys);
        let many = world.ask(client, 6, &request);
        assert_eq!(many.coordinators.len(), 2, "a key that comes twice is answered twice");
        for each in many.coordinators {
            let expected = if error == 0 { (0, 1, 9092) } else { (error, -1, -1) };
            assert_eq!((each.error_code, each.node_id.0, each.port), expected, "type {kind}, key {key}");
            assert_eq!(each.key.as_str(), key);
        }
    }
}

#[test]
fn coordinators_stay_when_their_topics_get_more_partitions() {
    let mut world = World::of_brokers(3, &[]);
    let client = world.connect_to(1);
    for (kind, name) in [(0, "__consumer_offsets"), (1, "__transaction_state")] {
        let keys = (0..20).map(|key| StrBytes::from_string(format!("key-{key}"))).collect();
        let request = FindCoordinatorRequest::default().with_key_type(kind).with_coordinator_keys(keys);
        let before = world.ask(client, 6, &request);
        assert!(before.coordinators.iter().all(|each| each.error_code == 0), "{before:?}");
        let grow =
            CreatePartitionsTopic::default().with_name(topic(name)).with_count(60).with_assignments(None);
        let grow = CreatePartitionsRequest::default().with_topics(vec![grow]).with_timeout_ms(30_000);
        let grown = world.ask(client, 3, &grow);
        assert_eq!(grown.results[0].error_code, 0);
        assert_eq!(
            world.ask(client, 6, &request),
            before,
            "the coordinators still share out {name} as before"
        );
    }
}
