//! Rules for topic names (Kafka's `Topic`).

/// Longest name, in characters.
pub const MAX_LEN: usize = 249;

/// Committed offsets and groups.
pub const CONSUMER_OFFSETS: &str = "__consumer_offsets";
/// Transactions.
pub const TRANSACTION_STATE: &str = "__transaction_state";
/// Share groups.
pub const SHARE_GROUP_STATE: &str = "__share_group_state";
/// Topics that belong to the brokers themselves.
const INTERNAL: [&str; 3] = [CONSUMER_OFFSETS, TRANSACTION_STATE, SHARE_GROUP_STATE];
/// The metadata log of a KRaft cluster: nobody may create a topic of this name.
pub const CLUSTER_METADATA: &str = "__cluster_metadata";

/// What is wrong with a topic's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// No characters at all.
    #[error("the empty string is not allowed")]
    Empty,
    /// `.` or `..`.
    #[error("'.' and '..' are not allowed")]
    Dots,
    /// More than [`MAX_LEN`] characters.
    #[error("the length is longer than {MAX_LEN} characters")]
    TooLong,
    /// A character outside `[a-zA-Z0-9._-]`.
    #[error("only ASCII letters, digits, '.', '_' and '-' are allowed")]
    Character,
}

/// Checks a name that a topic is to have.
///
/// # Errors
/// Says what is wrong with the name.
pub fn check(name: &str) -> Result<(), NameError> {
    match name {
        "" => Err(NameError::Empty),
        "." | ".." => Err(NameError::Dots),
        _ if name.chars().count() > MAX_LEN => Err(NameError::TooLong),
        _ if !name.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"._-".contains(&byte)) => {
            Err(NameError::Character)
        }
        _ => Ok(()),
    }
}

/// Whether the name is one of the brokers' own topics.
pub fn is_internal(name: &str) -> bool {
    INTERNAL.contains(&name)
}

/// What two names must not have in common, since metrics turn `.` into `_`; none for a name without either.
pub fn collision_key(name: &str) -> Option<String> {
    name.contains(['.', '_']).then(|| name.replace('.', "_"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_checked_as_kafka_does() {
        let longest = "a".repeat(MAX_LEN);
        for good in ["a", "a.b", "a_b", "A-9", "...", "__consumer_offsets", longest.as_str()] {
            assert_eq!(check(good), Ok(()), "{good}");
        }
        let too_long = "a".repeat(MAX_LEN + 1);
        for (bad, error) in [
            ("", NameError::Empty),
            (".", NameError::Dots),
            ("..", NameError::Dots),
            ("../x", NameError::Character),
            ("a b", NameError::Character),
            ("a\0b", NameError::Character),
            ("ä", NameError::Character),
            (too_long.as_str(), NameError::TooLong),
        ] {
            assert_eq!(check(bad), Err(error), "{bad:?}");
        }
    }

    #[test]
    fn dots_and_underscores_collide() {
        assert_eq!(collision_key("a.b_c"), collision_key("a_b.c"));
        assert_eq!(collision_key("abc"), None);
    }
}
