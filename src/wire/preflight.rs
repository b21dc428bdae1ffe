//! A look at a request before the codec sees it: are its counts and lengths possible, and how much memory will it take?
//!
//! The codec trusts the peer: an array's count becomes the capacity of a `Vec` before the first element is read, so
//! that four bytes can ask for 154 GB and abort the process. [`check`] walks the message's shape first, with no
//! allocation, and refuses what the remaining bytes can't hold and what would grow beyond all proportion. What passes
//! may be given to the codec: it decodes, or gives an error, within [`memory_limit`].
//!
//! The walk reads lengths, varints and tags exactly as the codec does, for else the two could disagree about where a
//! field is. Where the codec is narrower than Kafka the walk follows Kafka and says so in the [`Allowance`]. As in
//! Kafka's generated readers, the size of a known tagged field is not obeyed; one beyond the end is refused though.
//!
//! Shapes are data (`shapes.rs`, made by `tools/shapes`); this module must not know any request.

use std::collections::BTreeMap;
use std::fmt::{self, Display};

use bytes::Bytes;

use super::shapes;

/// What a decoded request may take beside [`MEMORY_FACTOR`] times its own size, in bytes.
pub const MEMORY_ALLOWANCE_BYTES: usize = 1 << 20;
/// How many times its own size a decoded request may take. 10,000 short topic names in a Metadata request need 9.
pub const MEMORY_FACTOR: usize = 16;

/// The longest string that there is, bytes.
pub const LONGEST_STRING: u32 = i16::MAX as u32;

/// The most memory that a request of this size may take once decoded, in bytes.
pub const fn memory_limit(body_len: usize) -> usize {
    body_len.saturating_mul(MEMORY_FACTOR).saturating_add(MEMORY_ALLOWANCE_BYTES)
}

/// A request that may be decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Allowance {
    /// Bytes that decoding allocates, at most. Strings and records are slices of the frame and not counted.
    pub decoded_bytes: usize,
    /// Bytes after the request's last field. Kafka ignores them.
    pub trailing_bytes: usize,
    /// A length below −1, or a presence marker other than −1 and 1, is in it: Kafka takes them for null, null and
    /// present; the codec must be given a body from [`repair`](super::repair).
    pub irregular: bool,
}

/// Why a request must not be decoded. Kafka closes the connection for each of these.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PreflightError {
    /// Where in the body.
    pub offset: usize,
    /// What is wrong there.
    pub reason: Reason,
}

/// What is wrong with a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Reason {
    /// Not an API key of Kafka's, or one that the codec has no message for.
    #[error("API key {0} is not known")]
    UnknownApiKey(i16),
    /// A version of the API that there is no shape for.
    #[error("version {version} of API key {api_key} is not known")]
    #[expect(missing_docs, reason = "the names say it")]
    UnknownVersion { api_key: i16, version: i16 },
    /// The body ends inside a field of fixed size, a length or a varint.
    #[error("the request ends where {0} more bytes belong")]
    Truncated(usize),
    /// The length of a string, bytes or a tagged field goes beyond the end.
    #[error("a length of {length} where {remaining} bytes remain")]
    #[expect(missing_docs, reason = "the names say it")]
    LengthBeyondEnd { length: u32, remaining: usize },
    /// An array, or the tagged fields, can't have as many elements in the bytes that remain.
    #[error("a count of {count} where {remaining} bytes remain")]
    #[expect(missing_docs, reason = "the names say it")]
    CountBeyondEnd { count: u32, remaining: usize },
    /// A string that is longer than Kafka takes: in a compact form it could be, in the older one never.
    #[error("a string of {length} bytes, more than {LONGEST_STRING}")]
    #[expect(missing_docs, reason = "the names say it")]
    LongString { length: u32 },
    /// Null in a field that can't be null.
    #[error("null in a field that can't be null")]
    UnexpectedNull,
    /// A varint of more than five bytes.
    #[error("a varint of more than five bytes")]
    LongVarint,
    /// Decoding would take more than [`memory_limit`].
    #[error(
        "{decoded_bytes} bytes once decoded, more than the {limit_bytes} that a request of its size may take"
    )]
    #[expect(missing_docs, reason = "the names say it")]
    TooMuchMemory { decoded_bytes: usize, limit_bytes: usize },
}

