//! The configuration keys of groups (`GroupConfig`) and client-metrics subscriptions (`ClientMetricsConfigs`).

use super::key::Allowed::{Any, AtLeast, OffsetReset, OneOf};
use super::tables::keys;

keys! { GROUP_KEYS;
    "consumer.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ClusterWide, Acts =>
        "How often members of a consumer group send heartbeats.";
    "consumer.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ClusterWide, Acts =>
        "How long a member of a consumer group may be silent.";
    "share.auto.offset.reset": String = Some("latest"), OffsetReset, Medium, ClusterWide, Stored =>
        "Where a share group without a start offset begins.";
    "share.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How often members of a share group send heartbeats.";
    "share.isolation.level": String = Some("read_uncommitted"),
        OneOf(&["read_committed", "read_uncommitted"]), Medium, ClusterWide, Stored =>
        "Whether a share group sees records of open and aborted transactions.";
    "share.record.lock.duration.ms": Int = Some("30000"), AtLeast(1000), Medium, ClusterWide, Stored =>
        "How long a record delivered to a share group's member stays locked.";
    "share.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How long a member of a share group may be silent.";
    "streams.heartbeat.interval.ms": Int = Some("5000"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How often members of a streams group send heartbeats.";
    "streams.num.standby.replicas": Int = Some("0"), AtLeast(0), Medium, ClusterWide, Stored =>
        "How many standby tasks each stateful task of a streams group has.";
    "streams.session.timeout.ms": Int = Some("45000"), AtLeast(1), Medium, ClusterWide, Stored =>
        "How long a member of a streams group may be silent.";
}

keys! { CLIENT_METRICS_KEYS;
    "interval.ms": Int = Some("300000"), Any, Medium, ClusterWide, Acts =>
        "How often the client pushes its metrics.";
    "match": List = Some(""), Any, Medium, ClusterWide, Acts =>
        "Which clients the subscription is for, as selector=pattern pairs; empty means all.";
    "metrics": List = Some(""), Any, Medium, ClusterWide, Acts =>
        "Which metrics the client pushes, as name prefixes; `*` means all, empty means none.";
}
