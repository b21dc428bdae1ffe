//! How long others have to wait for one call of the cluster at most, when much is asked of it: 10,000 topics and groups,
//! 100,000 committed offsets, a group of 500 members.
//!
//! `cargo bench --bench stalls`. One thread and no sockets: requests are decoded before a call is timed and answers encoded
//! after it, as the tasks of the connections do. Each line has the longest call of a step by the thread's processor time, the
//! smallest over the rounds, and how many calls there were.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use huld::api::{Connection, Endpoint, Prepared, Preparer, encode};
use huld::base::{ConnectionId, NodeId, Now};
use huld::cluster::{Cluster, ClusterConfig, Command, Kept, Output};
use huld::controller::configs::{BrokerConfigs, Overrides, Resource};
use kafka_protocol::messages::create_topics_request::CreatableTopic;
use kafka_protocol::messages::delete_topics_request::DeleteTopicState;
use kafka_protocol::messages::describe_configs_request::DescribeConfigsResource;
use kafka_protocol::messages::join_group_request::JoinGroupRequestProtocol;
use kafka_protocol::messages::leave_group_request::MemberIdentity;
use kafka_protocol::messages::list_offsets_request::{ListOffsetsPartition, ListOffsetsTopic};
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::OffsetFetchRequestGroup;
use kafka_protocol::messages::sync_group_request::SyncGroupRequestAssignment;
use kafka_protocol::messages::{
    CreateTopicsRequest, DeleteGroupsRequest, DeleteTopicsRequest, DescribeConfigsRequest,
    DescribeGroupsRequest, DescribeLogDirsRequest, FindCoordinatorRequest, GroupId, JoinGroupRequest,
    JoinGroupResponse, LeaveGroupRequest, ListGroupsRequest, ListOffsetsRequest, MetadataRequest,
    OffsetCommitRequest, OffsetFetchRequest, RequestHeader, ResponseHeader, SyncGroupRequest, TopicName,
};
use kafka_protocol::protocol::{Decodable, Encodable, HeaderVersion, Request, StrBytes};

const ROUNDS: usize = 3;
const MANY: usize = 10_000;
const MEMBERS: usize = 500;
/// Requests whose parts are at most this many keep to what Kafka's coordinator takes as one batch.
const OFFSETS_A_COMMIT: usize = 10_000;

fn main() {
    let rounds: Vec<Vec<Step>> = (0..ROUNDS).map(|_| round()).collect();
    for (at, step) in rounds[0].iter().enumerate() {
        let longest = rounds.iter().map(|round| round[at].longest).min().unwrap_or_default();
        println!("{:9.3} ms  {:6} calls  {}", longest.as_secs_f64() * 1e3, step.calls, step.name);
    }
}

fn round() -> Vec<Step> {
    let mut bench = Bench::new();
    topics(&mut bench);
    groups(&mut bench);
    offsets(&mut bench);
    members(&mut bench);
    joins_whose_clients_go(&mut bench);
    restart(&mut bench);
    deletions(&mut bench);
    expiry(&mut bench);
    bench.steps
}

fn topics(bench: &mut Bench) {
    let client = bench.connect();
    let topics = (0..MANY).map(|at| {
        CreatableTopic::default().with_name(topic(at)).with_num_partitions(1).with_replication_factor(1)
    });
    let request = CreateTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(60_000);
    bench.begin("10,000 topics are made in one request");
    let made = bench.ask(client, 7, &request);
    assert!(made.topics.iter().all(|topic| topic.error_code == 0));

    bench.begin("Metadata of all");
    let all = MetadataRequest::default().with_topics(None);
    assert_eq!(bench.ask(client, 12, &all).topics.len(), MANY + 1, "and that of offsets");
    bench.begin("DescribeConfigs of all");
    let resources = (0..MANY).map(|at| {
        let name = StrBytes::from_string(format!("topic-{at}"));
        DescribeConfigsResource::default().with_resource_type(2).with_resource_name(name)
    });
    let request = DescribeConfigsRequest::default()
        .with_resources(resources.map(|resource| resource.with_configuration_keys(None)).collect());
    assert_eq!(bench.ask(client, 4, &request).results.len(), MANY);
    bench.begin("DescribeLogDirs of all");
    let request = DescribeLogDirsRequest::default().with_topics(None);
    assert!(bench.ask(client, 4, &request).results[0].topics.len() >= MANY);
    bench.begin("ListOffsets of all");
    let topics = (0..MANY).map(|at| {
        let partition = ListOffsetsPartition::default().with_timestamp(-1);
        ListOffsetsTopic::default().with_name(topic(at)).with_partitions(vec![partition])
    });
    let request = ListOffsetsRequest::default().with_replica_id((-1).into()).with_topics(topics.collect());
    assert_eq!(bench.ask(client, 7, &request).topics.len(), MANY);
}

