//! AlterReplicaLogDirs (34), versions 1–2: moves replicas between a broker's directories (KIP-113).
//!
//! There is one directory here (see DescribeLogDirs). To move a replica there changes nothing and succeeds, as in Kafka;
//! any other directory is LOG_DIR_NOT_FOUND. A topic whose name is too long for a folder that is being moved is
//! INVALID_TOPIC_EXCEPTION (KAFKA-4893).

use std::collections::BTreeMap;

use kafka_protocol::messages::alter_replica_log_dirs_response::{
    AlterReplicaLogDirPartitionResult, AlterReplicaLogDirTopicResult,
};
use kafka_protocol::messages::{AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse, ApiKey, TopicName};

use super::{Answer, Api, Context, Refusal, log_dir, names, partitions, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct AlterReplicaLogDirs;

impl Api for AlterReplicaLogDirs {
    const KEY: ApiKey = ApiKey::AlterReplicaLogDirs;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=2;
    type Wire = AlterReplicaLogDirsRequest;
    type Request = AlterReplicaLogDirsRequest;
    type Response = AlterReplicaLogDirsResponse;

    fn prepare(
        wire: AlterReplicaLogDirsRequest,
        _: &Preparation,
    ) -> Result<AlterReplicaLogDirsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: AlterReplicaLogDirsRequest,
    ) -> Answer<AlterReplicaLogDirsResponse> {
        let own = log_dir::of(&context.parts);
        let mut errors: BTreeMap<&str, BTreeMap<i32, ErrorCode>> = BTreeMap::new();
        for dir in &request.dirs {
            for topic in dir.topics.iter().filter(|topic| !topic.partitions.is_empty()) {
                let of_topic = errors.entry(topic.name.as_str()).or_default();
                for &index in &topic.partitions {
                    let outcome = match *dir.path == *own {
                        _ if is_too_long(&topic.name, index) => Err(ErrorCode::InvalidTopicException),
                        true => partitions::by_name(&context.parts, &topic.name, index).map(|_| ()),
                        false => Err(ErrorCode::LogDirNotFound),
                    };
                    of_topic.insert(index, outcome.err().unwrap_or(ErrorCode::None));
                }
            }
        }
        let results = errors.into_iter().map(|(topic, partitions)| {
            let rows = partitions.into_iter().map(|(index, error)| {
                AlterReplicaLogDirPartitionResult::default()
                    .with_partition_index(index)
                    .with_error_code(error.code())
            });
            AlterReplicaLogDirTopicResult::default()
                .with_topic_name(TopicName(names::text(topic)))
                .with_partitions(rows.collect())
        });
        Answer::Ready(AlterReplicaLogDirsResponse::default().with_results(results.collect()))
    }
}

/// Whether Kafka's folder for a replica that is being moved would have a longer name than file systems take:
/// `topic-index.` with 32 digits and `-future`.
fn is_too_long(topic: &str, index: i32) -> bool {
    const MAX_FOLDER_NAME: usize = 255;
    topic.len() + format!("-{index}.").len() + 32 + "-future".len() > MAX_FOLDER_NAME
}
