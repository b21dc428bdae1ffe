//! Transactions as producers and consumers see them (KIP-98, KIP-890).

use std::collections::BTreeSet;

use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, DescribeTransactionsRequest, EndTxnRequest, FindCoordinatorRequest,
    InitProducerIdRequest, ListTransactionsRequest, ProducerId, TransactionalId,
};

use super::*;
use crate::base::ErrorCode;

/// A transactional producer of a client library, up to what it knows of its own.
#[derive(Clone)]
pub(super) struct Txn {
    pub(super) id: &'static str,
    /// To the coordinator.
    pub(super) client: ConnectionId,
    /// To the leader of the partitions.
    pub(super) leader: ConnectionId,
    pub(super) producer_id: i64,
    pub(super) epoch: i16,
    /// Whether its epoch rises with each transaction (KIP-890's second part).
    pub(super) bumps: bool,
    pub(super) sequence: i32,
}

pub(super) fn transactional_id(id: &'static str) -> TransactionalId {
    TransactionalId(StrBytes::from_static_str(id))
}

/// Has the coordinator's topic made, and gives the broker that coordinates.
pub(super) fn find_coordinator(world: &mut World, client: ConnectionId, id: &'static str) -> i32 {
    let request = FindCoordinatorRequest::default().with_key(StrBytes::from_static_str(id)).with_key_type(1);
    let response = world.ask(client, 3, &request);
    assert_eq!(response.error_code, 0);
    response.node_id.0
}

impl Txn {
    /// A producer that has its id and epoch.
    pub(super) fn begin(world: &mut World, id: &'static str, bumps: bool) -> Txn {
        let leader = world.connect();
        let coordinator = find_coordinator(world, leader, id);
        let client = world.connect_to(coordinator);
        let mut txn = Txn { id, client, leader, producer_id: -1, epoch: -1, bumps, sequence: 0 };
        assert_eq!(txn.init(world, 60_000), 0);
        txn
    }

    /// InitProducerId without what it had.
    pub(super) fn init(&mut self, world: &mut World, timeout_ms: i32) -> i16 {
        let (error, id, epoch) = init(world, self.client, self.id, timeout_ms, None);
        if error == 0 {
            (self.producer_id, self.epoch, self.sequence) = (id, epoch, 0);
        }
        error
    }

    /// AddPartitionsToTxn, as clients do whose epoch stays the same.
    pub(super) fn add(&self, world: &mut World, name: &'static str, indexes: &[i32]) -> Vec<i16> {
        self.send_add(world, name, indexes);
        let response = world.received::<AddPartitionsToTxnRequest>(self.client, 3);
        let response = response.expect("the answer comes at once");
        let rows =
            response.results_by_topic_v3_and_below.iter().flat_map(|topic| &topic.results_by_partition);
        rows.map(|row| row.partition_error_code).collect()
    }

    pub(super) fn send_add(&self, world: &mut World, name: &'static str, indexes: &[i32]) {
        let request = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(transactional_id(self.id))
            .with_v3_and_below_producer_id(ProducerId(self.producer_id))
            .with_v3_and_below_producer_epoch(self.epoch)
            .with_v3_and_below_topics(vec![
                AddPartitionsToTxnTopic::default().with_name(topic(name)).with_partitions(indexes.to_vec()),
            ]);
        world.send(self.client, 3, &request);
    }

    /// Sends one record to partition 0, having its partition added as its kind of client does.
    pub(super) fn write(&mut self, world: &mut World, name: &'static str, value: &str) -> i16 {
        if !self.bumps {
            let errors = self.add(world, name, &[0]);
            if errors != [0] {
                return errors[0];
            }
        }
        self.produce(world, name, value)
    }

    /// What sends one record to partition 0.
    pub(super) fn request(&self, world: &World, name: &'static str, value: &str) -> ProduceRequest {
        let header = BatchHeader {
            is_transactional: true,
            producer_id: self.producer_id,
            producer_epoch: self.epoch,
            base_sequence: self.sequence,
            ..BatchHeader::default()
        };
        let batch = batch_of(header, &[value], world.now().wall.as_millis());
        produce(name, 0, batch, -1).with_transactional_id(Some(transactional_id(self.id)))
    }

