//! Kafka's APIs, one file each, and the one table of them.
//!
//! A request goes through three steps: [`Preparer::prepare`] (pure, on the connection's own task), `handle` (in the
//! cluster, which lends a `Context`) and [`encode()`] (pure again). Wire structs stop here: the layers below take and
//! return values of their own.
//!
//! The table ([`TABLE`]) is declared once, by the `apis!` call in this file. Dispatch, the ApiVersions answer, names
//! in logs and metrics, the README's table and the sweep tests come from it.

mod acl_kinds;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_client_quotas;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_replica_log_dirs;
mod alter_user_scram_credentials;
mod api_versions;
mod authorized_operations;
mod by_topic;
mod changes;
mod commit_answers;
mod config_alterations;
mod config_resources;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod context;
mod create_acls;
mod create_partitions;
mod create_topics;
mod delete_acls;
mod delete_groups;
mod delete_records;
mod delete_topics;
mod describe_acls;
mod describe_client_quotas;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_topic_partitions;
mod describe_transactions;
mod describe_user_scram_credentials;
mod elect_leaders;
mod encode;
mod end_txn;
mod fetch;
mod find_coordinator;
mod follower_fetch;
mod get_telemetry_subscriptions;
mod group_waits;
mod heartbeat;
mod held;
mod incremental_alter_configs;
mod init_producer_id;
mod inquiries;
mod join_group;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod log_dir;
mod membership;
mod metadata;
mod names;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod partitions;
mod peers;
mod prepare;
mod produce;
mod produce_transactions;
mod push_telemetry;
mod sasl_authenticate;
mod sasl_handshake;
mod seen_brokers;
mod subjects;
mod sync_group;
mod telemetry;
mod topic_changes;
mod transaction_markers;
mod transaction_waits;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod waits;
mod write_txn_markers;

use std::ops::RangeInclusive;

use kafka_protocol::messages::ApiKey;
use kafka_protocol::protocol::Decodable;

use subjects::{NamedTopic, NamesGroup, NamesTopic};

pub(crate) use context::{Broker, Context, Parts};
pub use context::{Caller, Connection, Endpoint, Reply};
pub use encode::{EncodeError, encode};
pub(crate) use fetch::FetchSessions;
pub(crate) use follower_fetch::FollowerFetchWait;
pub(crate) use held::{Held, HeldWait};
pub(crate) use membership::Membership;
pub use peers::Party;
pub(crate) use peers::{Outgoing, Peer, PeerMessage, Slot, handle as handle_message};
pub use prepare::{PrepareLimits, Prepared, Preparer, Refusal};
pub(crate) use subjects::RequestSubject;
pub(crate) use telemetry::ClientTelemetry;
pub use telemetry::TelemetryCounts;
pub(crate) use transaction_markers::send as send_markers;
pub use waits::Kind;
pub(crate) use waits::{Ending, Key, NOBODY, Operation, Wait};

/// What requests about access control are told.
const NO_AUTHORIZER: &str = "There is no authorizer here.";

/// What an API's handler makes of a request.
#[derive(Debug)]
pub(crate) enum Answer<R> {
    /// The response is ready.
    Ready(R),
    /// Something was parked in the purgatory, which will answer.
    Parked,
    /// There is no response by the protocol (Produce with acks=0); the connection goes on.
    Silent,
    /// The connection must be closed, since an error can't be answered (Produce with acks=0).
    Close(&'static str),
}

/// One API: how its request is read, handled and answered.
pub(crate) trait Api {
    /// Kafka's key.
    const KEY: ApiKey;
    /// Versions served.
    const VERSIONS: RangeInclusive<i16>;
    /// Lowest version that ApiVersions shows; differs from `VERSIONS` for Produce alone.
    const ADVERTISED_FROM: i16 = *Self::VERSIONS.start();
    /// When ApiVersions shows it.
    const ADVERTISED: Advertised = Advertised::Always;
    /// The request as the codec has it.
    type Wire: Decodable;
    /// The request as the handler takes it.
    type Request: std::fmt::Debug + Clone;
    /// The response, which knows how to encode itself.
    type Response: encode::Response + std::fmt::Debug + Clone;
    /// How a rule finds out whether a request is about a topic; none if they never are.
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> = None;
    /// How a rule finds out whether a request is about a group; none if they never are.
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> = None;

    /// From the wire to what the handler takes. Pure: everything here runs on the connection's own task.
    fn prepare(wire: Self::Wire, preparation: &prepare::Preparation) -> Result<Self::Request, Refusal>;

