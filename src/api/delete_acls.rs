//! DeleteAcls (31), versions 1–3: deletes the access control entries that match filters; SECURITY_DISABLED, as a broker
//! without an authorizer answers.
//!
//! Not done: access control. Everybody may do everything.

use kafka_protocol::messages::delete_acls_response::DeleteAclsFilterResult;
use kafka_protocol::messages::{ApiKey, DeleteAclsRequest, DeleteAclsResponse};

use super::{Answer, Api, Context, NO_AUTHORIZER, Refusal, acl_kinds, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct DeleteAcls;

impl Api for DeleteAcls {
    const KEY: ApiKey = ApiKey::DeleteAcls;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;
    type Wire = DeleteAclsRequest;
    type Request = usize;
    type Response = DeleteAclsResponse;

    fn prepare(wire: DeleteAclsRequest, preparation: &Preparation) -> Result<usize, Refusal> {
        for filter in &wire.filters {
            let kinds = [filter.resource_type_filter, filter.pattern_type_filter];
            acl_kinds::check(preparation, kinds, [filter.operation, filter.permission_type])?;
        }
        Ok(wire.filters.len())
    }

    fn handle(_: &mut Context<'_>, filters: usize) -> Answer<DeleteAclsResponse> {
        let result = DeleteAclsFilterResult::default()
            .with_error_code(ErrorCode::SecurityDisabled.code())
            .with_error_message(Some(names::text(NO_AUTHORIZER)));
        Answer::Ready(DeleteAclsResponse::default().with_filter_results(vec![result; filters]))
    }
}
