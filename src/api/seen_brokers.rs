//! What a client that came over one listener sees of the brokers: whom it can reach by that listener, and who is offline.

use kafka_protocol::messages::BrokerId;

use super::context::Parts;
use super::names;
use crate::base::{ConnectionId, ErrorCode, NodeId};
use crate::controller::Partition;

/// The brokers as they are seen over one listener.
pub(crate) struct SeenBrokers {
    known: Vec<NodeId>,
    /// Those that have the listener.
    reachable: Vec<NodeId>,
    /// Those that have the listener and are not fenced.
    online: Vec<NodeId>,
}

impl SeenBrokers {
    pub(crate) fn over(parts: &Parts<'_>, connection: ConnectionId) -> Self {
        let brokers = parts.controller.brokers();
        let has_listener = |id: NodeId| parts.endpoint(id, connection).is_some();
        let reachable: Vec<NodeId> =
            brokers.iter().map(|broker| broker.id).filter(|id| has_listener(*id)).collect();
        let unfenced = brokers.iter().filter(|broker| !broker.fenced).map(|broker| broker.id);
        SeenBrokers {
            known: brokers.iter().map(|broker| broker.id).collect(),
            online: unfenced.filter(|id| reachable.contains(id)).collect(),
            reachable,
        }
    }

    /// Who leads a partition.
    ///
    /// # Errors
    /// LEADER_NOT_AVAILABLE if nobody does, or nobody that is registered; LISTENER_NOT_FOUND if the leader hasn't this
    /// listener.
    pub(crate) fn leader(&self, partition: &Partition) -> Result<NodeId, ErrorCode> {
        match partition.leader {
            Some(leader) if self.reachable.contains(&leader) => Ok(leader),
            Some(leader) if self.known.contains(&leader) => Err(ErrorCode::ListenerNotFound),
            _ => Err(ErrorCode::LeaderNotAvailable),
        }
    }

    /// The replicas on brokers that are gone, fenced or without this listener.
    pub(crate) fn offline_replicas(&self, partition: &Partition) -> Vec<BrokerId> {
        let offline = partition.replicas.iter().filter(|id| !self.online.contains(id));
        offline.map(|id| BrokerId(id.0)).collect()
    }

    /// Those of these brokers that have this listener.
    pub(crate) fn reachable(&self, brokers: &[NodeId]) -> Vec<BrokerId> {
        let reachable: Vec<NodeId> =
            brokers.iter().copied().filter(|id| self.reachable.contains(id)).collect();
        names::broker_ids(&reachable)
    }
}
