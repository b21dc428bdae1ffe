//! What followers do with answers (Kafka's `AbstractFetcherThreadTest`, `ReplicaFetcherThreadTest`).

use super::*;

#[test]
fn an_epoch_that_wrote_nothing_is_given_up() {
    let mut world = World::new(2);
    world.append(1);
    world.run();
    world.elect(2, &[1, 2]);
    world.run();
    world.elect(1, &[1, 2]);
    world.run();
    world.append(1);
    world.run();
    assert_eq!(world.contents(2), world.contents(1));
    assert_eq!(world.ends(1), (2, 2));
}
