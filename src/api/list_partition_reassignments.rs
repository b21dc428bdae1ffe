//! ListPartitionReassignments (46), version 0: the partitions that are being moved (KIP-455).
//!
//! Not done: moves (see AlterPartitionReassignments), so that there are none to list.

use kafka_protocol::messages::{
    ApiKey, ListPartitionReassignmentsRequest, ListPartitionReassignmentsResponse,
};

use super::{Answer, Api, Context, Refusal, prepare::Preparation};

pub(crate) struct ListPartitionReassignments;

impl Api for ListPartitionReassignments {
    const KEY: ApiKey = ApiKey::ListPartitionReassignments;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=0;
    type Wire = ListPartitionReassignmentsRequest;
    type Request = ();
    type Response = ListPartitionReassignmentsResponse;

    fn prepare(_: ListPartitionReassignmentsRequest, _: &Preparation) -> Result<(), Refusal> {
        Ok(())
    }

    fn handle(_: &mut Context<'_>, (): ()) -> Answer<ListPartitionReassignmentsResponse> {
        Answer::Ready(ListPartitionReassignmentsResponse::default().with_error_message(None))
    }
}
