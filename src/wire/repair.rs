//! Rewrites the few things that Kafka reads and the codec can't.
//!
//! Kafka takes every negative length for null, where the codec wants −1; it takes every presence marker from 0 on for
//! "present", where the codec wants 1; and it replaces text that isn't UTF-8, where the codec gives up. No client
//! sends such things on purpose, so this is done only after the codec failed or [`preflight`] said that it would.

use super::preflight::{self, Field};

/// The body in a form that the codec can read; none if it isn't a body of this API and version, or if a text grows
/// beyond what its length can say. Call it only for what [`preflight::check`] lets pass. The result is at most three
/// times as long.
pub fn repair(api_key: i16, version: i16, body: &[u8]) -> Option<Vec<u8>> {
    let mut copy = Copy { rest: body, out: Vec::with_capacity(body.len() + 16) };
    copy.fields(preflight::shape(api_key, version).ok()?)?;
    copy.out.extend_from_slice(copy.rest);
    Some(copy.out)
}

/// The walk along a shape: what is left of the body, and what was written.
struct Copy<'a> {
    rest: &'a [u8],
    out: Vec<u8>,
}

impl<'a> Copy<'a> {
    fn fields(&mut self, fields: &[Field]) -> Option<()> {
        fields.iter().try_for_each(|field| self.field(*field))
    }

    fn field(&mut self, field: Field) -> Option<()> {
        match field {
            Field::Fixed(len) => self.copy(len)?,
            Field::String | Field::NullableString => self.string()?,
            Field::CompactString | Field::CompactNullableString => self.compact_string()?,
            Field::Bytes | Field::NullableBytes => {
                let len = self.count()?;
                self.copy(len.unwrap_or(0))?;
            }
            Field::CompactBytes | Field::CompactNullableBytes => {
                let len = self.varint()?.saturating_sub(1);
                self.copy(len as usize)?;
            }
            Field::Array(element) | Field::NullableArray(element) => {
                let count = self.count()?;
                (0..count.unwrap_or(0)).try_for_each(|_| self.fields(element.fields))?;
            }
            Field::CompactArray(element) | Field::CompactNullableArray(element) => {
                let count = self.varint()?.saturating_sub(1);
                (0..count).try_for_each(|_| self.fields(element.fields))?;
            }
            Field::NullableStruct(fields) => {
                let [marker] = self.take()?;
                let present = marker.cast_signed() >= 0;
                self.out.push(if present { 1 } else { 0xff });
                if present {
                    self.fields(fields)?;
                }
            }
            Field::Tags(known) => self.tags(known)?,
        }
        Some(())
    }

    /// The size before a known field stays as it is, though the field may change: nobody obeys it.
    fn tags(&mut self, known: &[(u32, &[Field])]) -> Option<()> {
        for _ in 0..self.varint()? {
            let tag = self.varint()?;
            let size = self.varint()?;
            match known.iter().find(|(number, _)| *number == tag) {
                Some((_, fields)) => self.fields(fields)?,
                None => self.copy(size as usize)?,
            }
        }
        Some(())
    }

    fn string(&mut self) -> Option<()> {
        let Ok(len) = usize::try_from(i16::from_be_bytes(self.take()?)) else {
            self.out.extend((-1i16).to_be_bytes());
            return Some(());
        };
        let text = String::from_utf8_lossy(self.rest.split_off(..len)?);
        self.out.extend(i16::try_from(text.len()).ok()?.to_be_bytes());
        self.out.extend(text.as_bytes());
        Some(())
    }

    fn compact_string(&mut self) -> Option<()> {
        let Some(len) = self.read_varint()?.checked_sub(1) else {
            self.out.push(0);
            return Some(());
        };
        let text = String::from_utf8_lossy(self.rest.split_off(..len as usize)?);
        self.write_varint(u32::try_from(text.len()).ok()?.checked_add(1)?);
        self.out.extend(text.as_bytes());
        Some(())
    }

    /// Copies a 32-bit count; none for null.
    fn count(&mut self) -> Option<Option<usize>> {
        let count = i32::from_be_bytes(self.take()?).max(-1);
        self.out.extend(count.to_be_bytes());
        Some(usize::try_from(count).ok())
    }

    fn varint(&mut self) -> Option<u32> {
        let value = self.read_varint()?;
        self.write_varint(value);
        Some(value)
    }

    fn read_varint(&mut self) -> Option<u32> {
        let mut value = 0;
        for at in 0..5 {
            let [byte] = self.take()?;
            value |= u32::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                return Some(value);
            }
        }
        None
    }

    fn write_varint(&mut self, mut value: u32) {
        while value >= 0x80 {
            self.out.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.out.push(value as u8);
    }

    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.rest.split_off(..N)?.try_into().ok()
    }

    fn copy(&mut self, len: usize) -> Option<()> {
        self.out.extend_from_slice(self.rest.split_off(..len)?);
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_kafka_reads_becomes_what_the_codec_reads() {
        let metadata = |version, body: &[u8]| repair(3, version, body).unwrap();
        assert_eq!(metadata(1, &[0xff, 0xff, 0xff, 0xfe]), [0xff; 4]);
        assert_eq!(metadata(1, b"\0\0\0\x01\0\x02\xff\xfe"), "\0\0\0\u{1}\0\u{6}\u{fffd}\u{fffd}".as_bytes());
        // DescribeTopicPartitions with a cursor whose marker is 2.
        let body = b"\x01\0\0\0\x0a\x02\x02t\0\0\0\0\0\0";
        assert_eq!(repair(75, 0, body).unwrap(), b"\x01\0\0\0\x0a\x01\x02t\0\0\0\0\0\0");
    }

    #[test]
    fn regular_bodies_stay_as_they_are() {
        let body = b"\x02\x03ab\0\x01\0\x01\x01\x09\x03xyz and what follows";
        assert_eq!(repair(3, 9, body).unwrap(), body);
    }

    #[test]
    fn text_that_grows_too_long() {
        let len = 20_000u16;
        let mut body = vec![0, 0, 0, 1];
        body.extend(len.to_be_bytes());
        body.extend(std::iter::repeat_n(0xff, len.into()));
        assert_eq!(repair(3, 1, &body), None);
    }
}
