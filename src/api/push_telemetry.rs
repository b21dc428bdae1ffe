//! PushTelemetry (72), version 0: a client's metrics (KIP-714).
//!
//! Refused, in this order: an id that no client may have, and whatever follows a client's last push, are
//! INVALID_REQUEST; a push within the interval is THROTTLING_QUOTA_EXCEEDED (the last one may come early); a
//! subscription id that isn't the client's UNKNOWN_SUBSCRIPTION_ID; then UNSUPPORTED_COMPRESSION_TYPE; more than
//! `telemetry.max.bytes` TELEMETRY_TOO_LARGE; metrics that can't be decompressed INVALID_RECORD.
//!
//! Not as in Kafka: there are no plugins, so metrics are counted and logged (at the level debug), and go nowhere.
//! ApiVersions shows it as GetTelemetrySubscriptions.

use kafka_protocol::messages::{ApiKey, PushTelemetryRequest, PushTelemetryResponse};
use uuid::Uuid;

use super::telemetry::{Push, client_of};
use super::{Advertised, Answer, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;
use crate::wire::batch::Codec;
use crate::wire::compression::decompressed_size;

/// Kafka keeps this id and the zero one for itself (`Uuid.RESERVED`).
const RESERVED: Uuid = Uuid::from_u128(1);

pub(crate) struct PushTelemetry;

impl Api for PushTelemetry {
    const KEY: ApiKey = ApiKey::PushTelemetry;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    const ADVERTISED: Advertised = Advertised::WithClientMetrics;
    type Wire = PushTelemetryRequest;
    type Request = (Uuid, Push);
    type Response = PushTelemetryResponse;

    fn prepare(wire: PushTelemetryRequest, preparation: &Preparation) -> Result<(Uuid, Push), Refusal> {
        let codec = u8::try_from(wire.compression_type).ok().and_then(Codec::from_id);
        let limit = preparation.limits.max_decompressed_bytes;
        let push = Push {
            subscription_id: wire.subscription_id,
            terminating: wire.terminating,
            codec,
            size: wire.metrics.len(),
            decompressed: codec.map_or(Ok(0), |codec| decompressed_size(codec, &wire.metrics, limit)),
        };
        Ok((wire.client_instance_id, push))
    }

    fn handle(context: &mut Context<'_>, (id, push): (Uuid, Push)) -> Answer<PushTelemetryResponse> {
        let (telemetry, client) = client_of(context);
        let taken = match id.is_nil() || id == RESERVED {
            true => Err(ErrorCode::InvalidRequest),
            false => telemetry.push(id, &push, &client),
        };
        let error = taken.err().unwrap_or(ErrorCode::None);
        Answer::Ready(PushTelemetryResponse::default().with_error_code(error.code()))
    }
}
