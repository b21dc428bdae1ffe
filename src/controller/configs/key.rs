//! What a configuration key is: its type, what it allows, who may change it, and whether huld acts on it.

use std::fmt;

use super::value::Value;

/// One configuration key of Kafka (or of huld, then named `huld.*`), as the tables declare it.
#[derive(Debug, PartialEq)]
pub struct Key {
    /// Kafka's name, such as `retention.ms`.
    pub name: &'static str,
    /// The type of its values.
    pub kind: Kind,
    /// The default as text in Kafka's canonical form; `None` where Kafka has none or null.
    pub default: Option<&'static str>,
    /// Which values of the type are allowed.
    pub allowed: Allowed,
    /// How much it matters, in Kafka's opinion.
    pub importance: Importance,
    /// Whether, and for whom, it may be changed while the broker runs. Topic, group and client-metrics keys are
    /// [`Change::ClusterWide`].
    pub change: Change,
    /// What huld does with it.
    pub effect: Effect,
    /// Kafka hides it from DescribeConfigs (`defineInternal`).
    pub internal: bool,
    /// One line for people.
    pub documentation: &'static str,
    /// For a topic key, the broker keys that set its default, strongest first
    /// (`ServerTopicConfigSynonyms`); empty for others.
    pub broker_synonyms: &'static [Synonym],
}

impl Key {
    /// Whether the value is never shown.
    pub fn is_sensitive(&self) -> bool {
        self.kind == Kind::Password
    }

    /// Whether a running broker refuses to change it.
    pub fn is_read_only(&self) -> bool {
        self.change == Change::ReadOnly
    }
}

/// A broker key behind a topic key's default.
#[derive(Debug, PartialEq, Eq)]
pub struct Synonym {
    /// The broker key.
    pub name: &'static str,
    /// The broker key's value times this is the topic key's value: 1, or the milliseconds in a minute or an hour.
    pub factor: i64,
}

/// The type of a key's values: Kafka's `ConfigDef.Type`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kafka's own, and their meaning with them")]
pub enum Kind {
    Boolean,
    String,
    Int,
    Short,
    Long,
    Double,
    List,
    Class,
    Password,
}

impl Kind {
    /// The number in DescribeConfigs (`ConfigType`).
    pub const fn code(self) -> i8 {
        match self {
            Kind::Boolean => 1,
            Kind::String => 2,
            Kind::Int => 3,
            Kind::Short => 4,
            Kind::Long => 5,
            Kind::Double => 6,
            Kind::List => 7,
            Kind::Class => 8,
            Kind::Password => 9,
        }
    }

    /// The smallest and the largest integer of this type; `None` if it isn't an integer type.
    pub(super) const fn integer_range(self) -> Option<(i64, i64)> {
        match self {
            Kind::Int => Some((i32::MIN as i64, i32::MAX as i64)),
            Kind::Short => Some((i16::MIN as i64, i16::MAX as i64)),
            Kind::Long => Some((i64::MIN, i64::MAX)),
            _ => None,
        }
    }

    /// The type's name in Kafka's spelling.
    pub const fn name(self) -> &'static str {
        match self {
            Kind::Boolean => "BOOLEAN",
            Kind::String => "STRING",
            Kind::Int => "INT",
            Kind::Short => "SHORT",
            Kind::Long => "LONG",
            Kind::Double => "DOUBLE",
            Kind::List => "LIST",
            Kind::Class => "CLASS",
            Kind::Password => "PASSWORD",
        }
    }
}

/// How much a key matters: Kafka's `ConfigDef.Importance`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names are Kafka's own, and their meaning with them")]
pub enum Importance {
    High,
    Medium,
    Low,
}

/// Whether a broker key may be changed while the broker runs (`DynamicBrokerConfig`).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Only by a restart.
    ReadOnly,
    /// For one broker at a time.
    PerBroker,
    /// For one broker, or for all at once.
    ClusterWide,
}

/// What huld does with a key. `docs/settings.md` shows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The broker behaves as the value says.
    Acts,
    /// The value is checked, kept and shown; nothing depends on it.
    Stored,
}

/// Which values of its type a key allows. Its text (`Display`) finishes the sentence "the value must be …".
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Allowed {
    /// All.
    Any,
    /// A number of at least this.
    AtLeast(i64),
    /// A whole number between these, both included.
    Between(i64, i64),
    /// A fraction between these, both included.
    FractionBetween(f64, f64),
    /// One of these words.
    OneOf(&'static [&'static str]),
    /// One of these words, in any case.
    OneOfIgnoringCase(&'static [&'static str]),
    /// A list of these words; it may be empty.
    ListOf(&'static [&'static str]),
    /// A text that isn't empty.
    NonEmpty,
    /// A gzip level: 1 to 9, or -1 for the codec's own default.
    GzipLevel,
    /// `*`, or a list of `partition:broker`, or nothing (`ThrottledReplicaListValidator`).
    ThrottledReplicas,
    /// A list of `id@host:port` (`QuorumConfig`).
    QuorumVoters,
    /// A list of `host:port`.
    HostsAndPorts,
    /// `earliest`, `latest`, or `by_duration:` and an ISO 8601 duration (KIP-1106).
    OffsetReset,
}