impl Display for PreflightError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} (at byte {} of the body)", self.reason, self.offset)
    }
}

impl std::error::Error for PreflightError {}

/// May this body be decoded as a request of this API and version?
pub fn check(api_key: i16, version: i16, body: &[u8]) -> Result<Allowance, PreflightError> {
    let shape = shape(api_key, version).map_err(|reason| PreflightError { offset: 0, reason })?;
    let mut walk =
        Walk { rest: body, decoded_bytes: 0, limit_bytes: memory_limit(body.len()), irregular: false };
    match walk.fields(shape) {
        Ok(()) => Ok(Allowance {
            decoded_bytes: walk.decoded_bytes,
            trailing_bytes: walk.rest.len(),
            irregular: walk.irregular,
        }),
        Err(reason) => Err(PreflightError { offset: body.len() - walk.rest.len(), reason }),
    }
}

/// The fields of a request at a version.
pub fn shape(api_key: i16, version: i16) -> Result<&'static [Field], Reason> {
    let shapes = request(api_key).ok_or(Reason::UnknownApiKey(api_key))?;
    usize::try_from(i32::from(version) - i32::from(shapes.first_version))
        .ok()
        .and_then(|at| shapes.by_version.get(at).copied())
        .ok_or(Reason::UnknownVersion { api_key, version })
}

/// The shapes of all versions of a request; none for an unknown key.
pub fn request(api_key: i16) -> Option<&'static Shapes> {
    usize::try_from(api_key).ok().and_then(|key| *shapes::REQUESTS.get(key)?)
}

/// All versions of one request.
#[derive(Debug)]
pub struct Shapes {
    /// The version that `by_version` starts with.
    pub first_version: i16,
    /// The first version with tagged fields and compact lengths (KIP-482); `i16::MAX` if there is none.
    pub first_flexible_version: i16,
    /// The fields at each version.
    pub by_version: &'static [&'static [Field]],
}