    /// Answers the request, or parks it.
    fn handle(context: &mut Context<'_>, request: Self::Request) -> Answer<Self::Response>;
}

/// When ApiVersions shows an API. What is served is served in any case, as by Kafka.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Advertised {
    /// In every answer.
    Always,
    /// Once there is a client-metrics resource: clients that see it ask what to push, which is for nothing before.
    WithClientMetrics,
}

/// A row of the table of APIs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ApiEntry {
    /// Kafka's number for the API.
    pub key: i16,
    /// Kafka's name for the API.
    pub name: &'static str,
    /// When ApiVersions shows it.
    pub advertised: Advertised,
    /// Lowest version that ApiVersions shows.
    pub advertised_from: i16,
    /// Lowest version served.
    pub min_version: i16,
    /// Highest version served.
    pub max_version: i16,
    /// Whether requests are about topics, so that a rule can hold those of one.
    pub names_topics: bool,
    /// Whether requests are about groups, so that a rule can hold those of one.
    pub names_groups: bool,
}

/// The row of the API with this number.
pub fn entry(key: i16) -> Option<&'static ApiEntry> {
    TABLE.iter().find(|entry| entry.key == key)
}

const fn row<A: Api>(name: &'static str) -> ApiEntry {
    ApiEntry {
        key: A::KEY as i16,
        name,
        advertised: A::ADVERTISED,
        advertised_from: A::ADVERTISED_FROM,
        min_version: *A::VERSIONS.start(),
        max_version: *A::VERSIONS.end(),
        names_topics: A::NAMES_TOPIC.is_some(),
        names_groups: A::NAMES_GROUP.is_some(),
    }
}

/// A request of any API, prepared for its handler.
#[derive(Clone, Debug)]
pub struct Request(AnyRequest);

impl Request {
    /// The row of the request's API.
    pub fn api(&self) -> &'static ApiEntry {
        self.0.entry()
    }
}

/// A response of any API, not encoded yet.
#[derive(Clone, Debug)]
pub struct Response(AnyResponse);

/// Hands the request to its handler.
pub(crate) fn handle(context: &mut Context<'_>, request: Request) -> Answer<Response> {
    match handle_any(context, request.0) {
        Answer::Ready(response) => Answer::Ready(Response(response)),
        Answer::Parked => Answer::Parked,
        Answer::Silent => Answer::Silent,
        Answer::Close(why) => Answer::Close(why),
    }
}

macro_rules! apis {
    ($($name:ident = $api:ty,)*) => {
        /// Every API that huld serves, in the order of their keys.
        pub const TABLE: &[ApiEntry] = &[$(row::<$api>(stringify!($name)),)*];

        /// A request of any API, prepared for its handler.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyRequest {
            $($name(Box<<$api as Api>::Request>),)*
        }

        /// A response of any API, not encoded yet.
        #[derive(Clone, Debug)]
        pub(crate) enum AnyResponse {
            $($name(<$api as Api>::Response),)*
        }

        impl AnyRequest {
            fn entry(&self) -> &'static ApiEntry {
                match self {
                    $(AnyRequest::$name(_) => const { &row::<$api>(stringify!($name)) },)*
                }
            }

            fn names_topic(&self, topic: &NamedTopic<'_>, broker: &Broker) -> bool {
                match self {
                    $(AnyRequest::$name(request) => {
                        <$api>::NAMES_TOPIC.is_some_and(|names| names(request, topic, broker))
                    })*
                }
            }

            fn names_group(&self, group: &str) -> bool {
                match self {
                    $(AnyRequest::$name(request) => {
                        <$api>::NAMES_GROUP.is_some_and(|names| names(request, group))
                    })*
                }
            }

            pub(crate) fn decode(
                key: i16,
                body: bytes::Bytes,
                preparation: &prepare::Preparation,
            ) -> Result<AnyRequest, Refusal> {
                $(if key == <$api>::KEY as i16 {
                    let wire = prepare::decode::<<$api as Api>::Wire>(body, preparation)?;
                    return Ok(AnyRequest::$name(Box::new(<$api>::prepare(wire, preparation)?)));
                })*
                Err(Refusal::UnknownApi { key })
            }
        }

        impl AnyResponse {
            fn as_encodable(&self) -> &dyn encode::Response {
                match self {
                    $(AnyResponse::$name(response) => response,)*
                }
            }

            fn as_encodable_mut(&mut self) -> &mut dyn encode::Response {
                match self {
                    $(AnyResponse::$name(response) => response,)*
                }
            }
        }

        fn handle_any(context: &mut Context<'_>, request: AnyRequest) -> Answer<AnyResponse> {
            match request {
                $(AnyRequest::$name(request) => match <$api>::handle(context, *request) {
                    Answer::Ready(response) => Answer::Ready(AnyResponse::$name(response)),
                    Answer::Parked => Answer::Parked,
                    Answer::Silent => Answer::Silent,
                    Answer::Close(why) => Answer::Close(why),
                },)*
            }
        }
    };
}