    /// Sends one record to partition 0.
    pub(super) fn produce(&mut self, world: &mut World, name: &'static str, value: &str) -> i16 {
        let request = self.request(world, name, value);
        let error = error_of(&world.ask(self.leader, if self.bumps { 12 } else { 11 }, &request));
        if error == 0 {
            self.sequence += 1;
        }
        error
    }

    pub(super) fn end(&mut self, world: &mut World, commit: bool) -> i16 {
        self.send_end(world, commit);
        self.ended(world).expect("the answer comes at once")
    }

    pub(super) fn send_end(&self, world: &mut World, commit: bool) {
        let request = EndTxnRequest::default()
            .with_transactional_id(transactional_id(self.id))
            .with_producer_id(ProducerId(self.producer_id))
            .with_producer_epoch(self.epoch)
            .with_committed(commit);
        world.send(self.client, self.end_version(), &request);
    }

    /// The error that EndTxn has come to.
    pub(super) fn ended(&mut self, world: &mut World) -> Option<i16> {
        let response = world.received::<EndTxnRequest>(self.client, self.end_version())?;
        if response.error_code == 0 && self.bumps {
            self.producer_id = response.producer_id.0;
            (self.epoch, self.sequence) = (response.producer_epoch, 0);
        }
        Some(response.error_code)
    }

    fn end_version(&self) -> i16 {
        if self.bumps { 5 } else { 4 }
    }
}

/// Error, producer id and epoch.
fn init(
    world: &mut World,
    client: ConnectionId,
    id: &'static str,
    timeout_ms: i32,
    had: Option<(i64, i16)>,
) -> (i16, i64, i16) {
    let (had_id, had_epoch) = had.unwrap_or((-1, -1));
    let request = InitProducerIdRequest::default()
        .with_transactional_id(Some(transactional_id(id)))
        .with_transaction_timeout_ms(timeout_ms)
        .with_producer_id(ProducerId(had_id))
        .with_producer_epoch(had_epoch);
    let response = world.ask(client, 5, &request);
    (response.error_code, response.producer_id.0, response.producer_epoch)
}

/// What a consumer of this isolation reads of partition 0, as client libraries do: aborted records and markers are left
/// out.
pub(super) fn read(world: &mut World, name: &'static str, isolation: i8) -> Vec<String> {
    read_from(world, 1, name, isolation)
}

pub(super) fn read_from(world: &mut World, broker: i32, name: &'static str, isolation: i8) -> Vec<String> {
    let client = world.connect_to(broker);
    let request = fetch(name, 0, 0).with_isolation_level(isolation).with_max_wait_ms(0);
    let response = world.ask(client, FETCH, &request);
    let row = &response.responses[0].partitions[0];
    assert_eq!(row.error_code, 0);
    let mut aborted: Vec<(i64, i64)> = row
        .aborted_transactions
        .iter()
        .flatten()
        .map(|aborted| (aborted.producer_id.0, aborted.first_offset))
        .collect();
    let mut skipped = std::collections::BTreeSet::new();
    let mut bytes = records_of(&response);
    let mut read = Vec::new();
    while let Some(size) = BatchView::new(&bytes).and_then(|view| view.size()) {
        let whole = bytes.split_to(size);
        let view = BatchView::new(&whole).unwrap();
        aborted.retain(|(producer, first)| {
            let begins = *first <= view.last_offset();
            if begins {
                skipped.insert(*producer);
            }
            !begins
        });
        if view.is_control() {
            skipped.remove(&view.producer_id());
        } else if !(view.is_transactional() && skipped.contains(&view.producer_id())) {
            read.extend(values(whole.clone()).into_iter().map(|(_, value)| value));
        }
    }
    read
}

