//! Puts what belongs to one topic together, as Kafka's answers do that are built from maps: topics in the order in
//! which they first come, a topic that a request names in two places once.

use std::hash::Hash;

use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

/// Groups rows by their topics.
pub(crate) fn by_topic<T: Hash + Eq, R>(
    rows: impl IntoIterator<Item = (T, R)>,
) -> impl Iterator<Item = (T, Vec<R>)> {
    let mut topics: IndexMap<T, Vec<R>, FxBuildHasher> = IndexMap::default();
    for (topic, row) in rows {
        topics.entry(topic).or_default().push(row);
    }
    topics.into_iter()
}

#[cfg(test)]
mod tests {
    use super::by_topic;

    #[test]
    fn rows_of_a_topic_come_together() {
        let grouped: Vec<_> = by_topic([("a", 1), ("b", 2), ("a", 3)]).collect();
        assert_eq!(grouped, [("a", vec![1, 3]), ("b", vec![2])]);
    }
}
