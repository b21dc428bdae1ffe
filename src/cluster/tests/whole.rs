//! The cluster as a value: replayed, cloned, idle.

use super::*;
use crate::base::entropy::Entropy;

/// A mixed workload that depends on the seed alone; gives everything that came out.
fn workload(seed: u64) -> Vec<(ConnectionId, Bytes)> {
    let mut world = World::of(ClusterConfig { seed, ..ClusterConfig::default() });
    let mut entropy = Entropy::new(seed).stream("workload");
    world.create_topic("a", 3, &[("segment.bytes", "1048576"), ("retention.bytes", "1048576")]);
    world.create_topic("b", 1, &[("message.timestamp.type", "LogAppendTime")]);
    let mut clients: Vec<ConnectionId> = (0..8).map(|_| world.connect()).collect();
    let mut out = Vec::new();
    for _ in 0..400 {
        let at = entropy.below(clients.len() as u64) as usize;
        let client = clients[at];
        if world.cluster.waits(world.now()).iter().any(|wait| wait.waiter.owner == client) {
            world.disconnect(client);
            clients[at] = world.connect();
            continue;
        }
        let index = entropy.below(4) as i32;
        match entropy.below(4) {
            0 => {
                world.send(client, FETCH, &fetch("a", index, entropy.below(20) as i64).with_session_epoch(0))
            }
            1 => world.send(client, PRODUCE, &produce("b", 0, batch(&["b"], 1), -1)),
            2 => {
                let value = "v".repeat(entropy.below(50_000) as usize);
                world.send(client, PRODUCE, &produce("a", index, batch(&[&value], 1), 1));
            }
            _ => world.advance(Duration::from_millis(entropy.below(300))),
        }
        out.append(&mut world.frames);
    }
    out
}

#[test]
fn the_same_seed_and_inputs_give_the_same_bytes() {
    let first = workload(11);
    assert!(first.len() > 200);
    assert_eq!(first, workload(11));
    assert_ne!(first, workload(12));
}

#[test]
fn a_clone_goes_its_own_way() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let (reader, writer) = (world.connect(), world.connect());
    world.send(reader, FETCH, &fetch("t", 0, 0));
    let mut fork = world.clone();
    fork.ask(writer, PRODUCE, &produce("t", 0, batch(&["a"], 1), 1));
    assert!(fork.received::<FetchRequest>(reader, FETCH).is_some());
    assert!(world.received::<FetchRequest>(reader, FETCH).is_none());
    world.advance(Duration::from_millis(500));
    assert!(values(records_of(&world.received::<FetchRequest>(reader, FETCH).unwrap())).is_empty());
}

#[test]
fn an_idle_cluster_has_no_deadline() {
    let mut world = World::new();
    assert_eq!(world.cluster.poll_timeout(), None);
    world.create_topic("t", 100, &[]);
    assert_eq!(world.cluster.poll_timeout(), None);
}
