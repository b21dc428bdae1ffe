//! Subscriptions to clients' metrics (KIP-714): what a client-metrics resource's configs ask of which clients
//! (`ClientMetricsConfigs`, `ClientMetricsManager`). It knows no clients, only what they say of themselves.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::Controller;
use super::configs::{ConfigError, Overrides, Value};
use crate::base::Pattern;

/// The most subscriptions that there may be (ours: each is tried on every client).
pub const MAX_CLIENT_METRICS_SUBSCRIPTIONS: usize = 1_000;

/// The most memory that one compiled pattern may take, bytes (ours).
const PATTERN_BYTES_MAX: usize = 32 << 10;

/// How often clients push that no subscription is for, and of subscriptions that don't say, ms.
const DEFAULT_INTERVAL_MS: i32 = 300_000;
/// The shortest and the longest time between two pushes of a client's metrics, ms.
const INTERVAL_MS: (i64, i64) = (100, 3_600_000);

/// Stands for all metrics.
const ALL_METRICS: &str = "*";

/// What a subscription may select clients by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Selector {
    ClientInstanceId,
    ClientId,
    SoftwareName,
    SoftwareVersion,
    SourceAddress,
    SourcePort,
}

impl Selector {
    const ALL: [(&'static str, Selector); 6] = [
        ("client_id", Selector::ClientId),
        ("client_instance_id", Selector::ClientInstanceId),
        ("client_software_name", Selector::SoftwareName),
        ("client_software_version", Selector::SoftwareVersion),
        ("client_source_address", Selector::SourceAddress),
        ("client_source_port", Selector::SourcePort),
    ];

    fn named(name: &str) -> Option<Self> {
        Self::ALL.iter().find(|(known, _)| *known == name).map(|(_, selector)| *selector)
    }

    fn of<'c>(self, client: &'c ClientAttributes<'_>) -> Option<&'c str> {
        match self {
            Selector::ClientInstanceId => Some(&client.client_instance_id),
            Selector::ClientId => Some(client.client_id),
            Selector::SoftwareName => client.software_name,
            Selector::SoftwareVersion => client.software_version,
            Selector::SourceAddress => client.source_address.as_deref(),
            Selector::SourcePort => client.source_port.as_deref(),
        }
    }
}

/// What clients are selected by. What isn't known of a client matches no pattern.
#[derive(Clone, Debug, Default)]
pub struct ClientAttributes<'a> {
    /// Its instance id as Kafka prints ids.
    pub client_instance_id: String,
    /// Its name for itself; empty if it has none.
    pub client_id: &'a str,
    /// The name of its software, as ApiVersions had it.
    pub software_name: Option<&'a str>,
    /// The version of its software, as ApiVersions had it.
    pub software_version: Option<&'a str>,
    /// Its address.
    pub source_address: Option<String>,
    /// Its port.
    pub source_port: Option<String>,
}

/// What all subscriptions for one client amount to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WantedMetrics {
    /// Prefixes of metrics' names, each once and in order; `*` alone for all metrics, none for no metrics.
    pub names: Vec<String>,
    /// How often to push, ms: the least of what the subscriptions say.
    pub interval_ms: i32,
}

/// One subscription, compiled.
#[derive(Clone, Debug)]
pub(super) struct Subscription {
    names: Vec<String>,
    interval_ms: i32,
    /// All must match.
    selectors: Vec<(Selector, Arc<Pattern>)>,
}

impl Subscription {
    /// What these configs ask for.
    ///
    /// # Errors
    /// [`SubscriptionError`], by whose fault Kafka's code differs.
    pub(super) fn parse(configs: &Overrides) -> Result<Self, SubscriptionError> {
        let value = |key: &str| configs.get(key).map(|set| &set.value);
        let interval_ms = match value("interval.ms") {
            Some(Value::Integer(number)) => interval(*number)?,
            _ => DEFAULT_INTERVAL_MS,
        };
        let items = |key: &str| match value(key) {
            Some(Value::List(items)) => items.as_slice(),
            _ => &[],
        };
        let mut selectors: Vec<(Selector, Arc<Pattern>)> = Vec::new();
        for text in items("match") {
            let (selector, pattern) = selector(text).ok_or_else(|| SubscriptionError::Match(text.clone()))?;
            // Of one that comes twice the last one counts.
            selectors.retain(|(known, _)| *known != selector);
            selectors.push((selector, Arc::new(pattern)));
        }
        Ok(Subscription { names: items("metrics").to_vec(), interval_ms, selectors })
    }