/// One field, or a run of them, as it lies on the wire. `Compact` means that the length is an unsigned varint, one
/// more than the length itself, with 0 for null (KIP-482).
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Field {
    /// So many bytes, whatever they hold.
    Fixed(usize),
    /// 16-bit length.
    String,
    /// 16-bit length, −1 for null.
    NullableString,
    /// Varint length.
    CompactString,
    /// Varint length or null.
    CompactNullableString,
    /// 32-bit length. Records too.
    Bytes,
    /// 32-bit length, −1 for null.
    NullableBytes,
    /// Varint length.
    CompactBytes,
    /// Varint length or null.
    CompactNullableBytes,
    /// 32-bit count.
    Array(&'static Element),
    /// 32-bit count, −1 for null.
    NullableArray(&'static Element),
    /// Varint count.
    CompactArray(&'static Element),
    /// Varint count or null.
    CompactNullableArray(&'static Element),
    /// A byte: −1 for null, 1 if the fields follow.
    NullableStruct(&'static [Field]),
    /// Tagged fields: those that are known at this version, by tag. Others are kept by the codec as bytes.
    Tags(&'static [(u32, &'static [Field])]),
}

/// What an array consists of.
#[derive(Debug, PartialEq)]
pub struct Element {
    /// The fewest bytes that an element takes on the wire; at least 1.
    pub least_bytes: usize,
    /// What an element takes in the codec's `Vec`.
    pub decoded_bytes: usize,
    /// The element's fields.
    pub fields: &'static [Field],
}

impl Element {
    /// An element that the codec decodes to a `T`.
    pub(super) const fn new<T>(least_bytes: usize, fields: &'static [Field]) -> Self {
        Self { least_bytes, decoded_bytes: size_of::<T>(), fields }
    }
}

/// Most entries in a node of a `BTreeMap`, and fewest in one that is not the root.
const NODE_CAPACITY: usize = 11;
const NODE_LEAST: usize = 5;
/// An inner node of the map that unknown tagged fields are decoded to: keys, values, and links to parent and children.
const NODE_BYTES: usize =
    NODE_CAPACITY * (size_of::<i32>() + size_of::<Bytes>()) + (NODE_CAPACITY + 3) * size_of::<usize>();
const _: () = assert!(size_of::<BTreeMap<i32, Bytes>>() == 3 * size_of::<usize>());

/// The bytes at most that a map of unknown tagged fields allocates.
fn tagged_fields_bytes(unknown: usize) -> usize {
    match unknown {
        0 => 0,
        1..=NODE_CAPACITY => NODE_BYTES,
        // Leaves at least half full, and inner nodes above them: fewer than a quarter of the leaves in all.
        _ => NODE_BYTES.saturating_mul(unknown / NODE_LEAST + unknown / (NODE_LEAST * 4) + 2),
    }
}

/// The walk along a shape: what is left of the body, and what decoding has come to.
struct Walk<'a> {
    rest: &'a [u8],
    decoded_bytes: usize,
    limit_bytes: usize,
    irregular: bool,
}

impl Walk<'_> {
    fn fields(&mut self, fields: &'static [Field]) -> Result<(), Reason> {
        for field in fields {
            match *field {
                Field::Fixed(len) => self.skip(len)?,
                Field::String => self.string()?.ok_or(Reason::UnexpectedNull)?,
                Field::NullableString => _ = self.string()?,
                Field::CompactString => self.compact_string()?.ok_or(Reason::UnexpectedNull)?,
                Field::CompactBytes => {
                    self.compact_bytes()?.ok_or(Reason::UnexpectedNull)?;
                }
                Field::CompactNullableString => _ = self.compact_string()?,
                Field::CompactNullableBytes => _ = self.compact_bytes()?,
                Field::Bytes => self.bytes()?.ok_or(Reason::UnexpectedNull)?,
                Field::NullableBytes => _ = self.bytes()?,
                Field::Array(element) => {
                    let count = self.count()?.ok_or(Reason::UnexpectedNull)?;
                    self.elements(count, element)?;
                }
                Field::NullableArray(element) => {
                    if let Some(count) = self.count()? {
                        self.elements(count, element)?;
                    }
                }
                Field::CompactArray(element) => {
                    let count = self.varint()?.checked_sub(1).ok_or(Reason::UnexpectedNull)?;
                    self.elements(count, element)?;
                }
                Field::CompactNullableArray(element) => {
                    if let Some(count) = self.varint()?.checked_sub(1) {
                        self.elements(count, element)?;
                    }
                }
                Field::NullableStruct(fields) => {
                    let marker = i8::from_be_bytes(self.take()?);
                    self.irregular |= marker != -1 && marker != 1;
                    if marker >= 0 {
                        self.fields(fields)?;
                    }
                }
                Field::Tags(known) => self.tags(known)?,
            }
        }
        Ok(())
    }

    fn elements(&mut self, count: u32, element: &'static Element) -> Result<(), Reason> {
        let remaining = self.rest.len();
        let elements = count as usize;
        if elements > remaining / element.least_bytes {
            return Err(Reason::CountBeyondEnd { count, remaining });
        }
        self.charge(elements.saturating_mul(element.decoded_bytes))?;
        match *element.fields {
            // The product is at most what remains: it was just divided.
            [Field::Fixed(len)] => self.skip(elements * len),
            _ => (0..count).try_for_each(|_| self.fields(element.fields)),
        }
    }

    #[inline]
    fn tags(&mut self, known: &'static [(u32, &'static [Field])]) -> Result<(), Reason> {
        match self.rest.split_first() {
            Some((0, rest)) => {
                self.rest = rest;
                Ok(())
            }
            _ => self.some_tags(known),
        }
    }

    #[cold]
    fn some_tags(&mut self, known: &'static [(u32, &'static [Field])]) -> Result<(), Reason> {
        let count = self.varint()?;
        let remaining = self.rest.len();
        // A tagged field takes two bytes at least: its tag and its size.
        if count as usize > remaining / 2 {
            return Err(Reason::CountBeyondEnd { count, remaining });
        }
        let mut unknown = 0;
        for _ in 0..count {
            let tag = self.varint()?;
            let length = self.varint()?;
            if length as usize > self.rest.len() {
                return Err(Reason::LengthBeyondEnd { length, remaining: self.rest.len() });
            }
            match known.iter().find(|(number, _)| *number == tag) {
                Some((_, fields)) => self.fields(fields)?,
                None => {
                    unknown += 1;
                    self.skip(length as usize)?;
                }
            }
        }
        self.charge(tagged_fields_bytes(unknown))
    }

    /// A 16-bit length and as many bytes; none for null.
    #[inline]
    fn string(&mut self) -> Result<Option<()>, Reason> {
        let length = i16::from_be_bytes(self.take()?);
        self.length_or_null(length.into()).map(|length| self.skip_length(length)).transpose()
    }

    /// A 32-bit length and as many bytes; none for null.
    #[inline]
    fn bytes(&mut self) -> Result<Option<()>, Reason> {
        self.count()?.map(|length| self.skip_length(length)).transpose()
    }

    /// As [`compact_bytes`](Self::compact_bytes), but no longer than any string is: what is kept of it may be written with a
    /// 16-bit length.
    #[inline]
    fn compact_string(&mut self) -> Result<Option<()>, Reason> {
        let Some(length) = self.varint()?.checked_sub(1) else { return Ok(None) };
        self.skip_length(length)?;
        if length > LONGEST_STRING { Err(Reason::LongString { length }) } else { Ok(Some(())) }
    }

    /// A varint of the length and one, and as many bytes; none for null.
    #[inline]
    fn compact_bytes(&mut self) -> Result<Option<()>, Reason> {
        self.varint()?.checked_sub(1).map(|length| self.skip_length(length)).transpose()
    }

    /// A 32-bit count; none for null.
    #[inline]
    fn count(&mut self) -> Result<Option<u32>, Reason> {
        let count = i32::from_be_bytes(self.take()?);
        Ok(self.length_or_null(count))
    }

    /// Every negative length is null to Kafka, but the codec knows −1 alone.
    #[inline]
    fn length_or_null(&mut self, length: i32) -> Option<u32> {
        self.irregular |= length < -1;
        u32::try_from(length).ok()
    }

    #[inline]
    fn varint(&mut self) -> Result<u32, Reason> {
        match self.rest.split_first() {
            Some((&byte, rest)) if byte < 0x80 => {
                self.rest = rest;
                Ok(byte.into())
            }
            _ => self.long_varint(),
        }
    }

    /// Like Kafka's and the codec's readers, this drops the bits beyond the 32nd in the fifth byte.
    fn long_varint(&mut self) -> Result<u32, Reason> {
        let mut value = 0;
        for (at, &byte) in self.rest.iter().take(5).enumerate() {
            value |= u32::from(byte & 0x7f) << (7 * at);
            if byte < 0x80 {
                self.skip(at + 1)?;
                return Ok(value);
            }
        }
        Err(if self.rest.len() < 5 { Reason::Truncated(1) } else { Reason::LongVarint })
    }

    #[inline]
    fn take<const N: usize>(&mut self) -> Result<[u8; N], Reason> {
        let (taken, rest) =
            self.rest.split_first_chunk().ok_or_else(|| Reason::Truncated(N - self.rest.len()))?;
        self.rest = rest;
        Ok(*taken)
    }

    #[inline]
    fn skip(&mut self, len: usize) -> Result<(), Reason> {
        self.rest = self.rest.get(len..).ok_or_else(|| Reason::Truncated(len - self.rest.len()))?;
        Ok(())
    }

    #[inline]
    fn skip_length(&mut self, length: u32) -> Result<(), Reason> {
        let remaining = self.rest.len();
        self.rest = self.rest.get(length as usize..).ok_or(Reason::LengthBeyondEnd { length, remaining })?;
        Ok(())
    }

    fn charge(&mut self, decoded_bytes: usize) -> Result<(), Reason> {
        self.decoded_bytes = self.decoded_bytes.saturating_add(decoded_bytes);
        if self.decoded_bytes > self.limit_bytes {
            let (decoded_bytes, limit_bytes) = (self.decoded_bytes, self.limit_bytes);
            return Err(Reason::TooMuchMemory { decoded_bytes, limit_bytes });
        }
        Ok(())
    }
}

