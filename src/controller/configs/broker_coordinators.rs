//! Broker keys about groups, committed offsets, share state and transactions.

use super::key::Allowed::{Any, AtLeast, Between, ListOf, OneOfIgnoringCase};
use super::tables::keys;

keys! { COORDINATOR_KEYS;
    "add.partitions.to.txn.retry.backoff.max.ms": Int = Some("100"), AtLeast(0), High, ReadOnly, Stored =>
        "The longest pause between tries to verify a partition's transaction.";
    "add.partitions.to.txn.retry.backoff.ms": Int = Some("20"), AtLeast(1), High, ReadOnly, Stored =>
        "The pause between tries to verify a partition's transaction.";
    "group.consumer.assignors": List = Some("uniform,range"), Any, Medium, ReadOnly, Acts =>
        "The assignors of consumer groups, the first being the default.";
    "group.consumer.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How often members of consumer groups send heartbeats.";
    "group.consumer.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "The largest heartbeat interval that a consumer group may set.";
    "group.consumer.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "The largest session timeout that a consumer group may set.";
    "group.consumer.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How many members a consumer group has at most.";
    "group.consumer.migration.policy": String = Some("bidirectional"),
        OneOfIgnoringCase(&["DISABLED", "DOWNGRADE", "UPGRADE", "BIDIRECTIONAL"]), Medium, ReadOnly, Acts =>
        "Between which protocols a group may go over while it is in use.";
    "group.consumer.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "The smallest heartbeat interval that a consumer group may set.";
    "group.consumer.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "The smallest session timeout that a consumer group may set.";
    "group.consumer.regex.refresh.interval.ms": Int = Some("600000"),
        AtLeast(10000), Medium, ReadOnly, Acts, internal =>
        "How often subscriptions by pattern are resolved again.";
    "group.consumer.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How long a member of a consumer group may be silent.";
    "group.coordinator.append.linger.ms": Int = Some("5"), AtLeast(0), Medium, ReadOnly, Stored =>
        "How long the group coordinator gathers writes.";
    "group.coordinator.rebalance.protocols": List = Some("classic,consumer,streams"),
        ListOf(&["consumer", "classic", "share", "streams"]), Medium, ReadOnly, Acts =>
        "The kinds of group that are served.";
    "group.coordinator.threads": Int = Some("4"), AtLeast(1), High, ReadOnly, Stored =>
        "How many threads coordinate groups.";
    "group.initial.rebalance.delay.ms": Int = Some("3000"), Any, Medium, ReadOnly, Acts =>
        "How long the first rebalance of an empty classic group waits for more members.";
    "group.max.session.timeout.ms": Int = Some("1800000"), Any, Medium, ReadOnly, Acts =>
        "The largest session timeout that a member of a classic group may ask for.";
    "group.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How many members a classic group has at most.";
    "group.min.session.timeout.ms": Int = Some("6000"), Any, Medium, ReadOnly, Acts =>
        "The smallest session timeout that a member of a classic group may ask for.";
    "group.share.assignors": List = Some("simple"), Any, Medium, ReadOnly, Stored =>
        "The assignors of share groups.";
    "group.share.delivery.count.limit": Int = Some("5"), Between(2, 10), Medium, ReadOnly, Stored =>
        "How many times a record is delivered to a share group.";
    "group.share.enable": Boolean = Some("false"), Any, Medium, ReadOnly, Stored, internal =>
        "An early switch for share groups; group.coordinator.rebalance.protocols is what counts.";
    "group.share.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How often members of share groups send heartbeats.";
    "group.share.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The largest heartbeat interval that a share group may set.";
    "group.share.max.record.lock.duration.ms": Int = Some("60000"),
        Between(30000, 3600000), Medium, ReadOnly, Stored =>
        "The longest lock on a record that a share group may set.";
    "group.share.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The largest session timeout that a share group may set.";
    "group.share.max.share.sessions": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many share sessions a broker keeps.";
    "group.share.max.size": Int = Some("200"), Between(1, 1000), Medium, ReadOnly, Stored =>
        "How many members a share group has at most.";
    "group.share.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The smallest heartbeat interval that a share group may set.";
    "group.share.min.record.lock.duration.ms": Int = Some("15000"),
        Between(1000, 30000), Medium, ReadOnly, Stored =>
        "The shortest lock on a record that a share group may set.";
    "group.share.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The smallest session timeout that a share group may set.";
    "group.share.partition.max.record.locks": Int = Some("2000"),
        Between(100, 10000), Medium, ReadOnly, Stored =>
        "How many records of a partition a share group may have locked.";
    "group.share.persister.class.name": String = Some("org.apache.kafka.server.share.persister.DefaultStatePersister"),
        Any, Medium, ReadOnly, Stored, internal =>
        "What keeps the state of share groups.";
    "group.share.record.lock.duration.ms": Int = Some("30000"),
        Between(1000, 3600000), Medium, ReadOnly, Stored =>
        "How long a record delivered to a share group's member stays locked.";
    "group.share.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How long a member of a share group may be silent.";
    "group.streams.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How often members of streams groups send heartbeats.";
    "group.streams.max.heartbeat.interval.ms": Int = Some("15000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The largest heartbeat interval that a streams group may set.";
    "group.streams.max.session.timeout.ms": Int = Some("60000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The largest session timeout that a streams group may set.";
    "group.streams.max.size": Int = Some("2147483647"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many members a streams group has at most.";
    "group.streams.max.standby.replicas": Int = Some("2"), AtLeast(0), Medium, ReadOnly, Stored =>
        "The largest number of standby tasks that a streams group may set.";
    "group.streams.min.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The smallest heartbeat interval that a streams group may set.";
    "group.streams.min.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "The smallest session timeout that a streams group may set.";
    "group.streams.num.standby.replicas": Int = Some("0"), AtLeast(0), Medium, ReadOnly, Stored =>
        "How many standby tasks each stateful task of a streams group has.";
    "group.streams.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How long a member of a streams group may be silent.";
    "offset.metadata.max.bytes": Int = Some("4096"), Any, High, ReadOnly, Acts =>
        "The largest metadata text with a committed offset.";
    "offsets.commit.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Acts =>
        "How long an offset commit waits for its replicas.";
    "offsets.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Stored =>
        "How much is read at once when offsets are loaded.";
    "offsets.retention.check.interval.ms": Long = Some("600000"), AtLeast(1), High, ReadOnly, Acts =>
        "How often committed offsets are checked for expiry.";
    "offsets.retention.minutes": Int = Some("10080"), AtLeast(1), High, ReadOnly, Acts =>
        "How long committed offsets are kept after a group became empty.";
    "offsets.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Stored =>
        "The codec of the offsets topic, by its number.";
    "offsets.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Acts =>
        "How many partitions the offsets topic has.";
    "offsets.topic.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Acts =>
        "How many replicas the offsets topic has.";
    "offsets.topic.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Acts =>
        "The segment size of the offsets topic.";
    "share.coordinator.append.linger.ms": Int = Some("5"), AtLeast(0), Medium, ReadOnly, Stored =>
        "How long the share coordinator gathers writes.";
    "share.coordinator.cold.partition.snapshot.interval.ms": Int = Some("300000"),
        AtLeast(1), Low, ReadOnly, Stored, internal =>
        "How often partitions without traffic get a snapshot.";
    "share.coordinator.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Stored =>
        "How much is read at once when share state is loaded.";
    "share.coordinator.snapshot.update.records.per.snapshot": Int = Some("500"),
        AtLeast(0), Medium, ReadOnly, Stored =>
        "How many updates go between two snapshots of share state.";
    "share.coordinator.state.topic.compression.codec": Int = Some("0"), Any, High, ReadOnly, Stored =>
        "The codec of the share state topic, by its number.";
    "share.coordinator.state.topic.min.isr": Short = Some("2"), AtLeast(1), High, ReadOnly, Stored =>
        "The min.insync.replicas of the share state topic.";
    "share.coordinator.state.topic.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Stored =>
        "How many partitions the share state topic has.";
    "share.coordinator.state.topic.prune.interval.ms": Int = Some("300000"),
        AtLeast(1), Low, ReadOnly, Stored, internal =>
        "How often state that isn't needed any more is dropped.";
    "share.coordinator.state.topic.replication.factor": Short = Some("3"),
        AtLeast(1), High, ReadOnly, Stored =>
        "How many replicas the share state topic has.";
    "share.coordinator.state.topic.segment.bytes": Int = Some("104857600"),
        AtLeast(1), High, ReadOnly, Stored =>
        "The segment size of the share state topic.";
    "share.coordinator.threads": Int = Some("1"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many threads coordinate share state.";
    "share.coordinator.write.timeout.ms": Int = Some("5000"), AtLeast(1), High, ReadOnly, Stored =>
        "How long a write of share state waits for its replicas.";
    "share.fetch.purgatory.purge.interval.requests": Int = Some("1000"), Any, Medium, ReadOnly, Stored =>
        "How often Kafka sweeps its purgatory of share fetches; huld's has nothing to sweep.";
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": Int = Some("10000"),
        AtLeast(1), Low, ReadOnly, Stored =>
        "How often Kafka looks for transactions whose timeout has passed; huld ends each in its time.";
    "transaction.max.timeout.ms": Int = Some("900000"), AtLeast(1), High, ReadOnly, Acts =>
        "The longest transaction timeout that a producer may ask for.";
    "transaction.partition.verification.enable": Boolean = Some("true"), Any, Low, ClusterWide, Acts =>
        "Whether a partition checks with the coordinator that a transaction is open.";
    "transaction.remove.expired.transaction.cleanup.interval.ms": Int = Some("3600000"),
        AtLeast(1), Low, ReadOnly, Acts =>
        "How often transactional ids are checked for expiry.";
    "transaction.state.log.load.buffer.size": Int = Some("5242880"), AtLeast(1), High, ReadOnly, Stored =>
        "How much is read at once when transactions are loaded.";
    "transaction.state.log.min.isr": Int = Some("2"), AtLeast(1), High, ReadOnly, Acts =>
        "The min.insync.replicas of the transaction topic.";
    "transaction.state.log.num.partitions": Int = Some("50"), AtLeast(1), High, ReadOnly, Acts =>
        "How many partitions the transaction topic has.";
    "transaction.state.log.replication.factor": Short = Some("3"), AtLeast(1), High, ReadOnly, Acts =>
        "How many replicas the transaction topic has.";
    "transaction.state.log.segment.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Acts =>
        "The segment size of the transaction topic.";
    "transaction.two.phase.commit.enable": Boolean = Some("false"), Any, Low, ReadOnly, Acts =>
        "Whether transactions may take part in an outside two-phase commit.";
    "transactional.id.expiration.ms": Int = Some("604800000"), AtLeast(1), High, ReadOnly, Acts =>
        "How long an unused transactional id is remembered.";
}
