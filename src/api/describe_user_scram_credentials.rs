//! DescribeUserScramCredentials (50), version 0: the mechanisms and iterations of users' SCRAM credentials (KIP-554).
//!
//! No users, null or empty, means all that have credentials.

use std::collections::BTreeMap;

use kafka_protocol::messages::describe_user_scram_credentials_response::{
    CredentialInfo, DescribeUserScramCredentialsResult,
};
use kafka_protocol::messages::{
    ApiKey, DescribeUserScramCredentialsRequest, DescribeUserScramCredentialsResponse,
};

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;
use crate::controller::ScramCredentials;

pub(crate) struct DescribeUserScramCredentials;

impl Api for DescribeUserScramCredentials {
    const KEY: ApiKey = ApiKey::DescribeUserScramCredentials;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = DescribeUserScramCredentialsRequest;
    type Request = DescribeUserScramCredentialsRequest;
    type Response = DescribeUserScramCredentialsResponse;

    fn prepare(
        wire: DescribeUserScramCredentialsRequest,
        _: &Preparation,
    ) -> Result<DescribeUserScramCredentialsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(
        context: &mut Context<'_>,
        request: DescribeUserScramCredentialsRequest,
    ) -> Answer<DescribeUserScramCredentialsResponse> {
        let credentials = context.parts.controller.scram_credentials();
        let mut times: BTreeMap<&str, usize> = BTreeMap::new();
        match request.users.as_ref().filter(|users| !users.is_empty()) {
            Some(users) => users.iter().for_each(|user| *times.entry(user.name.as_str()).or_default() += 1),
            None => times.extend(credentials.users().map(|user| (user, 1))),
        }
        let results = times.into_iter().map(|(user, times)| row(credentials, user, times));
        let response = DescribeUserScramCredentialsResponse::default().with_results(results.collect());
        // Kafka's message is empty, not null, where there is no error.
        Answer::Ready(response.with_error_message(Some(names::text(""))))
    }
}

fn row(credentials: &ScramCredentials, user: &str, times: usize) -> DescribeUserScramCredentialsResult {
    let result = DescribeUserScramCredentialsResult::default().with_user(names::text(user));
    let of_user = credentials.of_user(user);
    let failed = match of_user {
        _ if times > 1 => Some((ErrorCode::DuplicateResource, "The user is named twice.")),
        None => Some((ErrorCode::ResourceNotFound, "The user has no SCRAM credentials.")),
        Some(_) => None,
    };
    if let Some((error, why)) = failed {
        return result.with_error_code(error.code()).with_error_message(Some(names::text(why)));
    }
    let infos = of_user.into_iter().flatten().map(|(mechanism, credential)| {
        CredentialInfo::default().with_mechanism(mechanism.code()).with_iterations(credential.iterations)
    });
    result.with_credential_infos(infos.collect()).with_error_message(Some(names::text("")))
}
