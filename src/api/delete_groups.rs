//! DeleteGroups (42), versions 0–2: deletes empty groups with their offsets (KIP-229).

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use kafka_protocol::messages::delete_groups_response::DeletableGroupResult;
use kafka_protocol::messages::{ApiKey, DeleteGroupsRequest, DeleteGroupsResponse};

use super::group_waits::{GroupResponse, answer_or_park};
use super::subjects::NamesGroup;
use super::{Answer, AnyResponse, Api, Context, Refusal, prepare::Preparation};
use crate::base::ErrorCode;

pub(crate) struct DeleteGroups;

impl Api for DeleteGroups {
    const KEY: ApiKey = ApiKey::DeleteGroups;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = DeleteGroupsRequest;
    type Request = DeleteGroupsRequest;
    type Response = DeleteGroupsResponse;
    const NAMES_GROUP: Option<NamesGroup<Self::Request>> =
        Some(|request, group| request.groups_names.iter().any(|one| **one == *group));

    fn prepare(wire: DeleteGroupsRequest, _: &Preparation) -> Result<DeleteGroupsRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DeleteGroupsRequest) -> Answer<DeleteGroupsResponse> {
        let mut seen = BTreeSet::new();
        let mut tickets = Vec::new();
        let mut results = Vec::with_capacity(request.groups_names.len());
        let names = request.groups_names.iter().filter(|name| seen.insert((*name).clone()));
        let names: Vec<_> = names.cloned().collect();
        for name in names {
            let group: Arc<str> = name.as_str().into();
            let (coordinators, mut storage) = context.parts.coordinators();
            let error = match coordinators.delete_group(&mut storage, &group) {
                Ok(ticket) => {
                    tickets.push((ticket, results.len()));
                    ErrorCode::None
                }
                Err(error) => error,
            };
            results.push(DeletableGroupResult::default().with_group_id(name).with_error_code(error.code()));
        }
        let response = DeleteGroupsResponse::default().with_results(results);
        let timeout = Duration::from_millis(context.parts.settings().offsets.commit_timeout_ms);
        let deadline = context.parts.now.instant + timeout;
        let group = Arc::from("to be deleted");
        answer_or_park(context, group, tickets, GroupResponse::DeleteGroups(response), deadline, |any| {
            match any {
                AnyResponse::DeleteGroups(response) => Some(response),
                _ => None,
            }
        })
    }
}
