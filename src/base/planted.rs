//! Bugs that can be planted, to prove that the simulator's checkers find them. There are none but in a build with the
//! feature `sim`, where one is planted for the thread that runs a simulation.

/// A bug that can be planted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Bug {
    /// acks=all is answered as soon as the leader has appended.
    AcknowledgesTooEarly,
    /// Consumers are given what isn't replicated yet.
    ReadsTooFar,
    /// A replica that is not in sync is elected.
    ElectsUncleanly,
    /// A batch that is sent again is appended again.
    ForgetsSequences,
    /// A batch that is sent again is refused.
    RefusesRepeats,
    /// Now and then a batch is refused, and the one behind it appended.
    SkipsSequences,
    /// A leader's high watermark falls back now and then.
    HighWatermarkFalls,
    /// A new leader has the epoch of the old one.
    KeepsLeaderEpoch,
    /// Every member gets what the first was assigned.
    AssignsTwice,
    /// A coordinator that takes over forgets committed offsets.
    ForgetsCommits,
    /// A wait that is complete leaves without an answer.
    LosesAnswers,
    /// A wait stays when its connection goes.
    KeepsWaits,
    /// An append leaves an offset out now and then.
    LeavesHoles,
    /// Consumers are not told which transactions were aborted.
    ForgetsAborts,
    /// Consumers of committed transactions are given those that are open.
    ReadsOpenTransactions,
    /// A last stable offset doesn't mind what is replicated.
    StableOffsetTooHigh,
    /// A last stable offset falls back now and then.
    StableOffsetFalls,
    /// Some partitions of a transaction that is committed are told that it was aborted.
    SplitsTransactions,
    /// Offsets are committed in transactions for members that have no say in their group any more (KIP-447).
    AdmitsZombies,
    /// Offsets count although their transaction was aborted.
    CommitsAbortedOffsets,
    /// Some partitions of a transaction are never told how it ended.
    LosesMarkers,
    /// A member is given partitions before another has given them up (KIP-848).
    AssignsUnreleased,
    /// Members in some epochs are not moved to the next (KIP-848).
    KeepsMembersBack,
    /// Ids are not drawn from the seed alone.
    DrawsFromOutside,
}

impl Bug {
    /// All of them.
    pub const ALL: [Bug; 24] = [
        Bug::AcknowledgesTooEarly,
        Bug::ReadsTooFar,
        Bug::ElectsUncleanly,
        Bug::ForgetsSequences,
        Bug::RefusesRepeats,
        Bug::SkipsSequences,
        Bug::HighWatermarkFalls,
        Bug::KeepsLeaderEpoch,
        Bug::AssignsTwice,
        Bug::ForgetsCommits,
        Bug::LosesAnswers,
        Bug::KeepsWaits,
        Bug::LeavesHoles,
        Bug::ForgetsAborts,
        Bug::ReadsOpenTransactions,
        Bug::StableOffsetTooHigh,
        Bug::StableOffsetFalls,
        Bug::SplitsTransactions,
        Bug::AdmitsZombies,
        Bug::CommitsAbortedOffsets,
        Bug::LosesMarkers,
        Bug::AssignsUnreleased,
        Bug::KeepsMembersBack,
        Bug::DrawsFromOutside,
    ];
}

#[cfg(feature = "sim")]
thread_local! {
    static PLANTED: std::cell::Cell<Option<Bug>> = const { std::cell::Cell::new(None) };
    static DRAWN: std::cell::Cell<u128> = const { std::cell::Cell::new(0) };
}

/// Plants a bug for this thread, or removes it.
#[cfg(feature = "sim")]
pub fn plant(bug: Option<Bug>) {
    PLANTED.set(bug);
}

/// Whether this bug is planted: never, but in simulations that want it.
#[inline(always)]
pub(crate) fn is_planted(bug: Bug) -> bool {
    #[cfg(feature = "sim")]
    return PLANTED.get() == Some(bug);
    #[cfg(not(feature = "sim"))]
    {
        let _ = bug;
        false
    }
}

/// What [`Bug::DrawsFromOutside`] adds to an id: another number for each, whatever the seed; 0 without the bug.
pub(crate) fn from_outside() -> u128 {
    #[cfg(feature = "sim")]
    if is_planted(Bug::DrawsFromOutside) {
        return DRAWN.replace(DRAWN.get() + 1);
    }
    0
}