pub(super) const UNCOMMITTED: i8 = 0;
pub(super) const COMMITTED: i8 = 1;

#[test]
fn committed_records_are_read_and_aborted_ones_are_not() {
    for bumps in [false, true] {
        let mut world = World::new();
        world.create_topic("t", 1, &[]);
        let mut txn = Txn::begin(&mut world, "id", bumps);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        assert_eq!(txn.write(&mut world, "t", "b"), 0);
        assert_eq!(read(&mut world, "t", UNCOMMITTED), ["a", "b"]);
        assert!(read(&mut world, "t", COMMITTED).is_empty(), "the transaction is open");
        assert_eq!(txn.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["a", "b"]);
        assert_eq!(txn.write(&mut world, "t", "c"), 0);
        assert_eq!(txn.end(&mut world, false), 0);
        assert_eq!(txn.write(&mut world, "t", "d"), 0);
        assert_eq!(txn.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["a", "b", "d"]);
        assert_eq!(read(&mut world, "t", UNCOMMITTED), ["a", "b", "c", "d"]);
    }
}

#[test]
fn a_newer_producer_aborts_the_transaction_of_the_older_and_fences_it() {
    for bumps in [false, true] {
        let mut world = World::new();
        world.create_topic("t", 1, &[]);
        let mut old = Txn::begin(&mut world, "id", bumps);
        assert_eq!(old.write(&mut world, "t", "a"), 0);
        let mut new = Txn { client: world.connect(), ..old.clone() };
        assert_eq!(new.init(&mut world, 60_000), ErrorCode::ConcurrentTransactions.code());
        assert_eq!(new.init(&mut world, 60_000), 0);
        assert_eq!(new.epoch, old.epoch + 2, "the fencing epoch is handed to nobody");
        assert!(read(&mut world, "t", COMMITTED).is_empty());
        let fenced = ErrorCode::ProducerFenced.code();
        assert_eq!(old.end(&mut world, true), fenced);
        assert_eq!(old.add(&mut world, "t", &[0]), [fenced]);
        assert_eq!(old.produce(&mut world, "t", "b"), ErrorCode::InvalidProducerEpoch.code());
        assert_eq!(new.write(&mut world, "t", "c"), 0);
        assert_eq!(new.end(&mut world, true), 0);
        assert_eq!(read(&mut world, "t", COMMITTED), ["c"]);
    }
}

#[test]
fn a_transaction_that_takes_too_long_is_aborted() {
    for bumps in [false, true] {
        let mut world = World::new();
        world.create_topic("t", 1, &[]);
        let mut txn = Txn::begin(&mut world, "id", bumps);
        assert_eq!(txn.init(&mut world, 1_000), 0);
        assert_eq!(txn.write(&mut world, "t", "a"), 0);
        world.advance(Duration::from_millis(999));
        assert_eq!(state_of(&mut world, "id"), "Ongoing");
        world.advance(Duration::from_millis(1));
        assert_eq!(state_of(&mut world, "id"), "CompleteAbort");
        // With rising epochs, the producer's is that of a request that was carried out: to abort.
        let refused = if bumps { ErrorCode::InvalidTxnState } else { ErrorCode::ProducerFenced };
        assert_eq!(txn.end(&mut world, true), refused.code());
        assert_eq!(txn.produce(&mut world, "t", "b"), ErrorCode::InvalidProducerEpoch.code());
        assert!(read(&mut world, "t", COMMITTED).is_empty());
        assert_eq!(txn.init(&mut world, 1_000), 0);
        assert_eq!(txn.write(&mut world, "t", "c"), 0);
        assert_eq!(txn.end(&mut world, true), 0);
        world.advance(Duration::from_secs(10));
        assert_eq!(
            state_of(&mut world, "id"),
            "CompleteCommit",
            "a transaction that has ended has no timeout"
        );
        assert_eq!(read(&mut world, "t", COMMITTED), ["c"]);
    }
}

