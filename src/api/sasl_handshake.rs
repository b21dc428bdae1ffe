//! SaslHandshake (17), versions 0–1: chooses how to log in. All listeners here are without login, and there the answer is
//! ILLEGAL_SASL_STATE, as Kafka's.
//!
//! Version 1 announces that tokens come in SaslAuthenticate (KIP-152).
//!
//! Not done: login. Everybody may connect.

use kafka_protocol::messages::{ApiKey, SaslHandshakeRequest, SaslHandshakeResponse};

use super::{Answer, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct SaslHandshake;

impl Api for SaslHandshake {
    const KEY: ApiKey = ApiKey::SaslHandshake;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=1;
    type Wire = SaslHandshakeRequest;
    type Request = ();
    type Response = SaslHandshakeResponse;

    fn prepare(_: SaslHandshakeRequest, _: &Preparation) -> Result<(), Refusal> {
        Ok(())
    }

    fn handle(_: &mut Context<'_>, (): ()) -> Answer<SaslHandshakeResponse> {
        Answer::Ready(SaslHandshakeResponse::default().with_error_code(ErrorCode::IllegalSaslState.code()))
    }
}
