//! How long the coordinators keep everybody else waiting: the longest single call into a cluster, while ten thousand members
//! or transactional ids come, live, are told of, and all fall silent at the same moment. Times are the processor's, so that
//! others at work on the machine don't show.
//!
//! `cargo bench --bench coordinators`; a word after `--` picks the loads whose names have it, a number sets how many come.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use huld::api::{Connection, Endpoint, Preparer, encode};
use huld::base::{ConnectionId, NodeId, Now};
use huld::cluster::{Cluster, ClusterConfig, Command, Output};
use huld::controller::NewTopic;
use kafka_protocol::messages::add_partitions_to_txn_request::AddPartitionsToTxnTopic;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    AddPartitionsToTxnRequest, ConsumerGroupDescribeRequest, ConsumerGroupHeartbeatRequest,
    DescribeGroupsRequest, FindCoordinatorRequest, GroupId, InitProducerIdRequest, JoinGroupRequest,
    ListGroupsRequest, ListTransactionsRequest, RequestHeader, ResponseHeader, SyncGroupRequest, TopicName,
    TransactionalId,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|word| !word.starts_with('-')).collect();
    let count = arguments.iter().find_map(|word| word.parse().ok()).unwrap_or(10_000);
    let words: Vec<&String> = arguments.iter().filter(|word| word.parse::<usize>().is_err()).collect();
    let run = |name: &str, load: &dyn Fn(usize)| {
        if words.is_empty() || words.iter().any(|word| name.contains(*word)) {
            println!("\n{name}, {count}");
            load(count);
        }
    };
    let topic = |_: usize| vec!["t".to_owned()];
    run("consumer group, uniform, 100 partitions", &|count| consumer_group(count, 100, "uniform", &topic));
    run("consumer group, uniform, 10000 partitions", &|count| {
        consumer_group(count, 10_000, "uniform", &topic)
    });
    run("consumer group, range, 1000 partitions", &|count| consumer_group(count, 1_000, "range", &topic));
    run("consumer group, mixed subscriptions", &|count| {
        consumer_group(count, 100, "uniform", &|at| {
            vec![format!("m{}", at % 100), format!("m{}", at / 100 % 100)]
        });
    });
    run("consumer group, an expression each", &|count| {
        consumer_group(count, 100, "uniform", &|at| vec![format!("^m(0|{at}).*")]);
    });
    run("consumer groups of one", &consumer_groups);
    run("classic group", &classic_group);
    run("transactions, 1 broker", &|count| transactions(count, 1));
    run("transactions, 3 brokers", &|count| transactions(count, 3));
}

fn consumer_group(count: usize, partitions: i32, assignor: &str, topics: &dyn Fn(usize) -> Vec<String>) {
    let mut bench = Bench::new(1);
    bench.create("t", partitions);
    (0..100).for_each(|topic| bench.create(&format!("m{topic}"), 10));
    let client = bench.connect(1);
    bench.find_coordinator(client, "g", 0);
    let join = |at: usize| {
        let joining =
            member("g", at).with_rebalance_timeout_ms(60_000).with_topic_partitions(Some(Vec::new()));
        let joining = joining.with_server_assignor(Some(text(assignor)));
        let topics = topics(at);
        match topics[0].strip_prefix('^') {
            Some(regex) => joining.with_subscribed_topic_regex(Some(text(regex))),
            None => {
                let names = topics.iter().map(|topic| TopicName(text(topic))).collect();
                joining.with_subscribed_topic_names(Some(names))
            }
        }
    };
    let before = bench.cluster.log_bytes_held();
    let mut epoch = 0;
    for at in 0..count {
        let joined = bench.ask(client, 1, &join(at));
        assert_eq!(joined.error_code, 0, "{:?}", joined.error_message);
        if at == count / 2 {
            epoch = joined.member_epoch;
        }
        bench.advance(Duration::ZERO);
    }
    bench.report("joins");
    println!("  {} bytes of log a member", (bench.cluster.log_bytes_held() - before) / count);
    bench.advance(Duration::from_secs(11));
    bench.report("what follows in 11 s");
    for _ in 0..100 {
        let beat = member("g", count / 2).with_member_epoch(epoch).with_rebalance_timeout_ms(-1);
        let answer = bench.ask(client, 1, &beat);
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        epoch = answer.member_epoch;
    }
    bench.report("heartbeats of one");
    let describe = ConsumerGroupDescribeRequest::default().with_group_ids(vec![GroupId(text("g"))]);
    assert_eq!(bench.ask(client, 1, &describe).groups[0].members.len(), count);
    bench.report("describe");
    bench.create("m-new", 10);
    bench.advance(Duration::ZERO);
    bench.report("a new topic");
    let beat = member("g", count / 2).with_member_epoch(epoch).with_rebalance_timeout_ms(-1);
    epoch = bench.ask(client, 1, &beat).member_epoch;
    bench.advance(Duration::from_secs(30));
    bench.report("a heartbeat after it");
    let beat = member("g", count / 2).with_member_epoch(epoch).with_rebalance_timeout_ms(-1);
    assert_eq!(bench.ask(client, 1, &beat).error_code, 0);
    bench.advance(Duration::from_secs(44));
    bench.report("sessions expire");
    let answer = bench.ask(client, 1, &beat.with_member_epoch(epoch));
    println!("  then the epoch {} of {epoch}, error {}", answer.member_epoch, answer.error_code);
    bench.report("a heartbeat of who is left");
}

