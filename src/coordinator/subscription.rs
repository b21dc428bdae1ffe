//! What consumers say under the classic protocol (Kafka's `ConsumerProtocolSubscription` and `ConsumerProtocolAssignment`),
//! in the version that each client likes. For a classic group it is read as far as possible and no matter what: any member
//! may say anything. A member that is to share a group with those of the consumer protocol must make sense.
//!
//! ```text
//! subscription  version 2 | topics [name] | user data bytes? | v1+ owned [topic | partitions [4]] | v2+ generation 4
//!               | v3+ rack string?
//! assignment    version 2 | topics [name | partitions [4]] | user data bytes?
//! ```
//! Arrays and bytes have 32-bit lengths, −1 for null, strings 16-bit ones.

use bytes::{Buf, BufMut, Bytes, BytesMut};

/// What a consumer subscribes to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Subscription {
    /// Which version the client speaks.
    pub version: i16,
    /// The topics.
    pub topics: Vec<String>,
    /// What it still has.
    pub owned: Vec<(String, Vec<i32>)>,
    /// `client.rack`; empty for none.
    pub rack_id: String,
}

/// What a consumer is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Assignment {
    /// Partitions by topic.
    pub partitions: Vec<(String, Vec<i32>)>,
    /// Whether an assignor of the client's own has left something for itself.
    pub has_user_data: bool,
}

/// The latest version that is known; what comes after it in later ones is not looked at.
const LATEST: i16 = 3;

impl Subscription {
    /// Reads a subscription; none if it isn't one.
    pub fn decode(mut metadata: &[u8]) -> Option<Self> {
        let metadata = &mut metadata;
        let version = metadata.try_get_i16().ok().filter(|version| *version >= 0)?;
        let read_as = version.min(LATEST);
        let topics = take_array(metadata, take_string)?;
        skip_bytes(metadata)?;
        let owned = if read_as >= 1 { take_array(metadata, take_topic)? } else { Vec::new() };
        if read_as >= 2 {
            metadata.try_get_i32().ok()?;
        }
        let rack_id = if read_as >= 3 { take_nullable(metadata)?.unwrap_or_default() } else { String::new() };
        Some(Subscription { version, topics, owned, rack_id })
    }
}

impl Assignment {
    /// Reads an assignment; none if it isn't one.
    pub fn decode(mut bytes: &[u8]) -> Option<Self> {
        let bytes = &mut bytes;
        bytes.try_get_i16().ok().filter(|version| *version >= 0)?;
        let partitions = take_array(bytes, take_topic)?;
        Some(Assignment { partitions, has_user_data: skip_bytes(bytes)? > 0 })
    }

    /// The assignment in a client's version.
    pub fn encode(&self, version: i16) -> Bytes {
        let mut bytes = BytesMut::new();
        bytes.put_i16(version.clamp(0, LATEST));
        bytes.put_i32(self.partitions.len() as i32);
        for (topic, partitions) in &self.partitions {
            bytes.put_u16(topic.len() as u16);
            bytes.put_slice(topic.as_bytes());
            bytes.put_i32(partitions.len() as i32);
            partitions.iter().for_each(|partition| bytes.put_i32(*partition));
        }
        bytes.put_i32(-1);
        bytes.freeze()
    }
}

/// The topics that a subscription names; none if it isn't one.
pub fn topics(mut metadata: &[u8]) -> Option<Vec<String>> {
    let metadata = &mut metadata;
    metadata.try_get_i16().ok().filter(|version| *version >= 0)?;
    take_array(metadata, take_string)
}

/// An array; one that is null counts as none that can be read.
fn take_array<T>(bytes: &mut &[u8], take: impl Fn(&mut &[u8]) -> Option<T>) -> Option<Vec<T>> {
    let count = usize::try_from(bytes.try_get_i32().ok()?).ok()?;
    // Grows with what is there, not by the count that is claimed.
    let mut items = Vec::new();
    for _ in 0..count {
        items.push(take(bytes)?);
    }
    Some(items)
}

fn take_topic(bytes: &mut &[u8]) -> Option<(String, Vec<i32>)> {
    Some((take_string(bytes)?, take_array(bytes, |bytes| bytes.try_get_i32().ok())?))
}

fn take_string(bytes: &mut &[u8]) -> Option<String> {
    take_nullable(bytes)?
}

#[expect(clippy::option_option, reason = "a null string is not a missing one")]
fn take_nullable(bytes: &mut &[u8]) -> Option<Option<String>> {
    let length = bytes.try_get_i16().ok()?;
    let Ok(length) = usize::try_from(length) else { return Some(None) };
    let (text, rest) = bytes.split_at_checked(length)?;
    *bytes = rest;
    Some(Some(std::str::from_utf8(text).ok()?.to_owned()))
}

/// Passes over bytes that may be null, and says how many there are.
fn skip_bytes(bytes: &mut &[u8]) -> Option<usize> {
    let length = usize::try_from(bytes.try_get_i32().ok()?).unwrap_or(0);
    *bytes = bytes.get(length..)?;
    Some(length)
}

#[cfg(test)]
mod tests {
    use super::{Assignment, Subscription, topics};

    #[test]
    fn topics_are_read_and_poison_is_not() {
        let good = [0, 1, 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c', 255, 255, 255, 255];
        assert_eq!(topics(&good), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert_eq!(topics(&[0, 1, 255, 255, 255, 255]), None);
        assert_eq!(topics(&[0, 1, 127, 255, 255, 255]), None);
        assert_eq!(topics(&[]), None);
    }

    #[test]
    fn subscriptions_of_all_versions_are_read() {
        let topics = [0, 0, 0, 1, 0, 1, b'a', 255, 255, 255, 255];
        let owned = [0, 0, 0, 1, 0, 1, b'a', 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 1];
        let generation = [0, 0, 0, 5];
        let rack = [0, 2, b'r', b'1'];
        let expected = |version: i16| Subscription {
            version,
            topics: vec!["a".to_owned()],
            owned: if version >= 1 { vec![("a".to_owned(), vec![0, 1])] } else { Vec::new() },
            rack_id: if version >= 3 { "r1".to_owned() } else { String::new() },
        };
        for version in 0..=4_i16 {
            let mut bytes = version.to_be_bytes().to_vec();
            bytes.extend(topics);
            let parts: [&[u8]; 3] = [&owned, &generation, &rack];
            parts.iter().take(version as usize).for_each(|part| bytes.extend(*part));
            if version == 4 {
                bytes.push(1);
            }
            assert_eq!(Subscription::decode(&bytes), Some(expected(version)), "version {version}");
            for cut in 0..bytes.len() - usize::from(version == 4) {
                assert_eq!(Subscription::decode(&bytes[..cut]), None, "version {version} cut at {cut}");
            }
        }
        assert_eq!(Subscription::decode(&[255, 255, 0, 0, 0, 0, 255, 255, 255, 255]), None, "version −1");
    }

    #[test]
    fn assignments_are_read_as_they_were_written() {
        let assignment = Assignment {
            partitions: vec![("a".to_owned(), vec![0, 3]), ("bc".to_owned(), vec![1])],
            has_user_data: false,
        };
        let bytes = assignment.encode(9);
        assert_eq!(bytes[..2], [0, 3], "the latest version that there is");
        assert_eq!(Assignment::decode(&bytes), Some(assignment));
        for cut in 0..bytes.len() {
            assert_eq!(Assignment::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        let with_data = [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 7];
        assert!(Assignment::decode(&with_data).unwrap().has_user_data);
    }
}