fn groups(bench: &mut Bench) {
    let client = bench.connect();
    bench.begin("10,000 groups commit an offset each");
    for at in 0..MANY {
        bench.commit(client, &format!("group-{at}"), at..at + 1);
    }
    bench.begin("ListGroups of all");
    assert_eq!(bench.ask(client, 5, &ListGroupsRequest::default()).groups.len(), MANY);
    bench.begin("DescribeGroups of all");
    let names = (0..MANY).map(|at| group(&format!("group-{at}"))).collect();
    let described = bench.ask(client, 6, &DescribeGroupsRequest::default().with_groups(names));
    assert!(described.groups.iter().all(|group| group.error_code == 0));
    bench.begin("OffsetFetch of all");
    let names = (0..MANY).map(|at| {
        OffsetFetchRequestGroup::default().with_group_id(group(&format!("group-{at}"))).with_topics(None)
    });
    let request = OffsetFetchRequest::default().with_groups(names.collect());
    assert!(bench.ask(client, 8, &request).groups.iter().all(|group| group.topics.len() == 1));
}

fn offsets(bench: &mut Bench) {
    let client = bench.connect();
    bench.begin("100,000 offsets are committed by 10 groups");
    for at in 0..10 {
        bench.commit(client, &format!("large-{at}"), 0..OFFSETS_A_COMMIT);
    }
    bench.begin("OffsetFetch of them, in one request");
    let names = (0..10).map(|at| {
        OffsetFetchRequestGroup::default().with_group_id(group(&format!("large-{at}"))).with_topics(None)
    });
    let request = OffsetFetchRequest::default().with_groups(names.collect());
    assert!(bench.ask(client, 8, &request).groups.iter().all(|group| group.topics.len() == MANY));
}

fn join(name: &str, member: &str, instance: Option<&str>) -> JoinGroupRequest {
    let protocol = JoinGroupRequestProtocol::default().with_name(StrBytes::from_static_str("range"));
    JoinGroupRequest::default()
        .with_group_id(group(name))
        .with_session_timeout_ms(6_000)
        .with_rebalance_timeout_ms(3_000)
        .with_member_id(StrBytes::from_string(member.to_owned()))
        .with_group_instance_id(instance.map(|name| StrBytes::from_string(name.to_owned())))
        .with_protocol_type(StrBytes::from_static_str("consumer"))
        .with_protocols(vec![protocol.with_metadata(Bytes::from_static(&[0; 100]))])
}

/// Members with static names, each on a connection of its own.
fn members(bench: &mut Bench) {
    let clients: Vec<ConnectionId> = (0..MEMBERS).map(|_| bench.connect()).collect();
    bench.begin("a group of 500 forms");
    for (at, client) in clients.iter().enumerate() {
        bench.send(*client, 9, &join("members", "", Some(&format!("i{at}"))));
    }
    bench.advance(Duration::from_millis(10));
    let joined: Vec<JoinGroupResponse> =
        clients.iter().map(|client| bench.received::<JoinGroupRequest>(*client, 9)).collect();
    assert!(joined.iter().all(|member| member.error_code == 0));
    let leader = joined.iter().position(|member| member.leader == member.member_id).expect("one leads");
    assert_eq!(joined[leader].members.len(), MEMBERS);
    bench.begin("it syncs");
    for (at, client) in clients.iter().enumerate() {
        let given = joined.iter().filter(|_| at == leader).map(|member| {
            let assignment = SyncGroupRequestAssignment::default().with_member_id(member.member_id.clone());
            assignment.with_assignment(Bytes::from_static(&[0; 100]))
        });
        let request = SyncGroupRequest::default()
            .with_group_id(group("members"))
            .with_generation_id(joined[at].generation_id)
            .with_member_id(joined[at].member_id.clone())
            .with_group_instance_id(Some(StrBytes::from_string(format!("i{at}"))))
            .with_assignments(given.collect());
        bench.send(*client, 5, &request);
    }
    bench.begin("half of it leaves in one request");
    let leavers = (0..MEMBERS / 2).map(|at| {
        let instance = Some(StrBytes::from_string(format!("i{at}")));
        MemberIdentity::default().with_group_instance_id(instance)
    });
    let request = LeaveGroupRequest::default().with_group_id(group("members"));
    let client = bench.connect();
    let left = bench.ask(client, 5, &request.with_members(leavers.collect()));
    assert!(left.members.iter().all(|member| member.error_code == 0));
    bench.begin("the sessions of the others end");
    bench.advance(Duration::from_secs(20));
}

