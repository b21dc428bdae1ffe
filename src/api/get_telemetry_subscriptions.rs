//! GetTelemetrySubscriptions (71), version 0: which of its metrics a client is to push, and how often (KIP-714).
//!
//! A client without an id is given one. What is wanted of it is what the client-metrics resources want together whose
//! `match` fits it; without any, nothing is, every 5 minutes. Who asks again within the interval is told
//! THROTTLING_QUOTA_EXCEEDED.
//!
//! Not as in Kafka: ApiVersions shows it once a client-metrics resource exists; Kafka shows it once a plugin for metrics
//! is configured. Both answer it in any case.

use kafka_protocol::messages::{ApiKey, GetTelemetrySubscriptionsRequest, GetTelemetrySubscriptionsResponse};
use uuid::Uuid;

use super::telemetry::client_of;
use super::{Advertised, Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::wire::batch::Codec;

/// What pushes may be compressed with, the broker's favourite first.
const CODECS: [Codec; 4] = [Codec::Zstd, Codec::Lz4, Codec::Gzip, Codec::Snappy];

pub(crate) struct GetTelemetrySubscriptions;

impl Api for GetTelemetrySubscriptions {
    const KEY: ApiKey = ApiKey::GetTelemetrySubscriptions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    const ADVERTISED: Advertised = Advertised::WithClientMetrics;
    type Wire = GetTelemetrySubscriptionsRequest;
    type Request = Uuid;
    type Response = GetTelemetrySubscriptionsResponse;

    fn prepare(wire: GetTelemetrySubscriptionsRequest, _: &Preparation) -> Result<Uuid, Refusal> {
        Ok(wire.client_instance_id)
    }

    fn handle(context: &mut Context<'_>, id: Uuid) -> Answer<GetTelemetrySubscriptionsResponse> {
        let most = context.parts.settings().network.telemetry_max_bytes;
        let (telemetry, client) = client_of(context);
        let id = if id.is_nil() { telemetry.new_id() } else { id };
        let response = GetTelemetrySubscriptionsResponse::default();
        Answer::Ready(match telemetry.subscription(id, &client) {
            Err(error) => response.with_error_code(error.code()),
            Ok(subscription) => response
                .with_client_instance_id(id)
                .with_subscription_id(subscription.id)
                .with_accepted_compression_types(CODECS.map(|codec| codec as i8).to_vec())
                .with_push_interval_ms(subscription.wanted.interval_ms)
                .with_telemetry_max_bytes(i32::try_from(most).unwrap_or(i32::MAX))
                .with_delta_temporality(true)
                .with_requested_metrics(subscription.wanted.names.into_iter().map(names::text).collect()),
        })
    }
}
