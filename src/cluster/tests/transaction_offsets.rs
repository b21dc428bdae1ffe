//! Offsets that are committed in transactions.

use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, DeleteGroupsRequest, FindCoordinatorRequest, GroupId, OffsetCommitRequest,
    OffsetFetchRequest, ProducerId, TxnOffsetCommitRequest,
};

use super::consumer_groups::{Member, error, names};
use super::groups::{JOIN, join, text};
use super::transactions::{Txn, transactional_id};
use super::*;
use crate::base::ErrorCode;

fn group() -> GroupId {
    GroupId(StrBytes::from_static_str("g"))
}

fn world() -> (World, ConnectionId) {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let client = world.connect();
    let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str("g"));
    assert_eq!(world.ask(client, 3, &request).error_code, 0);
    (world, client)
}

fn add(world: &mut World, txn: &Txn) -> i16 {
    let request = AddOffsetsToTxnRequest::default()
        .with_transactional_id(transactional_id(txn.id))
        .with_producer_id(ProducerId(txn.producer_id))
        .with_producer_epoch(txn.epoch)
        .with_group_id(group());
    world.ask(txn.client, 3, &request).error_code
}

/// TxnOffsetCommit of partition 0.
fn committing(txn: &Txn, offset: i64) -> TxnOffsetCommitRequest {
    let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    TxnOffsetCommitRequest::default()
        .with_transactional_id(transactional_id(txn.id))
        .with_group_id(group())
        .with_producer_id(ProducerId(txn.producer_id))
        .with_producer_epoch(txn.epoch)
        .with_topics(vec![topic])
}

/// TxnOffsetCommit of partition 0 by nobody in particular.
fn commit(world: &mut World, txn: &Txn, version: i16, offset: i64, generation: i32) -> i16 {
    let request = committing(txn, offset).with_generation_id(generation);
    world.ask(txn.client, version, &request).topics[0].partitions[0].error_code
}

/// Member id, generation or epoch, and instance id.
type Who<'a> = (&'a str, i32, Option<&'a str>);

/// TxnOffsetCommit by who says that they are this member, in this generation or epoch, with this instance id.
fn commit_by(
    world: &mut World,
    txn: &Txn,
    version: i16,
    (member, generation, instance): Who<'_>,
) -> ErrorCode {
    let request = committing(txn, 5)
        .with_member_id(text(member))
        .with_generation_id(generation)
        .with_group_instance_id(instance.map(text));
    let response = world.ask(txn.client, version, &request);
    ErrorCode::from_code(response.topics[0].partitions[0].error_code).unwrap()
}

/// Error and offset of partition 0.
fn fetched(world: &mut World, stable: bool) -> (i16, i64) {
    let client = world.connect();
    let topic = OffsetFetchRequestTopics::default().with_name(topic("t")).with_partition_indexes(vec![0]);
    let asked = OffsetFetchRequestGroup::default().with_group_id(group()).with_topics(Some(vec![topic]));
    let request = OffsetFetchRequest::default().with_groups(vec![asked]).with_require_stable(stable);
    let response = world.ask(client, 8, &request);
    let row = &response.groups[0].topics[0].partitions[0];
    (row.error_code, row.committed_offset)
}

fn commit_outside(world: &mut World, client: ConnectionId, offset: i64) {
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    let partition = OffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = OffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = OffsetCommitRequest::default()
        .with_group_id(group())
        .with_generation_id_or_member_epoch(-1)
        .with_topics(vec![topic]);
    assert_eq!(world.ask(client, 8, &request).topics[0].partitions[0].error_code, 0);
}

const UNSTABLE: (i16, i64) = (88, -1);

