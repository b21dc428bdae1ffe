//! Broker keys that Kafka 4.1 no longer has, or never had itself, but that its configuration files carry.

/// What to make of a key that is not in the tables.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ForeignKey {
    /// It concerns something that huld doesn't have, or that works by itself: nothing is lost by skipping it.
    Harmless,
    /// Whoever set it expects something that doesn't happen; the text says what to do instead.
    Superseded(&'static str),
}

/// What is known about a broker key that the tables don't have.
pub fn foreign_key(name: &str) -> Option<ForeignKey> {
    let superseded = SUPERSEDED.iter().find(|(key, _)| *key == name);
    if let Some(&(_, instead)) = superseded {
        return Some(ForeignKey::Superseded(instead));
    }
    let is_harmless =
        HARMLESS.contains(&name) || HARMLESS_PREFIXES.iter().any(|prefix| name.starts_with(prefix));
    is_harmless.then_some(ForeignKey::Harmless)
}

/// Removed in Kafka 3.0 or 4.0, or read by plugins and wrappers rather than by the broker.
const HARMLESS: &[&str] = &[
    "allow.everyone.if.no.acl.found",
    "auto.include.jmx.reporter",
    "broker.id.generation.enable",
    "bootstrap.servers",
    "config.providers",
    "control.plane.listener.name",
    "controlled.shutdown.max.retries",
    "controlled.shutdown.retry.backoff.ms",
    "delegation.token.master.key",
    "eligible.leader.replicas.enable",
    "enable.zookeeper",
    "group.coordinator.new.enable",
    "group.share.max.groups",
    "inter.broker.protocol.version",
    "jmx.port",
    "leader.imbalance.per.broker.percentage",
    "log.message.downconversion.enable",
    "log.message.format.version",
    "offsets.commit.required.acks",
    "quota.consumer.default",
    "quota.producer.default",
    "replica.lag.max.messages",
    "reserved.broker.max.id",
    "super.users",
    "unstable.metadata.versions.enable",
];

const HARMLESS_PREFIXES: &[&str] = &[
    "config.providers.",
    "confluent.",
    "kafka.csv.metrics.",
    "metrics.context.",
    "password.encoder.",
    "rlmm.config.",
    "rsm.config.",
    "zookeeper.",
];

const SUPERSEDED: &[(&str, &str)] = &[
    ("advertised.host.name", "set advertised.listeners"),
    ("advertised.port", "set advertised.listeners"),
    ("host.name", "set listeners"),
    ("log.message.timestamp.difference.max.ms", "set log.message.timestamp.before.max.ms and .after.max.ms"),
    ("port", "set listeners"),
];

#[cfg(test)]
mod tests {
    use super::super::tables::Resource;
    use super::*;

    #[test]
    fn no_key_is_both_known_and_foreign() {
        for key in Resource::Broker.keys() {
            assert_eq!(foreign_key(key.name), None, "{}", key.name);
        }
        assert_eq!(foreign_key("zookeeper.connect"), Some(ForeignKey::Harmless));
        assert!(matches!(foreign_key("port"), Some(ForeignKey::Superseded(_))));
        assert_eq!(foreign_key("no.such.key"), None);
    }
}
