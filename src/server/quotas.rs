//! How many connections each broker has, and may have: Kafka's `ConnectionQuotas`.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex};

use rustc_hash::FxHashMap;
use tokio::sync::Notify;

use super::lock;
use crate::base::NodeId;
use crate::controller::configs::ConnectionSettings;

/// The connections of all brokers, counted.
#[derive(Debug, Default)]
pub(crate) struct ConnectionQuotas {
    brokers: Mutex<BTreeMap<NodeId, Quota>>,
    /// A connection has closed, or there may be more of them now.
    room: Notify,
}

/// One broker's.
#[derive(Debug, Default)]
struct Quota {
    limits: ConnectionSettings,
    count: usize,
    by_listener: FxHashMap<Arc<str>, usize>,
    by_address: FxHashMap<IpAddr, usize>,
}

/// A client's address has as many connections as it may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TooManyFromAddress;

impl ConnectionQuotas {
    /// Sets how many connections a broker may have. Returns how many of them are too many now.
    pub(crate) fn set(&self, node: NodeId, limits: &ConnectionSettings) -> usize {
        let mut brokers = lock(&self.brokers);
        let quota = brokers.entry(node).or_default();
        quota.limits = limits.clone();
        let excess = quota.count.saturating_sub(quota.limits.max_connections);
        drop(brokers);
        self.room.notify_waiters();
        excess
    }

    /// Waits until a broker's listener may have another connection, and gives it a place.
    ///
    /// # Errors
    /// If its client's address, without IPv4 in the form of IPv6, may have no more.
    pub(crate) async fn place(
        self: &Arc<Self>,
        node: NodeId,
        listener: &Arc<str>,
        address: IpAddr,
    ) -> Result<Place, TooManyFromAddress> {
        loop {
            let room = self.room.notified();
            if let Some(counted) = self.count(node, listener, address) {
                let listener = listener.clone();
                return counted.map(|()| Place { quotas: self.clone(), node, listener, address });
            }
            room.await;
        }
    }

    /// Counts a connection; `None` if there is no room for it.
    fn count(
        &self,
        node: NodeId,
        listener: &Arc<str>,
        address: IpAddr,
    ) -> Option<Result<(), TooManyFromAddress>> {
        let mut brokers = lock(&self.brokers);
        let quota = brokers.entry(node).or_default();
        let of_listener = quota.by_listener.entry(listener.clone()).or_default();
        if quota.count >= quota.limits.max_connections || *of_listener >= quota.limits.of_listener(listener) {
            return None;
        }
        let of_address = quota.by_address.get(&address).copied().unwrap_or(0);
        if of_address >= quota.limits.of_address(address) {
            return Some(Err(TooManyFromAddress));
        }
        quota.by_address.insert(address, of_address + 1);
        *of_listener += 1;
        quota.count += 1;
        Some(Ok(()))
    }
}

/// A connection that counts until this is dropped.
#[derive(Debug)]
pub(crate) struct Place {
    quotas: Arc<ConnectionQuotas>,
    node: NodeId,
    listener: Arc<str>,
    address: IpAddr,
}

impl Drop for Place {
    fn drop(&mut self) {
        let mut brokers = lock(&self.quotas.brokers);
        if let Some(quota) = brokers.get_mut(&self.node) {
            quota.count -= 1;
            if let Some(of_listener) = quota.by_listener.get_mut(&self.listener) {
                *of_listener -= 1;
            }
            if let Some(of_address) = quota.by_address.get_mut(&self.address) {
                *of_address -= 1;
                if *of_address == 0 {
                    quota.by_address.remove(&self.address);
                }
            }
        }
        drop(brokers);
        self.quotas.room.notify_waiters();
    }
}
