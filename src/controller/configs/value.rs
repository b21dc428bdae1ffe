//! Values: text as users write it, parsed by Kafka's rules (`ConfigDef.parseType`), and back to Kafka's text.

use std::fmt;

use super::key::{Allowed, Key, Kind};

/// A value that fits its key.
#[derive(Clone, Debug, PartialEq)]
pub enum Value {
    /// For `BOOLEAN`.
    Boolean(bool),
    /// For `INT`, `SHORT` and `LONG`, within the range of that type.
    Integer(i64),
    /// For `DOUBLE`; never NaN.
    Double(f64),
    /// For `STRING` and `CLASS`.
    Text(String),
    /// For `LIST`.
    List(Vec<String>),
    /// For `PASSWORD`: never printed.
    Password(Secret),
}

/// A text that is kept out of logs and answers.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(String);

impl Secret {
    /// The text itself.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("[hidden]")
    }
}

impl fmt::Display for Value {
    /// The text in Kafka's canonical form (`ConfigDef.convertToString`).
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Value::Boolean(value) => write!(f, "{value}"),
            Value::Integer(value) => write!(f, "{value}"),
            Value::Double(value) => f.write_str(&java_double(*value)),
            Value::Text(value) => f.write_str(value),
            Value::List(items) => f.write_str(&items.join(",")),
            Value::Password(_) => f.write_str("[hidden]"),
        }
    }
}

/// Why a configuration was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ConfigError {
    /// There is no such key for this kind of resource.
    #[error("{key} is not a configuration key of a {resource}")]
    UnknownKey {
        /// The key as it was given.
        key: String,
        /// `topic`, `broker`, …
        resource: &'static str,
    },
    /// The value is not one of the key's type, or not one that the key allows.
    #[error("{key}={value}: the value must be {allowed}")]
    InvalidValue {
        /// The key.
        key: String,
        /// The value as it was given; hidden if it is sensitive.
        value: String,
        /// What would be allowed.
        allowed: String,
    },
    /// Each value is good, but not together.
    #[error("{key}={value} does not go with {other}={other_value}: {rule}")]
    Conflict {
        /// The key.
        key: &'static str,
        /// Its effective value.
        value: String,
        /// The other key.
        other: &'static str,
        /// Its effective value.
        other_value: String,
        /// What must hold between the two.
        rule: &'static str,
    },
}

impl ConfigError {
    /// The keys that are to blame.
    pub fn keys(&self) -> Vec<&str> {
        match self {
            ConfigError::UnknownKey { key, .. } | ConfigError::InvalidValue { key, .. } => vec![key],
            ConfigError::Conflict { key, other, .. } => vec![key, other],
        }
    }
}

/// Parses and checks one value by Kafka's rules: blanks around it don't count, booleans and integers as Java reads
/// them, lists split at commas.
///
/// # Errors
/// [`ConfigError::InvalidValue`], which names key, value and what is allowed.
pub fn parse(key: &Key, text: &str) -> Result<Value, ConfigError> {
    read(key.kind, text).filter(|value| key.allowed.allows(value)).ok_or_else(|| ConfigError::InvalidValue {
        key: key.name.to_owned(),
        value: if key.is_sensitive() { "[hidden]".to_owned() } else { text.to_owned() },
        allowed: allowed_text(key),
    })
}

/// What `\s` means in Java's patterns.
const JAVA_BLANKS: [char; 6] = [' ', '\t', '\n', '\u{b}', '\u{c}', '\r'];

fn read(kind: Kind, text: &str) -> Option<Value> {
    let text = text.trim_matches(|c: char| c <= ' ');
    Some(match kind {
        Kind::Boolean if text.eq_ignore_ascii_case("true") => Value::Boolean(true),
        Kind::Boolean if text.eq_ignore_ascii_case("false") => Value::Boolean(false),
        Kind::Boolean => return None,
        Kind::Int | Kind::Short | Kind::Long => {
            let (least, most) = kind.integer_range()?;
            Value::Integer(text.parse::<i64>().ok().filter(|number| (least..=most).contains(number))?)
        }
        Kind::Double => Value::Double(read_double(text)?),
        Kind::List if text.is_empty() => Value::List(Vec::new()),
        Kind::List => {
            Value::List(text.split(',').map(|item| item.trim_matches(JAVA_BLANKS).to_owned()).collect())
        }
        Kind::String | Kind::Class => Value::Text(text.to_owned()),
        Kind::Password => Value::Password(Secret(text.to_owned())),
    })
}

