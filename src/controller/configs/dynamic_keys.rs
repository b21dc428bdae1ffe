//! Broker keys that Kafka has only while a broker runs (`DynamicConfig.Broker`): its tools set them for a reassignment. They
//! are shown where they are set.

use super::key::Allowed::AtLeast;
use super::tables::keys;

keys! { DYNAMIC_KEYS;
    "follower.replication.throttled.rate": Long = None, AtLeast(0), Medium, ClusterWide, Stored, internal =>
        "How much a follower may fetch of throttled replicas, bytes a second.";
    "leader.replication.throttled.rate": Long = None, AtLeast(0), Medium, ClusterWide, Stored, internal =>
        "How much a leader may send of throttled replicas, bytes a second.";
    "replica.alter.log.dirs.io.max.bytes.per.second": Long = None, AtLeast(0), Medium, ClusterWide, Stored, internal =>
        "How much may be copied between a broker's directories, bytes a second.";
}
