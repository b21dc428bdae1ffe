#![deny(unsafe_code)] // but for a block whose need was measured: see `purgatory::far`
#![warn(missing_docs)]
//! huld: the whole of Kafka, seen from a client, in one small process.
//!
//! A broker for development and CI. Stock Kafka clients connect to it unchanged; requests that can't be answered yet wait
//! in a real purgatory, as Kafka's do. The README says how to use it; to start one inside a test, see
//! [`server::Broker`]. This page is the map for those who read or change the code.
//!
//! # The idea
//!
//! Everything that is Kafka is one plain value, [`cluster::Cluster`]. Things go in through its `handle_*` methods and come
//! out through its `poll_*` methods. Nothing inside reads a clock, draws from the system's randomness, locks, spawns or
//! touches a socket: the time comes in as a value ([`base::Now`]), randomness from a seed ([`base::entropy`]). So the same
//! seed and the same inputs give the same outputs, byte for byte; a test needs no sleeping and no ports; whatever waits can
//! be listed; and a wait ends exactly once, since it has exactly one owner.
//!
//! Around it is a shell that has all the rest: sockets, tasks, clock, files, signals.
//!
//! # The picture
//!
//! ```text
//!    socket                                                                           socket
//!      | bytes                                                                  bytes   ^
//!      v                                                                                |
//!   server/connection.rs    one task a client: reads, asks, writes; owns no rule        |
//!      |                                                                                |
//!      v                                                                                |
//!   session::Session        cuts frames, one request at a time, queues replies          |
//!      |                                                                                |
//!      v                                                                                |
//!   api::Preparer           header, version, preflight, decode, checks of batches       |
//!      |                      (pure, on the client's own task)                          |
//!      v Prepared                                                                       |
//!   server/driver.rs        takes the lock, and the time from the clock                 |
//!      |                                                                                |
//!      v                                                                                |
//!   Cluster::handle_request      ONE owner, synchronous, deterministic                  |
//!      |  connection -> its broker -> api/NAME.rs -> replica -> log                     |
//!      |                                 |        -> controller | coordinator           |
//!      |                                 |                                              |
//!      |                                 +-- can't answer yet: purgatory (keys, deadline)
//!      |                                 +-- changed something: notes a key             |
//!      v                                                                                |
//!   Cluster::run_to_rest    links carry the controller's changes to the brokers;        |
//!      |                    whoever waits for a noted key is tried again                |
//!      v                                                                                |
//!   Cluster::poll_output    replies and closes                                          |
//!      |                                                                                |
//!      v                                                                                |
//!   server/driver.rs        own reply: returned; others': server/mailbox.rs, and a wake |
//!      |                                                                                |
//!      v                                                                                |
//!   api::encode             pure, on the client's own task; records are shared -------->+
//! ```
//!
//! # The layers
//!
//! A module uses only what stands above it here; a test (`tests/tidy`) holds that.
//!
//! | Module | What |
//! |---|---|
//! | [`base`] | time as a value, seeded entropy, ids, Kafka's error codes, regular expressions |
//! | [`wire`] | bytes: frames, headers, preflight, record batches, compression; knows no state |
//! | [`log`] | one partition's records in memory: segments, indexes, epochs, producers, retention; the budget of all |
//! | [`purgatory`] | where requests wait, by keys and deadline; generic, knows nothing of Kafka's messages |
//! | [`controller`] | topics, partitions, leaders, broker registrations, and every config key |
//! | [`replica`] | what one broker holds: logs, its role in each, high watermarks, in-sync replicas |
//! | [`coordinator`] | groups, their offsets and transactions, event-sourced into `__consumer_offsets` and `__transaction_state` |
//! | [`faults`] | what a user wants to go wrong: rules that hold requests, high watermarks that stay put; data and matching alone |
//! | [`api`] | one file an API, the table of them, the way in (`prepare`) and out (`encode`) |
//! | [`cluster`] | [`cluster::Cluster`]: the brokers, the links between them, what goes in and out |
//! | [`session`] | one connection without its socket: bytes to requests, replies to bytes |
//! | `sim` | the simulator, in a folder beside `src/` and only with the feature of that name |
//! | [`control`] | the steering interface: JSON to commands, and what there is to JSON; no sockets |
//! | [`server`] | tokio: listeners, connections, the driver that owns the cluster, the clock, shutdown |
//! | [`cli`] | one file a subcommand; settings from files, variables and options |
//!
//! Everything up to `session` is the core. It is free of tokio, sockets, files, clocks, locks, the system's randomness
//! and hash maps whose order changes from run to run.
//!
//! # One request's way
//!
//! A consumer waits for records on a connection, and a producer sends some with acks=all on another.
//!
//! 1. **The Fetch comes.** `server/connection.rs` reads into [`session::Session::read_buffer`] and asks
//!    [`session::Session::next_request`]. A [`wire::frame::FrameCutter`] cuts the frame, and [`api::Preparer`] reads the
//!    header, looks the API and its version up in [`api::TABLE`], lets [`wire::preflight`] measure the body before the
//!    codec may allocate for it, and decodes it ([`wire::decode`]). `api/fetch/mod.rs` turns the codec's struct into a
//!    request of its own (`Api::prepare`): structs of the wire go no further. The result is an [`api::Prepared`].
//! 2. **It is handled.** `server/driver.rs` locks, reads the clock, and calls [`cluster::Cluster::handle_request`], which
//!    finds the broker that the connection came to and lends the handler a `Context` (`api/context.rs`): the time, that
//!    broker's parts, the controller, the pool of log memory, the purgatory. `Fetch::handle` reads through
//!    [`replica::Replica::read`] and finds less than `min_bytes`.
//! 3. **It waits.** The handler parks a wait (`api/waits.rs`, `api/fetch/delayed.rs`) in the broker's
//!    [`purgatory::Purgatory`] under the key "high watermark of this partition", until `max_wait_ms` has passed, and answers
//!    `Parked`. The connection's task gives its buffers back and sleeps on its mailbox; it doesn't read on meanwhile, as
//!    Kafka mutes a channel. [`cluster::Cluster::poll_timeout`] names the deadline, for which the driver's timer sleeps.
//! 4. **The Produce comes** the same way. Its batches are checked while it is prepared ([`wire::check`]): on the producer's
//!    own task, outside the lock. In the cluster, `api/produce.rs` has each batch accepted by its topic's rules and appended
//!    through [`replica::Replicas::append`]. [`log::Log`] stamps offset and leader epoch into the bytes and keeps them as
//!    they are. That moves the high watermark, since the leader is the only replica in sync, and the handler notes that key.
//!    Its own wait is tried, is complete at once, and the answer is ready.
//! 5. **Whoever waited is tried again.** Before the call returns, `Cluster::run_to_rest` wakes the noted keys: the fetch's
//!    wait is tried, has enough now, leaves the purgatory, and its reply is queued as a [`cluster::Output`] too.
//! 6. **Both are answered.** The driver takes the outputs: the producer's reply is returned to the task that holds the lock,
//!    the consumer's goes to its mailbox, and its task is woken once the lock is free. Each task has [`session::Session`]
//!    encode its reply ([`api::encode()`]) and writes it. The records in the Fetch's answer are slices of the log's own
//!    chunks, not copies (a few hundred bytes excepted, which are copied sooner than shared).
//!
//! If the consumer's connection breaks instead, [`cluster::Cluster::handle_closed`] takes its wait out. One that it closes
//! without a word may have closed its sending half alone: as in Kafka, its wait goes on until it is answered.
//!
//! # Reading order
//!
//! 1. `api/mod.rs`: the `Api` trait and the table. Then `api/describe_cluster.rs`, the simplest of the APIs.
//! 2. `api/context.rs` and `cluster/mod.rs`: what a handler may touch, and who calls it.
//! 3. [`purgatory`], then `api/waits.rs` and `api/produce.rs`: how something waits.
//! 4. [`controller`] and [`replica`], then [`log`]: what there is to know of a topic, from above to below.
//! 5. [`coordinator`] and its `coordinator/runtime.rs`, then `api/join_group.rs`: how groups are kept.
//! 6. [`wire::preflight`] and [`wire::check`]: what is believed of a peer, and what is not.
//! 7. [`session`], then `server/driver.rs` and `server/connection.rs`: the shell.
//! 8. `cluster/tests/`: the core driven as a whole, with the time in the test's hand. Then `sim/` beside `src/`: the same
//!    under faults drawn from a seed, with what may never happen in `sim/checkers/`.
//!
//! # Decisions that may surprise
//!
//! - **Handlers stand above the cluster.** `Context`, `Node` and [`api::Reply`] are in `api/`, because handlers need them;
//!   the cluster lends them and knows no single API.
//! - **The owner is a lock, not a task** (`server/driver.rs`). A request that can be answered at once is answered on its
//!   client's own task, without a wake-up.
//! - **A topic is answered for once every broker knows it.** Answers of CreateTopics, DeleteTopics and CreatePartitions wait
//!   until the change has arrived everywhere (`api/topic_changes.rs`), so that the very next request on any connection finds
//!   it. For the same reason Metadata that creates a topic shows it in that answer, where Kafka lets the client ask again.
//! - **The controller talks over links**, even with one broker and no delay: what it decides is a
//!   [`controller::Change`] that brokers apply and acknowledge.
//! - **What a coordinator decides is a record first.** A command is appended to the coordinator's partition, applied, and
//!   answered once the high watermark has passed it; its timers are waits of the purgatory that nobody owns.
//! - **Batches are bytes.** They are looked into ([`wire::batch`], [`wire::records`]) and never encoded again, except where
//!   Kafka does: when the topic's compression differs from the producer's.
//! - **Configs are declared once** ([`controller::configs`]), all of Kafka's, each with whether huld acts on it or only
//!   checks, keeps and shows it.

pub mod api;
pub mod base;
pub mod cli;
pub mod cluster;
pub mod control;
pub mod controller;
pub mod coordinator;
pub mod faults;
pub mod log;
pub mod purgatory;
pub mod replica;
pub mod server;
pub mod session;
#[cfg(feature = "sim")]
#[path = "../sim/mod.rs"]
pub mod sim;
pub mod wire;

/// The README's Rust examples are tests.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
