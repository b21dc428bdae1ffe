//! Batches of `__consumer_offsets` as Apache Kafka 4.1 wrote them, to be held against. Each file's `record.py` says how.

use super::records::Record;
use super::records::consumer_groups::Content;
use super::runtime::read;
use crate::wire::batch::BatchView;

/// Classic groups and offsets; a batch a line: partition, hexadecimal bytes.
const OFFSETS: &str = include_str!("../../fixtures/consumer_offsets/batches.txt");
/// Groups of the consumer protocol.
const CONSUMER_GROUPS: &str = include_str!("../../fixtures/consumer_groups/batches.txt");

/// Of transactions; a batch a line: topic, partition, hexadecimal bytes.
const TRANSACTIONS: &str = include_str!("../../fixtures/transactions/batches.txt");

/// All batches, but for those of transactions.
pub(super) fn batches() -> impl Iterator<Item = Vec<u8>> {
    OFFSETS.lines().chain(CONSUMER_GROUPS.lines()).map(bytes)
}

/// Offsets that were committed in transactions.
pub(super) fn transactional_offsets() -> impl Iterator<Item = Vec<u8>> {
    let lines = TRANSACTIONS.lines().filter(|line| line.starts_with("__consumer_offsets "));
    lines.map(bytes).filter(|batch| BatchView::new(batch).is_some_and(|view| !view.is_control()))
}

/// The batch of a line: what comes last.
fn bytes(line: &str) -> Vec<u8> {
    let hex = line.rsplit(' ').next().unwrap();
    let bytes = (0..hex.len()).step_by(2).map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap());
    bytes.collect()
}

/// All records, in the order of the log within each partition.
pub(super) fn records() -> impl Iterator<Item = Record> {
    batches().flat_map(|batch| read::<Record>(BatchView::new(&batch).unwrap(), &batch))
}

/// What the records say of a group of the consumer protocol.
pub(super) fn consumer_records(group: &str) -> Vec<Content> {
    let of_group = records().filter_map(|record| match record {
        Record::Consumer(record) if *record.group == *group => Some(record.content),
        _ => None,
    });
    of_group.collect()
}
