//! Which replica a consumer should read from (KIP-392; Kafka's `RackAwareReplicaSelector`).

use std::time::Duration;

use crate::api::context::Parts;
use crate::base::{ConnectionId, NodeId};
use crate::controller::configs::RACK_AWARE_SELECTOR;
use crate::replica::{Replica, Role};

/// A replica that has what is asked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Candidate {
    id: NodeId,
    log_end_offset: i64,
    since_caught_up: Duration,
}

/// The replica that a consumer in `rack` should read from instead of this one, if another suits it better and it can
/// reach that one. The leader alone says so.
pub(super) fn preferred(
    parts: &Parts<'_>,
    replica: &Replica,
    offset: i64,
    rack: &str,
    connection: ConnectionId,
) -> Option<NodeId> {
    let selector = parts.settings().replication.replica_selector_class.as_deref();
    if selector != Some(RACK_AWARE_SELECTOR) || *replica.role() != Role::Leader || rack.is_empty() {
        return None;
    }
    let in_rack = |id: NodeId| {
        let mut brokers = parts.controller.brokers().iter();
        brokers.any(|broker| broker.id == id && !broker.fenced && broker.rack.as_deref() == Some(rack))
    };
    if in_rack(parts.broker.id) {
        return None;
    }
    let candidates = replica.read_replicas(offset, parts.now.instant);
    let candidates = candidates.map(|(id, log_end_offset, since_caught_up)| Candidate {
        id,
        log_end_offset,
        since_caught_up,
    });
    let best = most_caught_up(candidates.filter(|candidate| in_rack(candidate.id)))?;
    parts.endpoint(best, connection).map(|_| best)
}

/// The one with most records; then the one that had all of them last; then the one with the highest id.
fn most_caught_up(candidates: impl Iterator<Item = Candidate>) -> Option<NodeId> {
    let order = |one: &Candidate| (one.log_end_offset, std::cmp::Reverse(one.since_caught_up), one.id);
    candidates.max_by_key(order).map(|best| best.id)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn candidate(id: i32, log_end_offset: i64, since_ms: u64) -> Candidate {
        Candidate { id: NodeId(id), log_end_offset, since_caught_up: Duration::from_millis(since_ms) }
    }

    #[test]
    fn the_most_caught_up_replica_is_the_best() {
        let best = |candidates: &[Candidate]| most_caught_up(candidates.iter().copied());
        assert_eq!(best(&[]), None);
        assert_eq!(best(&[candidate(3, 5, 0), candidate(2, 6, 9)]), Some(NodeId(2)));
        assert_eq!(best(&[candidate(3, 6, 9), candidate(2, 6, 1)]), Some(NodeId(2)));
        assert_eq!(best(&[candidate(3, 6, 1), candidate(2, 6, 1)]), Some(NodeId(3)));
    }
}