impl Allowed {
    /// Whether this value is allowed. A value of another type than the rule is about is not.
    pub fn allows(&self, value: &Value) -> bool {
        match (self, value) {
            (Allowed::Any, _) => true,
            (Allowed::AtLeast(least), Value::Integer(number)) => number >= least,
            (Allowed::AtLeast(least), Value::Double(number)) => *number >= *least as f64,
            (Allowed::Between(least, most), Value::Integer(number)) => (least..=most).contains(&number),
            (Allowed::FractionBetween(least, most), Value::Double(number)) => {
                (least..=most).contains(&number)
            }
            (Allowed::OneOf(words), Value::Text(text)) => words.contains(&text.as_str()),
            (Allowed::OneOfIgnoringCase(words), Value::Text(text)) => {
                words.iter().any(|word| word.eq_ignore_ascii_case(text))
            }
            (Allowed::ListOf(words), Value::List(items)) => {
                items.iter().all(|item| words.contains(&item.as_str()))
            }
            (Allowed::NonEmpty, Value::Text(text)) => !text.is_empty(),
            (Allowed::GzipLevel, Value::Integer(level)) => *level == -1 || (1..=9).contains(level),
            (Allowed::ThrottledReplicas, Value::List(items)) => are_throttled_replicas(items),
            (Allowed::QuorumVoters, Value::List(items)) => items.iter().all(|item| is_voter(item)),
            (Allowed::HostsAndPorts, Value::List(items)) => items.iter().all(|item| is_host_and_port(item)),
            (Allowed::OffsetReset, Value::Text(text)) => is_offset_reset(text),
            _ => false,
        }
    }
}

impl fmt::Display for Allowed {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Allowed::Any => f.write_str("anything"),
            Allowed::AtLeast(least) => write!(f, "at least {least}"),
            Allowed::Between(least, most) => write!(f, "between {least} and {most}"),
            Allowed::FractionBetween(least, most) => write!(f, "between {least} and {most}"),
            Allowed::OneOf(words) => write!(f, "one of {}", words.join(", ")),
            Allowed::OneOfIgnoringCase(words) => write!(f, "one of {} (in any case)", words.join(", ")),
            Allowed::ListOf(words) => write!(f, "a list of {}", words.join(", ")),
            Allowed::NonEmpty => f.write_str("not empty"),
            Allowed::GzipLevel => f.write_str("between 1 and 9, or -1"),
            Allowed::ThrottledReplicas => f.write_str("* or a list of partition:broker"),
            Allowed::QuorumVoters => f.write_str("a list of id@host:port"),
            Allowed::HostsAndPorts => f.write_str("a list of host:port"),
            Allowed::OffsetReset => {
                f.write_str("earliest, latest or by_duration:<ISO 8601 duration that isn't negative>")
            }
        }
    }
}

fn are_throttled_replicas(items: &[String]) -> bool {
    let is_pair = |item: &String| {
        let pair = item.split_once(':');
        item.is_empty() || pair.is_some_and(|(partition, broker)| is_digits(partition) && is_digits(broker))
    };
    matches!(items, [only] if only == "*") || items.iter().all(is_pair)
}

fn is_digits(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_voter(item: &str) -> bool {
    item.split_once('@').is_some_and(|(id, address)| id.parse::<i32>().is_ok() && is_host_and_port(address))
}

fn is_host_and_port(item: &str) -> bool {
    let is_host = |host: &str| {
        !host.is_empty() && host.chars().all(|c| c.is_ascii_alphanumeric() || "-._%:[]".contains(c))
    };
    item.rsplit_once(':').is_some_and(|(host, port)| is_host(host) && port.parse::<u16>().is_ok())
}

fn is_offset_reset(text: &str) -> bool {
    match text.strip_prefix("by_duration:") {
        Some(duration) => is_iso_duration(duration),
        None => text == "earliest" || text == "latest",
    }
}

/// Whether the text is a duration such as `PT2H30M`, `P1DT0.5S`: not negative, and at least one part.
fn is_iso_duration(text: &str) -> bool {
    let text = text.to_ascii_uppercase();
    let Some(parts) = text.strip_prefix('P') else { return false };
    let (days, times) = parts.split_once('T').map_or((parts, None), |(days, times)| (days, Some(times)));
    let parts_in = |text: &str, units: &str| -> Option<usize> {
        let (mut rest, mut units, mut count) = (text, units, 0);
        while !rest.is_empty() {
            let at = rest.find(|c: char| c.is_ascii_uppercase())?;
            let (number, unit) = rest.split_at(at);
            let place = units.find(&unit[..1])?;
            let (whole, fraction) = number.split_once('.').unwrap_or((number, "0"));
            if !is_digits(whole) || !is_digits(fraction) || (number.contains('.') && !unit.starts_with('S')) {
                return None;
            }
            (rest, units, count) = (&unit[1..], &units[place + 1..], count + 1);
        }
        Some(count)
    };
    let day_parts = parts_in(days, "D");
    let time_parts = times.map_or(Some(0), |times| parts_in(times, "HMS").filter(|&count| count > 0));
    matches!((day_parts, time_parts), (Some(days), Some(times)) if days + times > 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_iso_8601() {
        for good in ["PT1S", "P1D", "PT2H30M", "P1DT0.5S", "pt1m", "PT0S"] {
            assert!(is_offset_reset(&format!("by_duration:{good}")), "{good}");
        }
        for bad in ["", "P", "PT", "P1DT", "1D", "PT1", "PT-1S", "PT1M2H", "PT1.5M", "P1S", "PTS"] {
            assert!(!is_offset_reset(&format!("by_duration:{bad}")), "{bad}");
        }
        assert!(is_offset_reset("latest") && !is_offset_reset("none"));
    }
}
