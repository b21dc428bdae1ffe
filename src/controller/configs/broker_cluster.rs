//! Broker keys about the cluster: identity, controllers, metadata, replication.

use super::key::Allowed::{Any, AtLeast, HostsAndPorts, ListOf, QuorumVoters};
use super::tables::keys;

/// The value of `replica.selector.class` that huld acts on: a consumer reads from a replica in its rack (KIP-392).
pub const RACK_AWARE_SELECTOR: &str = "org.apache.kafka.common.replica.RackAwareReplicaSelector";

keys! { CLUSTER_KEYS;
    "auto.leader.rebalance.enable": Boolean = Some("true"), Any, High, ReadOnly, Acts =>
        "Whether leadership goes back to preferred replicas by itself.";
    "broker.heartbeat.interval.ms": Int = Some("2000"), Any, Medium, ReadOnly, Acts =>
        "How often a broker sends heartbeats to the controller.";
    "broker.id": Int = Some("-1"), Any, High, ReadOnly, Acts =>
        "The older name of node.id; if both are set they must be equal.";
    "broker.rack": String = None, Any, Medium, ReadOnly, Acts =>
        "The broker's rack: replicas of a partition are spread over racks, and a fetch may name one.";
    "broker.session.timeout.ms": Int = Some("9000"), Any, Medium, ReadOnly, Acts =>
        "How long a broker may be silent before the controller fences it.";
    "controlled.shutdown.enable": Boolean = Some("true"), Any, Medium, ReadOnly, Acts =>
        "Whether a broker hands over its leaderships before it stops.";
    "controller.listener.names": String = None, Any, High, ReadOnly, Acts =>
        "The listeners of controllers, which huld doesn't open.";
    "controller.performance.always.log.threshold.ms": Long = Some("2000"),
        AtLeast(0), Medium, ReadOnly, Stored, internal =>
        "How slow a controller event must be to be logged always.";
    "controller.performance.sample.period.ms": Long = Some("60000"),
        AtLeast(100), Medium, ReadOnly, Stored, internal =>
        "How often the slowest controller event is logged.";
    "controller.quorum.append.linger.ms": Int = Some("25"), AtLeast(0), Medium, ReadOnly, Stored =>
        "How long a controller gathers records before it writes them.";
    "controller.quorum.bootstrap.servers": List = Some(""), HostsAndPorts, High, ReadOnly, Stored =>
        "Controllers to begin with when the quorum is looked for.";
    "controller.quorum.election.backoff.max.ms": Int = Some("1000"), AtLeast(0), High, ReadOnly, Stored =>
        "The longest pause before another election of a controller.";
    "controller.quorum.election.timeout.ms": Int = Some("1000"), AtLeast(0), High, ReadOnly, Stored =>
        "How long a candidate waits for votes.";
    "controller.quorum.fetch.timeout.ms": Int = Some("2000"), AtLeast(0), High, ReadOnly, Stored =>
        "How long a voter goes without the leader before it calls an election.";
    "controller.quorum.request.timeout.ms": Int = Some("2000"), AtLeast(0), Medium, ReadOnly, Stored =>
        "How long a controller waits for an answer.";
    "controller.quorum.retry.backoff.ms": Int = Some("20"), AtLeast(0), Low, ReadOnly, Stored =>
        "The pause before a controller sends a request again.";
    "controller.quorum.voters": List = Some(""), QuorumVoters, High, ReadOnly, Stored =>
        "The controllers of a static quorum, as id@host:port.";
    "controller.socket.timeout.ms": Int = Some("30000"), Any, Medium, ReadOnly, Stored =>
        "How long a controller's connections to brokers wait.";
    "initial.broker.registration.timeout.ms": Int = Some("60000"), Any, Medium, ReadOnly, Stored =>
        "How long a broker tries to register before it gives up.";
    "internal.metadata.delete.delay.millis": Long = Some("60000"), Any, Low, ReadOnly, Stored, internal =>
        "How long deleted metadata files stay on disk.";
    "internal.metadata.log.segment.bytes": Int = None, Any, Low, ReadOnly, Stored, internal =>
        "A segment size for the metadata log in Kafka's own tests.";
    "internal.metadata.max.batch.size.in.bytes": Int = Some("8388608"),
        Any, Low, ReadOnly, Stored, internal =>
        "The largest batch of the metadata log.";
    "internal.metadata.max.fetch.size.in.bytes": Int = Some("8388608"),
        Any, Low, ReadOnly, Stored, internal =>
        "The largest fetch from the metadata log.";
    "leader.imbalance.check.interval.seconds": Long = Some("300"), AtLeast(1), High, ReadOnly, Acts =>
        "How often leaderships are checked for balance.";
    "metadata.log.dir": String = None, Any, High, ReadOnly, Stored =>
        "The folder of the metadata log.";
    "metadata.log.max.record.bytes.between.snapshots": Long = Some("20971520"),
        AtLeast(1), High, ReadOnly, Stored =>
        "How many bytes of metadata go between two snapshots.";
    "metadata.log.max.snapshot.interval.ms": Long = Some("3600000"), AtLeast(0), High, ReadOnly, Stored =>
        "How long a snapshot of the metadata may be put off.";
    "metadata.log.segment.bytes": Int = Some("1073741824"), AtLeast(8388608), High, ReadOnly, Stored =>
        "The size of a segment of the metadata log.";
    "metadata.log.segment.ms": Long = Some("604800000"), Any, High, ReadOnly, Stored =>
        "The age of a segment of the metadata log.";
    "metadata.max.idle.interval.ms": Int = Some("500"), AtLeast(0), Low, ReadOnly, Stored =>
        "How often an idle controller writes a record that does nothing.";
    "metadata.max.retention.bytes": Long = Some("104857600"), Any, High, ReadOnly, Stored =>
        "How large the metadata log may grow before old parts go.";
    "metadata.max.retention.ms": Long = Some("604800000"), Any, High, ReadOnly, Stored =>
        "How old parts of the metadata log may grow.";
    "node.id": Int = None, AtLeast(0), High, ReadOnly, Acts =>
        "The broker's id, unique in the cluster.";
    "num.replica.fetchers": Int = Some("1"), Any, High, ClusterWide, Stored =>
        "How many threads fetch from each other broker.";
    "process.roles": List = None, ListOf(&["broker", "controller"]), High, ReadOnly, Stored =>
        "What a process is: broker, controller or both; huld is always both.";
    "replica.fetch.backoff.ms": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Acts =>
        "The pause after a follower's failed fetch.";
    "replica.fetch.max.bytes": Int = Some("1048576"), AtLeast(0), Medium, ReadOnly, Acts =>
        "How much a follower asks of each partition.";
    "replica.fetch.min.bytes": Int = Some("1"), Any, High, ReadOnly, Stored =>
        "How much a follower's fetch waits for.";
    "replica.fetch.response.max.bytes": Int = Some("10485760"), AtLeast(0), Medium, ReadOnly, Acts =>
        "The largest answer to a follower's fetch.";
    "replica.fetch.wait.max.ms": Int = Some("500"), Any, High, ReadOnly, Acts =>
        "How long a follower's fetch waits.";
    "replica.high.watermark.checkpoint.interval.ms": Long = Some("5000"), Any, High, ReadOnly, Stored =>
        "How often high watermarks are written.";
    "replica.lag.time.max.ms": Long = Some("30000"), Any, High, ReadOnly, Acts =>
        "How long a follower may lag before it leaves the in-sync replicas.";
    "replica.selector.class": String = None, Any, Medium, ReadOnly, Acts =>
        "What chooses the replica a consumer should read from; all but Kafka's RackAwareReplicaSelector choose the leader.";
    "replica.socket.receive.buffer.bytes": Int = Some("65536"), Any, High, ReadOnly, Stored =>
        "The receive buffer of a follower's connection.";
    "replica.socket.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Acts =>
        "How long a follower waits on its connection; at least replica.fetch.wait.max.ms.";
    "server.max.startup.time.ms": Long = Some("9223372036854775807"),
        AtLeast(0), Medium, ReadOnly, Stored, internal =>
        "How long a start may take.";
    "unclean.leader.election.interval.ms": Long = Some("300000"),
        AtLeast(1), Medium, ReadOnly, Acts, internal =>
        "How often the controller looks for partitions that need an unclean election.";
    "unstable.api.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Stored, internal =>
        "Whether API versions that aren't final are offered.";
    "unstable.feature.versions.enable": Boolean = Some("false"), Any, High, ReadOnly, Stored, internal =>
        "Whether feature versions that aren't final may be used.";
}
