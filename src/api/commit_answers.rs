//! The answer to a commit of offsets, in a group's own name or a transaction's, put together as Kafka does.

use kafka_protocol::messages::TopicName;

use super::by_topic::by_topic;
use super::context::Parts;
use super::partitions;
use crate::base::ErrorCode;

/// What becomes of each partition of a commit.
#[derive(Clone, Debug, Default)]
pub(super) struct CommitAnswer {
    topics: Vec<Topic>,
}

#[derive(Clone, Debug)]
struct Topic {
    name: TopicName,
    exists: bool,
    rows: Vec<Row>,
}

#[derive(Clone, Copy, Debug)]
struct Row {
    index: i32,
    /// It isn't known, and no part of the commit.
    refused: bool,
    error: ErrorCode,
}

impl CommitAnswer {
    /// Notes a topic of the request. For each of its partitions in turn, whether it is part of the commit.
    pub(super) fn add(
        &mut self,
        parts: &Parts<'_>,
        name: &TopicName,
        partitions: impl Iterator<Item = i32>,
    ) -> Vec<bool> {
        let row = |index| {
            let error = partitions::key_by_name(parts, name, index).err().unwrap_or_default();
            Row { index, refused: error.is_error(), error }
        };
        let rows: Vec<Row> = partitions.map(row).collect();
        let are_part = rows.iter().map(|row| !row.refused).collect();
        let exists = parts.controller.topics().by_name(name).is_some();
        self.topics.push(Topic { name: name.clone(), exists, rows });
        are_part
    }

    /// Takes what the coordinator says of each partition of the commit.
    pub(super) fn take(&mut self, outcomes: Vec<ErrorCode>) {
        let mut outcomes = outcomes.into_iter();
        for row in self.rows().filter(|row| !row.refused) {
            row.error = outcomes.next().unwrap_or_default();
        }
    }

    /// All that has not failed yet fails.
    pub(super) fn fail(&mut self, error: ErrorCode) {
        for row in self.rows().filter(|row| !row.error.is_error()) {
            row.error = error;
        }
    }

    fn rows(&mut self) -> impl Iterator<Item = &mut Row> {
        self.topics.iter_mut().flat_map(|topic| &mut topic.rows)
    }

    /// The topics of the answer, each with its partitions. If any is refused, those come first, and what belongs to a topic
    /// together. A topic of which nothing is committed comes only if it doesn't exist. (Kafka's
    /// `OffsetCommitResponse.Builder`.)
    pub(super) fn topics(&self) -> Vec<(TopicName, Vec<(i32, ErrorCode)>)> {
        let of = |topic: &Topic, refused: bool| -> Vec<(i32, ErrorCode)> {
            let rows = topic.rows.iter().filter(|row| row.refused == refused);
            rows.map(|row| (row.index, row.error)).collect()
        };
        let refused = self.topics.iter().map(|topic| (topic, of(topic, true)));
        let mut answered: Vec<_> =
            refused.filter(|(topic, rows)| !topic.exists || !rows.is_empty()).collect();
        let is_plain = answered.is_empty();
        let committed = self.topics.iter().map(|topic| (topic, of(topic, false)));
        answered.extend(committed.filter(|(_, rows)| !rows.is_empty()));
        let named = answered.into_iter().map(|(topic, rows)| (topic.name.clone(), rows));
        if is_plain {
            return named.collect();
        }
        by_topic(named).map(|(name, rows)| (name, rows.concat())).collect()
    }
}