#[test]
fn offsets_count_once_their_transaction_is_committed() {
    for bumps in [false, true] {
        let (mut world, client) = world();
        commit_outside(&mut world, client, 5);
        let mut txn = Txn::begin(&mut world, "id", bumps);
        for (offset, committed, expected) in [(9, false, 5), (11, true, 11), (12, true, 12)] {
            let before = fetched(&mut world, false);
            if !bumps {
                assert_eq!(add(&mut world, &txn), 0);
            }
            assert_eq!(commit(&mut world, &txn, if bumps { 5 } else { 3 }, offset, -1), 0);
            assert_eq!(fetched(&mut world, false), before, "what was committed before");
            assert_eq!(fetched(&mut world, true), UNSTABLE);
            assert_eq!(txn.end(&mut world, committed), 0);
            assert_eq!(fetched(&mut world, true), (0, expected));
        }
    }
}

#[test]
fn what_is_committed_outside_the_transaction_later_counts() {
    let (mut world, client) = world();
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(commit(&mut world, &txn, 5, 9, -1), 0);
    commit_outside(&mut world, client, 7);
    assert_eq!(fetched(&mut world, true), UNSTABLE);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(fetched(&mut world, true), (0, 7));
}

#[test]
fn offsets_of_no_transaction_are_refused() {
    let (mut world, _) = world();
    let mut txn = Txn::begin(&mut world, "id", false);
    assert_eq!(commit(&mut world, &txn, 4, 9, -1), ErrorCode::TransactionAbortable.code());
    assert_eq!(commit(&mut world, &txn, 3, 9, -1), ErrorCode::InvalidTxnState.code());
    assert_eq!(add(&mut world, &txn), 0);
    assert_eq!(commit(&mut world, &txn, 3, 9, 4), ErrorCode::IllegalGeneration.code(), "no such group");
    assert_eq!(commit(&mut world, &txn, 3, 9, -1), 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(commit(&mut world, &txn, 4, 10, -1), ErrorCode::TransactionAbortable.code());
    let known = txn.clone();
    txn.epoch -= 1;
    assert_eq!(add(&mut world, &txn), ErrorCode::ProducerFenced.code());
    txn = known;
    txn.producer_id += 1;
    assert_eq!(commit(&mut world, &txn, 4, 10, -1), ErrorCode::InvalidProducerIdMapping.code());
    assert_eq!(fetched(&mut world, true), (0, 9));
}

#[test]
fn an_open_transaction_that_times_out_leaves_what_was_committed_before() {
    let (mut world, client) = world();
    commit_outside(&mut world, client, 5);
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(txn.init(&mut world, 1_000), 0);
    assert_eq!(commit(&mut world, &txn, 5, 9, -1), 0);
    assert_eq!(fetched(&mut world, true), UNSTABLE);
    world.advance(Duration::from_secs(1));
    assert_eq!(fetched(&mut world, true), (0, 5));
}

#[test]
fn a_group_that_is_deleted_in_the_middle_of_a_transaction_leaves_nothing() {
    let (mut world, client) = world();
    commit_outside(&mut world, client, 5);
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(commit(&mut world, &txn, 5, 9, -1), 0);
    let request = DeleteGroupsRequest::default().with_groups_names(vec![group()]);
    assert_eq!(world.ask(client, 2, &request).results[0].error_code, 0);
    assert_eq!(fetched(&mut world, true), (0, -1));
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(fetched(&mut world, true), (0, -1));
}

/// The member of the tables below, in its generation or epoch, and what others say.
const M: &str = "M";
/// What each of these is answered, by Apache Kafka 4.1.0 too: a member, how far its generation is off (or, with a
/// number below −9, the negative number that it says), its instance id; then in a consumer group, and in a classic one.
const BY_MEMBERS: [(Who<'_>, ErrorCode, ErrorCode); 17] = {
    use ErrorCode::{FencedInstanceId, IllegalGeneration, None as Done, UnknownMemberId};
    [
        (("", SAYS_NONE, None), Done, Done),
        ((M, 0, None), Done, Done),
        ((M, 1, None), IllegalGeneration, IllegalGeneration),
        ((M, -1, None), IllegalGeneration, IllegalGeneration),
        ((M, SAYS_NONE, None), IllegalGeneration, IllegalGeneration),
        ((M, SAYS_NONE - 1, None), IllegalGeneration, IllegalGeneration),
        (("x", 0, None), UnknownMemberId, UnknownMemberId),
        (("x", SAYS_NONE, None), UnknownMemberId, UnknownMemberId),
        (("", 0, None), UnknownMemberId, UnknownMemberId),
        (("", SAYS_NONE - 1, None), UnknownMemberId, Done),
        ((M, 0, Some("i")), Done, Done),
        // Instance ids are nothing to a consumer group here.
        ((M, 0, Some("j")), Done, UnknownMemberId),
        (("x", 0, Some("i")), UnknownMemberId, FencedInstanceId),
        (("", 0, Some("i")), UnknownMemberId, FencedInstanceId),
        (("", SAYS_NONE, Some("i")), UnknownMemberId, FencedInstanceId),
        (("", SAYS_NONE, Some("j")), UnknownMemberId, UnknownMemberId),
        ((M, 1, Some("i")), IllegalGeneration, IllegalGeneration),
    ]
};
const SAYS_NONE: i32 = -10;

/// Goes through the table with the member of this id and generation.
fn commit_by_members(world: &mut World, id: &str, generation: i32, is_consumer_group: bool) {
    let txn = Txn::begin(world, "id", false);
    assert_eq!(add(world, &txn), 0);
    for version in 3..=5 {
        for ((member, off, instance), in_consumer_group, in_classic_group) in BY_MEMBERS {
            let member = if member == M { id } else { member };
            let says = if off <= SAYS_NONE { off - SAYS_NONE - 1 } else { generation + off };
            let expected = if is_consumer_group { in_consumer_group } else { in_classic_group };
            let found = commit_by(world, &txn, version, (member, says, instance));
            assert_eq!(found, expected, "v{version}: member {member:?} in {says}, instance {instance:?}");
        }
    }
    // Older versions can't say who commits, and nobody asks.
    for version in 0..=2 {
        assert_eq!(commit(world, &txn, version, 5, -1), 0);
    }
}

#[test]
fn members_of_a_consumer_group_commit_in_transactions_with_their_epoch() {
    let (mut world, _) = world();
    let mut m = Member::new(&mut world, "m");
    let joining =
        m.joining().with_instance_id(Some(text("i"))).with_subscribed_topic_names(Some(names(&["t"])));
    assert_eq!(error(&m.ask(&mut world, &joining)), ErrorCode::None);
    Member::joined(&mut world, "n", &["t"]);
    let beat = m.request().with_instance_id(Some(text("i"))).with_topic_partitions(Some(Vec::new()));
    assert_eq!(error(&m.ask(&mut world, &beat)), ErrorCode::None);
    assert_eq!(m.epoch, 2);
    commit_by_members(&mut world, "m", 2, true);
}

#[test]
fn an_empty_consumer_group_takes_offsets_of_nobody_in_transactions() {
    let (mut world, _) = world();
    let mut m = Member::joined(&mut world, "m", &["t"]);
    assert_eq!(error(&m.leave(&mut world)), ErrorCode::None);
    let txn = Txn::begin(&mut world, "id", true);
    let mut by = |who| commit_by(&mut world, &txn, 5, who);
    assert_eq!(by(("", -1, None)), ErrorCode::None);
    assert_eq!(by(("x", -1, None)), ErrorCode::None, "whoever that is");
    assert_eq!(by(("m", 1, None)), ErrorCode::UnknownMemberId);
    assert_eq!(by(("", 0, None)), ErrorCode::UnknownMemberId);
}

#[test]
fn members_of_a_classic_group_commit_in_transactions_with_their_generation() {
    use kafka_protocol::messages::{JoinGroupRequest, SyncGroupRequest};
    let (mut world, client) = world();
    world.send(client, JOIN, &join("", Some("i")));
    world.advance(Duration::from_millis(1));
    let joined = world.received::<JoinGroupRequest>(client, JOIN).unwrap();
    assert_eq!((joined.error_code, joined.generation_id), (0, 1));
    let synced = SyncGroupRequest::default()
        .with_group_id(group())
        .with_generation_id(1)
        .with_member_id(joined.member_id.clone())
        .with_group_instance_id(Some(text("i")));
    assert_eq!(world.ask(client, 4, &synced).error_code, 0);
    commit_by_members(&mut world, &joined.member_id, 1, false);
}

/// What is asked for, topic by topic, and what is answered: names, and partitions with their errors.
type Shape = (&'static [(&'static str, &'static [i32])], &'static [(&'static str, &'static [(i32, i16)])]);

#[test]
fn what_a_commit_refuses_is_answered_first_and_empty_topics_if_they_are_unknown() {
    use kafka_protocol::messages::offset_commit_request::{
        OffsetCommitRequestPartition, OffsetCommitRequestTopic,
    };
    let shapes: [Shape; 7] = [
        (&[("t", &[0]), ("u", &[])], &[("t", &[(0, 0)])]),
        (&[("u", &[])], &[]),
        (&[("t", &[0]), ("nope", &[])], &[("nope", &[]), ("t", &[(0, 0)])]),
        (&[("u", &[0]), ("t", &[0, 9])], &[("t", &[(9, 3), (0, 0)]), ("u", &[(0, 0)])]),
        (&[("u", &[0]), ("u", &[1])], &[("u", &[(0, 0)]), ("u", &[(1, 0)])]),
        (&[("u", &[0, 9]), ("u", &[8])], &[("u", &[(9, 3), (8, 3), (0, 0)])]),
        (&[("nope", &[0]), ("nope", &[1])], &[("nope", &[(0, 3), (1, 3)])]),
    ];
    let (mut world, client) = world();
    world.create_topic("u", 2, &[]);
    let txn = Txn::begin(&mut world, "id", true);
    for (asked, answered) in shapes {
        let answered: Vec<_> = answered.iter().map(|(name, rows)| (topic(name), rows.to_vec())).collect();
        let topics = asked.iter().map(|(name, indexes)| {
            let rows = indexes
                .iter()
                .map(|index| TxnOffsetCommitRequestPartition::default().with_partition_index(*index));
            TxnOffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(rows.collect())
        });
        let request = TxnOffsetCommitRequest::default()
            .with_transactional_id(transactional_id(txn.id))
            .with_group_id(group())
            .with_producer_id(ProducerId(txn.producer_id))
            .with_producer_epoch(txn.epoch)
            .with_topics(topics.collect());
        let response = world.ask(txn.client, 5, &request);
        let rows = response.topics.into_iter().map(|topic| {
            let rows = topic.partitions.iter().map(|row| (row.partition_index, row.error_code));
            (topic.name, rows.collect::<Vec<_>>())
        });
        assert_eq!(rows.collect::<Vec<_>>(), answered, "in a transaction: {asked:?}");

        let topics = asked.iter().map(|(name, indexes)| {
            let rows = indexes
                .iter()
                .map(|index| OffsetCommitRequestPartition::default().with_partition_index(*index));
            OffsetCommitRequestTopic::default().with_name(topic(name)).with_partitions(rows.collect())
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(group())
            .with_generation_id_or_member_epoch(-1)
            .with_topics(topics.collect());
        let response = world.ask(client, 8, &request);
        let rows = response.topics.into_iter().map(|topic| {
            let rows = topic.partitions.iter().map(|row| (row.partition_index, row.error_code));
            (topic.name, rows.collect::<Vec<_>>())
        });
        assert_eq!(rows.collect::<Vec<_>>(), answered, "outside: {asked:?}");
    }
}
