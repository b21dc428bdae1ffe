//! ApiVersions (18), versions 0–4: what this broker serves.
//!
//! A request at a version that isn't served is answered in version 0, with UNSUPPORTED_VERSION and this API's own
//! range alone, so that the client can ask again (KIP-511). The answer's header never has tagged fields, since the
//! client can't know yet whether the broker writes them.
//!
//! Versions: 3 adds the client's software name and version, and features (KIP-584); 4 shows features whose lowest
//! version is 0 (KIP-1022).

use kafka_protocol::messages::api_versions_response::{ApiVersion, FinalizedFeatureKey, SupportedFeatureKey};
use kafka_protocol::messages::{ApiKey, ApiVersionsRequest, ApiVersionsResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Advertised, Answer, Api, ApiEntry, Context, Refusal, TABLE, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{Feature, Features};

pub(crate) struct ApiVersions;

/// An ApiVersions request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Request {
    /// At a version that isn't served; its body was not read.
    UnsupportedVersion,
    /// At a version that is served.
    Supported {
        /// Name and version of the client's software, if it is new enough to say.
        software: Option<(String, String)>,
        /// Whether they are as KIP-511 wants them.
        valid_software: bool,
    },
}

impl Api for ApiVersions {
    const KEY: ApiKey = ApiKey::ApiVersions;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=4;
    type Wire = ApiVersionsRequest;
    type Request = Request;
    type Response = ApiVersionsResponse;

    fn prepare(wire: ApiVersionsRequest, preparation: &Preparation) -> Result<Request, Refusal> {
        let software = (preparation.version >= 3)
            .then(|| (wire.client_software_name.to_string(), wire.client_software_version.to_string()));
        let valid_software = software
            .as_ref()
            .is_none_or(|(name, version)| is_software_word(name) && is_software_word(version));
        Ok(Request::Supported { software, valid_software })
    }

    fn handle(context: &mut Context<'_>, request: Request) -> Answer<ApiVersionsResponse> {
        let has_client_metrics = context.parts.controller.client_metrics_subscriptions().next().is_some();
        let rows = rows(has_client_metrics);
        Answer::Ready(match request {
            Request::UnsupportedVersion => response(ErrorCode::UnsupportedVersion)
                .with_api_keys(rows.filter(|row| row.api_key == Self::KEY as i16).collect()),
            Request::Supported { valid_software: false, .. } => response(ErrorCode::InvalidRequest),
            Request::Supported { software, .. } => {
                if let Some((name, version)) = software {
                    let telemetry = &mut context.parts.broker.telemetry;
                    telemetry.note_software(context.caller.connection, &name, &version);
                }
                let response = response(ErrorCode::None).with_api_keys(rows.collect());
                if context.caller.version >= 3 {
                    with_features(response, context.caller.version, context.parts.controller.features())
                } else {
                    response
                }
            }
        })
    }
}

fn with_features(response: ApiVersionsResponse, version: i16, features: &Features) -> ApiVersionsResponse {
    let supported = Feature::ALL.iter().map(|feature| {
        SupportedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name()))
            .with_min_version(*feature.levels().start())
            .with_max_version(*feature.levels().end())
    });
    // Older clients can't read a level of 0, so that they are told nothing of a feature that has one.
    let supported = supported.filter(|feature| version >= 4 || feature.min_version > 0);
    let finalized = Feature::ALL.iter().map(|feature| {
        FinalizedFeatureKey::default()
            .with_name(StrBytes::from_static_str(feature.name()))
            .with_min_version_level(features.level(*feature))
            .with_max_version_level(features.level(*feature))
    });
    let finalized = finalized.filter(|feature| feature.max_version_level > 0);
    response
        .with_supported_features(supported.collect())
        .with_finalized_features(finalized.collect())
        .with_finalized_features_epoch(features.epoch())
}

fn response(error: ErrorCode) -> ApiVersionsResponse {
    ApiVersionsResponse::default().with_error_code(error.code())
}

fn rows(has_client_metrics: bool) -> impl Iterator<Item = ApiVersion> {
    let is_shown = move |entry: &&ApiEntry| match entry.advertised {
        Advertised::Always => true,
        Advertised::WithClientMetrics => has_client_metrics,
    };
    TABLE.iter().filter(is_shown).map(|entry| {
        ApiVersion::default()
            .with_api_key(entry.key)
            .with_min_version(entry.advertised_from)
            .with_max_version(entry.max_version)
    })
}

/// `[a-zA-Z0-9](?:[a-zA-Z0-9\-.]*[a-zA-Z0-9])?` (KIP-511).
fn is_software_word(word: &str) -> bool {
    let ends = |byte: Option<u8>| byte.is_some_and(|byte| byte.is_ascii_alphanumeric());
    let bytes = word.as_bytes();
    ends(bytes.first().copied())
        && ends(bytes.last().copied())
        && bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::is_software_word;

    #[test]
    fn software_words_are_as_kip_511_wants_them() {
        for good in ["a", "librdkafka", "2.12.1", "apache-kafka-java", "4.1.0-SNAPSHOT"] {
            assert!(is_software_word(good), "{good}");
        }
        for bad in ["", "-a", "a-", "a b", "ä", "."] {
            assert!(!is_software_word(bad), "{bad}");
        }
    }
}