fn consumer_groups(count: usize) {
    let mut bench = Bench::new(1);
    bench.create("t", 10);
    let client = bench.connect(1);
    bench.find_coordinator(client, "g0", 0);
    let before = bench.cluster.log_bytes_held();
    for at in 0..count {
        let join = member(&format!("g{at}"), at)
            .with_rebalance_timeout_ms(60_000)
            .with_topic_partitions(Some(Vec::new()))
            .with_subscribed_topic_names(Some(vec![TopicName(text("t"))]));
        assert_eq!(bench.ask(client, 1, &join).error_code, 0);
    }
    bench.report("joins");
    println!("  {} bytes of log a member", (bench.cluster.log_bytes_held() - before) / count);
    assert_eq!(bench.ask(client, 5, &ListGroupsRequest::default()).groups.len(), count);
    bench.report("list");
    bench.create("new", 1);
    bench.advance(Duration::from_secs(1));
    bench.report("a new topic");
    bench.advance(Duration::from_secs(60));
    bench.report("sessions expire");
}

fn classic_group(count: usize) {
    let mut bench = Bench::new(1);
    let first = bench.connect(1);
    bench.find_coordinator(first, "g", 0);
    let clients: Vec<ConnectionId> = (0..count).map(|_| bench.connect(1)).collect();
    let join = |id: &str| {
        let protocol = JoinGroupRequestProtocol::default()
            .with_name(text("range"))
            .with_metadata(Bytes::from_static(&[0, 1, 0, 0, 0, 1, 0, 1, b't', 255, 255, 255, 255]));
        JoinGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_session_timeout_ms(45_000)
            .with_rebalance_timeout_ms(60_000)
            .with_member_id(text(id))
            .with_protocol_type(text("consumer"))
            .with_protocols(vec![protocol])
    };
    let ids: Vec<String> =
        clients.iter().map(|client| bench.ask(*client, 9, &join("")).member_id.to_string()).collect();
    bench.report("ids");
    for (client, id) in clients.iter().zip(&ids) {
        bench.send(*client, 9, &join(id));
    }
    bench.advance(Duration::from_secs(1));
    bench.report("joins");
    let answers = bench.received::<JoinGroupRequest>(9);
    assert_eq!(answers.len(), count);
    let leads = answers.iter().find(|(_, answer)| answer.leader == answer.member_id).expect("a leader");
    let (leader, generation) = (leads.0, leads.1.generation_id);
    for (client, id) in clients.iter().zip(&ids) {
        let assigned = ids.iter().filter(|_| *client == leader).map(|id| {
            SyncGroupRequestAssignment::default()
                .with_member_id(text(id))
                .with_assignment(Bytes::from_static(&[7; 24]))
        });
        let sync = SyncGroupRequest::default()
            .with_group_id(GroupId(text("g")))
            .with_generation_id(generation)
            .with_member_id(text(id))
            .with_assignments(assigned.collect());
        bench.send(*client, 5, &sync);
    }
    let answers = bench.received::<SyncGroupRequest>(5);
    let failed = answers.iter().filter(|(_, answer)| answer.error_code != 0).count();
    println!("  {} have synced, {failed} in an error", answers.len());
    bench.report("syncs");
    let describe = DescribeGroupsRequest::default().with_groups(vec![GroupId(text("g"))]);
    println!("  {} are described", bench.ask(first, 5, &describe).groups[0].members.len());
    bench.report("describe");
    bench.advance(Duration::from_secs(60));
    bench.report("sessions expire");
    bench.advance(Duration::from_secs(600));
    bench.report("what comes after");
}

