//! DescribeTopicPartitions (75), version 0: topics with their partitions, in pages (KIP-966).
//!
//! An empty list of topics means all. Topics come in the order of their names; a page ends at the limit of the request
//! or the broker (`max.request.partition.size.limit`), whichever is less, and then tells where to go on.

use std::sync::Arc;

use kafka_protocol::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponsePartition, DescribeTopicPartitionsResponseTopic,
};
use kafka_protocol::messages::{
    ApiKey, DescribeTopicPartitionsRequest, DescribeTopicPartitionsResponse, TopicName,
};

use super::seen_brokers::SeenBrokers;
use super::subjects::NamesTopic;
use super::{Answer, Api, Context, Refusal, authorized_operations, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{Partition, Topic, names as topic_names};

pub(crate) struct DescribeTopicPartitions;

impl Api for DescribeTopicPartitions {
    const KEY: ApiKey = ApiKey::DescribeTopicPartitions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = DescribeTopicPartitionsRequest;
    type Request = Request;
    type Response = DescribeTopicPartitionsResponse;
    const NAMES_TOPIC: Option<NamesTopic<Self::Request>> = Some(|request, topic, _| match request {
        // No names stand for all topics.
        Request::Page(page) => page.names.is_empty() || page.names.iter().any(|name| topic.is_named(name)),
        Request::BadCursor { asked } => asked.iter().any(|name| topic.is_named(name)),
    });

    fn prepare(wire: Self::Wire, _: &Preparation) -> Result<Request, Refusal> {
        let asked: Vec<TopicName> = wire.topics.into_iter().map(|topic| topic.name).collect();
        let mut names = asked.clone();
        names.sort();
        names.dedup();
        let page = Page { names, limit: wire.response_partition_limit, from: None };
        let Some(cursor) = wire.cursor else { return Ok(Request::Page(page)) };
        let is_asked_for = page.names.is_empty() || page.names.contains(&cursor.topic_name);
        if cursor.partition_index < 0 || !is_asked_for {
            return Ok(Request::BadCursor { asked });
        }
        Ok(Request::Page(Page { from: Some((cursor.topic_name, cursor.partition_index)), ..page }))
    }

    fn handle(context: &mut Context<'_>, request: Request) -> Answer<DescribeTopicPartitionsResponse> {
        let page = match request {
            Request::Page(page) => page,
            Request::BadCursor { asked } => return Answer::Ready(bad_cursor(asked)),
        };
        let most = context.parts.settings().network.max_request_partition_size_limit;
        let seen = SeenBrokers::over(&context.parts, context.caller.connection);
        let mut builder = PageBuilder {
            seen,
            left: usize::try_from(page.limit).unwrap_or(0).clamp(1, most.max(1)),
            response: DescribeTopicPartitionsResponse::default(),
        };
        let (first_name, first_partition) = page.from.unwrap_or_default();
        let topics = context.parts.controller.topics();
        let from = |name: &str| if name == first_name.as_str() { first_partition } else { 0 };
        if page.names.is_empty() {
            for topic in topics.from_name(&first_name) {
                if !builder.topic(topic, from(&topic.name)) {
                    break;
                }
            }
        } else {
            for name in page.names.iter().filter(|name| **name >= first_name) {
                let fits = match topics.by_name(name) {
                    Some(topic) => builder.topic(topic, from(name)),
                    None => builder.missing(name),
                };
                if !fits {
                    break;
                }
            }
        }
        Answer::Ready(builder.response)
    }
}

/// A DescribeTopicPartitions request.
#[derive(Clone, Debug)]
pub(crate) enum Request {
    Page(Page),
    /// The cursor is on no partition, or on a topic that isn't asked for.
    BadCursor {
        asked: Vec<TopicName>,
    },
}

/// There is no field for an error of the whole: every topic that was asked for has it.
fn bad_cursor(asked: Vec<TopicName>) -> DescribeTopicPartitionsResponse {
    let topics = asked.into_iter().map(|name| {
        DescribeTopicPartitionsResponseTopic::default()
            .with_name(Some(name))
            .with_error_code(ErrorCode::InvalidRequest.code())
    });
    DescribeTopicPartitionsResponse::default().with_topics(topics.collect())
}

/// What is asked for.
#[derive(Clone, Debug)]
pub(crate) struct Page {
    /// Sorted, each once; none for all.
    names: Vec<TopicName>,
    limit: i32,
    /// Where the page starts.
    from: Option<(TopicName, i32)>,
}

struct PageBuilder {
    seen: SeenBrokers,
    left: usize,
    response: DescribeTopicPartitionsResponse,
}

impl PageBuilder {
    /// Adds as much of the topic as there is room for; false once the page is full.
    fn topic(&mut self, topic: &Arc<Topic>, first: i32) -> bool {
        let first = usize::try_from(first).unwrap_or(0);
        if self.left == 0 {
            return self.go_on_at(&names::topic_name(&topic.name), 0);
        }
        let rows = topic.partitions.iter().zip(0..).skip(first).take(self.left);
        let rows: Vec<_> =
            rows.map(|(partition, index)| partition_row(&self.seen, partition, index)).collect();
        let next = first + rows.len();
        self.left -= rows.len();
        self.response.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(names::topic_name(&topic.name)))
                .with_topic_id(topic.id.into())
                .with_is_internal(topic.is_internal)
                .with_partitions(rows)
                .with_topic_authorized_operations(authorized_operations::on_topic(true)),
        );
        next >= topic.partitions.len() || self.go_on_at(&names::topic_name(&topic.name), next as i32)
    }

    fn missing(&mut self, name: &TopicName) -> bool {
        if self.left == 0 {
            return self.go_on_at(name, 0);
        }
        let error = match topic_names::check(name) {
            Ok(()) => ErrorCode::UnknownTopicOrPartition,
            Err(_) => ErrorCode::InvalidTopicException,
        };
        self.response.topics.push(
            DescribeTopicPartitionsResponseTopic::default()
                .with_name(Some(name.clone()))
                .with_is_internal(topic_names::is_internal(name))
                .with_error_code(error.code())
                .with_topic_authorized_operations(authorized_operations::on_topic(true)),
        );
        true
    }

    fn go_on_at(&mut self, name: &TopicName, index: i32) -> bool {
        let cursor = Cursor::default().with_topic_name(name.clone()).with_partition_index(index);
        self.response.next_cursor = Some(cursor);
        false
    }
}

fn partition_row(
    seen: &SeenBrokers,
    partition: &Partition,
    index: i32,
) -> DescribeTopicPartitionsResponsePartition {
    // A partition without a leader has no error here, unlike in Metadata.
    DescribeTopicPartitionsResponsePartition::default()
        .with_partition_index(index)
        .with_leader_id(names::broker_id(seen.leader(partition).ok()))
        .with_leader_epoch(partition.leader_epoch)
        .with_replica_nodes(names::broker_ids(&partition.replicas))
        .with_isr_nodes(names::broker_ids(&partition.isr))
        .with_offline_replicas(seen.offline_replicas(partition))
        // Empty rather than null: the Java client can't take null here.
        .with_eligible_leader_replicas(Some(names::broker_ids(&partition.elr)))
        .with_last_known_elr(Some(names::broker_ids(&partition.last_known_elr)))
}
