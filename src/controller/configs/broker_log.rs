//! Broker keys about topics and logs, with the defaults of topic keys.

use super::key::Allowed::{Any, AtLeast, Between, FractionBetween, GzipLevel, ListOf, OneOf};
use super::tables::{CLEANUP_POLICIES, COMPRESSION_TYPES, TIMESTAMP_TYPES, keys};

keys! { LOG_KEYS;
    "auto.create.topics.enable": Boolean = Some("true"), Any, High, ReadOnly, Acts =>
        "Whether asking for the metadata of a missing topic creates it.";
    "background.threads": Int = Some("10"), AtLeast(1), High, ClusterWide, Stored =>
        "How many threads do periodic work.";
    "compression.gzip.level": Int = Some("-1"), GzipLevel, Medium, ClusterWide, Stored =>
        "Default for topics without a compression.gzip.level of their own.";
    "compression.lz4.level": Int = Some("9"), Between(1, 17), Medium, ClusterWide, Stored =>
        "Default for topics without a compression.lz4.level of their own.";
    "compression.type": String = Some("producer"), OneOf(COMPRESSION_TYPES), High, ClusterWide, Acts =>
        "Default for topics without a compression.type of their own.";
    "compression.zstd.level": Int = Some("3"), Between(-131072, 22), Medium, ClusterWide, Stored =>
        "Default for topics without a compression.zstd.level of their own.";
    "default.replication.factor": Int = Some("1"), Any, Medium, ReadOnly, Acts =>
        "How many replicas a partition has when the creator leaves it open.";
    "delete.records.purgatory.purge.interval.requests": Int = Some("1"), Any, Medium, ReadOnly, Stored =>
        "How often Kafka sweeps its purgatory of DeleteRecords requests; huld's has nothing to sweep.";
    "delete.topic.enable": Boolean = Some("true"), Any, High, ReadOnly, Acts =>
        "Whether topics can be deleted.";
    "fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Stored =>
        "How often Kafka sweeps its purgatory of fetch requests; huld's has nothing to sweep.";
    "log.cleaner.backoff.ms": Long = Some("15000"), AtLeast(0), Medium, ClusterWide, Acts =>
        "How long the cleaner rests when it finds nothing to do.";
    "log.cleaner.dedupe.buffer.size": Long = Some("134217728"), Any, Medium, ClusterWide, Stored =>
        "The memory for the cleaner's map of keys.";
    "log.cleaner.delete.retention.ms": Long = Some("86400000"), AtLeast(0), Medium, ClusterWide, Acts =>
        "Default for topics without a delete.retention.ms of their own.";
    "log.cleaner.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Acts =>
        "Whether compacted topics are cleaned at all.";
    "log.cleaner.io.buffer.load.factor": Double = Some("0.9"), Any, Medium, ClusterWide, Stored =>
        "How full the cleaner's map of keys may get.";
    "log.cleaner.io.buffer.size": Int = Some("524288"), AtLeast(0), Medium, ClusterWide, Stored =>
        "The memory for the cleaner's reads and writes.";
    "log.cleaner.io.max.bytes.per.second": Double = Some("1.7976931348623157E308"),
        Any, Medium, ClusterWide, Stored =>
        "How fast the cleaner may read and write.";
    "log.cleaner.max.compaction.lag.ms": Long = Some("9223372036854775807"),
        AtLeast(1), Medium, ClusterWide, Acts =>
        "Default for topics without a max.compaction.lag.ms of their own.";
    "log.cleaner.min.cleanable.ratio": Double = Some("0.5"),
        FractionBetween(0.0, 1.0), Medium, ClusterWide, Acts =>
        "Default for topics without a min.cleanable.dirty.ratio of their own.";
    "log.cleaner.min.compaction.lag.ms": Long = Some("0"), AtLeast(0), Medium, ClusterWide, Acts =>
        "Default for topics without a min.compaction.lag.ms of their own.";
    "log.cleaner.threads": Int = Some("1"), AtLeast(0), Medium, ClusterWide, Stored =>
        "How many threads clean.";
    "log.cleanup.policy": List = Some("delete"), ListOf(CLEANUP_POLICIES), Medium, ClusterWide, Acts =>
        "Default for topics without a cleanup.policy of their own.";
    "log.dir": String = Some("/tmp/kafka-logs"), Any, High, ReadOnly, Stored =>
        "The folder for logs, where log.dirs isn't set.";
    "log.dir.failure.timeout.ms": Long = Some("30000"), AtLeast(1), Low, ReadOnly, Stored =>
        "How long a broker may fail to report a broken folder before it shuts down.";
    "log.dirs": String = None, Any, High, ReadOnly, Stored =>
        "The folders for logs.";
    "log.flush.interval.messages": Long = Some("9223372036854775807"),
        AtLeast(1), High, ClusterWide, Stored =>
        "Default for topics without a flush.messages of their own.";
    "log.flush.interval.ms": Long = None, Any, High, ClusterWide, Stored =>
        "Default for topics without a flush.ms of their own.";
    "log.flush.offset.checkpoint.interval.ms": Int = Some("60000"), AtLeast(0), High, ReadOnly, Stored =>
        "How often recovery points are written.";
    "log.flush.scheduler.interval.ms": Long = Some("9223372036854775807"), Any, High, ReadOnly, Stored =>
        "How often Kafka looks for logs to force to disk.";
    "log.flush.start.offset.checkpoint.interval.ms": Int = Some("60000"),
        AtLeast(0), High, ReadOnly, Stored =>
        "How often log start offsets are written.";
    "log.index.interval.bytes": Int = Some("4096"), AtLeast(0), Medium, ClusterWide, Stored =>
        "Default for topics without an index.interval.bytes of their own.";
    "log.index.size.max.bytes": Int = Some("10485760"), AtLeast(4), Medium, ClusterWide, Stored =>
        "Default for topics without a segment.index.bytes of their own.";
    "log.initial.task.delay.ms": Long = Some("30000"), AtLeast(0), Low, ReadOnly, Acts, internal =>
        "How long after the start periodic work on logs begins.";
    "log.local.retention.bytes": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Stored =>
        "Default for topics without a local.retention.bytes of their own.";
    "log.local.retention.ms": Long = Some("-2"), AtLeast(-2), Medium, ClusterWide, Stored =>
        "Default for topics without a local.retention.ms of their own.";
    "log.message.timestamp.after.max.ms": Long = Some("3600000"), AtLeast(0), Medium, ClusterWide, Acts =>
        "Default for topics without a message.timestamp.after.max.ms of their own.";
    "log.message.timestamp.before.max.ms": Long = Some("9223372036854775807"),
        AtLeast(0), Medium, ClusterWide, Acts =>
        "Default for topics without a message.timestamp.before.max.ms of their own.";
    "log.message.timestamp.type": String = Some("CreateTime"),
        OneOf(TIMESTAMP_TYPES), Medium, ClusterWide, Acts =>
        "Default for topics without a message.timestamp.type of their own.";
    "log.preallocate": Boolean = Some("false"), Any, Medium, ClusterWide, Stored =>
        "Default for topics without a preallocate of their own.";
    "log.retention.bytes": Long = Some("-1"), Any, High, ClusterWide, Acts =>
        "Default for topics without a retention.bytes of their own.";
    "log.retention.check.interval.ms": Long = Some("300000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How often logs are checked for segments that retention drops.";
    "log.retention.hours": Int = Some("168"), Any, High, ReadOnly, Acts =>
        "Default for topics without a retention.ms of their own, in hours; weaker than minutes and \
         milliseconds.";
    "log.retention.minutes": Int = None, Any, High, ReadOnly, Acts =>
        "Default for topics without a retention.ms of their own, in minutes; weaker than milliseconds.";
    "log.retention.ms": Long = None, Any, High, ClusterWide, Acts =>
        "Default for topics without a retention.ms of their own.";
    "log.roll.hours": Int = Some("168"), AtLeast(1), High, ReadOnly, Acts =>
        "Default for topics without a segment.ms of their own, in hours; weaker than log.roll.ms.";
    "log.roll.jitter.hours": Int = Some("0"), AtLeast(0), High, ReadOnly, Stored =>
        "Default for topics without a segment.jitter.ms of their own, in hours; weaker than \
         log.roll.jitter.ms.";
    "log.roll.jitter.ms": Long = None, Any, High, ClusterWide, Stored =>
        "Default for topics without a segment.jitter.ms of their own.";
    "log.roll.ms": Long = None, Any, High, ClusterWide, Acts =>
        "Default for topics without a segment.ms of their own.";
    "log.segment.bytes": Int = Some("1073741824"), AtLeast(1048576), High, ClusterWide, Acts =>
        "Default for topics without a segment.bytes of their own.";
    "log.segment.delete.delay.ms": Long = Some("60000"), AtLeast(0), High, ClusterWide, Stored =>
        "Default for topics without a file.delete.delay.ms of their own.";
    "message.max.bytes": Int = Some("1048588"), AtLeast(0), High, ClusterWide, Acts =>
        "Default for topics without a max.message.bytes of their own.";
    "min.insync.replicas": Int = Some("1"), AtLeast(1), High, ClusterWide, Acts =>
        "Default for topics without a min.insync.replicas of their own.";
    "num.partitions": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How many partitions a topic has when the creator leaves it open.";
    "num.recovery.threads.per.data.dir": Int = Some("2"), AtLeast(1), High, ClusterWide, Stored =>
        "How many threads per folder recover logs at the start and flush them at the end.";
    "num.replica.alter.log.dirs.threads": Int = None, Any, High, ReadOnly, Stored =>
        "How many threads move replicas between folders.";
    "producer.id.expiration.check.interval.ms": Int = Some("600000"),
        AtLeast(1), Low, ReadOnly, Acts, internal =>
        "How often producers are checked for expiry.";
    "producer.id.expiration.ms": Int = Some("86400000"), AtLeast(1), Low, ClusterWide, Acts =>
        "How long a partition remembers an idempotent producer after its last batch.";
    "producer.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Stored =>
        "How often Kafka sweeps its purgatory of produce requests; huld's has nothing to sweep.";
    "unclean.leader.election.enable": Boolean = Some("false"), Any, High, ClusterWide, Acts =>
        "Default for topics without an unclean.leader.election.enable of their own.";
}
