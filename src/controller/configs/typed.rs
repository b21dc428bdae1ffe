//! From values of the tables to typed fields of settings.

use super::value::Value;
use crate::wire::batch::Codec;
use crate::wire::check::TimestampType;

/// Whether old records are dropped, compacted, both or neither: `cleanup.policy`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CleanupPolicy {
    /// Whole segments are dropped by age and size.
    pub delete: bool,
    /// The last record of each key stays; every record needs a key.
    pub compact: bool,
}

/// The codec that a topic stores batches in: `compression.type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CompressionType {
    /// Whatever the producer chose.
    Producer,
    /// This one; [`Codec::None`] for `uncompressed`.
    Fixed(Codec),
}

/// A field of settings that a value of a key can be read into. `None` where the value is not of the right type:
/// a mistake in our tables, which their test finds.
pub(super) trait FromValue: Sized {
    fn from_value(value: Option<Value>) -> Option<Self>;
}

impl FromValue for bool {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Boolean(value) => Some(value),
            _ => None,
        }
    }
}

macro_rules! integers {
    ($($type:ty),*) => {$(
        impl FromValue for $type {
            fn from_value(value: Option<Value>) -> Option<Self> {
                match value? {
                    Value::Integer(value) => <$type>::try_from(value).ok(),
                    _ => None,
                }
            }
        }

        /// A limit that may be absent: a negative value, or none.
        impl FromValue for Option<$type> {
            fn from_value(value: Option<Value>) -> Option<Self> {
                match value {
                    None => Some(None),
                    Some(Value::Integer(value)) => Some(<$type>::try_from(value).ok().filter(|_| value >= 0)),
                    Some(_) => None,
                }
            }
        }
    )*};
}
integers!(i16, i32, i64, u32, u64, usize);

impl FromValue for f64 {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::Double(value) => Some(value),
            _ => None,
        }
    }
}

impl FromValue for Option<String> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value {
            None => Some(None),
            Some(Value::Text(text)) => Some(Some(text).filter(|text| !text.is_empty())),
            Some(_) => None,
        }
    }
}

impl FromValue for Vec<String> {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match value? {
            Value::List(items) => Some(items),
            _ => None,
        }
    }
}

impl FromValue for CleanupPolicy {
    fn from_value(value: Option<Value>) -> Option<Self> {
        let policies = Vec::<String>::from_value(value)?;
        let has = |name: &str| policies.iter().any(|policy| policy == name);
        Some(CleanupPolicy { delete: has("delete"), compact: has("compact") })
    }
}

impl FromValue for TimestampType {
    fn from_value(value: Option<Value>) -> Option<Self> {
        match Option::<String>::from_value(value)??.as_str() {
            "CreateTime" => Some(TimestampType::CreateTime),
            "LogAppendTime" => Some(TimestampType::LogAppendTime),
            _ => None,
        }
    }
}

impl FromValue for CompressionType {
    fn from_value(value: Option<Value>) -> Option<Self> {
        let codec = match Option::<String>::from_value(value)??.as_str() {
            "producer" => return Some(CompressionType::Producer),
            "uncompressed" => Codec::None,
            "gzip" => Codec::Gzip,
            "snappy" => Codec::Snappy,
            "lz4" => Codec::Lz4,
            "zstd" => Codec::Zstd,
            _ => return None,
        };
        Some(CompressionType::Fixed(codec))
    }
}
