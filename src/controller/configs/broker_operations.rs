//! Broker keys about quotas, policies, metrics and tiered storage.

use super::key::Allowed::{Any, AtLeast, FractionBetween, NonEmpty};
use super::tables::keys;

keys! { OPERATION_KEYS;
    "alter.config.policy.class.name": Class = None, Any, Low, ReadOnly, Stored =>
        "A policy that config changes must pass.";
    "alter.log.dirs.replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Stored =>
        "How many samples the quota for moves between folders keeps.";
    "alter.log.dirs.replication.quota.window.size.seconds": Int = Some("1"),
        AtLeast(1), Low, ReadOnly, Stored =>
        "How long each of those samples is.";
    "client.quota.callback.class": Class = None, Any, Low, ReadOnly, Stored =>
        "What decides on client quotas.";
    "controller.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Stored =>
        "How many samples the quota for controller mutations keeps.";
    "controller.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Stored =>
        "How long each of those samples is.";
    "create.topic.policy.class.name": Class = None, Any, Low, ReadOnly, Stored =>
        "A policy that new topics must pass.";
    "kafka.metrics.polling.interval.secs": Int = Some("10"), AtLeast(1), Low, ReadOnly, Stored =>
        "How often the older metrics reporters are polled.";
    "kafka.metrics.reporters": List = Some(""), Any, Low, ReadOnly, Stored =>
        "The older metrics reporters.";
    "metric.reporters": List = Some("org.apache.kafka.common.metrics.JmxReporter"),
        Any, Low, ClusterWide, Stored =>
        "Classes that metrics are reported to.";
    "metrics.num.samples": Int = Some("2"), AtLeast(1), Low, ReadOnly, Stored =>
        "How many samples a metric keeps.";
    "metrics.recording.level": String = Some("INFO"), Any, Low, ReadOnly, Stored =>
        "How detailed metrics are: INFO, DEBUG or TRACE.";
    "metrics.sample.window.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Stored =>
        "How long a metric's sample is.";
    "quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Stored =>
        "How many samples client quotas keep.";
    "quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Stored =>
        "How long each of those samples is.";
    "remote.fetch.max.wait.ms": Int = Some("500"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How long a fetch waits for tiered storage.";
    "remote.list.offsets.request.timeout.ms": Long = Some("30000"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How long a look-up of offsets waits for tiered storage.";
    "remote.log.index.file.cache.total.size.bytes": Long = Some("1073741824"),
        AtLeast(1), Low, ClusterWide, Stored =>
        "How much room cached indexes of tiered segments take.";
    "remote.log.manager.copier.thread.pool.size": Int = Some("10"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How many threads copy segments to tiered storage.";
    "remote.log.manager.copy.max.bytes.per.second": Long = Some("9223372036854775807"),
        AtLeast(1), Medium, ClusterWide, Stored =>
        "How fast segments are copied to tiered storage.";
    "remote.log.manager.copy.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many samples the quota for copies keeps.";
    "remote.log.manager.copy.quota.window.size.seconds": Int = Some("1"),
        AtLeast(1), Medium, ReadOnly, Stored =>
        "How long each of those samples is.";
    "remote.log.manager.expiration.thread.pool.size": Int = Some("10"),
        AtLeast(1), Medium, ClusterWide, Stored =>
        "How many threads drop old segments from tiered storage.";
    "remote.log.manager.fetch.max.bytes.per.second": Long = Some("9223372036854775807"),
        AtLeast(1), Medium, ClusterWide, Stored =>
        "How fast segments are read from tiered storage.";
    "remote.log.manager.fetch.quota.window.num": Int = Some("11"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many samples the quota for those reads keeps.";
    "remote.log.manager.fetch.quota.window.size.seconds": Int = Some("1"),
        AtLeast(1), Medium, ReadOnly, Stored =>
        "How long each of those samples is.";
    "remote.log.manager.task.interval.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Stored =>
        "How often tiered storage is looked after.";
    "remote.log.manager.task.retry.backoff.max.ms": Long = Some("30000"),
        AtLeast(1), Low, ReadOnly, Stored, internal =>
        "The longest pause before such work is tried again.";
    "remote.log.manager.task.retry.backoff.ms": Long = Some("500"),
        AtLeast(1), Low, ReadOnly, Stored, internal =>
        "The first pause before such work is tried again.";
    "remote.log.manager.task.retry.jitter": Double = Some("0.2"),
        FractionBetween(0.0, 0.5), Low, ReadOnly, Stored, internal =>
        "The random share of those pauses.";
    "remote.log.manager.thread.pool.size": Int = Some("2"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many threads schedule work on tiered storage.";
    "remote.log.metadata.custom.metadata.max.bytes": Int = Some("128"), AtLeast(0), Low, ReadOnly, Stored =>
        "How much a storage plugin may attach to a segment's metadata.";
    "remote.log.metadata.manager.class.name": String = Some("org.apache.kafka.server.log.remote.metadata.storage.TopicBasedRemoteLogMetadataManager"),
        NonEmpty, Medium, ReadOnly, Stored =>
        "What keeps the metadata of tiered segments.";
    "remote.log.metadata.manager.class.path": String = None, Any, Medium, ReadOnly, Stored =>
        "Where that class is found.";
    "remote.log.metadata.manager.impl.prefix": String = Some("rlmm.config."),
        NonEmpty, Medium, ReadOnly, Stored =>
        "The prefix of that class's own settings.";
    "remote.log.metadata.manager.listener.name": String = None, NonEmpty, Medium, ReadOnly, Stored =>
        "The listener by which that class reaches the broker.";
    "remote.log.reader.max.pending.tasks": Int = Some("100"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many reads from tiered storage may wait.";
    "remote.log.reader.threads": Int = Some("10"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How many threads read from tiered storage.";
    "remote.log.storage.manager.class.name": String = None, NonEmpty, Medium, ReadOnly, Stored =>
        "What keeps tiered segments.";
    "remote.log.storage.manager.class.path": String = None, Any, Medium, ReadOnly, Stored =>
        "Where that class is found.";
    "remote.log.storage.manager.impl.prefix": String = Some("rsm.config."),
        NonEmpty, Medium, ReadOnly, Stored =>
        "The prefix of that class's own settings.";
    "remote.log.storage.system.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Stored =>
        "Whether tiered storage is there at all.";
    "replication.quota.window.num": Int = Some("11"), AtLeast(1), Low, ReadOnly, Stored =>
        "How many samples replication quotas keep.";
    "replication.quota.window.size.seconds": Int = Some("1"), AtLeast(1), Low, ReadOnly, Stored =>
        "How long each of those samples is.";
    "telemetry.max.bytes": Int = Some("1048576"), AtLeast(1), Low, ReadOnly, Acts =>
        "The largest push of client metrics.";
}
