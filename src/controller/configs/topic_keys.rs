//! The configuration keys of a topic (`LogConfig`).

use super::key::Allowed::{
    Any, AtLeast, Between, FractionBetween, GzipLevel, ListOf, OneOf, ThrottledReplicas,
};
use super::tables::{CLEANUP_POLICIES, COMPRESSION_TYPES, HOUR_MS, MINUTE_MS, TIMESTAMP_TYPES, keys};

keys! { TOPIC_KEYS;
    "cleanup.policy": List = Some("delete"), ListOf(CLEANUP_POLICIES), Medium, ClusterWide, Acts =>
        "What happens to old records: `delete` drops whole segments by age and size, `compact` keeps the \
         last record of each key; both may be given, and an empty list keeps everything.",
        from [("log.cleanup.policy", 1)];
    "compression.gzip.level": Int = Some("-1"), GzipLevel, Medium, ClusterWide, Stored =>
        "The gzip level when the broker compresses.",
        from [("compression.gzip.level", 1)];
    "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Stored =>
        "The LZ4 level when the broker compresses.",
        from [("compression.lz4.level", 1)];
    "compression.type": String = Some("producer"), OneOf(COMPRESSION_TYPES), Medium, ClusterWide, Acts =>
        "The codec in which batches are stored; `producer` keeps what the producer chose.",
        from [("compression.type", 1)];
    "compression.zstd.level": Int = Some("3"), Between(-131072, 22), Medium, ClusterWide, Stored =>
        "The Zstandard level when the broker compresses.",
        from [("compression.zstd.level", 1)];
    "delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Acts =>
        "How long a compacted topic keeps delete markers, and transaction markers without their data.",
        from [("log.cleaner.delete.retention.ms", 1)];
    "file.delete.delay.ms": Long = Some("60000"), AtLeast(0), Medium, ClusterWide, Stored =>
        "How long a dropped segment file stays on disk.",
        from [("log.segment.delete.delay.ms", 1)];
    "flush.messages": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Stored =>
        "After how many records the log is forced to disk.",
        from [("log.flush.interval.messages", 1)];
    "flush.ms": Long = Some("9223372036854775807"), AtLeast(0), Medium, ClusterWide, Stored =>
        "After how many milliseconds the log is forced to disk.",
        from [("log.flush.interval.ms", 1), ("log.flush.scheduler.interval.ms", 1)];
    "follower.replication.throttled.replicas": List = Some(""),
        ThrottledReplicas, Medium, ClusterWide, Stored =>
        "Replicas whose fetching is throttled on the follower's side, as partition:broker pairs, or `*`.";
    "index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Stored =>
        "How many bytes of records lie between two entries of the offset index.",
        from [("log.index.interval.bytes", 1)];
    "internal.segment.bytes": Int = None, Any, Medium, ClusterWide, Acts, internal =>
        "For Kafka's own tests: a segment size below the limit of segment.bytes.";
    "leader.replication.throttled.replicas": List = Some(""),
        ThrottledReplicas, Medium, ClusterWide, Stored =>
        "Replicas whose fetching is throttled on the leader's side, as partition:broker pairs, or `*`.";
    "local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Stored =>
        "With tiered storage: how many bytes of a partition stay on the broker; -2 means retention.bytes.",
        from [("log.local.retention.bytes", 1)];
    "local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Stored =>
        "With tiered storage: how long segments stay on the broker; -2 means retention.ms.",
        from [("log.local.retention.ms", 1)];
    "max.compaction.lag.ms": Long = Some("9223372036854775807"), AtLeast(1), Medium, ClusterWide, Acts =>
        "The longest time a record of a compacted topic may go without being looked at by the cleaner.",
        from [("log.cleaner.max.compaction.lag.ms", 1)];
    "max.message.bytes": Int = Some("1048588"), AtLeast(0), Medium, ClusterWide, Acts =>
        "The largest record batch the topic takes, after compression.",
        from [("message.max.bytes", 1)];
    "message.timestamp.after.max.ms": Long = Some("3600000"), AtLeast(0), Medium, ClusterWide, Acts =>
        "How far a record's timestamp may lie ahead of the broker's clock; for CreateTime only.",
        from [("log.message.timestamp.after.max.ms", 1)];
    "message.timestamp.before.max.ms": Long = Some("9223372036854775807"),
        AtLeast(0), Medium, ClusterWide, Acts =>
        "How far a record's timestamp may lie behind the broker's clock; for CreateTime only.",
        from [("log.message.timestamp.before.max.ms", 1)];
    "message.timestamp.type": String = Some("CreateTime"),
        OneOf(TIMESTAMP_TYPES), Medium, ClusterWide, Acts =>
        "Whether a record's timestamp is the producer's (CreateTime) or the time of the append \
         (LogAppendTime).",
        from [("log.message.timestamp.type", 1)];
    "min.cleanable.dirty.ratio": Double = Some("0.5"), FractionBetween(0.0, 1.0), Medium, ClusterWide, Acts =>
        "The share of a compacted log that must be uncleaned before the cleaner takes it.",
        from [("log.cleaner.min.cleanable.ratio", 1)];
    "min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Acts =>
        "The shortest time a record of a compacted topic stays untouched.",
        from [("log.cleaner.min.compaction.lag.ms", 1)];
    "min.insync.replicas": Int = Some("1"), AtLeast(1), Medium, ClusterWide, Acts =>
        "How many replicas must be in sync for a produce with acks=all to succeed.",
        from [("min.insync.replicas", 1)];
    "preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Stored =>
        "Whether a segment file gets its full size on creation.",
        from [("log.preallocate", 1)];
    "remote.log.copy.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Stored =>
        "With tiered storage: stop copying to it.";
    "remote.log.delete.on.disable": Boolean = Some("false"), Any, Medium, ClusterWide, Stored =>
        "With tiered storage: delete what is there when it is switched off.";
    "remote.storage.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Stored =>
        "Whether the topic uses tiered storage.";
    "retention.bytes": Long = Some("-1"), Any, Medium, ClusterWide, Acts =>
        "How large a partition may grow before its oldest segments are dropped; negative means no limit.",
        from [("log.retention.bytes", 1)];
    "retention.ms": Long = Some("604800000"), AtLeast(-1), Medium, ClusterWide, Acts =>
        "How old a segment may grow before it is dropped; -1 means no limit.",
        from [("log.retention.ms", 1), ("log.retention.minutes", MINUTE_MS), ("log.retention.hours", HOUR_MS)];
    "segment.bytes": Int = Some("1073741824"), AtLeast(1048576), Medium, ClusterWide, Acts =>
        "The size at which a segment is closed and a new one begun.",
        from [("log.segment.bytes", 1)];
    "segment.index.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Stored =>
        "The largest size of a segment's offset index; a full index closes the segment.",
        from [("log.index.size.max.bytes", 1)];
    "segment.jitter.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Stored =>
        "A random part that is taken off segment.ms, so that segments don't all close at once.",
        from [("log.roll.jitter.ms", 1), ("log.roll.jitter.hours", HOUR_MS)];
    "segment.ms": Long = Some("604800000"), AtLeast(1), Medium, ClusterWide, Acts =>
        "The age at which a segment is closed even if it isn't full.",
        from [("log.roll.ms", 1), ("log.roll.hours", HOUR_MS)];
    "unclean.leader.election.enable": Boolean = Some("false"), Any, Medium, ClusterWide, Acts =>
        "Whether a replica that isn't in sync may become the leader when no other is left; records may \
         then be lost.",
        from [("unclean.leader.election.enable", 1)];
}
