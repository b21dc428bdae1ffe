//! SaslAuthenticate (36), versions 0–2: a token of a login. All listeners here are without login, and there the answer is
//! ILLEGAL_SASL_STATE, as Kafka's.
//!
//! Version 1 adds the session's lifetime (KIP-368).
//!
//! Not done: login. Everybody may connect.

use kafka_protocol::messages::{ApiKey, SaslAuthenticateRequest, SaslAuthenticateResponse};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct SaslAuthenticate;

impl Api for SaslAuthenticate {
    const KEY: ApiKey = ApiKey::SaslAuthenticate;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = SaslAuthenticateRequest;
    type Request = ();
    type Response = SaslAuthenticateResponse;

    fn prepare(_: SaslAuthenticateRequest, _: &Preparation) -> Result<(), Refusal> {
        Ok(())
    }

    fn handle(_: &mut Context<'_>, (): ()) -> Answer<SaslAuthenticateResponse> {
        Answer::Ready(
            SaslAuthenticateResponse::default()
                .with_error_code(ErrorCode::IllegalSaslState.code())
                .with_error_message(Some(names::text("This listener is without login (SASL)."))),
        )
    }
}
