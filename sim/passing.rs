//! Which errors pass: after them a client asks another broker, or asks again later. Any other means that something is wrong,
//! or that what was asked can't be had any more.

use crate::base::ErrorCode;

/// The partition is led by another broker, or will be.
const ELSEWHERE: [ErrorCode; 3] =
    [ErrorCode::UnknownTopicOrPartition, ErrorCode::LeaderNotAvailable, ErrorCode::NotLeaderOrFollower];

/// The group or the transactional id has another coordinator, or will have one.
const COORDINATED_ELSEWHERE: [ErrorCode; 3] =
    [ErrorCode::CoordinatorLoadInProgress, ErrorCode::CoordinatorNotAvailable, ErrorCode::NotCoordinator];

/// Whether an error is one of these.
pub fn is(code: i16, errors: &[ErrorCode]) -> bool {
    errors.iter().any(|error| error.code() == code)
}

/// To who fetches.
pub fn for_readers(code: i16) -> bool {
    is(code, &ELSEWHERE)
        || is(
            code,
            &[ErrorCode::OffsetNotAvailable, ErrorCode::FencedLeaderEpoch, ErrorCode::UnknownLeaderEpoch],
        )
}

/// To who produces.
pub fn for_writers(code: i16) -> bool {
    is(code, &ELSEWHERE)
        || is(
            code,
            &[
                ErrorCode::RequestTimedOut,
                ErrorCode::NotEnoughReplicas,
                ErrorCode::NotEnoughReplicasAfterAppend,
            ],
        )
}

/// To who produces in a transaction, of which the partition's leader asks the transaction's coordinator.
pub fn for_transactional_writers(code: i16) -> bool {
    for_writers(code) || at_coordinators(code) || is(code, &[ErrorCode::ConcurrentTransactions])
}

/// To who asks a coordinator: the coordinator has to be looked up again.
pub fn at_coordinators(code: i16) -> bool {
    is(code, &COORDINATED_ELSEWHERE)
}