/// What DescribeTransactions says of the transaction's state.
pub(super) fn state_of(world: &mut World, id: &'static str) -> String {
    let client = world.connect();
    let coordinator = find_coordinator(world, client, id);
    let client = world.connect_to(coordinator);
    let request = DescribeTransactionsRequest::default().with_transactional_ids(vec![transactional_id(id)]);
    let response = world.ask(client, 0, &request);
    let row = &response.transaction_states[0];
    assert_eq!(row.error_code, 0);
    row.transaction_state.to_string()
}

#[test]
fn a_consumer_waits_for_the_end_of_the_transaction() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    let client = world.connect();
    let request = fetch("t", 0, 0).with_isolation_level(COMMITTED).with_max_wait_ms(10_000);
    world.send(client, FETCH, &request);
    assert!(world.received::<kafka_protocol::messages::FetchRequest>(client, FETCH).is_none());
    assert_eq!(txn.write(&mut world, "t", "b"), 0);
    assert!(world.received::<kafka_protocol::messages::FetchRequest>(client, FETCH).is_none());
    assert_eq!(txn.end(&mut world, true), 0);
    let response = world.received::<kafka_protocol::messages::FetchRequest>(client, FETCH);
    let response = response.expect("the marker has moved the last stable offset");
    let row = &response.responses[0].partitions[0];
    assert_eq!((row.high_watermark, row.last_stable_offset), (3, 3));
    assert_eq!(list_end(&mut world, COMMITTED), 3);
    assert_eq!(txn.write(&mut world, "t", "c"), 0);
    assert_eq!((list_end(&mut world, COMMITTED), list_end(&mut world, UNCOMMITTED)), (3, 4));
}

#[test]
fn a_consumer_within_the_first_open_batch_waits_and_one_behind_it_does_not() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    let header = BatchHeader {
        is_transactional: true,
        producer_id: txn.producer_id,
        producer_epoch: txn.epoch,
        base_sequence: 0,
        ..BatchHeader::default()
    };
    let batch = batch_of(header, &["a", "b"], world.now().wall.as_millis());
    let request = produce("t", 0, batch, -1).with_transactional_id(Some(transactional_id("id")));
    assert_eq!(error_of(&world.ask(txn.leader, 12, &request)), 0);
    txn.sequence = 2;
    assert_eq!(txn.write(&mut world, "t", "c"), 0);
    let from = |offset| fetch("t", 0, offset).with_isolation_level(COMMITTED).with_max_wait_ms(10_000);
    for offset in [2, 3] {
        let client = world.connect();
        let response = world.ask(client, FETCH, &from(offset));
        assert!(records_of(&response).is_empty(), "at {offset}");
    }
    let waiting = [0, 1].map(|offset| {
        let client = world.connect();
        world.send(client, FETCH, &from(offset));
        assert!(world.received::<kafka_protocol::messages::FetchRequest>(client, FETCH).is_none());
        client
    });
    assert_eq!(txn.end(&mut world, true), 0);
    for client in waiting {
        let response = world.received::<kafka_protocol::messages::FetchRequest>(client, FETCH);
        assert!(!records_of(&response.expect("what was open has ended")).is_empty());
    }
}

#[test]
fn aborted_transactions_are_null_beside_a_batch_that_is_too_large() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let client = world.connect();
    for index in [0, 1] {
        world.ask(client, PRODUCE, &produce("t", index, batch(&["value"], 1), 1));
    }
    for (partition_max_bytes, is_null) in [(0, false), (10, true), (1_000, false)] {
        // The first partition of an answer has one batch whatever its size, and so the second one is looked at.
        let mut request = fetch("t", 0, 0).with_isolation_level(COMMITTED).with_max_wait_ms(0);
        let mut second = request.topics[0].partitions[0].clone();
        (second.partition, second.partition_max_bytes) = (1, partition_max_bytes);
        request.topics[0].partitions.push(second);
        let response = world.ask(client, FETCH, &request);
        let rows: Vec<_> = response.responses.iter().flat_map(|topic| &topic.partitions).collect();
        let is_empty = rows[1].records.as_ref().is_none_or(|records| records.is_empty());
        assert_eq!((rows.len(), is_empty), (2, partition_max_bytes < 100));
        assert!(rows[0].aborted_transactions.is_some());
        assert_eq!(rows[1].aborted_transactions.is_none(), is_null, "{partition_max_bytes} bytes");
    }
}

