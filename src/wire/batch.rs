//! A record batch (magic 2) as a view on its bytes. Nothing here copies or re-encodes records.
//!
//! ```text
//! base offset 8 | length 4 | leader epoch 4 | magic 1 | crc 4 | attributes 2 | last offset delta 4
//! base timestamp 8 | max timestamp 8 | producer id 8 | producer epoch 2 | base sequence 4 | count 4 | records…
//! ```
//! All numbers are big-endian. `length` counts the bytes after itself. The CRC-32C covers everything from the
//! attributes on, so base offset and leader epoch can be stamped without touching it. (KIP-98; Kafka's
//! `DefaultRecordBatch`.)

/// Bytes before the records.
pub const HEADER_LEN: usize = 61;
/// Bytes of base offset and length, which `length` does not count.
pub const LOG_OVERHEAD: usize = 12;

/// The codec of a batch's records: attribute bits 0 to 2.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are the codecs' own")]
pub enum Codec {
    None = 0,
    Gzip = 1,
    Snappy = 2,
    Lz4 = 3,
    Zstd = 4,
}

impl Codec {
    /// The codec with Kafka's number for it (`CompressionType.id`); none if there is none.
    pub const fn from_id(id: u8) -> Option<Codec> {
        match id {
            0 => Some(Codec::None),
            1 => Some(Codec::Gzip),
            2 => Some(Codec::Snappy),
            3 => Some(Codec::Lz4),
            4 => Some(Codec::Zstd),
            _ => None,
        }
    }
}

/// A view on a batch's header. Any slice may be viewed with [`BatchView::new`] that has at least [`HEADER_LEN`]
/// bytes; whether what it says is true is another question.
#[derive(Clone, Copy, Debug)]
pub struct BatchView<'a> {
    header: &'a [u8; HEADER_LEN],
}

macro_rules! field {
    ($(#[$doc:meta])* $name:ident: $type:ty = $at:literal) => {
        $(#[$doc])*
        pub fn $name(&self) -> $type {
            const LEN: usize = size_of::<$type>();
            let mut bytes = [0; LEN];
            bytes.copy_from_slice(&self.header[$at..$at + LEN]);
            <$type>::from_be_bytes(bytes)
        }
    };
}

impl<'a> BatchView<'a> {
    /// A view on the batch that `bytes` start with; none if they are shorter than a header.
    pub fn new(bytes: &'a [u8]) -> Option<Self> {
        bytes.first_chunk().map(|header| BatchView { header })
    }

    field!(/// Offset of the first record.
        base_offset: i64 = 0);
    field!(/// Bytes after this field.
        length: i32 = 8);
    field!(/// Epoch of the leader that appended the batch.
        leader_epoch: i32 = 12);
    field!(/// Format version.
        magic: i8 = 16);
    field!(/// CRC-32C of all from the attributes on.
        crc: u32 = 17);
    field!(/// Codec, timestamp type, transactional, control, delete horizon.
        attributes: i16 = 21);
    field!(/// Offset of the last record, less the base offset.
        last_offset_delta: i32 = 23);
    field!(/// Timestamp that record deltas count from, ms.
        base_timestamp: i64 = 27);
    field!(/// Largest timestamp of the records, ms.
        max_timestamp: i64 = 35);
    field!(/// −1 if none.
        producer_id: i64 = 43);
    field!(/// −1 if none.
        producer_epoch: i16 = 51);
    field!(/// Sequence of the first record, −1 if none.
        base_sequence: i32 = 53);
    field!(/// Records in the batch.
        count: i32 = 57);

    /// Offset of the last record. Saturates.
    pub fn last_offset(&self) -> i64 {
        self.base_offset().saturating_add(i64::from(self.last_offset_delta()))
    }

    /// Bytes of the whole batch as its length field has it; none if the field is too small for a header.
    pub fn size(&self) -> Option<usize> {
        let size = usize::try_from(self.length()).ok()?.checked_add(LOG_OVERHEAD)?;
        (size >= HEADER_LEN).then_some(size)
    }

    /// The codec; none for the numbers that stand for no codec (5 to 7).
    pub fn codec(&self) -> Option<Codec> {
        Codec::from_id((self.attributes() & 0x07) as u8)
    }

    /// Whether all records carry the time of the append (`max_timestamp`).
    pub fn is_log_append_time(&self) -> bool {
        self.attributes() & 0x08 != 0
    }

    /// Whether the batch belongs to a transaction.
    pub fn is_transactional(&self) -> bool {
        self.attributes() & 0x10 != 0
    }

    /// Whether the batch is a control batch, such as a transaction marker.
    pub fn is_control(&self) -> bool {
        self.attributes() & 0x20 != 0
    }

    /// Until when the tombstones in the batch stay, ms, if compaction has seen them (KIP-534). It takes the place of the
    /// base timestamp: records' timestamps count from it.
    pub fn delete_horizon_ms(&self) -> Option<i64> {
        (self.attributes() & 0x40 != 0).then(|| self.base_timestamp())
    }

    /// Whether an idempotent producer wrote the batch.
    pub fn has_producer_id(&self) -> bool {
        self.producer_id() >= 0
    }
}

/// What the leader writes into a batch as it appends it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stamp {
    /// Offset of the first record.
    pub base_offset: i64,
    /// The leader's epoch.
    pub leader_epoch: i32,
    /// The append time, if the topic's timestamps are LogAppendTime: becomes the max timestamp, sets the
    /// timestamp-type bit (and, as in Kafka, clears the bits that mean nothing), and so needs the CRC again.
    pub append_time_ms: Option<i64>,
}

/// The header of the whole batch in `bytes` with `stamp` in it; none if they are shorter than a header.
pub fn stamped(bytes: &[u8], stamp: Stamp) -> Option<[u8; HEADER_LEN]> {
    let (header, records) = bytes.split_first_chunk::<HEADER_LEN>()?;
    let mut header = *header;
    header[0..8].copy_from_slice(&stamp.base_offset.to_be_bytes());
    header[12..16].copy_from_slice(&stamp.leader_epoch.to_be_bytes());
    if let Some(append_time_ms) = stamp.append_time_ms {
        header[21] = 0;
        header[22] = header[22] & 0x77 | 0x08;
        header[35..43].copy_from_slice(&append_time_ms.to_be_bytes());
        let crc = crc32c::crc32c_append(crc32c::crc32c(&header[21..]), records);
        header[17..21].copy_from_slice(&crc.to_be_bytes());
    }
    Some(header)
}
