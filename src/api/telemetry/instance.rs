//! One client instance: what is wanted of it, and whether it comes in time (Kafka's `ClientMetricsInstance`).

use std::sync::Arc;
use std::time::Duration;

use uuid::Uuid;

use super::{MIN_SILENCE, Software};
use crate::base::{ErrorCode, Instant};
use crate::controller::{ClientAttributes, Controller, WantedMetrics, uuid_base64};
use crate::wire::batch::Codec;
use crate::wire::compression::DecompressError;

/// What is wanted of an instance.
#[derive(Clone, Debug)]
pub(crate) struct Subscription {
    /// Changes with what is wanted.
    pub(crate) id: i32,
    pub(crate) wanted: WantedMetrics,
}

/// What was known of the client when the instance was first seen.
#[derive(Clone, Debug)]
pub(super) struct Identity {
    pub(super) client_id: Option<Arc<str>>,
    pub(super) software: Option<Arc<Software>>,
    /// Address and port.
    pub(super) peer: Option<Arc<str>>,
}

impl Identity {
    fn attributes(&self, id: Uuid) -> ClientAttributes<'_> {
        let address = self.peer.as_deref().and_then(|peer| peer.parse::<core::net::SocketAddr>().ok());
        ClientAttributes {
            client_instance_id: uuid_base64(id),
            client_id: self.client_id.as_deref().unwrap_or_default(),
            software_name: self.software.as_ref().map(|software| &*software.name),
            software_version: self.software.as_ref().map(|software| &*software.version),
            source_address: address.map(|address| address.ip().to_canonical().to_string()),
            source_port: address.map(|address| address.port().to_string()),
        }
    }
}

/// One client instance.
#[derive(Clone, Debug)]
pub(super) struct Instance {
    pub(super) identity: Identity,
    pub(super) subscription: Subscription,
    /// The version of all subscriptions that this was made of.
    pub(super) version: u64,
    pub(super) use_number: u64,
    pub(super) last_use: Instant,
    last_get: Option<Instant>,
    last_push: Option<Instant>,
    /// Whether the last push was to be the last of all.
    terminating: bool,
    last_error: ErrorCode,
}

/// A push, as far as it matters here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Push {
    pub(crate) subscription_id: i32,
    pub(crate) terminating: bool,
    /// None if no codec has this number.
    pub(crate) codec: Option<Codec>,
    /// Bytes as they were sent.
    pub(crate) size: usize,
    /// Bytes that they are decompressed.
    pub(crate) decompressed: Result<usize, DecompressError>,
}

impl Instance {
    pub(super) fn new(id: Uuid, identity: Identity, controller: &Controller, now: Instant) -> Self {
        let wanted = controller.wanted_metrics(&identity.attributes(id));
        Instance {
            subscription: Subscription { id: subscription_id(&wanted, id), wanted },
            identity,
            version: controller.client_metrics_version(),
            use_number: 0,
            last_use: now,
            last_get: None,
            last_push: None,
            terminating: false,
            last_error: ErrorCode::None,
        }
    }

    fn interval(&self) -> Duration {
        Duration::from_millis(self.subscription.wanted.interval_ms.unsigned_abs().into())
    }

    /// How long it may be silent.
    pub(super) fn patience(&self) -> Duration {
        MIN_SILENCE.max(self.interval() * 3)
    }

    /// Whether the instance may ask now what is wanted of it; notes that it has.
    ///
    /// # Errors
    /// THROTTLING_QUOTA_EXCEEDED within an interval of the last request, unless that told it to ask again.
    pub(super) fn check_get(&mut self, now: Instant) -> Result<(), ErrorCode> {
        let is_due = self.is_due(self.last_get.max(self.last_push), now);
        let was_told_to = matches!(
            self.last_error,
            ErrorCode::UnknownSubscriptionId | ErrorCode::UnsupportedCompressionType
        );
        if !is_due && !was_told_to {
            return Err(ErrorCode::ThrottlingQuotaExceeded);
        }
        if is_due {
            self.last_get = Some(now);
        }
        self.last_error = ErrorCode::None;
        Ok(())
    }

    /// Whether the instance may push now; notes that it has.
    ///
    /// # Errors
    /// INVALID_REQUEST after its last push, THROTTLING_QUOTA_EXCEEDED within an interval of the one before,
    /// UNKNOWN_SUBSCRIPTION_ID for something else than what is wanted, UNSUPPORTED_COMPRESSION_TYPE, or
    /// TELEMETRY_TOO_LARGE for more bytes than `most`.
    pub(super) fn check_push(&mut self, push: &Push, most: usize, now: Instant) -> Result<(), ErrorCode> {
        let was_terminating = std::mem::replace(&mut self.terminating, push.terminating);
        // Clients wait for a part of the interval only before their first push.
        let is_due = self.last_get > self.last_push || self.is_due(self.last_push, now);
        let error = if was_terminating {
            ErrorCode::InvalidRequest
        } else {
            if is_due {
                self.last_push = Some(now);
            }
            match push {
                push if !is_due && !push.terminating => ErrorCode::ThrottlingQuotaExceeded,
                push if push.subscription_id != self.subscription.id => ErrorCode::UnknownSubscriptionId,
                push if push.codec.is_none() => ErrorCode::UnsupportedCompressionType,
                push if push.size > most => ErrorCode::TelemetryTooLarge,
                _ => return Ok(()),
            }
        };
        self.last_error = error;
        Err(error)
    }

    /// How many bytes a push holds that was let in.
    ///
    /// # Errors
    /// INVALID_RECORD or TELEMETRY_TOO_LARGE.
    pub(super) fn take(&mut self, push: &Push) -> Result<usize, ErrorCode> {
        let taken = match &push.decompressed {
            // What is empty is not looked at, whatever codec it claims.
            _ if push.size == 0 => Ok(0),
            Ok(bytes) => Ok(*bytes),
            Err(DecompressError::TooLarge { .. }) => Err(ErrorCode::TelemetryTooLarge),
            Err(_) => Err(ErrorCode::InvalidRecord),
        };
        self.last_error = taken.err().unwrap_or(ErrorCode::None);
        taken
    }

    fn is_due(&self, last: Option<Instant>, now: Instant) -> bool {
        last.is_none_or(|last| now.saturating_since(last) >= self.interval())
    }
}

/// A number that tells subscriptions apart, made as Kafka makes it: the checksum of what is wanted, mixed with the
/// instance's id.
fn subscription_id(wanted: &WantedMetrics, id: Uuid) -> i32 {
    let text = format!("[{}]{}", wanted.names.join(", "), wanted.interval_ms);
    let (high, low) = id.as_u64_pair();
    let folded = high ^ low;
    (crc32c::crc32c(text.as_bytes()) ^ (folded >> 32) as u32 ^ folded as u32) as i32
}
