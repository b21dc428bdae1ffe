use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use proptest::prelude::*;

use super::{Assignor, MemberSpec, Spec};
use crate::base::TopicId;
use crate::coordinator::records::consumer_groups::Partitions;

/// What each member is to have, by member: topic and its partitions.
type Assigned<'a> = &'a [(u128, &'a [i32])];

struct Member {
    id: Arc<str>,
    instance_id: Option<Arc<str>>,
    topics: Arc<BTreeSet<TopicId>>,
    current: Partitions,
}

fn partitions(of: Assigned<'_>) -> Partitions {
    of.iter().map(|(topic, partitions)| (TopicId(*topic), partitions.iter().copied().collect())).collect()
}

fn member(id: &str, topics: &[u128], current: Assigned<'_>) -> Member {
    Member {
        id: id.into(),
        instance_id: None,
        topics: Arc::new(topics.iter().map(|topic| TopicId(*topic)).collect()),
        current: partitions(current),
    }
}

fn assign(assignor: Assignor, topics: &[(u128, i32)], members: &[Member]) -> Vec<Partitions> {
    let is_homogeneous = members.windows(2).all(|pair| pair[0].topics == pair[1].topics);
    let members = members.iter().map(|member| MemberSpec {
        id: &member.id,
        instance_id: member.instance_id.as_ref(),
        topics: member.topics.clone(),
        current: &member.current,
    });
    let topics: BTreeMap<TopicId, i32> = topics.iter().map(|(id, count)| (TopicId(*id), *count)).collect();
    assignor.assign(&Spec { members: members.collect(), topics, is_homogeneous })
}

fn expect(assigned: &[Partitions], expected: &[Assigned<'_>], case: &str) {
    let expected: Vec<Partitions> = expected.iter().map(|of_member| partitions(of_member)).collect();
    assert_eq!(assigned, expected, "{case}");
}

/// How many partitions each member has.
fn sizes(assigned: &[Partitions]) -> Vec<usize> {
    assigned.iter().map(|of_member| of_member.values().map(BTreeSet::len).sum()).collect()
}

/// How many partitions a member has that it had before.
fn kept(before: &[Partitions], after: &[Partitions]) -> usize {
    before
        .iter()
        .zip(after)
        .flat_map(|(before, after)| {
            before.iter().map(|(topic, partitions)| {
                after.get(topic).map_or(0, |after| after.intersection(partitions).count())
            })
        })
        .sum()
}

#[test]
fn range_cuts_each_topic_for_its_subscribers() {
    let both = |id: &str| member(id, &[1, 3], &[]);
    expect(
        &assign(Assignor::Range, &[(1, 3), (3, 2)], &[both("a"), both("b")]),
        &[&[(1, &[0, 1]), (3, &[0])], &[(1, &[2]), (3, &[1])]],
        "two members, all topics",
    );
    expect(
        &assign(
            Assignor::Range,
            &[(1, 3), (2, 3), (3, 2)],
            &[member("a", &[1, 2], &[]), member("b", &[3], &[]), member("c", &[2, 3], &[])],
        ),
        &[&[(1, &[0, 1, 2]), (2, &[0, 1])], &[(3, &[0])], &[(2, &[2]), (3, &[1])]],
        "three members, different topics",
    );
    expect(
        &assign(Assignor::Range, &[(1, 3), (3, 2)], &[both("a"), both("b"), both("c"), both("d")]),
        &[&[(1, &[0]), (3, &[0])], &[(1, &[1]), (3, &[1])], &[(1, &[2])], &[]],
        "more members than partitions",
    );
    expect(&assign(Assignor::Range, &[], &[member("a", &[], &[])]), &[&[]], "nothing subscribed to");
    expect(&assign(Assignor::Range, &[(1, 3)], &[]), &[], "nobody");
}

#[test]
fn range_puts_static_members_first_and_forgets_what_was() {
    let of = |id: &str, instance_id: Option<&str>| Member {
        instance_id: instance_id.map(Arc::from),
        ..member(id, &[1, 2], &[(1, &[2])])
    };
    expect(
        &assign(
            Assignor::Range,
            &[(1, 4), (2, 4)],
            &[of("a", None), of("b", Some("i2")), of("c", Some("i1"))],
        ),
        &[&[(1, &[3]), (2, &[3])], &[(1, &[2]), (2, &[2])], &[(1, &[0, 1]), (2, &[0, 1])]],
        "ordered by instance id, then by id",
    );
}

#[test]
fn uniform_is_even_where_all_subscribe_to_the_same() {
    let new = |id: &str| member(id, &[1, 3], &[]);
    expect(
        &assign(Assignor::Uniform, &[(1, 3), (3, 2)], &[new("a"), new("b")]),
        &[&[(1, &[0, 1])], &[(1, &[2]), (3, &[0, 1])]],
        "from nothing",
    );
    assert_eq!(
        sizes(&assign(Assignor::Uniform, &[(1, 2), (3, 1)], &[new("a"), new("b"), new("c"), new("d")])),
        [0, 1, 1, 1],
        "more members than partitions"
    );
    let had = |id: &str, current: Assigned<'_>| member(id, &[1, 2], current);
    expect(
        &assign(
            Assignor::Uniform,
            &[(1, 3), (2, 3)],
            &[had("a", &[(1, &[0, 1]), (2, &[0])]), had("b", &[(1, &[2]), (2, &[1, 2])]), had("c", &[])],
        ),
        &[&[(1, &[0, 1])], &[(1, &[2]), (2, &[1])], &[(2, &[0, 2])]],
        "somebody comes",
    );
    expect(
        &assign(Assignor::Uniform, &[(1, 3), (2, 3)], &[had("a", &[(1, &[0])]), had("b", &[(2, &[1])])]),
        &[&[(1, &[0, 1, 2])], &[(2, &[0, 1, 2])]],
        "somebody has gone",
    );
    expect(
        &assign(
            Assignor::Uniform,
            &[(2, 3)],
            &[member("a", &[2], &[(1, &[0, 1, 2])]), member("b", &[2], &[(2, &[0, 1, 2])])],
        ),
        &[&[(2, &[2])], &[(2, &[0, 1])]],
        "nobody subscribes to one topic any more",
    );
    expect(
        &assign(
            Assignor::Uniform,
            &[(1, 2)],
            &[member("a", &[1], &[(1, &[0, 1, 2, 3])]), member("b", &[1], &[])],
        ),
        &[&[(1, &[0])], &[(1, &[1])]],
        "the topic is another, and smaller",
    );
}

/// Four partitions too many for one member each: who has an odd one keeps it, wherever it stands.
#[test]
fn uniform_leaves_the_odd_ones_where_they_are() {
    let members = [
        member("a", &[1], &[(1, &[0])]),
        member("b", &[1], &[(1, &[1, 2])]),
        member("c", &[1], &[(1, &[3, 4])]),
    ];
    expect(
        &assign(Assignor::Uniform, &[(1, 5)], &members),
        &[&[(1, &[0])], &[(1, &[1, 2])], &[(1, &[3, 4])]],
        "nothing moves",
    );
}

#[test]
fn uniform_is_even_where_members_subscribe_to_different_topics() {
    expect(
        &assign(
            Assignor::Uniform,
            &[(1, 3), (2, 3), (3, 2)],
            &[member("a", &[1, 2], &[]), member("b", &[3], &[]), member("c", &[2, 3], &[])],
        ),
        &[&[(1, &[0, 1, 2])], &[(3, &[0, 1])], &[(2, &[0, 1, 2])]],
        "from nothing",
    );
    let after = assign(
        Assignor::Uniform,
        &[(1, 6), (2, 5)],
        &[
            member("a", &[1], &[(1, &[0, 1, 2])]),
            member("b", &[1, 2], &[(1, &[3, 4, 5]), (2, &[0, 1, 2, 3, 4])]),
        ],
    );
    expect(
        &after,
        &[&[(1, &[0, 1, 2, 4, 5])], &[(1, &[3]), (2, &[0, 1, 2, 3, 4])]],
        "b gives up as much as makes them even",
    );
    expect(
        &assign(
            Assignor::Uniform,
            &[(1, 2), (2, 2)],
            &[member("a", &[1], &[(1, &[0]), (2, &[0])]), member("b", &[1, 2], &[(1, &[1]), (2, &[1])])],
        ),
        &[&[(1, &[0, 1])], &[(2, &[0, 1])]],
        "a subscribes to less",
    );
    expect(
        &assign(Assignor::Uniform, &[(1, 4)], &[member("a", &[1], &[]), member("b", &[], &[])]),
        &[&[(1, &[0, 1, 2, 3])], &[]],
        "b subscribes to nothing",
    );
}

/// Topics with their partitions, and what each member subscribes to, with a draw.
type Drawn = (Vec<(u128, i32)>, Vec<(BTreeSet<u128>, u64)>);

fn any_members() -> impl Strategy<Value = Drawn> {
    let topics = prop::collection::vec(0..12_i32, 1..5).prop_map(|counts| {
        counts.into_iter().enumerate().map(|(at, count)| (at as u128 + 1, count)).collect()
    });
    let members = prop::collection::vec((prop::collection::btree_set(1..5_u128, 0..4), any::<u64>()), 1..7);
    (topics, members)
}

/// Every partition of a topic that somebody subscribes to has one owner, who subscribes to it.
fn check_whole(topics: &[(u128, i32)], members: &[Member], assigned: &[Partitions]) {
    let mut owners: BTreeMap<(TopicId, i32), usize> = BTreeMap::new();
    for (at, of_member) in assigned.iter().enumerate() {
        for (topic, partitions) in of_member {
            assert!(
                members[at].topics.contains(topic),
                "{} has a topic that it doesn't want",
                members[at].id
            );
            for partition in partitions {
                assert_eq!(owners.insert((*topic, *partition), at), None, "two have {topic}-{partition}");
            }
        }
    }
    for (topic, count) in topics {
        let wanted = members.iter().any(|member| member.topics.contains(&TopicId(*topic)));
        for partition in 0..if wanted { *count } else { 0 } {
            assert!(owners.contains_key(&(TopicId(*topic), partition)), "nobody has {topic}-{partition}");
        }
    }
}

proptest! {
    #[test]
    fn all_assignors_give_everything_to_one_who_wants_it((topics, members) in any_members()) {
        let exist: BTreeSet<u128> = topics.iter().map(|(id, _)| *id).collect();
        let members: Vec<Member> = members.iter().enumerate().map(|(at, (wanted, _))| {
            let wanted: Vec<u128> = wanted.intersection(&exist).copied().collect();
            member(&format!("m{at}"), &wanted, &[])
        }).collect();
        for assignor in [Assignor::Range, Assignor::Uniform] {
            let first = assign(assignor, &topics, &members);
            check_whole(&topics, &members, &first);

            // The same again changes nothing.
            let again: Vec<Member> = members.iter().zip(&first).map(|(member, current)| Member {
                id: member.id.clone(),
                instance_id: None,
                topics: member.topics.clone(),
                current: current.clone(),
            }).collect();
            prop_assert_eq!(&assign(assignor, &topics, &again), &first);

            // One leaves: what is kept is kept in place.
            if again.len() > 1 {
                let left = &again[1..];
                let after = assign(assignor, &topics, left);
                check_whole(&topics, left, &after);
                let same = left.windows(2).all(|pair| pair[0].topics == pair[1].topics);
                if assignor == Assignor::Uniform && same {
                    let had: usize = sizes(&first[1..]).iter().sum();
                    let before: Vec<Partitions> = left.iter().map(|member| member.current.clone()).collect();
                    let all_even = again.windows(2).all(|pair| pair[0].topics == pair[1].topics);
                    prop_assert!(!all_even || kept(&before, &after) == had, "somebody lost what it had");
                    let sizes = sizes(&after);
                    let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
                    prop_assert!(most - least <= 1, "uneven: {:?}", sizes);
                }
            }
        }
    }

    #[test]
    fn uniform_evens_out_whatever_was((topics, members) in any_members()) {
        let exist: BTreeMap<u128, i32> = topics.iter().copied().collect();
        // Somebody has everything that it wants, by a draw.
        let mut owners: BTreeMap<(u128, i32), usize> = BTreeMap::new();
        for (at, (wanted, draw)) in members.iter().enumerate() {
            for topic in wanted {
                for partition in 0..exist.get(topic).copied().unwrap_or(0) {
                    if draw >> (partition % 64) & 1 == 1 {
                        owners.insert((*topic, partition), at);
                    }
                }
            }
        }
        let members: Vec<Member> = members.iter().enumerate().map(|(at, (wanted, _))| {
            let wanted: Vec<u128> = wanted.iter().filter(|topic| exist.contains_key(topic)).copied().collect();
            let mut current = Partitions::new();
            for ((topic, partition), _) in owners.iter().filter(|(_, owner)| **owner == at) {
                current.entry(TopicId(*topic)).or_default().insert(*partition);
            }
            Member { current, ..member(&format!("m{at}"), &wanted, &[]) }
        }).collect();
        let after = assign(Assignor::Uniform, &topics, &members);
        check_whole(&topics, &members, &after);
        let sizes = sizes(&after);
        for (taker, of_taker) in members.iter().enumerate() {
            for (giver, partitions) in after.iter().enumerate() {
                let could_move = partitions.keys().any(|topic| of_taker.topics.contains(topic));
                prop_assert!(
                    !could_move || sizes[giver] <= sizes[taker] + 1,
                    "{:?}: {} could give to {}", sizes, giver, taker
                );
            }
        }
    }
}
