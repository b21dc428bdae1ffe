//! ListGroups (16), versions 0–5: the groups that this broker coordinates.
//!
//! Groups are told of as far as they are committed; while one of the broker's partitions loads, the answer is
//! COORDINATOR_LOAD_IN_PROGRESS. Versions: 4 has states, and a filter by them (KIP-518); 5 types, and a filter by them (KIP-848). Filters ignore case.

use kafka_protocol::messages::list_groups_response::ListedGroup;
use kafka_protocol::messages::{ApiKey, GroupId, ListGroupsRequest, ListGroupsResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};

pub(crate) struct ListGroups;

impl Api for ListGroups {
    const KEY: ApiKey = ApiKey::ListGroups;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=5;
    type Wire = ListGroupsRequest;
    type Request = ListGroupsRequest;
    type Response = ListGroupsResponse;

    fn prepare(wire: ListGroupsRequest, _: &Preparation) -> Result<ListGroupsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: ListGroupsRequest) -> Answer<ListGroupsResponse> {
        let version = context.caller.version;
        let passes = |filter: &[StrBytes], value: &str| {
            filter.is_empty() || filter.iter().any(|wanted| wanted.as_str().eq_ignore_ascii_case(value))
        };
        let groups = match context.parts.broker.coordinators.all_committed_groups() {
            Ok(groups) => groups.flat_map(|groups| groups.iter()),
            Err(error) => return Answer::Ready(ListGroupsResponse::default().with_error_code(error.code())),
        };
        let listed = groups
            .filter(|group| passes(&request.states_filter, group.state_name()))
            .filter(|group| passes(&request.types_filter, group.kind()));
        let rows = listed.map(|group| {
            let row = ListedGroup::default()
                .with_group_id(GroupId(names::text(&**group.id())))
                .with_protocol_type(names::text(group.protocol_type()));
            let row = if version >= 4 { row.with_group_state(names::text(group.state_name())) } else { row };
            if version >= 5 { row.with_group_type(names::text(group.kind())) } else { row }
        });
        Answer::Ready(ListGroupsResponse::default().with_groups(rows.collect()))
    }
}
