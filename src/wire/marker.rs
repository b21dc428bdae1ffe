//! Transaction markers: the control batches that end a transaction in a partition (KIP-98; Kafka's
//! `EndTransactionMarker` and `ControlRecordType`).
//!
//! ```text
//! key    version 2 (0) | type 2: 0 abort, 1 commit
//! value  version 2 (0) | coordinator epoch 4
//! ```
//! A marker is a batch of one record without a sequence.

use bytes::Bytes;

use super::batch::{BatchView, HEADER_LEN};
use super::compression::CompressError;
use super::records::{BatchBuilder, BatchHeader, RecordIter};

const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// The end of a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Marker {
    /// Whether it is committed, else aborted.
    pub commit: bool,
    /// The leader epoch of the transaction's coordinator.
    pub coordinator_epoch: i32,
}

impl Marker {
    /// The batch that says so, for a producer and its epoch.
    ///
    /// # Errors
    /// Never, since nothing is compressed; the builder's type has it.
    pub fn batch(
        self,
        producer_id: i64,
        producer_epoch: i16,
        timestamp_ms: i64,
    ) -> Result<Bytes, CompressError> {
        let mut builder = BatchBuilder::new(BatchHeader {
            is_transactional: true,
            is_control: true,
            producer_id,
            producer_epoch,
            ..BatchHeader::default()
        });
        let kind = if self.commit { COMMIT } else { ABORT };
        let key = [[0; 2], kind.to_be_bytes()].concat();
        let value = [&[0; 2][..], &self.coordinator_epoch.to_be_bytes()].concat();
        builder.push(timestamp_ms, Some(&key), Some(&value), std::iter::empty());
        builder.build()
    }

    /// Reads the marker of a control batch; none if it is another kind of control batch.
    pub fn read(batch: &[u8]) -> Option<Marker> {
        let view = BatchView::new(batch).filter(BatchView::is_control)?;
        let record = RecordIter::new(batch.get(HEADER_LEN..)?, view.count()).next()?.ok()?;
        let (_version, kind) = record.key?.split_first_chunk::<2>()?;
        let commit = match i16::from_be_bytes(*kind.first_chunk()?) {
            ABORT => false,
            COMMIT => true,
            _ => return None,
        };
        let (_version, epoch) = record.value?.split_first_chunk::<2>()?;
        Some(Marker { commit, coordinator_epoch: i32::from_be_bytes(*epoch.first_chunk()?) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What Apache Kafka wrote, a batch a line: topic, partition, hexadecimal bytes.
    const FROM_KAFKA: &str = include_str!("../../fixtures/transactions/batches.txt");

    #[test]
    fn markers_are_byte_for_byte_what_kafka_writes() {
        let mut kinds = [0; 2];
        for line in FROM_KAFKA.lines() {
            let hex = line.rsplit(' ').next().unwrap();
            let theirs: Vec<u8> = (0..hex.len())
                .step_by(2)
                .map(|at| u8::from_str_radix(&hex[at..at + 2], 16).unwrap())
                .collect();
            let view = BatchView::new(&theirs).unwrap();
            let Some(marker) = Marker::read(&theirs) else {
                assert!(!view.is_control(), "{line}");
                continue;
            };
            kinds[usize::from(marker.commit)] += 1;
            let ours = marker.batch(view.producer_id(), view.producer_epoch(), view.max_timestamp());
            let mut ours = ours.unwrap().to_vec();
            // The log stamps offset and epoch when it appends.
            ours[..8].copy_from_slice(&theirs[..8]);
            ours[12..16].copy_from_slice(&theirs[12..16]);
            assert_eq!(ours, theirs, "{line}");
        }
        assert!(kinds.iter().all(|count| *count >= 3), "{kinds:?}");
    }

    #[test]
    fn what_is_no_marker_is_none() {
        let marker = Marker { commit: true, coordinator_epoch: 7 };
        let batch = marker.batch(1, 2, 3).unwrap();
        assert_eq!(Marker::read(&batch), Some(marker));
        for cut in 0..batch.len() {
            assert_eq!(Marker::read(&batch[..cut]), None, "cut at {cut}");
        }
        let mut leader_change = batch.to_vec();
        let at = leader_change.windows(4).rposition(|four| four == [0, 0, 0, 1]);
        leader_change[at.unwrap_or(0) + 3] = 2;
        assert_eq!(Marker::read(&leader_change), None, "another kind");
    }
}
