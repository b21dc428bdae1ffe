//! What a broker knows of the others, as far as replication asks: who lives, and since when.

use std::sync::Arc;
use std::time::Duration;

use crate::base::NodeId;
use crate::controller::BrokerRegistration;

/// This broker, and all that are registered.
#[derive(Clone, Debug)]
pub(super) struct Brokers {
    pub(super) this: NodeId,
    /// `replica.lag.time.max.ms`.
    pub(super) lag_time_max: Duration,
    registered: Arc<[BrokerRegistration]>,
}

/// A broker that lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Living {
    /// Its broker epoch.
    pub(super) epoch: i64,
    /// It is not shutting down.
    pub(super) stays: bool,
}

impl Brokers {
    pub(super) fn new(this: NodeId, lag_time_max: Duration) -> Self {
        Brokers { this, lag_time_max, registered: Arc::new([]) }
    }

    pub(super) fn set(&mut self, registered: Arc<[BrokerRegistration]>) {
        self.registered = registered;
    }

    /// What is known of a broker, unless it is fenced or gone.
    pub(super) fn living(&self, id: NodeId) -> Option<Living> {
        let registration = self.registered.iter().find(|broker| broker.id == id && !broker.fenced)?;
        Some(Living { epoch: registration.epoch, stays: !registration.in_controlled_shutdown })
    }

    /// This broker's own epoch, fenced or not; −1 while it isn't known.
    pub(super) fn own_epoch(&self) -> i64 {
        self.registered.iter().find(|broker| broker.id == self.this).map_or(-1, |own| own.epoch)
    }
}
