//! What the coordinator of transactions decides, as tables.

use super::end::Decision;
use super::state::{LAST_EPOCH, TransactionState};
use super::*;

const PRODUCER_ID: i64 = 7;
const EPOCH: i16 = 5;

fn value(state: TransactionState) -> TransactionValue {
    TransactionValue {
        producer_id: PRODUCER_ID,
        previous_producer_id: -1,
        next_producer_id: -1,
        epoch: EPOCH,
        last_epoch: EPOCH - 1,
        timeout_ms: 1_000,
        state,
        partitions: Partitions::default(),
        last_update_ms: 0,
        start_ms: 0,
        client_version: 0,
    }
}

fn transaction(state: TransactionState) -> Transaction {
    Transaction::new(value(state))
}

fn end(id: i64, epoch: i16, commit: bool, bumps_epoch: bool) -> End {
    End { producer: Producer { id, epoch }, commit, bumps_epoch, fresh_id: None }
}

/// As the tables below have it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Expected {
    /// PrepareCommit or PrepareAbort.
    Prepare,
    /// PrepareAbort of nothing.
    PrepareEmpty,
    /// NONE, once more.
    Again,
    Fails(ErrorCode),
}

use Expected::{Again, Fails, Prepare, PrepareEmpty};

fn of(decision: Result<Decision, ErrorCode>) -> Expected {
    match decision {
        Ok(Decision::Already) => Again,
        Ok(Decision::Prepare { is_empty: false }) => Prepare,
        Ok(Decision::Prepare { is_empty: true }) => PrepareEmpty,
        Err(error) => Fails(error),
    }
}

const INVALID_STATE: Expected = Fails(ErrorCode::InvalidTxnState);
const CONCURRENT: Expected = Fails(ErrorCode::ConcurrentTransactions);
const FENCED: Expected = Fails(ErrorCode::ProducerFenced);
const MAPPING: Expected = Fails(ErrorCode::InvalidProducerIdMapping);

#[test]
fn ends_of_producers_whose_epoch_stays() {
    use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
    let table = [
        // State, commit, abort.
        (Empty, INVALID_STATE, INVALID_STATE),
        (Ongoing, Prepare, Prepare),
        (PrepareCommit, CONCURRENT, INVALID_STATE),
        (PrepareAbort, INVALID_STATE, CONCURRENT),
        (CompleteCommit, Again, INVALID_STATE),
        (CompleteAbort, INVALID_STATE, Again),
    ];
    for (state, commit, abort) in table {
        let mut transaction = transaction(state);
        let decide = |transaction: &Transaction, id, epoch, commit| {
            of(transaction.decide(&end(id, epoch, commit, false)))
        };
        for (outcome, expected) in [(true, commit), (false, abort)] {
            assert_eq!(decide(&transaction, PRODUCER_ID, EPOCH, outcome), expected, "{state:?} {outcome}");
            for epoch in [EPOCH - 1, EPOCH + 1, -1, i16::MAX] {
                assert_eq!(decide(&transaction, PRODUCER_ID, epoch, outcome), FENCED, "{state:?}");
            }
            assert_eq!(decide(&transaction, 8, EPOCH, outcome), MAPPING, "{state:?}");
        }
        transaction.pending = Some(PrepareAbort);
        assert_eq!(decide(&transaction, PRODUCER_ID, EPOCH, true), CONCURRENT, "{state:?}");
        assert_eq!(decide(&transaction, PRODUCER_ID, EPOCH - 1, true), FENCED, "the epoch comes first");
    }
}

#[test]
fn ends_of_producers_whose_epoch_rises() {
    use TransactionState::{CompleteAbort, CompleteCommit, Empty, Ongoing, PrepareAbort, PrepareCommit};
    let table = [
        // State; commit and abort with the present epoch; commit and abort with the one before.
        (Ongoing, Prepare, Prepare, FENCED, FENCED),
        (Empty, INVALID_STATE, PrepareEmpty, FENCED, FENCED),
        (CompleteCommit, INVALID_STATE, PrepareEmpty, Again, INVALID_STATE),
        (CompleteAbort, INVALID_STATE, PrepareEmpty, INVALID_STATE, Again),
        (PrepareCommit, FENCED, FENCED, CONCURRENT, INVALID_STATE),
        (PrepareAbort, FENCED, FENCED, INVALID_STATE, CONCURRENT),
    ];
    for (state, commit, abort, commit_again, abort_again) in table {
        let mut transaction = transaction(state);
        let decide = |transaction: &Transaction, id, epoch, commit| {
            of(transaction.decide_bumping(&end(id, epoch, commit, true)))
        };
        let rows = [(0, true, commit), (0, false, abort), (-1, true, commit_again), (-1, false, abort_again)];
        for (epoch, outcome, expected) in rows {
            let found = decide(&transaction, PRODUCER_ID, EPOCH + epoch, outcome);
            assert_eq!(found, expected, "{state:?} {outcome} {epoch}");
            assert_eq!(decide(&transaction, 8, EPOCH + epoch, outcome), MAPPING, "{state:?}");
        }
        for epoch in [EPOCH - 2, EPOCH + 1, -1, i16::MAX] {
            assert_eq!(decide(&transaction, PRODUCER_ID, epoch, true), FENCED, "{state:?} {epoch}");
        }
        transaction.pending = Some(PrepareAbort);
        for (id, epoch) in [(PRODUCER_ID, EPOCH), (PRODUCER_ID, EPOCH - 2), (8, EPOCH)] {
            assert_eq!(decide(&transaction, id, epoch, true), CONCURRENT, "before all else: {state:?}");
        }
    }
}

