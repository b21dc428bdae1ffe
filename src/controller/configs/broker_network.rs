//! Broker keys about listeners, connections, requests and their limits.

use super::key::Allowed::{Any, AtLeast, OneOf};
use super::tables::keys;

keys! { NETWORK_KEYS;
    "advertised.listeners": String = None, Any, High, ReadOnly, Acts =>
        "The addresses that clients are told, by listener name; by default the address by which the \
         client came.";
    "connection.failed.authentication.delay.ms": Int = Some("100"), AtLeast(0), Low, ReadOnly, Stored =>
        "How long a connection stays open after its authentication failed.";
    "connections.max.idle.ms": Long = Some("600000"), Any, Medium, ReadOnly, Acts =>
        "How long a connection may be idle before the broker closes it; negative means for ever.";
    "connections.max.reauth.ms": Long = Some("0"), Any, Medium, ReadOnly, Stored =>
        "How long a SASL session lasts before the client must log in again; 0 means for ever.";
    "early.start.listeners": String = None, Any, High, ReadOnly, Stored =>
        "Listeners that open before the broker's authorizer is ready.";
    "fetch.max.bytes": Int = Some("57671680"), AtLeast(1024), Medium, ReadOnly, Acts =>
        "The largest answer to one fetch request.";
    "inter.broker.listener.name": String = None, Any, Medium, ReadOnly, Acts =>
        "The listener that brokers use among themselves.";
    "listener.security.protocol.map": String = Some("SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT"),
        Any, Low, PerBroker, Acts =>
        "The security protocol of each listener name.";
    "listeners": String = Some("PLAINTEXT://:9092"), Any, High, PerBroker, Acts =>
        "The addresses on which the broker listens, as NAME://host:port; an empty host means all \
         addresses.";
    "max.connection.creation.rate": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Stored =>
        "How many connections a second the broker accepts.";
    "max.connections": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Acts =>
        "How many connections the broker has at most.";
    "max.connections.per.ip": Int = Some("2147483647"), AtLeast(0), Medium, ClusterWide, Acts =>
        "How many connections the broker has at most from one address.";
    "max.connections.per.ip.overrides": String = Some(""), Any, Medium, ClusterWide, Acts =>
        "Other limits than max.connections.per.ip for some addresses, as host:count pairs; hosts are \
         numbers or localhost, other names limit nothing.";
    "max.incremental.fetch.session.cache.slots": Int = Some("1000"), AtLeast(0), Medium, ReadOnly, Acts =>
        "How many fetch sessions are kept.";
    "max.request.partition.size.limit": Int = Some("2000"), AtLeast(1), Medium, ReadOnly, Acts =>
        "How many partitions one DescribeTopicPartitions answer has at most.";
    "num.io.threads": Int = Some("8"), AtLeast(1), High, ClusterWide, Stored =>
        "How many threads work on requests.";
    "num.network.threads": Int = Some("3"), AtLeast(1), High, ClusterWide, Stored =>
        "How many threads per listener read and write sockets.";
    "queued.max.request.bytes": Long = Some("-1"), Any, Medium, ReadOnly, Stored =>
        "How many bytes of requests may wait for a thread; -1 means no limit.";
    "queued.max.requests": Int = Some("500"), AtLeast(1), High, ReadOnly, Stored =>
        "How many requests may wait for a thread.";
    "request.timeout.ms": Int = Some("30000"), Any, High, ReadOnly, Stored =>
        "How long the broker waits for an answer when it is a client itself.";
    "security.inter.broker.protocol": String = Some("PLAINTEXT"),
        OneOf(&["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]), Medium, ReadOnly, Stored =>
        "The security protocol among brokers, where inter.broker.listener.name isn't set.";
    "socket.connection.setup.timeout.max.ms": Long = Some("30000"), Any, Medium, ReadOnly, Stored =>
        "The longest wait for a connection that the broker opens.";
    "socket.connection.setup.timeout.ms": Long = Some("10000"), Any, Medium, ReadOnly, Stored =>
        "The first wait for a connection that the broker opens.";
    "socket.listen.backlog.size": Int = Some("50"), AtLeast(1), Medium, ReadOnly, Stored =>
        "How many connections may wait to be accepted.";
    "socket.receive.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Stored =>
        "The receive buffer of client sockets; -1 leaves it to the system.";
    "socket.request.max.bytes": Int = Some("104857600"), AtLeast(1), High, ReadOnly, Acts =>
        "The largest request; a larger one closes the connection.";
    "socket.send.buffer.bytes": Int = Some("102400"), Any, High, ReadOnly, Stored =>
        "The send buffer of client sockets; -1 leaves it to the system.";
}