fn list_end(world: &mut World, isolation: i8) -> i64 {
    use kafka_protocol::messages::ListOffsetsRequest;
    use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
    let client = world.connect();
    let partition = ListOffsetsPartition::default().with_timestamp(-1);
    let topic = ListOffsetsTopic::default().with_name(topic("t")).with_partitions(vec![partition]);
    let request = ListOffsetsRequest::default()
        .with_replica_id((-1).into())
        .with_isolation_level(isolation)
        .with_topics(vec![topic]);
    world.ask(client, 5, &request).topics[0].partitions[0].offset
}

#[test]
fn records_of_a_transaction_that_was_not_begun_are_refused() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    let abortable = ErrorCode::TransactionAbortable.code();
    assert_eq!(txn.produce(&mut world, "t", "a"), abortable, "the partition was not added");
    assert_eq!(txn.add(&mut world, "t", &[0]), [0]);
    assert_eq!(txn.produce(&mut world, "t", "a"), 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(txn.produce(&mut world, "t", "b"), abortable, "the transaction has ended");
    let known = txn.producer_id;
    txn.producer_id = 999;
    assert_eq!(txn.produce(&mut world, "t", "b"), ErrorCode::InvalidProducerIdMapping.code());
    txn.producer_id = known;
    let header = BatchHeader {
        is_transactional: true,
        producer_id: known,
        producer_epoch: 0,
        base_sequence: 1,
        ..BatchHeader::default()
    };
    let request = produce("t", 0, batch_of(header, &["b"], 1), -1);
    let refused = ErrorCode::TransactionalIdAuthorizationFailed.code();
    assert_eq!(error_of(&world.ask(txn.client, PRODUCE, &request)), refused, "no transactional id");
    let named = request.with_transactional_id(Some(transactional_id("id")));
    let row = |world: &mut World, version, request: &ProduceRequest| {
        world.ask(txn.client, version, request).responses.remove(0).partition_responses.remove(0)
    };
    for version in [3, 9, 10] {
        let row = row(&mut world, version, &named);
        assert_eq!(row.error_code, ErrorCode::InvalidTxnState.code(), "what an old client knows: v{version}");
        assert_eq!(row.error_message.is_some(), version >= 8);
    }
    let abortable_row = row(&mut world, 11, &named);
    assert_eq!((abortable_row.error_code, abortable_row.error_message), (abortable, None));
    let stranger = named.with_transactional_id(Some(transactional_id("nobody")));
    let row = row(&mut world, 11, &stranger);
    let unknown = ErrorCode::InvalidProducerIdMapping.code();
    assert_eq!((row.error_code, row.error_message), (unknown, None), "Kafka has no message for it");
    assert_eq!(read(&mut world, "t", UNCOMMITTED), ["a"]);
}

#[test]
fn partitions_are_added_all_or_none() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let not_attempted = ErrorCode::OperationNotAttempted.code();
    assert_eq!(txn.add(&mut world, "t", &[0, 5, 1]), [not_attempted, unknown, not_attempted]);
    assert_eq!(txn.end(&mut world, true), ErrorCode::InvalidTxnState.code(), "nothing was begun");
    assert_eq!(txn.add(&mut world, "t", &[0, 1]), [0, 0]);
    assert_eq!(txn.add(&mut world, "t", &[1]), [0], "it is part already");
    let known = txn.clone();
    txn.epoch += 1;
    assert_eq!(txn.add(&mut world, "t", &[0]), [ErrorCode::ProducerFenced.code()]);
    txn = known;
    txn.producer_id += 1;
    assert_eq!(txn.add(&mut world, "t", &[0]), [ErrorCode::InvalidProducerIdMapping.code()]);
    txn.id = "";
    assert_eq!(txn.add(&mut world, "t", &[0]), [ErrorCode::InvalidRequest.code()]);
    txn.id = "nobody";
    assert_eq!(txn.add(&mut world, "t", &[0]), [ErrorCode::InvalidProducerIdMapping.code()]);
    assert_eq!(txn.end(&mut world, true), ErrorCode::InvalidProducerIdMapping.code());
}

