//! CreateAcls (30), versions 1–3: adds access control entries; SECURITY_DISABLED, as a broker
//! without an authorizer answers.
//!
//! Not done: access control. Everybody may do everything.

use kafka_protocol::messages::create_acls_response::AclCreationResult;
use kafka_protocol::messages::{ApiKey, CreateAclsRequest, CreateAclsResponse};

use super::{Answer, Api, Context, NO_AUTHORIZER, Refusal, acl_kinds, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct CreateAcls;

impl Api for CreateAcls {
    const KEY: ApiKey = ApiKey::CreateAcls;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;
    type Wire = CreateAclsRequest;
    type Request = usize;
    type Response = CreateAclsResponse;

    fn prepare(wire: CreateAclsRequest, preparation: &Preparation) -> Result<usize, Refusal> {
        for creation in &wire.creations {
            let kinds = [creation.resource_type, creation.resource_pattern_type];
            acl_kinds::check(preparation, kinds, [creation.operation, creation.permission_type])?;
        }
        Ok(wire.creations.len())
    }

    fn handle(_: &mut Context<'_>, entries: usize) -> Answer<CreateAclsResponse> {
        let result = AclCreationResult::default()
            .with_error_code(ErrorCode::SecurityDisabled.code())
            .with_error_message(Some(names::text(NO_AUTHORIZER)));
        Answer::Ready(CreateAclsResponse::default().with_results(vec![result; entries]))
    }
}
