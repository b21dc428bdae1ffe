//! DescribeCluster (60), versions 0–2: the cluster's id, controller and brokers (KIP-700).
//!
//! Versions: 1 names the kind of endpoint that is asked for (KIP-919), which must be that of brokers; 2 can ask for
//! fenced brokers too (KIP-1073).

use kafka_protocol::messages::describe_cluster_response::DescribeClusterBroker;
use kafka_protocol::messages::{ApiKey, BrokerId, DescribeClusterRequest, DescribeClusterResponse};

use super::{Answer, Api, Context, Refusal, authorized_operations, names, prepare::Preparation};
use crate::base::ErrorCode;

/// KIP-919's number for brokers' endpoints.
const BROKERS: i8 = 1;
/// KIP-919's number for controllers' endpoints.
const CONTROLLERS: i8 = 2;

pub(crate) struct DescribeCluster;

impl Api for DescribeCluster {
    const KEY: ApiKey = ApiKey::DescribeCluster;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=2;
    type Wire = DescribeClusterRequest;
    type Request = DescribeClusterRequest;
    type Response = DescribeClusterResponse;

    fn prepare(wire: DescribeClusterRequest, _: &Preparation) -> Result<DescribeClusterRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: DescribeClusterRequest) -> Answer<DescribeClusterResponse> {
        let version = context.caller.version;
        if version >= 1 && request.endpoint_type != BROKERS {
            let error = match request.endpoint_type {
                CONTROLLERS => ErrorCode::MismatchedEndpointType,
                _ => ErrorCode::UnsupportedEndpointType,
            };
            let why =
                format!("This listener is for brokers (1), not for endpoint type {}.", request.endpoint_type);
            return Answer::Ready(
                DescribeClusterResponse::default()
                    .with_error_code(error.code())
                    .with_error_message(Some(names::text(why))),
            );
        }
        let parts = &context.parts;
        let shown = parts
            .controller
            .brokers()
            .iter()
            .filter(|broker| !broker.fenced || (version >= 2 && request.include_fenced_brokers));
        let brokers = shown.filter_map(|broker| {
            let endpoint = parts.endpoint(broker.id, context.caller.connection)?;
            Some(
                DescribeClusterBroker::default()
                    .with_broker_id(BrokerId(broker.id.0))
                    .with_host(names::text(&*endpoint.host))
                    .with_port(endpoint.port.into())
                    .with_rack(broker.rack.as_deref().map(names::text))
                    .with_is_fenced(broker.fenced),
            )
        });
        let operations = authorized_operations::on_cluster(request.include_cluster_authorized_operations);
        Answer::Ready(
            DescribeClusterResponse::default()
                .with_endpoint_type(BROKERS)
                .with_cluster_id(names::text(&**parts.controller.cluster_id()))
                .with_controller_id(names::broker_id(parts.controller.controller_id()))
                .with_brokers(brokers.collect())
                .with_cluster_authorized_operations(operations),
        )
    }
}
