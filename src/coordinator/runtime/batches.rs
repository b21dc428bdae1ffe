//! Records in batches, as Kafka's coordinators write them.

use bytes::Bytes;

use super::{InTransaction, ShardState, StateRecord};
use crate::base::{ErrorCode, PartitionKey, WallTime};
use crate::coordinator::Storage;
use crate::coordinator::transactions::Producer;
use crate::log::AppendOrigin;
use crate::wire::batch::{BatchView, Codec, HEADER_LEN};
use crate::wire::compression::{CompressError, decompress};
use crate::wire::records::{BatchBuilder, BatchHeader, RecordIter};

/// Appends records as one batch. Gives the high watermark that commits them.
///
/// # Errors
/// As the coordinator answers what its log refuses.
pub(super) fn append<S: ShardState>(
    storage: &mut Storage<'_>,
    key: PartitionKey,
    records: &[S::Record],
    transaction: Option<InTransaction>,
) -> Result<i64, ErrorCode> {
    let replica = storage.replicas.replica(key).ok_or(ErrorCode::NotCoordinator)?;
    let most_bytes = replica.max_message_bytes().saturating_sub(S::BATCH_MARGIN);
    // As a Produce with acks=all.
    if !replica.has_enough_in_sync() {
        return Err(ErrorCode::CoordinatorNotAvailable);
    }
    let (header, origin) = match transaction {
        None => (S::batch_header(), AppendOrigin::Coordinator),
        Some(InTransaction { producer, guard }) => {
            (in_transaction(S::batch_header(), producer), AppendOrigin::VerifiedCoordinator(guard))
        }
    };
    let batch = batch(records, header, storage.now.wall);
    let batch = batch.map_err(|_| ErrorCode::UnknownServerError)?;
    if batch.len() > most_bytes {
        return Err(ErrorCode::UnknownServerError);
    }
    let appended = storage.replicas.append(key, storage.pool, &batch, origin, storage.now);
    match appended.ok_or(ErrorCode::NotCoordinator)? {
        Ok((appended, _)) => Ok(appended.last_offset + 1),
        Err(error) => Err(match error.code() {
            ErrorCode::RecordListTooLarge => ErrorCode::UnknownServerError,
            refused @ (ErrorCode::InvalidProducerEpoch | ErrorCode::InvalidTxnState) => refused,
            // Log memory is full: the client tries again, which is all that it can do.
            _ => ErrorCode::CoordinatorNotAvailable,
        }),
    }
}

/// The header of a batch that is part of a producer's transaction. There is no sequence to it: it stays 0.
pub(in crate::coordinator) fn in_transaction(header: BatchHeader, producer: Producer) -> BatchHeader {
    BatchHeader { is_transactional: true, producer_id: producer.id, producer_epoch: producer.epoch, ..header }
}

/// A batch as Kafka's coordinator writes it.
pub(in crate::coordinator) fn batch<R: StateRecord>(
    records: &[R],
    header: BatchHeader,
    now: WallTime,
) -> Result<Bytes, CompressError> {
    let mut builder = BatchBuilder::new(header);
    for record in records {
        let (key, value) = record.encode();
        builder.push(now.as_millis(), Some(&key), value.as_deref(), std::iter::empty());
    }
    builder.build()
}

/// The records of a stored batch that are ours.
pub(in crate::coordinator) fn read<R: StateRecord>(view: BatchView<'_>, bytes: &[u8]) -> Vec<R> {
    const LIMIT: usize = 64 << 20;
    let body = Bytes::copy_from_slice(bytes.get(HEADER_LEN..).unwrap_or_default());
    let body = match view.codec() {
        Some(Codec::None) => Some(body),
        Some(codec) => decompress(codec, &body, LIMIT).ok(),
        None => None,
    };
    let Some(body) = body else { return Vec::new() };
    let records = RecordIter::new(&body, view.count()).map_while(Result::ok);
    records.filter_map(|record| R::decode(record.key?, record.value)).collect()
}
