//! Look-ups by time that have come down to a few batches. What is left is to look into them, which needs no log and may
//! mean to decompress megabytes: it can be done elsewhere, while the log serves others.

use bytes::Bytes;

use super::read::TimestampOffset;
use crate::wire::batch::{BatchView, Codec};
use crate::wire::records::RecordError;
use crate::wire::walk;

/// A look-up by time, as far as batches' headers can tell.
#[derive(Clone, Debug)]
pub struct TimestampLookup {
    pub(super) wanted: Wanted,
    /// What is found already, without looking into a batch.
    pub(super) known: Option<TimestampOffset>,
    /// To be looked into in this order until one has the record.
    pub(super) batches: Vec<Bytes>,
}

/// Which record is looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wanted {
    /// The first at or above this offset that is at least so new.
    AtLeast { timestamp_ms: i64, from: i64 },
    /// The first that is the newest of its batch.
    Newest,
}

impl TimestampLookup {
    /// Nothing, or what is known without a look into a batch.
    pub(super) fn known(known: Option<TimestampOffset>) -> Self {
        TimestampLookup { wanted: Wanted::Newest, known, batches: Vec::new() }
    }

    /// Bytes of the batches that are to be looked into, compressed ones and others.
    pub fn unread_bytes(&self) -> (usize, usize) {
        self.batches.iter().fold((0, 0), |(compressed, plain), batch| {
            match BatchView::new(batch).and_then(|view| view.codec()) {
                Some(Codec::None) | None => (compressed, plain + batch.len()),
                Some(_) => (compressed + batch.len(), plain),
            }
        })
    }

    /// Looks into the batches; at most `limit` bytes of each are decompressed.
    ///
    /// # Errors
    /// If a batch can't be read, or holds more than `limit` bytes.
    pub fn finish(&self, limit: usize) -> Result<Option<TimestampOffset>, RecordError> {
        for bytes in &self.batches {
            let Some(view) = BatchView::new(bytes) else { continue };
            let found = match self.wanted {
                Wanted::AtLeast { timestamp_ms, from } => {
                    walk::first_record_at_or_after(bytes, timestamp_ms, from, limit)?
                        .map(|found| TimestampOffset::new(&view, found))
                }
                Wanted::Newest => TimestampOffset::largest_of(&view, bytes, limit)?,
            };
            if found.is_some() {
                return Ok(found);
            }
        }
        Ok(self.known)
    }
}
