//! How members of the consumer protocol come to what they are to have, step by step (Kafka's `GroupMetadataManagerTest`, its
//! scenarios of reconciliation): they give up before others get, whatever comes in between.

use std::collections::BTreeMap;

use super::consumer_groups::{Member, error, state};
use super::groups::world;
use super::*;
use crate::base::ErrorCode;

fn world_of(partitions: i32) -> World {
    let mut world = world();
    world.create_topic("t", partitions, &[]);
    world
}

fn is(state: &str, epoch: i32, target_epoch: i32) -> (String, i32, i32) {
    (state.to_owned(), epoch, target_epoch)
}

/// What the members say that they have; nobody has what another has.
fn nothing_is_shared(members: &[&Member]) {
    let mut owners = BTreeMap::new();
    for member in members {
        for partition in member.partitions() {
            let other = owners.insert(partition, member.id);
            assert_eq!(other, None, "{partition} belongs to {}, too", member.id);
        }
    }
}

#[test]
fn three_members_share_once_each_has_given_up() {
    let mut world = world_of(9);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let mut b = Member::joined(&mut world, "b", &["t"]);
    a.beat(&mut world);
    a.beat(&mut world);
    b.beat(&mut world);
    let mut sizes = [a.count(), b.count()];
    sizes.sort_unstable();
    assert_eq!((sizes, state(&mut world)), ([4, 5], is("Stable", 2, 2)));

    let mut c = Member::joined(&mut world, "c", &["t"]);
    assert_eq!((c.epoch, c.count()), (3, 0), "it waits for both");
    assert_eq!(state(&mut world), is("Reconciling", 3, 3));
    assert!(a.beat(&mut world).assignment.is_some());
    assert_eq!((a.epoch, a.count()), (2, 3), "at its old epoch until it has given up");
    assert_eq!(c.beat(&mut world).assignment, None);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.count()), (3, 3));
    c.beat(&mut world);
    nothing_is_shared(&[&a, &b, &c]);
    let of_a = c.count();
    assert!(of_a < 3, "b has not heard yet");
    assert_eq!(state(&mut world), is("Reconciling", 3, 3));
    assert!(b.beat(&mut world).assignment.is_some());
    assert_eq!((b.epoch, b.count()), (2, 3));
    b.beat(&mut world);
    assert_eq!(b.epoch, 3);
    c.beat(&mut world);
    nothing_is_shared(&[&a, &b, &c]);
    assert_eq!([a.count(), b.count(), c.count()], [3, 3, 3]);
    assert_eq!(state(&mut world), is("Stable", 3, 3));
    for member in [&mut a, &mut b, &mut c] {
        assert_eq!((member.beat(&mut world).assignment, member.epoch), (None, 3), "nothing is news any more");
    }
}

#[test]
fn a_new_target_waits_for_what_is_being_given_up() {
    let mut world = world_of(6);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let mut b = Member::joined(&mut world, "b", &["t"]);
    let had = a.request().with_topic_partitions(None);
    a.beat(&mut world);
    assert_eq!((a.epoch, a.count()), (1, 3), "it is to give up three");
    let mut c = Member::joined(&mut world, "c", &["t"]);
    assert_eq!(c.epoch, 3);
    assert_eq!(a.ask(&mut world, &had).assignment, None, "one thing at a time");
    assert_eq!((a.epoch, a.count()), (1, 3));
    assert!(a.beat(&mut world).assignment.is_some());
    assert_eq!((a.epoch, a.count()), (2, 2), "now it is to give up one more");
    b.beat(&mut world);
    c.beat(&mut world);
    nothing_is_shared(&[&a, &b, &c]);
    a.beat(&mut world);
    assert_eq!(a.epoch, 3);
    b.beat(&mut world);
    c.beat(&mut world);
    nothing_is_shared(&[&a, &b, &c]);
    assert_eq!([a.count(), b.count(), c.count()], [2, 2, 2]);
    assert_eq!(state(&mut world), is("Stable", 3, 3));
}

#[test]
fn what_a_member_that_leaves_had_is_free_at_once() {
    let mut world = world_of(4);
    let mut a = Member::joined(&mut world, "a", &["t"]);
    let mut b = Member::joined(&mut world, "b", &["t"]);
    assert_eq!(b.count(), 0);
    assert_eq!(
        error(&a.leave(&mut world)),
        ErrorCode::None,
        "it has heard of nothing that it had to give up"
    );
    b.beat(&mut world);
    assert_eq!((b.epoch, b.count()), (3, 4));
    assert_eq!(error(&a.beat(&mut world)), ErrorCode::UnknownMemberId);
}

#[test]
fn members_come_and_go_at_random_and_share_evenly_in_the_end() {
    const NAMES: [&str; 12] = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l"];
    for seed in 0..20_u64 {
        let mut world = world_of(7);
        let mut random = crate::base::entropy::Entropy::new(seed).stream("members");
        let mut members: Vec<Member> = Vec::new();
        for _ in 0..80 {
            let at = random.below(NAMES.len() as u64) as usize;
            match members.iter().position(|member| member.id == NAMES[at]) {
                // Whoever is there leaves once in four times, else lives.
                Some(there) if random.below(4) == 0 => {
                    let mut gone = members.swap_remove(there);
                    assert_eq!(error(&gone.leave(&mut world)), ErrorCode::None);
                }
                Some(there) => {
                    assert_eq!(error(&members[there].beat(&mut world)), ErrorCode::None);
                }
                None => {
                    // A former member of this name joins anew.
                    let mut new = Member::new(&mut world, NAMES[at]);
                    assert_eq!(error(&new.join(&mut world, &["t"])), ErrorCode::None);
                    members.push(new);
                }
            }
            nothing_is_shared(&members.iter().collect::<Vec<_>>());
        }
        for _ in 0..4 {
            for member in &mut members {
                assert_eq!(error(&member.beat(&mut world)), ErrorCode::None);
            }
        }
        nothing_is_shared(&members.iter().collect::<Vec<_>>());
        let mut sizes: Vec<usize> = members.iter().map(Member::count).collect();
        sizes.sort_unstable();
        assert_eq!(sizes.iter().sum::<usize>(), 7, "everything belongs to somebody: seed {seed}");
        assert!(sizes[sizes.len() - 1] - sizes[0] <= 1, "{sizes:?}: seed {seed}");
    }
}
