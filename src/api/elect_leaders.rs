//! ElectLeaders (43), versions 0–2: elects the preferred leaders of partitions, or any leader for those without one.
//!
//! No partitions (null) means all; partitions that need no election are then left out. Versions: 1 adds unclean elections
//! (KIP-460) and the top-level error; 0 elects preferred leaders alone.
//!
//! Not done: an election that would change a leader, since no broker follows another yet: every partition is led by its
//! preferred leader, and the answer says that no election is needed.

use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ApiKey, ElectLeadersRequest, ElectLeadersResponse, TopicName};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{Controller, ControllerError};

pub(crate) struct ElectLeaders;

/// Kafka's `ElectionType`.
const PREFERRED: i8 = 0;
const UNCLEAN: i8 = 1;

impl Api for ElectLeaders {
    const KEY: ApiKey = ApiKey::ElectLeaders;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = ElectLeadersRequest;
    type Request = ElectLeadersRequest;
    type Response = ElectLeadersResponse;

    fn prepare(wire: ElectLeadersRequest, _: &Preparation) -> Result<ElectLeadersRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: ElectLeadersRequest) -> Answer<ElectLeadersResponse> {
        let controller = &context.parts.controller;
        let refused = match request.election_type {
            _ if request.timeout_ms <= 0 => Some((ErrorCode::RequestTimedOut, None)),
            PREFERRED | UNCLEAN => None,
            other => Some((ErrorCode::InvalidRequest, Some(format!("there is no election type {other}")))),
        };
        let results = match &request.topic_partitions {
            Some(topics) => topics
                .iter()
                .map(|topic| {
                    let rows = topic.partitions.iter().map(|&index| match &refused {
                        Some((error, why)) => row(index, *error, why.clone()),
                        None => elect(controller, &request, &topic.topic, index),
                    });
                    election(topic.topic.clone(), rows.collect())
                })
                .collect(),
            None if refused.is_some() => Vec::new(),
            None => elect_all(controller, &request),
        };
        let error = refused.map_or(ErrorCode::None, |(error, _)| error);
        let response = ElectLeadersResponse::default().with_replica_election_results(results);
        Answer::Ready(if context.caller.version >= 1 {
            response.with_error_code(error.code())
        } else {
            response
        })
    }
}

fn elect_all(controller: &Controller, request: &ElectLeadersRequest) -> Vec<ReplicaElectionResult> {
    let topics = controller.topics().iter().map(|topic| {
        let all = 0..topic.partitions.len() as i32;
        let rows = all.map(|index| elect(controller, request, &topic.name, index));
        let needed = rows.filter(|row| row.error_code != ErrorCode::ElectionNotNeeded.code());
        election(names::topic_name(&topic.name), needed.collect())
    });
    topics.collect()
}

fn elect(controller: &Controller, request: &ElectLeadersRequest, topic: &str, index: i32) -> PartitionResult {
    match controller.check_election(topic, index, request.election_type == UNCLEAN) {
        Ok(()) => row(index, ErrorCode::None, None),
        Err(error) => row(index, error.code(), Some(ControllerError::to_string(&error))),
    }
}

fn row(index: i32, error: ErrorCode, why: Option<String>) -> PartitionResult {
    PartitionResult::default()
        .with_partition_id(index)
        .with_error_code(error.code())
        .with_error_message(why.map(names::text))
}

fn election(topic: TopicName, rows: Vec<PartitionResult>) -> ReplicaElectionResult {
    ReplicaElectionResult::default().with_topic(topic).with_partition_result(rows)
}