/// A number as Java's `Double.parseDouble` takes it (hexadecimal notation left out); NaN, which slips through
/// Kafka's range checks, is refused.
fn read_double(text: &str) -> Option<f64> {
    match text {
        "Infinity" | "+Infinity" => return Some(f64::INFINITY),
        "-Infinity" => return Some(f64::NEG_INFINITY),
        _ => {}
    }
    let digits = text.strip_suffix(['f', 'F', 'd', 'D']).unwrap_or(text);
    digits.ends_with(|c: char| c.is_ascii_digit() || c == '.').then(|| digits.parse::<f64>().ok()).flatten()
}

/// A double in the form of Java's `Double.toString`: Kafka's answers carry it.
fn java_double(value: f64) -> String {
    if value.is_infinite() {
        return if value > 0.0 { "Infinity".to_owned() } else { "-Infinity".to_owned() };
    }
    if value == 0.0 || (1e-3..1e7).contains(&value.abs()) {
        return format!("{value:?}");
    }
    let scientific = format!("{value:E}");
    match scientific.split_once('E') {
        Some((mantissa, exponent)) if !mantissa.contains('.') => format!("{mantissa}.0E{exponent}"),
        _ => scientific,
    }
}

fn allowed_text(key: &Key) -> String {
    let range = |least: i64, most: i64| format!("a whole number between {least} and {most}");
    match (key.kind, key.allowed) {
        (Kind::Boolean, _) => "true or false".to_owned(),
        (Kind::Int | Kind::Short | Kind::Long, allowed) => {
            let (type_least, type_most) = key.kind.integer_range().unwrap_or((i64::MIN, i64::MAX));
            match allowed {
                Allowed::AtLeast(least) => range(least, type_most),
                Allowed::Between(least, most) => range(least, most),
                Allowed::Any => range(type_least, type_most),
                other => format!("a whole number, {other}"),
            }
        }
        (Kind::Double, Allowed::Any) => "a number".to_owned(),
        (Kind::Double, allowed) => format!("a number {allowed}"),
        (_, allowed) => allowed.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::super::tables::Resource;
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn an_accepted_value_means_the_same_in_its_canonical_text(
            text in prop_oneof!["\\PC{0,8}", "[0-9eEdfx+., -]{0,6}", "by_duration:[PTDHMS0-9.]{0,9}", ".{0,3}"],
            resource in prop_oneof![Just(Resource::Topic), Just(Resource::Broker), Just(Resource::Group)],
        ) {
            for key in resource.keys().filter(|key| !key.is_sensitive()) {
                if let Ok(value) = parse(key, &text) {
                    prop_assert_eq!(parse(key, &value.to_string()), Ok(value), "{}", key.name);
                }
            }
        }
    }

    #[test]
    fn doubles_are_printed_as_java_does() {
        for (value, text) in [
            (0.5, "0.5"),
            (0.0, "0.0"),
            (1.0, "1.0"),
            (100.0, "100.0"),
            (1e7, "1.0E7"),
            (f64::MAX, "1.7976931348623157E308"),
            (0.0005, "5.0E-4"),
            (0.05, "0.05"),
            (f64::INFINITY, "Infinity"),
        ] {
            assert_eq!(java_double(value), text);
        }
    }

    #[test]
    fn doubles_are_read_as_java_does() {
        for (text, value) in
            [("1", 1.0), ("+.5", 0.5), ("1e-1", 0.1), ("1.5f", 1.5), ("2D", 2.0), ("3.", 3.0)]
        {
            assert_eq!(read_double(text), Some(value), "{text}");
        }
        for text in ["", "inf", "nan", "NaN", "infinity", "1ff", "e1", "1e", "0x1", "d", "--Infinity"] {
            assert_eq!(read_double(text), None, "{text}");
        }
        assert_eq!(read_double("-Infinity"), Some(f64::NEG_INFINITY));
    }
}
