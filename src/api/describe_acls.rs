//! DescribeAcls (29), versions 1–3: the access control entries that match a filter; SECURITY_DISABLED, as a broker
//! without an authorizer answers.
//!
//! Not done: access control. Everybody may do everything.

use kafka_protocol::messages::{ApiKey, DescribeAclsRequest, DescribeAclsResponse};

use super::{Answer, Api, Context, NO_AUTHORIZER, Refusal, acl_kinds, names, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct DescribeAcls;

impl Api for DescribeAcls {
    const KEY: ApiKey = ApiKey::DescribeAcls;
    const VERSIONS: std::ops::RangeInclusive<i16> = 1..=3;
    type Wire = DescribeAclsRequest;
    type Request = ();
    type Response = DescribeAclsResponse;

    fn prepare(wire: DescribeAclsRequest, preparation: &Preparation) -> Result<(), Refusal> {
        let kinds = [wire.resource_type_filter, wire.pattern_type_filter];
        acl_kinds::check(preparation, kinds, [wire.operation, wire.permission_type])
    }

    fn handle(_: &mut Context<'_>, (): ()) -> Answer<DescribeAclsResponse> {
        Answer::Ready(
            DescribeAclsResponse::default()
                .with_error_code(ErrorCode::SecurityDisabled.code())
                .with_error_message(Some(names::text(NO_AUTHORIZER))),
        )
    }
}