fn joins_whose_clients_go(bench: &mut Bench) {
    let clients: Vec<ConnectionId> = (0..MANY).map(|_| bench.connect()).collect();
    bench.begin("10,000 join 100 groups");
    for (at, client) in clients.iter().enumerate() {
        let instance = format!("i{at}");
        bench.send(*client, 9, &join(&format!("joined-{}", at % 100), "", Some(&instance)));
    }
    bench.begin("their clients go");
    for client in clients {
        bench.disconnect(client);
    }
    bench.begin("their sessions end");
    bench.advance(Duration::from_secs(20));
}

fn restart(bench: &mut Bench) {
    bench.begin("the broker stops");
    bench.command(Command::StopBroker(NodeId(1)));
    bench.begin("it starts again with its log, and loads its groups");
    bench.command(Command::StartBroker { broker: NodeId(1), kept: Kept::Everything });
    bench.advance(Duration::from_millis(10));
}

fn deletions(bench: &mut Bench) {
    let client = bench.connect();
    bench.begin("half of the groups are deleted in one request");
    let names = (0..MANY / 2).map(|at| group(&format!("group-{at}"))).collect();
    let deleted = bench.ask(client, 2, &DeleteGroupsRequest::default().with_groups_names(names));
    assert!(deleted.results.iter().all(|group| group.error_code == 0));
    bench.begin("all topics are deleted in one request, with their 100,000 offsets");
    let topics = (0..MANY).map(|at| DeleteTopicState::default().with_name(Some(topic(at))));
    let request = DeleteTopicsRequest::default().with_topics(topics.collect()).with_timeout_ms(60_000);
    let deleted = bench.ask(client, 6, &request);
    assert!(deleted.responses.iter().all(|topic| topic.error_code == 0));
    bench.advance(Duration::from_millis(10));
}

/// With `offsets.retention.minutes` as it is set below.
fn expiry(bench: &mut Bench) {
    bench.begin("what is left of groups and offsets expires");
    bench.advance(Duration::from_secs(1_300));
    let client = bench.connect();
    assert_eq!(bench.ask(client, 5, &ListGroupsRequest::default()).groups.len(), 0);
}

struct Step {
    name: &'static str,
    longest: Duration,
    calls: usize,
}

/// A cluster of one broker and the clock.
struct Bench {
    cluster: Cluster,
    now_ms: u64,
    connections: u64,
    frames: Vec<(ConnectionId, Bytes)>,
    steps: Vec<Step>,
}

impl Bench {
    fn new() -> Self {
        let settings = [("offsets.retention.minutes", "10"), ("group.initial.rebalance.delay.ms", "0")];
        let fixed = Overrides::parse(Resource::Broker, settings).expect("they are settings");
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        let config = ClusterConfig { configs, ..ClusterConfig::default() };
        let cluster = Cluster::new(config, Now::at_millis(0)).expect("a cluster");
        let mut bench = Bench { cluster, now_ms: 0, connections: 0, frames: Vec::new(), steps: Vec::new() };
        let client = bench.connect();
        let key = vec![StrBytes::from_static_str("g")];
        let find = FindCoordinatorRequest::default().with_coordinator_keys(key);
        bench.begin("");
        bench.ask(client, 4, &find);
        bench.steps.clear();
        bench
    }

    fn now(&self) -> Now {
        Now::at_millis(self.now_ms)
    }

    fn begin(&mut self, name: &'static str) {
        self.steps.push(Step { name, longest: Duration::ZERO, calls: 0 });
    }