    fn is_for(&self, client: &ClientAttributes<'_>) -> bool {
        let matches = |(selector, pattern): &(Selector, Arc<Pattern>)| {
            selector.of(client).is_some_and(|attribute| pattern.matches(attribute))
        };
        self.selectors.iter().all(matches)
    }
}

fn interval(number: i64) -> Result<i32, SubscriptionError> {
    let (least, most) = INTERVAL_MS;
    let fits = i32::try_from(number).ok().filter(|_| (least..=most).contains(&number));
    fits.ok_or(SubscriptionError::Interval(number))
}

/// `selector=pattern`, with just one `=`; the pattern is for the whole of the attribute.
fn selector(text: &str) -> Option<(Selector, Pattern)> {
    let (name, pattern) = text.split_once('=').filter(|(_, pattern)| !pattern.contains('='))?;
    let pattern = pattern.trim_matches(|c: char| c <= ' ');
    if pattern.is_empty() && text.ends_with('=') {
        return None;
    }
    let pattern = Pattern::compile(pattern, PATTERN_BYTES_MAX).ok()?;
    Some((Selector::named(name.trim_matches(|c: char| c <= ' '))?, pattern))
}

/// Why configs are no subscription.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum SubscriptionError {
    Interval(i64),
    Match(String),
}

impl From<SubscriptionError> for ConfigError {
    fn from(error: SubscriptionError) -> Self {
        let (key, value, allowed) = match error {
            SubscriptionError::Interval(number) => {
                let (least, most) = INTERVAL_MS;
                ("interval.ms", number.to_string(), format!("between {least} and {most}"))
            }
            SubscriptionError::Match(text) => {
                let names: Vec<&str> = Selector::ALL.iter().map(|(name, _)| *name).collect();
                let names = names.join(", ");
                ("match", text, format!("a list of selector=regular expression; selectors are {names}"))
            }
        };
        ConfigError::InvalidValue { key: key.to_owned(), value, allowed }
    }
}

impl Controller {
    /// What all subscriptions together want of this client.
    pub fn wanted_metrics(&self, client: &ClientAttributes<'_>) -> WantedMetrics {
        let mut names = BTreeSet::new();
        let mut interval_ms = DEFAULT_INTERVAL_MS;
        for subscription in self.dynamic.subscriptions().filter(|subscription| subscription.is_for(client)) {
            names.extend(subscription.names.iter().map(String::as_str));
            interval_ms = interval_ms.min(subscription.interval_ms);
        }
        if names.contains(ALL_METRICS) {
            names = BTreeSet::from([ALL_METRICS]);
        }
        WantedMetrics { names: names.into_iter().map(str::to_owned).collect(), interval_ms }
    }
}

#[cfg(test)]
mod tests {
    use super::super::configs::Resource;
    use super::*;

    fn parse(pairs: &[(&str, &str)]) -> Result<Subscription, SubscriptionError> {
        Subscription::parse(&Overrides::parse(Resource::ClientMetrics, pairs.iter().copied()).unwrap())
    }

    #[test]
    fn a_subscription_selects_by_what_there_is() {
        assert!(parse(&[("interval.ms", "100"), ("match", "client_id=a.*,client_source_port=9")]).is_ok());
        for interval in ["99", "3600001"] {
            let error = parse(&[("interval.ms", interval)]).unwrap_err();
            assert!(matches!(error, SubscriptionError::Interval(_)), "{interval}");
        }
        for bad in
            ["client=a", "client_id", "client_id=", "client_id=a=b", "=a", "client_id=(", "client_id=)("]
        {
            assert_eq!(parse(&[("match", bad)]).unwrap_err(), SubscriptionError::Match(bad.to_owned()));
        }
        let huge = format!("client_id={}", "(?:a{50}){50}");
        assert!(parse(&[("match", &huge)]).is_err(), "a pattern has a bound");
    }

    #[test]
    fn a_pattern_is_for_the_whole_attribute_and_all_must_match() {
        let subscription =
            parse(&[("match", " client_id = a|ab , client_software_version=4\\.1.*")]).unwrap();
        let client = |client_id, software_version| ClientAttributes {
            client_id,
            software_version,
            ..ClientAttributes::default()
        };
        assert!(subscription.is_for(&client("ab", Some("4.1.0"))));
        assert!(!subscription.is_for(&client("abc", Some("4.1.0"))));
        assert!(!subscription.is_for(&client("ab", Some("3.9"))));
        assert!(!subscription.is_for(&client("ab", None)), "what isn't known matches nothing");
        assert!(parse(&[]).unwrap().is_for(&ClientAttributes::default()), "no selectors select all");
    }
}
