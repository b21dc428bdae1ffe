//! FindCoordinator (10), versions 0–6: the broker that looks after a group or a transactional id.
//!
//! With one broker it is that one. The coordinators' own APIs are not served yet, which a client learns from
//! ApiVersions. This API is served before them since librdkafka takes it for the mark of a broker that can do lz4:
//! without it, its producers send what should be lz4 uncompressed and say nothing.
//!
//! Versions: 1 adds transactions (KIP-98); 4 asks for many keys at once (KIP-699); 6 adds share groups (KIP-932),
//! whose keys are `group:topic id:partition`.
//!
//! Not done: share coordinators, which are answered with COORDINATOR_NOT_AVAILABLE.

use kafka_protocol::messages::find_coordinator_response::Coordinator;
use kafka_protocol::messages::{ApiKey, BrokerId, FindCoordinatorRequest, FindCoordinatorResponse};
use kafka_protocol::protocol::StrBytes;

use super::{Answer, Api, Context, Refusal, names, prepare::Preparation};
use crate::base::ErrorCode;

/// First version with a list of keys.
const BATCHED_FROM: i16 = 4;
/// First version that knows share coordinators.
const SHARE_FROM: i16 = 6;

pub(crate) struct FindCoordinator;

impl Api for FindCoordinator {
    const KEY: ApiKey = ApiKey::FindCoordinator;
    const VERSIONS: std::ops::RangeInclusive<i16> = 0..=6;
    type Wire = FindCoordinatorRequest;
    type Request = FindCoordinatorRequest;
    type Response = FindCoordinatorResponse;

    fn prepare(wire: FindCoordinatorRequest, _: &Preparation) -> Result<FindCoordinatorRequest, Refusal> {
        Ok(wire)
    }

    fn handle(context: &mut Context<'_>, request: FindCoordinatorRequest) -> Answer<FindCoordinatorResponse> {
        let version = context.caller.version;
        let kind = Kind::of(request.key_type, version);
        if version >= BATCHED_FROM {
            let coordinators = request.coordinator_keys.iter().map(|key| find(context, kind, key));
            return Answer::Ready(
                FindCoordinatorResponse::default().with_coordinators(coordinators.collect()),
            );
        }
        let Coordinator { node_id, host, port, error_code, error_message, .. } =
            find(context, kind, &request.key);
        Answer::Ready(
            FindCoordinatorResponse::default()
                .with_error_code(error_code)
                .with_error_message(error_message)
                .with_node_id(node_id)
                .with_host(host)
                .with_port(port),
        )
    }
}

/// What a key names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Group,
    Transaction,
    Share,
}

impl Kind {
    /// Kafka's `CoordinatorType`, if there is one of this number at this version.
    fn of(number: i8, version: i16) -> Option<Kind> {
        match number {
            0 => Some(Kind::Group),
            1 => Some(Kind::Transaction),
            2 if version >= SHARE_FROM => Some(Kind::Share),
            _ => None,
        }
    }
}

fn find(context: &Context<'_>, kind: Option<Kind>, key: &StrBytes) -> Coordinator {
    let answer = Coordinator::default().with_key(names::text(key.as_str()));
    let error = match kind {
        Some(Kind::Group | Kind::Transaction) => match coordinator(context) {
            Some((node, host, port)) => {
                let message = Some(names::text(ErrorCode::None.name()));
                return answer.with_node_id(node).with_host(host).with_port(port).with_error_message(message);
            }
            None => ErrorCode::CoordinatorNotAvailable,
        },
        Some(Kind::Share) if is_share_key(key) => ErrorCode::CoordinatorNotAvailable,
        Some(Kind::Share) | None => ErrorCode::InvalidRequest,
    };
    answer
        .with_node_id(BrokerId(-1))
        .with_port(-1)
        .with_error_code(error.code())
        .with_error_message(Some(names::text(error.name())))
}

/// The first broker that is not fenced, where the caller can reach it.
fn coordinator(context: &Context<'_>) -> Option<(BrokerId, StrBytes, i32)> {
    let parts = &context.parts;
    let broker = parts.controller.brokers().iter().find(|broker| !broker.fenced)?;
    let endpoint = parts.endpoint(broker.id, context.caller.connection)?;
    Some((BrokerId(broker.id.0), names::text(&*endpoint.host), endpoint.port.into()))
}

/// Whether a key has the parts of Kafka's `SharePartitionKey`: a group, a topic id in base64, a partition. The group
/// may hold colons itself.
fn is_share_key(key: &str) -> bool {
    let mut parts = key.rsplitn(3, ':');
    let (Some(partition), Some(topic_id), Some(group)) = (parts.next(), parts.next(), parts.next()) else {
        return false;
    };
    let is_id = topic_id.len() == 22
        && topic_id.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_');
    !group.trim().is_empty() && is_id && partition.parse::<i32>().is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn share_keys_have_three_parts() {
        for right in ["g:AAAAAAAAAAAAAAAAAAAAAQ:0", "a:b:AAAAAAAAAAAAAAAAAAAAAQ:12"] {
            assert!(is_share_key(right), "{right}");
        }
        for wrong in ["", "g", "g:0", ":AAAAAAAAAAAAAAAAAAAAAQ:0", "g:AAAA:0", "g:AAAAAAAAAAAAAAAAAAAAAQ:x"] {
            assert!(!is_share_key(wrong), "{wrong}");
        }
    }

    #[test]
    fn share_coordinators_exist_from_version_6() {
        assert_eq!(Kind::of(2, 5), None);
        assert_eq!(Kind::of(2, 6), Some(Kind::Share));
        assert_eq!(
            (Kind::of(0, 0), Kind::of(1, 0), Kind::of(3, 6), Kind::of(-1, 6)),
            (Some(Kind::Group), Some(Kind::Transaction), None, None)
        );
    }
}
