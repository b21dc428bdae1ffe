//! Offsets that are committed in transactions.

use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::txn_offset_commit_request::{
    TxnOffsetCommitRequestPartition, TxnOffsetCommitRequestTopic,
};
use kafka_protocol::messages::{
    AddOffsetsToTxnRequest, DeleteGroupsRequest, FindCoordinatorRequest, GroupId, OffsetCommitRequest,
    OffsetFetchRequest, ProducerId, TxnOffsetCommitRequest,
};

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

/// TxnOffsetCommit of partition 0 by nobody in particular.
fn commit(world: &mut World, txn: &Txn, version: i16, offset: i64, generation: i32) -> i16 {
    let partition = TxnOffsetCommitRequestPartition::default().with_committed_offset(offset);
    let topic = TxnOffsetCommitRequestTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = TxnOffsetCommitRequest::default()
        .with_transactional_id(transactional_id(txn.id))
        .with_group_id(group())
        .with_producer_id(ProducerId(txn.producer_id))
        .with_producer_epoch(txn.epoch)
        .with_generation_id(generation)
        .with_topics(vec![topic]);
    world.ask(txn.client, version, &request).topics[0].partitions[0].error_code
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
