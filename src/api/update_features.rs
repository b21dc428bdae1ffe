//! UpdateFeatures (57), versions 0–2: raises and lowers the cluster's feature levels (KIP-584).
//!
//! All levels change or none does; ApiVersions shows them at once, and they act at once. What can't be is
//! INVALID_UPDATE_VERSION, with the reason. Versions: 1 adds `validate_only` and says whether a level may go down, which
//! version 0 can say but, as in Kafka, to no effect; 2 leaves out the results (KIP-1022).
//!
//! Not as in Kafka: `eligible.leader.replicas.version` stays where it is, and there are no levels of `metadata.version`,
//! `kraft.version` and `share.version`.

use kafka_protocol::messages::update_features_response::UpdatableFeatureResult;
use kafka_protocol::messages::{ApiKey, UpdateFeaturesRequest, UpdateFeaturesResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{FeatureChange, FeatureUpdate};

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

    fn handle(context: &mut Context<'_>, request: UpdateFeaturesRequest) -> Answer<UpdateFeaturesResponse> {
        let updates = request.feature_updates.iter().map(|update| FeatureUpdate {
            feature: update.feature.to_string(),
            level: update.max_version_level,
            change: FeatureChange::from_code(update.upgrade_type),
        });
        let updates: Vec<FeatureUpdate> = updates.collect();
        let updated = context.parts.controller.features_mut().update(&updates, request.validate_only);
        let response = UpdateFeaturesResponse::default().with_error_message(None);
        Answer::Ready(match updated {
            Err(error) => response
                .with_error_code(ErrorCode::InvalidUpdateVersion.code())
                .with_error_message(Some(names::text(error.to_string()))),
            Ok(()) if context.caller.version >= 2 => response,
            Ok(()) => {
                let rows = request.feature_updates.into_iter().map(|update| {
                    UpdatableFeatureResult::default()
                        .with_feature(update.feature)
                        .with_error_message(Some(StrBytes::from_static_str(ErrorCode::None.name())))
                });
                response.with_results(rows.collect())
            }
        })
    }
}