apis! {
    Produce = produce::Produce,
    Fetch = fetch::Fetch,
    ListOffsets = list_offsets::ListOffsets,
    Metadata = metadata::Metadata,
    OffsetCommit = offset_commit::OffsetCommit,
    OffsetFetch = offset_fetch::OffsetFetch,
    FindCoordinator = find_coordinator::FindCoordinator,
    JoinGroup = join_group::JoinGroup,
    Heartbeat = heartbeat::Heartbeat,
    LeaveGroup = leave_group::LeaveGroup,
    SyncGroup = sync_group::SyncGroup,
    DescribeGroups = describe_groups::DescribeGroups,
    ListGroups = list_groups::ListGroups,
    SaslHandshake = sasl_handshake::SaslHandshake,
    ApiVersions = api_versions::ApiVersions,
    CreateTopics = create_topics::CreateTopics,
    DeleteTopics = delete_topics::DeleteTopics,
    DeleteRecords = delete_records::DeleteRecords,
    InitProducerId = init_producer_id::InitProducerId,
    OffsetForLeaderEpoch = offset_for_leader_epoch::OffsetForLeaderEpoch,
    AddPartitionsToTxn = add_partitions_to_txn::AddPartitionsToTxn,
    AddOffsetsToTxn = add_offsets_to_txn::AddOffsetsToTxn,
    EndTxn = end_txn::EndTxn,
    WriteTxnMarkers = write_txn_markers::WriteTxnMarkers,
    TxnOffsetCommit = txn_offset_commit::TxnOffsetCommit,
    DescribeAcls = describe_acls::DescribeAcls,
    CreateAcls = create_acls::CreateAcls,
    DeleteAcls = delete_acls::DeleteAcls,
    DescribeConfigs = describe_configs::DescribeConfigs,
    AlterConfigs = alter_configs::AlterConfigs,
    AlterReplicaLogDirs = alter_replica_log_dirs::AlterReplicaLogDirs,
    DescribeLogDirs = describe_log_dirs::DescribeLogDirs,
    SaslAuthenticate = sasl_authenticate::SaslAuthenticate,
    CreatePartitions = create_partitions::CreatePartitions,
    DeleteGroups = delete_groups::DeleteGroups,
    ElectLeaders = elect_leaders::ElectLeaders,
    IncrementalAlterConfigs = incremental_alter_configs::IncrementalAlterConfigs,
    AlterPartitionReassignments = alter_partition_reassignments::AlterPartitionReassignments,
    ListPartitionReassignments = list_partition_reassignments::ListPartitionReassignments,
    OffsetDelete = offset_delete::OffsetDelete,
    DescribeClientQuotas = describe_client_quotas::DescribeClientQuotas,
    AlterClientQuotas = alter_client_quotas::AlterClientQuotas,
    DescribeUserScramCredentials = describe_user_scram_credentials::DescribeUserScramCredentials,
    AlterUserScramCredentials = alter_user_scram_credentials::AlterUserScramCredentials,
    DescribeQuorum = describe_quorum::DescribeQuorum,
    UpdateFeatures = update_features::UpdateFeatures,
    DescribeCluster = describe_cluster::DescribeCluster,
    DescribeProducers = describe_producers::DescribeProducers,
    DescribeTransactions = describe_transactions::DescribeTransactions,
    ListTransactions = list_transactions::ListTransactions,
    UnregisterBroker = unregister_broker::UnregisterBroker,
    ConsumerGroupHeartbeat = consumer_group_heartbeat::ConsumerGroupHeartbeat,
    ConsumerGroupDescribe = consumer_group_describe::ConsumerGroupDescribe,
    GetTelemetrySubscriptions = get_telemetry_subscriptions::GetTelemetrySubscriptions,
    PushTelemetry = push_telemetry::PushTelemetry,
    ListConfigResources = list_config_resources::ListConfigResources,
    DescribeTopicPartitions = describe_topic_partitions::DescribeTopicPartitions,
}
