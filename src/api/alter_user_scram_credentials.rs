//! AlterUserScramCredentials (51), version 0: keeps and forgets users' SCRAM credentials (KIP-554).
//!
//! A user's changes are taken together or not at all. The same user and mechanism twice is DUPLICATE_RESOURCE.
//!
//! Not done: credentials are kept and listed, but nobody can log in with them.

use std::collections::{BTreeMap, BTreeSet};

use kafka_protocol::messages::alter_user_scram_credentials_request::{
    ScramCredentialDeletion, ScramCredentialUpsertion,
};
use kafka_protocol::messages::alter_user_scram_credentials_response::AlterUserScramCredentialsResult;
use kafka_protocol::messages::{AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse, ApiKey};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::{ScramCredential, ScramCredentials, ScramError};

pub(crate) struct AlterUserScramCredentials;

impl Api for AlterUserScramCredentials {
    const KEY: ApiKey = ApiKey::AlterUserScramCredentials;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = AlterUserScramCredentialsRequest;
    type Request = AlterUserScramCredentialsRequest;
    type Response = AlterUserScramCredentialsResponse;

    fn prepare(
        wire: AlterUserScramCredentialsRequest,
        _: &Preparation,
    ) -> Result<AlterUserScramCredentialsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: AlterUserScramCredentialsRequest,
    ) -> Answer<AlterUserScramCredentialsResponse> {
        let mut users: BTreeMap<&str, Changes<'_>> = BTreeMap::new();
        for deletion in &request.deletions {
            users.entry(deletion.name.as_str()).or_default().deletions.push(deletion);
        }
        for upsertion in &request.upsertions {
            users.entry(upsertion.name.as_str()).or_default().upsertions.push(upsertion);
        }
        let credentials = context.parts.controller.scram_credentials_mut();
        let results = users.into_iter().map(|(user, changes)| {
            let (error, why) = match changes.carry_out(user, credentials) {
                Ok(()) => (ErrorCode::None, None),
                // Kafka says no more of it.
                Err(error @ ScramError::EmptyPassword) => (error.code(), None),
                Err(error) => (error.code(), Some(names::text(error.to_string()))),
            };
            AlterUserScramCredentialsResult::default()
                .with_user(names::text(user))
                .with_error_code(error.code())
                .with_error_message(why)
        });
        Answer::Ready(AlterUserScramCredentialsResponse::default().with_results(results.collect()))
    }
}

/// What is to become of one user's credentials.
#[derive(Default)]
struct Changes<'a> {
    deletions: Vec<&'a ScramCredentialDeletion>,
    upsertions: Vec<&'a ScramCredentialUpsertion>,
}

impl Changes<'_> {
    fn carry_out(&self, user: &str, credentials: &mut ScramCredentials) -> Result<(), ScramError> {
        let deleted = self.deletions.iter().map(|deletion| deletion.mechanism);
        let mut seen = BTreeSet::new();
        for mechanism in deleted.chain(self.upsertions.iter().map(|upsertion| upsertion.mechanism)) {
            if !seen.insert(mechanism) {
                return Err(ScramError::Repeated);
            }
            ScramCredentials::check(user, mechanism)?;
        }
        let mut changed = credentials.clone_of(user);
        for deletion in &self.deletions {
            changed.delete(user, ScramCredentials::check(user, deletion.mechanism)?)?;
        }
        for upsertion in &self.upsertions {
            let credential = ScramCredential {
                iterations: upsertion.iterations,
                salt: upsertion.salt.clone(),
                salted_password: upsertion.salted_password.clone(),
            };
            changed.upsert(user, ScramCredentials::check(user, upsertion.mechanism)?, credential)?;
        }
        credentials.replace(user, changed)
    }
}