#[test]
fn an_end_is_known_again_after_the_producer_got_a_new_id() {
    for (state, commit, abort) in [
        (TransactionState::CompleteCommit, Again, INVALID_STATE),
        (TransactionState::CompleteAbort, INVALID_STATE, Again),
    ] {
        let new = TransactionValue { previous_producer_id: 3, epoch: 0, ..value(state) };
        let transaction = Transaction::new(new);
        let decide = |id, epoch, commit| of(transaction.decide_bumping(&end(id, epoch, commit, true)));
        assert_eq!(decide(3, LAST_EPOCH, true), commit);
        assert_eq!(decide(3, LAST_EPOCH, false), abort);
        assert_eq!(decide(3, LAST_EPOCH - 1, true), MAPPING);
        assert_eq!(decide(PRODUCER_ID, 0, false), PrepareEmpty);
    }
}

#[test]
fn producers_begin_anew_with_what_they_say_they_had() {
    let init = |expected: Option<(i64, i16)>| Init {
        timeout_ms: 2_000,
        expected: expected.map(|(id, epoch)| Producer { id, epoch }),
        two_phase_commit: false,
        keep_prepared: false,
        fresh_id: Some(100),
    };
    // What is known (id, epoch, last epoch), what the producer says, and what it gets.
    type Pair = (i64, i16);
    type Case = ((i64, i16, i16), Option<Pair>, Result<Pair, ErrorCode>);
    let table: [Case; 12] = [
        ((7, -1, -1), None, Ok((7, 0))),
        ((7, -1, -1), Some((99, 9)), Ok((7, 0))),
        ((7, 5, -1), None, Ok((7, 6))),
        ((7, 5, -1), Some((7, 5)), Ok((7, 6))),
        ((7, 5, 4), Some((7, 4)), Ok((7, 5))),
        ((7, 5, 4), Some((7, 3)), Err(ErrorCode::ProducerFenced)),
        ((7, 5, 4), Some((7, 6)), Err(ErrorCode::ProducerFenced)),
        ((7, 5, 4), Some((8, 5)), Err(ErrorCode::ProducerFenced)),
        ((7, LAST_EPOCH, -1), None, Ok((100, 0))),
        ((7, LAST_EPOCH, -1), Some((7, LAST_EPOCH)), Ok((100, 0))),
        // After a fence with the very last epoch.
        ((7, i16::MAX, -1), None, Ok((100, 0))),
        ((7, 0, LAST_EPOCH), Some((3, LAST_EPOCH)), Ok((7, 0))),
    ];
    for ((producer_id, epoch, last_epoch), says, expected) in table {
        let known = TransactionValue {
            producer_id,
            previous_producer_id: 3,
            epoch,
            last_epoch,
            ..value(TransactionState::CompleteCommit)
        };
        let transaction = Transaction::new(known);
        let asked = init(says);
        let found = match asked.expected {
            Some(expected) if !transaction.may_be(expected) => Err(ErrorCode::ProducerFenced),
            _ => transaction.begun_anew(asked, 9).map(|value| {
                assert_eq!((value.state, value.timeout_ms), (TransactionState::Empty, 2_000));
                assert_eq!((value.start_ms, value.last_update_ms), (-1, 9));
                (value.producer_id, value.epoch)
            }),
        };
        assert_eq!(found, expected, "{producer_id} {epoch} {last_epoch}: {says:?}");
    }
}

#[test]
fn what_is_asked_is_looked_at_first() {
    let settings = TransactionSettings {
        partitions: 50,
        max_timeout_ms: 1_000,
        id_expiration_ms: 1_000,
        remove_expired_interval_ms: 1_000,
        two_phase_commit: false,
    };
    let init = Init {
        timeout_ms: 1_000,
        expected: None,
        two_phase_commit: false,
        keep_prepared: false,
        fresh_id: None,
    };
    let check = |init: Init, id: &str, settings: &TransactionSettings| init.checked(id, settings).map(|_| ());
    assert_eq!(check(init, "id", &settings), Ok(()));
    assert_eq!(check(init, "", &settings), Err(ErrorCode::InvalidRequest));
    for timeout_ms in [0, -1, 1_001, i32::MAX, i32::MIN] {
        let bad = Err(ErrorCode::InvalidTransactionTimeout);
        assert_eq!(check(Init { timeout_ms, ..init }, "id", &settings), bad, "{timeout_ms}");
    }
    let two_phases = Init { two_phase_commit: true, timeout_ms: 0, ..init };
    let refused = Err(ErrorCode::TransactionalIdAuthorizationFailed);
    assert_eq!(check(two_phases, "id", &settings), refused);
    let allowing = TransactionSettings { two_phase_commit: true, ..settings.clone() };
    assert_eq!(check(two_phases, "id", &allowing), Ok(()));
    let keeping = Init { keep_prepared: true, ..init };
    assert_eq!(check(keeping, "id", &settings), Err(ErrorCode::UnsupportedVersion));
}