// Against the codec, under a counting allocator and with recorded requests: tests/preflight.rs, tests/allocation.rs.
#[cfg(test)]
mod tests {
    use super::*;

    const METADATA: i16 = 3;

    fn reason(version: i16, body: &[u8]) -> Reason {
        check(METADATA, version, body).unwrap_err().reason
    }

    #[test]
    fn unknown_keys_and_versions() {
        let refused = |api_key, version| check(api_key, version, &[]).unwrap_err().reason;
        for api_key in [-1, 4, 93, i16::MIN, i16::MAX] {
            assert_eq!(refused(api_key, 0), Reason::UnknownApiKey(api_key));
        }
        for (api_key, version) in [(0, 2), (0, 14), (3, -1), (3, 14), (3, i16::MIN), (3, i16::MAX)] {
            assert_eq!(refused(api_key, version), Reason::UnknownVersion { api_key, version });
        }
    }

    #[test]
    fn an_error_says_where() {
        let error = check(METADATA, 4, b"\0\0\0\x02\0\x01a\0\x05b").unwrap_err();
        assert_eq!(error.offset, 9);
        assert_eq!(error.reason, Reason::LengthBeyondEnd { length: 5, remaining: 1 });
        assert_eq!(error.to_string(), "a length of 5 where 1 bytes remain (at byte 9 of the body)");
    }