fn transactions(count: usize, brokers: i32) {
    let mut bench = Bench::new(brokers);
    bench.create("t", 10);
    let clients: Vec<ConnectionId> = (1..=brokers).map(|broker| bench.connect(broker)).collect();
    bench.find_coordinator(clients[0], "id-0", 1);
    let before = bench.cluster.log_bytes_held();
    let mut begun = Vec::new();
    for at in 0..count {
        let id = TransactionalId(text(&format!("id-{at}")));
        let init = InitProducerIdRequest::default()
            .with_transactional_id(Some(id.clone()))
            .with_transaction_timeout_ms(60_000);
        let found = clients.iter().find_map(|client| {
            let answer = bench.ask(*client, 4, &init);
            (answer.error_code == 0).then_some((*client, answer.producer_id, answer.producer_epoch))
        });
        let (client, producer_id, epoch) = found.expect("a coordinator");
        begun.push((client, id, producer_id, epoch));
    }
    bench.report("ids");
    println!("  {} bytes of log an id", (bench.cluster.log_bytes_held() - before) / count);
    for (client, id, producer_id, epoch) in begun {
        let topic = AddPartitionsToTxnTopic::default()
            .with_name(TopicName(text("t")))
            .with_partitions((0..10).collect());
        let add = AddPartitionsToTxnRequest::default()
            .with_v3_and_below_transactional_id(id)
            .with_v3_and_below_producer_id(producer_id)
            .with_v3_and_below_producer_epoch(epoch)
            .with_v3_and_below_topics(vec![topic]);
        let answer = bench.ask(client, 3, &add);
        assert_eq!(answer.results_by_topic_v3_and_below[0].results_by_partition[0].partition_error_code, 0);
    }
    bench.report("partitions");
    let list = ListTransactionsRequest::default().with_duration_filter(-1);
    let listed: usize =
        clients.iter().map(|client| bench.ask(*client, 1, &list).transaction_states.len()).sum();
    assert_eq!(listed, count);
    bench.report("list");
    bench.advance(Duration::from_secs(75));
    bench.report("time out");
    let list = list.with_state_filters(vec![text("CompleteAbort")]);
    let listed: usize =
        clients.iter().map(|client| bench.ask(*client, 1, &list).transaction_states.len()).sum();
    assert_eq!(listed, count, "all are aborted");
    bench.report("list");
}

fn text(text: &str) -> StrBytes {
    StrBytes::from_string(text.to_owned())
}

fn member(group: &str, at: usize) -> ConsumerGroupHeartbeatRequest {
    ConsumerGroupHeartbeatRequest::default()
        .with_group_id(GroupId(text(group)))
        .with_member_id(text(&format!("{:032x}", at as u128 * 0x9E37_79B9_7F4A_7C15)))
}

/// How long this thread has been at work.
fn processor_time() -> Duration {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: it writes to the place that it is given, which is there.
    #[expect(unsafe_code, reason = "the clock of a thread can't be read otherwise")]
    unsafe {
        libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time);
    }
    Duration::new(time.tv_sec as u64, time.tv_nsec as u32)
}

/// A cluster, its clock, and how long its calls took.
struct Bench {
    cluster: Cluster,
    now_ms: u64,
    connections: u64,
    frames: Vec<(ConnectionId, Bytes)>,
    calls: usize,
    longest: Duration,
    all: Duration,
}

