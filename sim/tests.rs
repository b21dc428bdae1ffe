//! That a seed is a run, that runs are well, and that every checker finds what it is there for.

use super::scenario::EVERYTHING_ENDS;
use super::*;
use crate::base::planted::Bug;

#[test]
fn a_seed_is_a_run_bit_for_bit() {
    for seed in 0..4 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.counts.of(Count::Acknowledged) > 0);
    }
    assert_ne!(run(0).digest, run(1).digest);
}

#[test]
fn nothing_goes_wrong_that_may_not() {
    for seed in 0..20 {
        assert_eq!(run(seed).failure.map(|failure| failure.to_string()), None);
    }
}

/// The seeds among the first in which a checker, which looks alone, sees a bug.
fn seeds_that_show(bug: Bug, checker: &str) -> impl Iterator<Item = u64> {
    (0..300).filter(move |seed| {
        let failure = run_with_bug(*seed, bug, |name| name == checker).failure;
        failure.is_some_and(|failure| failure.checker == checker)
    })
}

/// Every bug that is seen within one run, with the checker that it is there for.
const FOUND_BY: [(Bug, &str); BUGS] = [
    (Bug::AcknowledgesTooEarly, "no acknowledged record is lost"),
    (Bug::ForgetsSequences, "records are there once"),
    (Bug::SkipsSequences, "records are in order"),
    (Bug::RefusesRepeats, "errors pass"),
    (Bug::ReadsTooFar, "consumers read what is replicated"),
    (Bug::ElectsUncleanly, "what was read stays"),
    (Bug::HighWatermarkFalls, "high watermarks rise"),
    (Bug::ForgetsCommits, "committed offsets stay"),
    (Bug::LeavesHoles, "offsets have no holes"),
    (Bug::KeepsLeaderEpoch, "a leader epoch has one leader"),
    (Bug::AssignsTwice, "a partition has one owner in a generation"),
    (Bug::AssignsUnreleased, "a partition has one owner in a generation"),
    (Bug::LosesAnswers, "requests are answered"),
    (Bug::KeepsWaits, "waits end with their connections"),
    (Bug::LosesMarkers, EVERYTHING_ENDS),
    (Bug::ForgetsAborts, "read_committed shows what is committed"),
    (Bug::ReadsOpenTransactions, "read_committed shows what is committed"),
    (Bug::SplitsTransactions, "transactions are seen whole or not at all"),
    (Bug::AdmitsZombies, "input comes out once"),
    (Bug::CommitsAbortedOffsets, "input comes out once"),
    (Bug::StableOffsetTooHigh, "last stable offsets rise below high watermarks"),
    (Bug::StableOffsetFalls, "last stable offsets rise below high watermarks"),
    (Bug::KeepsMembersBack, "members come to share a group's partitions"),
];

/// All but that which is seen by running a seed twice.
const BUGS: usize = Bug::ALL.len() - 1;

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    for (bug, checker) in FOUND_BY {
        assert!(seeds_that_show(bug, checker).next().is_some(), "{bug:?}: {checker}");
    }
}

#[test]
fn every_bug_has_a_checker_and_every_checker_a_bug() {
    for bug in Bug::ALL.into_iter().filter(|bug| *bug != Bug::DrawsFromOutside) {
        assert!(FOUND_BY.iter().any(|(found, _)| *found == bug), "{bug:?}");
    }
    for checker in checkers::all() {
        assert!(FOUND_BY.iter().any(|(_, name)| *name == checker.name()), "{checker:?}");
    }
}

#[test]
fn a_run_that_depends_on_more_than_its_seed_is_seen_by_its_digest() {
    let digest = || run_with_bug(0, Bug::DrawsFromOutside, |_| false).digest;
    assert_ne!(digest(), digest());
}

#[test]
fn what_comes_out_twice_is_seen_by_nobody_else() {
    let (bug, checker) = (Bug::AdmitsZombies, "input comes out once");
    let is_seen_by_others = |seed| run_with_bug(seed, bug, |name| name != checker).failure.is_some();
    assert!(seeds_that_show(bug, checker).any(|seed| !is_seen_by_others(seed)));
}
