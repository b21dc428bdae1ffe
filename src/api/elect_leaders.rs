//! ElectLeaders (43), versions 0–2: elects the preferred leaders of partitions, or any leader for those without one.
//!
//! No partitions (null) means all; partitions that need no election are then left out. The answer waits until every broker
//! knows the new leaders. Versions: 1 adds unclean elections (KIP-460) and the top-level error; 0 elects preferred leaders
//! alone.

use kafka_protocol::messages::elect_leaders_response::{PartitionResult, ReplicaElectionResult};
use kafka_protocol::messages::{ApiKey, ElectLeadersRequest, ElectLeadersResponse, TopicName};

use super::topic_changes::answer_once_applied;
use super::{Answer, AnyResponse, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{Controller, Election};

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
        let before = context.parts.controller.last_change();
        let controller = &mut *context.parts.controller;
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
        let response = match context.caller.version {
            0 => response,
            _ => response.with_error_code(error.code()),
        };
        if context.parts.controller.last_change() == before {
            return Answer::Ready(response);
        }
        let mut timed_out = response.clone();
        let elected =
            timed_out.replica_election_results.iter_mut().flat_map(|topic| &mut topic.partition_result);
        elected.filter(|row| row.error_code == 0).for_each(|row| {
            row.error_code = ErrorCode::RequestTimedOut.code();
        });
        let topics = response.replica_election_results.iter().map(|topic| topic.topic.as_str());
        let topics = topics.collect::<Vec<_>>().join(", ");
        answer_once_applied(
            context,
            request.timeout_ms,
            topics,
            AnyResponse::ElectLeaders(response),
            AnyResponse::ElectLeaders(timed_out),
        )
    }
}

fn elect_all(controller: &mut Controller, request: &ElectLeadersRequest) -> Vec<ReplicaElectionResult> {
    let topics = controller.topics().iter().map(|topic| (topic.name.clone(), topic.partitions.len() as i32));
    let topics: Vec<_> = topics.collect();
    let elections = topics.into_iter().map(|(name, partitions)| {
        let rows = (0..partitions).map(|index| elect(controller, request, &name, index));
        let needed = rows.filter(|row| row.error_code != ErrorCode::ElectionNotNeeded.code());
        election(names::topic_name(&name), needed.collect())
    });
    elections.collect()
}

fn elect(
    controller: &mut Controller,
    request: &ElectLeadersRequest,
    topic: &str,
    index: i32,
) -> PartitionResult {
    let kind = if request.election_type == UNCLEAN { Election::Unclean } else { Election::Preferred };
    match controller.elect(topic, index, kind) {
        Ok(()) => row(index, ErrorCode::None, None),
        Err(error) => row(index, error.code(), Some(error.to_string())),
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