    /// Times one call, with the taking of its output.
    fn call(&mut self, call: impl FnOnce(&mut Cluster, Now)) {
        let now = self.now();
        let mut replies = Vec::new();
        let began = processor_time();
        call(&mut self.cluster, now);
        while let Some(output) = self.cluster.poll_output() {
            if let Output::Reply(reply) = output {
                replies.push(reply);
            }
        }
        let took = processor_time() - began;
        if let Some(step) = self.steps.last_mut() {
            step.longest = step.longest.max(took);
            step.calls += 1;
        }
        for reply in replies {
            let (mut buffer, mut parts) = (BytesMut::new(), Vec::new());
            encode(&reply, &mut buffer, &mut parts).expect("answers can be encoded");
            self.frames.push((reply.connection, parts.concat().into()));
        }
    }

    fn connect(&mut self) -> ConnectionId {
        self.connections += 1;
        let id = ConnectionId(self.connections);
        let connection = Connection {
            node: NodeId(1),
            listener: "PLAINTEXT".into(),
            local: Endpoint { host: "127.0.0.1".into(), port: 9092 },
            peer: "127.0.0.1:1".into(),
        };
        self.cluster.handle_opened(self.now(), id, connection);
        id
    }

    fn disconnect(&mut self, id: ConnectionId) {
        self.call(|cluster, now| cluster.handle_closed(now, id));
    }

    fn command(&mut self, command: Command) {
        self.call(|cluster, now| {
            cluster.handle_command(now, command).expect("the command can be done");
        });
    }

    /// Moves the clock on, stopping wherever the cluster has something to do.
    fn advance(&mut self, span: Duration) {
        let end = Now::at_millis(self.now_ms).instant + span;
        while let Some(due) = self.cluster.poll_timeout().filter(|due| *due <= end) {
            self.now_ms = self.now_ms.max(due.as_nanos().div_ceil(1_000_000));
            self.call(|cluster, now| cluster.handle_timeout(now));
        }
        self.now_ms = end.as_millis();
    }

    fn send<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) {
        let header = RequestHeader::default().with_request_api_key(R::KEY).with_request_api_version(version);
        let mut frame = BytesMut::new();
        header.encode(&mut frame, R::header_version(version)).expect("it can be encoded");
        request.encode(&mut frame, version).expect("it can be encoded");
        let prepared: Prepared = Preparer::default().prepare(frame.freeze()).expect("a request");
        self.call(|cluster, now| cluster.handle_request(now, id, prepared));
    }

    fn received<R: Request>(&mut self, id: ConnectionId, version: i16) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        let at = self.frames.iter().position(|(connection, _)| *connection == id).expect("an answer");
        let mut frame = self.frames.swap_remove(at).1.split_off(4);
        ResponseHeader::decode(&mut frame, R::Response::header_version(version)).expect("a header");
        R::Response::decode(&mut frame, version).expect("an answer")
    }

    fn ask<R: Request>(&mut self, id: ConnectionId, version: i16, request: &R) -> R::Response
    where
        R::Response: Decodable + HeaderVersion,
    {
        self.send(id, version, request);
        self.received::<R>(id, version)
    }

    /// Commits an offset of each of these topics for a group that nobody is a member of.
    fn commit(&mut self, client: ConnectionId, name: &str, topics: std::ops::Range<usize>) {
        let topics = topics.map(|at| {
            let partition = OffsetCommitRequestPartition::default()
                .with_committed_offset(7)
                .with_committed_metadata(Some(StrBytes::new()));
            OffsetCommitRequestTopic::default().with_name(topic(at)).with_partitions(vec![partition])
        });
        let request = OffsetCommitRequest::default()
            .with_group_id(group(name))
            .with_generation_id_or_member_epoch(-1)
            .with_topics(topics.collect());
        let answer = self.ask(client, 8, &request);
        assert!(answer.topics.iter().all(|topic| topic.partitions[0].error_code == 0));
    }
}

/// Of this thread, as the scheduler counts it in nanoseconds.
fn processor_time() -> Duration {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    let nanos = text.split_whitespace().next().and_then(|text| text.parse().ok());
    Duration::from_nanos(nanos.unwrap_or_default())
}

fn topic(at: usize) -> TopicName {
    TopicName(StrBytes::from_string(format!("topic-{at}")))
}

fn group(name: &str) -> GroupId {
    GroupId(StrBytes::from_string(name.to_owned()))
}
