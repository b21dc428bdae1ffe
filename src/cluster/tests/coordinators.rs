//! Who coordinates, as a client sees it.

use kafka_protocol::messages::FindCoordinatorRequest;

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
