//! UpdateFeatures (57), versions 0–2: raises and lowers the cluster's feature levels (KIP-584).
//!
//! Versions: 1 adds `validate_only` and the kind of upgrade; 2 leaves out the results (KIP-1022).
//!
//! Not as in Kafka: the levels that ApiVersions shows can't be changed, so that every level is INVALID_UPDATE_VERSION.

use kafka_protocol::messages::{ApiKey, UpdateFeaturesRequest, UpdateFeaturesResponse};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct UpdateFeatures;

impl Api for UpdateFeatures {
    const KEY: ApiKey = ApiKey::UpdateFeatures;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = UpdateFeaturesRequest;
    type Request = UpdateFeaturesRequest;
    type Response = UpdateFeaturesResponse;

    fn prepare(wire: UpdateFeaturesRequest, _: &Preparation) -> Result<UpdateFeaturesRequest, Refusal> {
        Ok(wire)
    }

    fn handle(_: &mut Context<'_>, request: UpdateFeaturesRequest) -> Answer<UpdateFeaturesResponse> {
        let response = UpdateFeaturesResponse::default().with_error_message(None);
        let Some(first) = request.feature_updates.first() else { return Answer::Ready(response) };
        let why = format!("The level of feature '{}' can't be changed here.", &*first.feature);
        Answer::Ready(
            response
                .with_error_code(ErrorCode::InvalidUpdateVersion.code())
                .with_error_message(Some(names::text(why))),
        )
    }
}