#[test]
fn a_deleted_topic_needs_no_marker() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    assert_eq!(txn.write(&mut world, "t", "a"), 0);
    let client = world.connect();
    let request = kafka_protocol::messages::DeleteTopicsRequest::default()
        .with_topic_names(vec![topic("t")])
        .with_timeout_ms(1_000);
    assert_eq!(world.ask(client, 5, &request).responses[0].error_code, 0);
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(state_of(&mut world, "id"), "CompleteCommit");
}

#[test]
fn ten_thousand_transactional_ids_are_kept_and_forgotten() {
    let mut world = World::with(&[
        ("transactional.id.expiration.ms", "60000"),
        ("transaction.remove.expired.transaction.cleanup.interval.ms", "10000"),
    ]);
    let client = world.connect();
    find_coordinator(&mut world, client, "id-0");
    for at in 0..10_000 {
        let id = TransactionalId(StrBytes::from_string(format!("id-{at}")));
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(id))
            .with_transaction_timeout_ms(1_000);
        assert_eq!(world.ask(client, 2, &request).error_code, 0);
    }
    let listed = |world: &mut World, request: ListTransactionsRequest| {
        let response = world.ask(client, 1, &request);
        (response.transaction_states.len(), response.unknown_state_filters.len())
    };
    let all = ListTransactionsRequest::default().with_duration_filter(-1);
    assert_eq!(listed(&mut world, all.clone()), (10_000, 0));
    let state = |name: &'static str| StrBytes::from_static_str(name);
    assert_eq!(listed(&mut world, all.clone().with_state_filters(vec![state("Ongoing")])), (0, 0));
    let filters = vec![state("Empty"), state("Nothing")];
    assert_eq!(listed(&mut world, all.clone().with_state_filters(filters)), (10_000, 1));
    let one = all.clone().with_producer_id_filters(vec![ProducerId(17)]);
    assert_eq!(listed(&mut world, one).0, 1);
    let old = all.clone().with_duration_filter(3_600_000);
    assert_eq!(listed(&mut world, old).0, 10_000, "what has never begun is older than anything");
    world.advance(Duration::from_secs(71));
    assert_eq!(listed(&mut world, all), (0, 0));
}

#[test]
fn transactional_ids_are_listed_by_a_regular_expression() {
    let mut world = World::new();
    let client = world.connect();
    find_coordinator(&mut world, client, "shop-1");
    for id in ["shop-1", "shop-12", "till"] {
        let request = InitProducerIdRequest::default()
            .with_transactional_id(Some(TransactionalId(StrBytes::from_static_str(id))))
            .with_transaction_timeout_ms(1_000);
        assert_eq!(world.ask(client, 2, &request).error_code, 0);
    }
    let mut listed = |pattern: Option<&'static str>| {
        let request = ListTransactionsRequest::default()
            .with_duration_filter(-1)
            .with_state_filters(vec![
                StrBytes::from_static_str("Empty"),
                StrBytes::from_static_str("Nothing"),
            ])
            .with_transactional_id_pattern(pattern.map(StrBytes::from_static_str));
        let response = world.ask(client, 2, &request);
        let ids: BTreeSet<_> =
            response.transaction_states.iter().map(|state| state.transactional_id.0.to_string()).collect();
        (response.error_code, response.unknown_state_filters.len(), Vec::from_iter(ids))
    };
    let all = vec!["shop-1".to_owned(), "shop-12".to_owned(), "till".to_owned()];
    for none in [None, Some("")] {
        assert_eq!(listed(none), (0, 1, all.clone()));
    }
    assert_eq!(listed(Some("shop-.")), (0, 1, vec!["shop-1".to_owned()]), "whole ids match");
    assert_eq!(listed(Some("hop")), (0, 1, Vec::new()));
    assert_eq!(listed(Some("(shop-1|t.*)2?")).2, all);
    assert_eq!(listed(Some("a{1,1000}")).0, 0, "Kafka's engine allows as many repetitions");
    for invalid in ["(", "a)(b", "*"] {
        let refused = (ErrorCode::InvalidRegularExpression.code(), 0, Vec::new());
        assert_eq!(listed(Some(invalid)), refused, "{invalid}");
    }
}

