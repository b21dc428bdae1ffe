//! That a seed is a run, that runs are well, and that every checker finds what it is there for.

use super::*;
use crate::base::planted::Bug;

#[test]
fn a_seed_is_a_run_bit_for_bit() {
    for seed in 0..4 {
        let (first, second) = (run(seed), run(seed));
        assert_eq!(first, second, "seed {seed}");
        assert!(first.counts.records > 0);
    }
    assert_ne!(run(0).digest, run(1).digest);
}

#[test]
fn nothing_goes_wrong_that_may_not() {
    for seed in 0..20 {
        assert_eq!(run(seed).failure.map(|failure| failure.to_string()), None);
    }
}

/// Whether a checker sees a bug within some seeds.
fn is_found(bug: Bug, checker: &str) -> bool {
    let failures = (0..300).filter_map(|seed| run_with_bug(seed, bug, checker).failure);
    failures.map(|failure| failure.checker).any(|name| name == checker)
}

#[test]
fn every_planted_bug_is_found_by_its_checker() {
    for (bug, checker) in [
        (Bug::AcknowledgesTooEarly, "no acknowledged record is lost"),
        (Bug::ReadsTooFar, "consumers read what is replicated, and it stays"),
        (Bug::ForgetsSequences, "records are in order, each once"),
        (Bug::HighWatermarkFalls, "high watermarks rise"),
        (Bug::KeepsLeaderEpoch, "a leader epoch has one leader"),
        (Bug::AssignsTwice, "a partition has one owner in a generation"),
        (Bug::ForgetsCommits, "committed offsets stay"),
        (Bug::LosesAnswers, "requests are answered"),
        (Bug::LeavesHoles, "offsets have no holes"),
        (Bug::ForgetsAborts, "transactions are seen whole or not at all"),
    ] {
        assert!(is_found(bug, checker), "{bug:?}: {checker}");
        let is_checker = checkers::all().iter().any(|one| one.name() == checker);
        assert!(is_checker, "{checker}");
    }
    assert_eq!(checkers::all().len(), Bug::ALL.len(), "each has its own");
}