impl Bench {
    fn new(brokers: i32) -> Self {
        let mut config = ClusterConfig::default();
        let node = config.nodes.remove(0);
        config.nodes =
            (1..=brokers).map(|id| huld::cluster::NodeConfig { id: NodeId(id), ..node.clone() }).collect();
        let cluster = Cluster::new(config, Now::at_millis(0)).expect("a cluster");
        Bench {
            cluster,
            now_ms: 0,
            connections: 0,
            frames: Vec::new(),
            calls: 0,
            longest: Duration::ZERO,
            all: Duration::ZERO,
        }
    }

    fn timed<T>(&mut self, call: impl FnOnce(&mut Cluster, Now) -> T) -> T {
        let began = processor_time();
        let done = call(&mut self.cluster, Now::at_millis(self.now_ms));
        let took = processor_time() - began;
        self.calls += 1;
        self.all += took;
        self.longest = self.longest.max(took);
        while let Some(output) = self.cluster.poll_output() {
            if let Output::Reply(reply) = output {
                let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
                encode(&reply, &mut buffer, &mut parts).expect("an answer");
                self.frames.push((reply.connection, parts.concat().into()));
            }
        }
        done
    }

    fn report(&mut self, what: &str) {
        let calls = self.calls.max(1);
        println!(
            "  {what}: {calls} calls, longest {:.2} ms, {:.1} us each",
            self.longest.as_secs_f64() * 1e3,
            self.all.as_secs_f64() * 1e6 / calls as f64
        );
        (self.calls, self.longest, self.all) = (0, Duration::ZERO, Duration::ZERO);
    }

    fn create(&mut self, name: &str, partitions: i32) {
        let topic =
            NewTopic { name: name.to_owned(), partitions, replication_factor: -1, ..NewTopic::default() };
        self.timed(|cluster, now| cluster.handle_command(now, Command::CreateTopic(topic))).expect("a topic");
    }

    fn connect(&mut self, broker: i32) -> ConnectionId {
        self.connections += 1;
        let id = ConnectionId(self.connections);
        let connection = Connection {
            node: NodeId(broker),
            listener: "PLAINTEXT".into(),
            local: Endpoint { host: "127.0.0.1".into(), port: 9092 },
            peer: "127.0.0.1:1".into(),
        };
        self.cluster.handle_opened(Now::at_millis(self.now_ms), id, connection);
        id
    }

    fn advance(&mut self, span: Duration) {
        let end = self.now_ms + span.as_millis() as u64;
        while let Some(due) = self.cluster.poll_timeout() {
            let due_ms = due.as_nanos().div_ceil(1_000_000);
            if due_ms > end {
                break;
            }
            self.now_ms = self.now_ms.max(due_ms);
            self.timed(|cluster, now| cluster.handle_timeout(now));
        }
        self.now_ms = end;
    }

    fn find_coordinator(&mut self, client: ConnectionId, key: &str, kind: i8) {
        let request = FindCoordinatorRequest::default().with_key(text(key)).with_key_type(kind);
        self.send(client, 3, &request);
        self.advance(Duration::from_secs(1));
        let answer = self.received::<FindCoordinatorRequest>(3).remove(0).1;
        assert_eq!(answer.error_code, 0);
        (self.calls, self.longest, self.all) = (0, Duration::ZERO, Duration::ZERO);
    }

    fn send<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) {
        let header = RequestHeader::default().with_request_api_key(R::KEY).with_request_api_version(version);
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).expect("a header");
        request.encode(&mut frame, version).expect("a request");
        let prepared = Preparer::default().prepare(frame.freeze()).expect("a request");
        self.timed(|cluster, now| cluster.handle_request(now, id, prepared));
    }

    /// All answers that have come, which must be of this kind.
    fn received<R: Request>(&mut self, version: i16) -> Vec<(ConnectionId, R::Response)>
    where
        R::Response: Decodable + HeaderVersion,
    {
        let decode = |(client, frame): (ConnectionId, Bytes)| {
            let mut frame = frame.slice(4..);
            ResponseHeader::decode(&mut frame, R::Response::header_version(version)).expect("a header");
            (client, R::Response::decode(&mut frame, version).expect("an answer"))
        };
        std::mem::take(&mut self.frames).into_iter().map(decode).collect()
    }

    fn ask<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        self.send(id, version, request);
        let mut answers = self.received::<R>(version);
        assert_eq!(answers.len(), 1, "one answer");
        answers.remove(0).1
    }
}