    #[test]
    fn a_string_is_no_longer_in_a_compact_form() {
        // One topic by its name, whose length is a varint of three bytes.
        let body = |length: usize| {
            let varint =
                [(length + 1) as u8 | 0x80, ((length + 1) >> 7) as u8 | 0x80, ((length + 1) >> 14) as u8];
            [b"\x02", &varint[..], &vec![b'x'; length], b"\0\0\0\0\0"].concat()
        };
        let longest = LONGEST_STRING as usize;
        assert!(check(METADATA, 9, &body(longest)).is_ok());
        assert_eq!(reason(9, &body(longest + 1)), Reason::LongString { length: LONGEST_STRING + 1 });
    }

    #[test]
    fn counts_must_fit_the_elements_that_remain() {
        // A topic takes two bytes at least.
        assert!(check(METADATA, 1, b"\0\0\0\x02\0\0\0\0").is_ok());
        assert_eq!(reason(1, b"\0\0\0\x03\0\0\0\0"), Reason::CountBeyondEnd { count: 3, remaining: 4 });
        assert_eq!(reason(1, b"\0\0\0"), Reason::Truncated(1));
    }

    #[test]
    fn varints_of_five_bytes_at_most() {
        assert_eq!(
            reason(9, b"\xff\xff\xff\xff\x0f"),
            Reason::CountBeyondEnd { count: u32::MAX - 1, remaining: 0 }
        );
        assert_eq!(reason(9, b"\x80\x80\x80\x80\x80\x00"), Reason::LongVarint);
        assert_eq!(reason(9, b"\x80\x80"), Reason::Truncated(1));
        // More bytes than needed are no error, to Kafka neither.
        assert!(check(METADATA, 9, b"\x81\x80\x00\0\0\0\0").is_ok());
    }

    #[test]
    fn unknown_tagged_fields_cost_memory() {
        let body = |tags: &[u8]| [b"\x01\0\0\0", tags].concat();
        let decoded_bytes = |tags: &[u8]| check(METADATA, 9, &body(tags)).unwrap().decoded_bytes;
        assert_eq!(decoded_bytes(b"\0"), 0);
        assert_eq!(decoded_bytes(b"\x01\x05\x01x"), NODE_BYTES);
        assert_eq!(decoded_bytes(b"\x02\x05\x01x\x06\0"), NODE_BYTES);
        let refused = |tags| check(METADATA, 9, &body(tags)).unwrap_err().reason;
        assert_eq!(refused(b"\x02\x05\0\x06"), Reason::CountBeyondEnd { count: 2, remaining: 3 });
        assert_eq!(refused(b"\x01\x05\x02x"), Reason::LengthBeyondEnd { length: 2, remaining: 1 });
    }

    #[test]
    fn what_grows_beyond_proportion_is_refused() {
        // An empty name and a tagged field: five bytes, for which the codec allocates a node of a map.
        let topic = b"\x01\x01\x05\x01x";
        let body = |count: u16| {
            let count_bytes = [(count + 1) as u8 | 0x80, ((count + 1) >> 7) as u8];
            [&count_bytes[..], &topic.repeat(count.into()), &[0; 4]].concat()
        };
        assert!(check(METADATA, 9, &body(2000)).is_ok());
        let limit_bytes = memory_limit(body(3000).len());
        match reason(9, &body(3000)) {
            Reason::TooMuchMemory { decoded_bytes, limit_bytes: limit } => {
                assert!(limit == limit_bytes && decoded_bytes > limit_bytes);
            }
            other => panic!("{other:?}"),
        }
    }
}
