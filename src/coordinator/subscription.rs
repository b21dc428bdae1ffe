//! What a consumer says under a protocol (Kafka's `ConsumerProtocolSubscription`), read as far as the coordinator is
//! interested: the topics. Whatever can't be read is none of its business, for any member may say anything.
//!
//! ```text
//! version 2 | topic count 4 | topics: length 2, name… | …
//! ```

use bytes::Buf;

/// The topics that a subscription names; none if it isn't one.
pub fn topics(mut metadata: &[u8]) -> Option<Vec<String>> {
    let metadata = &mut metadata;
    if metadata.try_get_i16().ok()? < 0 {
        return None;
    }
    let count = usize::try_from(metadata.try_get_i32().ok()?).ok()?;
    let mut topics = Vec::new();
    for _ in 0..count {
        let length = usize::try_from(metadata.try_get_i16().ok()?).ok()?;
        let (name, rest) = metadata.split_at_checked(length)?;
        *metadata = rest;
        topics.push(std::str::from_utf8(name).ok()?.to_owned());
    }
    Some(topics)
}

#[cfg(test)]
mod tests {
    use super::topics;

    #[test]
    fn topics_are_read_and_poison_is_not() {
        let good = [0, 1, 0, 0, 0, 2, 0, 1, b'a', 0, 2, b'b', b'c', 255, 255, 255, 255];
        assert_eq!(topics(&good), Some(vec!["a".to_owned(), "bc".to_owned()]));
        assert_eq!(topics(&[0, 1, 255, 255, 255, 255]), None);
        assert_eq!(topics(&[0, 1, 127, 255, 255, 255]), None);
        assert_eq!(topics(&[]), None);
    }
}