/// A marker to write: its producer's id and epoch, the coordinator's epoch, and partitions.
type Asked<'a> = (i64, i16, i32, &'a [(&'static str, &'a [i32])]);

/// What WriteTxnMarkers answers: producer, topic, partition and error.
fn mark(world: &mut World, markers: &[Asked<'_>]) -> Vec<(i64, String, i32, i16)> {
    use kafka_protocol::messages::WriteTxnMarkersRequest;
    use kafka_protocol::messages::write_txn_markers_request::{WritableTxnMarker, WritableTxnMarkerTopic};
    let markers = markers.iter().map(|(id, epoch, coordinator_epoch, topics)| {
        let topics = topics.iter().map(|(name, indexes)| {
            WritableTxnMarkerTopic::default().with_name(topic(name)).with_partition_indexes(indexes.to_vec())
        });
        WritableTxnMarker::default()
            .with_producer_id(ProducerId(*id))
            .with_producer_epoch(*epoch)
            .with_transaction_result(false)
            .with_coordinator_epoch(*coordinator_epoch)
            .with_topics(topics.collect())
    });
    let request = WriteTxnMarkersRequest::default().with_markers(markers.collect());
    let client = world.connect();
    let response = world.ask(client, 1, &request);
    let mut rows = Vec::new();
    for marker in &response.markers {
        for topic in &marker.topics {
            for row in &topic.partitions {
                let name = topic.name.0.to_string();
                rows.push((marker.producer_id.0, name, row.partition_index, row.error_code));
            }
        }
    }
    assert_eq!(response.markers.iter().filter(|marker| marker.topics.is_empty()).count(), 0);
    rows
}

#[test]
fn markers_of_an_old_coordinator_or_epoch_are_refused() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", false);
    assert_eq!(txn.init(&mut world, 60_000), 0);
    assert_eq!((txn.epoch, txn.write(&mut world, "t", "a")), (1, 0));
    let id = txn.producer_id;
    let mut mark = |name, epoch, coordinator_epoch| {
        mark(&mut world, &[(id, epoch, coordinator_epoch, &[(name, &[0])])]).remove(0).3
    };
    assert_eq!(mark("nothing", 1, 5), ErrorCode::UnknownTopicOrPartition.code());
    assert_eq!(mark("t", 0, 5), ErrorCode::InvalidProducerEpoch.code());
    assert_eq!(mark("t", 1, 5), 0, "as an administrator aborts a transaction that hangs");
    assert_eq!(mark("t", 1, 4), ErrorCode::TransactionCoordinatorFenced.code());
    assert!(read(&mut world, "t", COMMITTED).is_empty());
    assert_eq!(list_end(&mut world, COMMITTED), 2);
}

