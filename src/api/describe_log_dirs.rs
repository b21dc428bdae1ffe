//! DescribeLogDirs (35), versions 1–4: how large each partition on this broker is.
//!
//! There is one directory, named as `log.dirs` (or `log.dir`) says; nothing is written to it. A partition's size is that
//! of all batches in its segments. Partitions that aren't here are left out. Versions: 3 adds the top-level error; 4 the
//! directory's total and usable bytes (KIP-827), here those of the memory for all logs.

use std::collections::BTreeSet;

use kafka_protocol::messages::describe_log_dirs_response::{
    DescribeLogDirsPartition, DescribeLogDirsResult, DescribeLogDirsTopic,
};
use kafka_protocol::messages::{ApiKey, DescribeLogDirsRequest, DescribeLogDirsResponse};

use super::{Answer, Api, Context, Refusal, log_dir, names, prepare::Preparation};
use crate::controller::Topic;
use crate::replica::Replica;

pub(crate) struct DescribeLogDirs;

impl Api for DescribeLogDirs {
    const KEY: ApiKey = ApiKey::DescribeLogDirs;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=4;
    type Wire = DescribeLogDirsRequest;
    type Request = DescribeLogDirsRequest;
    type Response = DescribeLogDirsResponse;

    fn prepare(wire: DescribeLogDirsRequest, _: &Preparation) -> Result<DescribeLogDirsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DescribeLogDirsRequest) -> Answer<DescribeLogDirsResponse> {
        let topics = context.parts.controller.topics();
        let described: Vec<DescribeLogDirsTopic> = match request.topics {
            None => topics.iter().filter_map(|topic| describe(context, topic, None)).collect(),
            Some(asked) => {
                let mut wanted: std::collections::BTreeMap<&str, BTreeSet<i32>> = Default::default();
                for topic in &asked {
                    wanted.entry(topic.topic.as_str()).or_default().extend(&topic.partitions);
                }
                let known = wanted.iter().filter_map(|(name, wanted)| Some((topics.by_name(name)?, wanted)));
                known.filter_map(|(topic, wanted)| describe(context, topic, Some(wanted))).collect()
            }
        };
        let pool = &context.parts.pool;
        let bytes = |bytes: usize| i64::try_from(bytes).unwrap_or(i64::MAX);
        let result = DescribeLogDirsResult::default()
            .with_log_dir(names::text(log_dir::of(&context.parts)))
            .with_topics(described)
            .with_total_bytes(bytes(pool.budget_bytes()))
            .with_usable_bytes(bytes(pool.budget_bytes().saturating_sub(pool.bytes_held())));
        Answer::Ready(DescribeLogDirsResponse::default().with_results(vec![result]))
    }
}

/// The partitions of a topic that are here and wanted; none if there are none.
fn describe(
    context: &Context<'_>,
    topic: &Topic,
    wanted: Option<&BTreeSet<i32>>,
) -> Option<DescribeLogDirsTopic> {
    let here = context.parts.broker.replicas.of_topic(topic.id, topic.partitions.len());
    let here = here.filter(|replica| wanted.is_none_or(|wanted| wanted.contains(&replica.key().index)));
    let partitions: Vec<DescribeLogDirsPartition> = here.map(row).collect();
    (!partitions.is_empty()).then(|| {
        DescribeLogDirsTopic::default().with_name(names::topic_name(&topic.name)).with_partitions(partitions)
    })
}

fn row(replica: &Replica) -> DescribeLogDirsPartition {
    let log = replica.log();
    DescribeLogDirsPartition::default()
        .with_partition_index(replica.key().index)
        .with_partition_size(i64::try_from(log.size_bytes()).unwrap_or(i64::MAX))
        .with_offset_lag((replica.high_watermark() - log.log_end_offset()).max(0))
}
