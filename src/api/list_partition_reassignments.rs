//! ListPartitionReassignments (46), version 0: the partitions that are being moved (KIP-455).
//!
//! No topics (null) means all. Of topics and partitions that are named, those that aren't moved or don't exist are left out.

use kafka_protocol::messages::list_partition_reassignments_response::{
    OngoingPartitionReassignment, OngoingTopicReassignment,
};
use kafka_protocol::messages::{
    ApiKey, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::controller::{Partition, Topic};

pub(crate) struct ListPartitionReassignments;

impl Api for ListPartitionReassignments {
    const KEY: ApiKey = ApiKey::ListPartitionReassignments;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = ListPartitionReassignmentsRequest;
    type Request = ListPartitionReassignmentsRequest;
    type Response = ListPartitionReassignmentsResponse;

    fn prepare(
        wire: ListPartitionReassignmentsRequest,
        _: &Preparation,
    ) -> Result<ListPartitionReassignmentsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: ListPartitionReassignmentsRequest,
    ) -> Answer<ListPartitionReassignmentsResponse> {
        let topics = context.parts.controller.topics();
        let rows: Vec<OngoingTopicReassignment> = match &request.topics {
            None => topics.iter().filter_map(|topic| row(topic, 0..topic.partitions.len() as i32)).collect(),
            Some(named) => {
                let known = named.iter().filter_map(|asked| Some((topics.by_name(&asked.name)?, asked)));
                known
                    .filter_map(|(topic, asked)| row(topic, asked.partition_indexes.iter().copied()))
                    .collect()
            }
        };
        Answer::Ready(
            ListPartitionReassignmentsResponse::default().with_error_message(None).with_topics(rows),
        )
    }
}

fn row(topic: &Topic, indexes: impl Iterator<Item = i32>) -> Option<OngoingTopicReassignment> {
    let partitions = indexes.filter_map(|index| Some((index, topic.partition(index)?)));
    let moved = partitions.filter(|(_, partition)| partition.is_being_reassigned());
    let rows: Vec<_> = moved.map(|(index, partition)| partition_row(index, partition)).collect();
    let topic = OngoingTopicReassignment::default().with_name(names::topic_name(&topic.name));
    (!rows.is_empty()).then(|| topic.with_partitions(rows))
}

fn partition_row(index: i32, partition: &Partition) -> OngoingPartitionReassignment {
    OngoingPartitionReassignment::default()
        .with_partition_index(index)
        .with_replicas(names::broker_ids(&partition.replicas))
        .with_adding_replicas(names::broker_ids(&partition.adding_replicas))
        .with_removing_replicas(names::broker_ids(&partition.removing_replicas))
}