#[test]
fn markers_with_epochs_below_none_are_too_old_for_everybody() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut mark = |id, epoch, coordinator_epoch| {
        mark(&mut world, &[(id, epoch, coordinator_epoch, &[("t", &[0])])]).remove(0).3
    };
    let (epoch, coordinator) = (ErrorCode::InvalidProducerEpoch, ErrorCode::TransactionCoordinatorFenced);
    assert_eq!([-2, i16::MIN].map(|epoch| mark(7, epoch, 0)), [epoch.code(); 2]);
    assert_eq!(mark(7, -2, -2), epoch.code(), "the producer's epoch is looked at first");
    assert_eq!([-2, i32::MIN].map(|coordinator| mark(7, 0, coordinator)), [coordinator.code(); 2]);
    assert_eq!((mark(8, 0, 0), mark(9, 0, -1)), (0, 0));
    assert_eq!(list_end(&mut world, COMMITTED), 2, "the two that are right");
}

#[test]
fn markers_of_a_producer_are_answered_together() {
    let mut world = World::new();
    world.create_topic("t", 2, &[]);
    world.create_topic("u", 1, &[]);
    let row = |id, name: &str, index, error| (id, name.to_owned(), index, error);
    let asked: [Asked<'_>; 4] = [
        (7, 0, 0, &[("t", &[0])]),
        (8, 0, 0, &[]),
        (9, 0, 0, &[("t", &[0]), ("u", &[])]),
        (7, 0, 0, &[("u", &[0]), ("t", &[1, 5])]),
    ];
    let unknown = ErrorCode::UnknownTopicOrPartition.code();
    let expected =
        [row(7, "t", 0, 0), row(7, "t", 1, 0), row(7, "t", 5, unknown), row(7, "u", 0, 0), row(9, "t", 0, 0)];
    assert_eq!(mark(&mut world, &asked), expected);
}

#[test]
fn a_marker_of_no_producer_fails_all_and_what_came_before_it_is_written() {
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    for (at, nobody) in [(-1, 0), (7, -1)].into_iter().enumerate() {
        let (id, epoch) = nobody;
        let unknown = ErrorCode::UnknownTopicOrPartition.code();
        let elsewhere = mark(&mut world, &[(id, epoch, 0, &[("t", &[9])])]);
        assert_eq!(elsewhere, [(id, "t".to_owned(), 9, unknown)], "none is made");
        let asked: [Asked<'_>; 3] =
            [(5, 0, 0, &[("t", &[0])]), (id, epoch, 0, &[("t", &[0, 9])]), (6, 0, 0, &[("t", &[0])])];
        let errors: Vec<i16> = mark(&mut world, &asked).into_iter().map(|row| row.3).collect();
        assert_eq!(errors, [ErrorCode::UnknownServerError.code(); 4]);
        assert_eq!(list_end(&mut world, UNCOMMITTED), at as i64 + 1);
    }
}

#[test]
fn the_last_stable_offset_is_not_below_the_logs_start() {
    use kafka_protocol::messages::DeleteRecordsRequest;
    use kafka_protocol::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
    let mut world = World::new();
    world.create_topic("t", 1, &[]);
    let mut txn = Txn::begin(&mut world, "id", true);
    for value in ["a", "b", "c"] {
        assert_eq!(txn.write(&mut world, "t", value), 0);
    }
    let client = world.connect();
    let ends = |world: &mut World, offset| {
        let request = fetch("t", 0, offset).with_isolation_level(COMMITTED).with_max_wait_ms(0);
        let response = world.ask(client, FETCH, &request);
        let row = &response.responses[0].partitions[0];
        (row.error_code, row.last_stable_offset, row.high_watermark)
    };
    assert_eq!(ends(&mut world, 0), (0, 0, 3));
    let partition = DeleteRecordsPartition::default().with_offset(2);
    let topics = vec![DeleteRecordsTopic::default().with_name(topic("t")).with_partitions(vec![partition])];
    let request = DeleteRecordsRequest::default().with_timeout_ms(1_000).with_topics(topics);
    assert_eq!(world.ask(client, 2, &request).topics[0].partitions[0].error_code, 0);
    assert_eq!(ends(&mut world, 2), (0, 2, 3), "the transaction is still open");
    assert_eq!(txn.end(&mut world, true), 0);
    assert_eq!(ends(&mut world, 2), (0, 4, 4));
}
