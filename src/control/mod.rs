//! The steering interface without its sockets: JSON to commands, what there is to JSON, and errors that say what was
//! wrong and what to do. Whoever has the sockets (`server/control.rs`) knows the routes, and the clock.
//!
//! Fields that a request doesn't know are refused, so that a slip of the pen is not taken for a wish that isn't there.

mod problem;
mod requests;
mod views;

pub use problem::{Blame, Problem};
pub use requests::{
    FetcherRequest, HoldRequest, IsrRequest, LeaderRequest, LinkRequest, NewBrokerRequest, StartRequest,
    TopicRequest, WaitsRequest, hold_id, node_id, partition_index, read, wait_id, wait_name,
};
pub use views::{
    BrokersView, DoneView, HoldsView, LinksView, MetricsView, PartitionsView, WaitsView, brokers, done,
    holds, links, metrics, partitions, waits,
};
