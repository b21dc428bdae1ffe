//! Scenarios (those of Kafka's `DelayedOperationTest` among them) and random runs against a naive model.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use proptest::prelude::*;

use super::*;
use crate::base::ConnectionId;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Fetch,
    Produce,
}

impl WaitKind for Kind {
    const ALL: &'static [Kind] = &[Kind::Fetch, Kind::Produce];

    fn index(self) -> usize {
        self as usize
    }

    fn delayed_operation(self) -> &'static str {
        match self {
            Kind::Fetch => "Fetch",
            Kind::Produce => "Produce",
        }
    }
}

/// Waits until its name is in [`World::ready`].
#[derive(Clone, Debug)]
struct ReadyWait {
    kind: Kind,
    name: u32,
}

impl Waiting for ReadyWait {
    type Kind = Kind;

    fn kind(&self) -> Kind {
        self.kind
    }
}

/// What the waits look at, and what they did with it. Borrows, as a broker's context does.
struct World<'a> {
    ready: &'a BTreeSet<u32>,
    tried: Vec<u32>,
    left: Vec<(u32, Exit)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reply {
    Data(u32),
    TimedOut(u32),
    LetGo(u32),
}

impl Reply {
    fn name(self) -> u32 {
        let (Reply::Data(name) | Reply::TimedOut(name) | Reply::LetGo(name)) = self;
        name
    }
}

impl Wait<World<'_>> for ReadyWait {
    type Reply = Reply;

    fn try_complete(&mut self, world: &mut World<'_>) -> Option<Reply> {
        world.tried.push(self.name);
        world.ready.contains(&self.name).then_some(Reply::Data(self.name))
    }

    fn expire(self, _: &mut World<'_>) -> Reply {
        Reply::TimedOut(self.name)
    }

    fn release(self, _: &mut World<'_>) -> Reply {
        Reply::LetGo(self.name)
    }

    fn describe(&self, world: &World<'_>) -> Description {
        let ready = usize::from(world.ready.contains(&self.name));
        Description { waits_for: format!("name {}", self.name), progress: format!("ready {ready} of 1") }
    }
}

type TestPurgatory = Purgatory<&'static str, ReadyWait, ConnectionId>;

fn world(ready: &BTreeSet<u32>) -> World<'_> {
    World { ready, tried: Vec::new(), left: Vec::new() }
}

fn fetch(name: u32) -> ReadyWait {
    ReadyWait { kind: Kind::Fetch, name }
}

fn waiter(since_ms: u64, timeout_ms: i32) -> Waiter<ConnectionId> {
    let since = Instant::from_millis(since_ms);
    Waiter { owner: ConnectionId(since_ms), since, deadline: since.after_timeout_ms(timeout_ms) }
}

fn wake<K: Clone + Eq + Hash>(
    purgatory: &mut Purgatory<K, ReadyWait, ConnectionId>,
    key: &K,
    world: &mut World<'_>,
) -> usize {
    purgatory.wake(key, world, |world, departure, reply| world.left.push((reply.name(), departure.exit)))
}

fn expire(purgatory: &mut TestPurgatory, now: Instant) -> Vec<(u32, Exit)> {
    let nothing = BTreeSet::new();
    let mut world = world(&nothing);
    purgatory
        .expire(now, &mut world, |world, departure, reply| world.left.push((reply.name(), departure.exit)));
    world.left
}

#[test]
fn completes_at_the_first_try_or_when_its_key_is_woken() {
    let mut purgatory = TestPurgatory::new();
    let ready = BTreeSet::from([1]);
    let mut world = world(&ready);
    assert_eq!(wake(&mut purgatory, &"a", &mut world), 0, "nothing to complete before something waits");
    let tried = purgatory.try_or_park(["a"], waiter(0, 100), fetch(1), &mut world);
    assert_eq!(tried, Tried::Completed(Reply::Data(1)));
    assert!(purgatory.is_empty());

    let Tried::Parked(two) = purgatory.try_or_park(["a"], waiter(0, 100), fetch(2), &mut world) else {
        panic!("2 is not ready");
    };
    assert_eq!(wake(&mut purgatory, &"a", &mut world), 0, "not ready yet");
    let ready = BTreeSet::from([2]);
    let mut world = super::tests::world(&ready);
    assert_eq!(wake(&mut purgatory, &"b", &mut world), 0, "another key");
    assert_eq!(wake(&mut purgatory, &"a", &mut world), 1);
    assert_eq!(world.left, [(2, Exit::Completed)]);
    assert_eq!(wake(&mut purgatory, &"a", &mut world), 0, "gone for good");
    assert!(purgatory.get(two).is_none());
    assert_eq!(purgatory.next_deadline(), None, "its deadline went with it");
}

#[test]
fn expires_once_and_never_before_its_deadline() {
    let mut purgatory = TestPurgatory::new();
    let deadline = Instant::from_nanos(20_500_000);
    let late = Waiter { owner: ConnectionId(1), since: Instant::ZERO, deadline };
    purgatory.park(["a", "b"], late, fetch(1));
    purgatory.park(["a"], waiter(0, 1000), fetch(2));
    assert!(expire(&mut purgatory, Instant::from_millis(20)).is_empty());
    assert!(expire(&mut purgatory, Instant::from_nanos(20_499_999)).is_empty());
    assert_eq!(purgatory.next_deadline(), Some(Instant::from_millis(21)));
    assert_eq!(expire(&mut purgatory, Instant::from_millis(21)), [(1, Exit::Expired)]);
    assert!(expire(&mut purgatory, Instant::from_millis(999)).is_empty());
    let metrics = purgatory.metrics(Kind::Fetch);
    assert_eq!((metrics.expired, metrics.num_delayed_operations, metrics.purgatory_size), (1, 1, 1));
}

#[test]
fn a_timeout_of_zero_expires_at_once_and_never_stays() {
    let mut purgatory = TestPurgatory::new();
    purgatory.park(["a"], waiter(5, 0), fetch(1));
    let forever = Waiter { deadline: Instant::NEVER, ..waiter(5, 0) };
    let id = purgatory.park(["a"], forever, fetch(2));
    assert_eq!(expire(&mut purgatory, Instant::from_millis(5)), [(1, Exit::Expired)]);
    assert_eq!(purgatory.next_deadline(), None);
    assert!(expire(&mut purgatory, Instant::NEVER).is_empty());
    assert_eq!(purgatory.get(id).map(|parked| parked.waiter), Some(forever));
}

#[test]
fn a_wait_that_completed_is_in_no_other_queue() {
    let mut purgatory = TestPurgatory::new();
    for name in 0..3 {
        purgatory.park(["a", "b", "c"], waiter(0, 100), fetch(name));
    }
    assert_eq!((purgatory.len(), purgatory.metrics(Kind::Fetch).purgatory_size), (3, 9));
    let ready = BTreeSet::from([1]);
    let mut world = world(&ready);
    assert_eq!(wake(&mut purgatory, &"a", &mut world), 1);
    assert_eq!(world.tried, [0, 1, 2], "first come first served");
    assert_eq!((purgatory.len(), purgatory.metrics(Kind::Fetch).purgatory_size), (2, 6));
    let names: Vec<u32> = purgatory.waits_on(&"b").map(|parked| parked.wait.name).collect();
    assert_eq!(names, [0, 2]);
    assert_eq!(expire(&mut purgatory, Instant::from_millis(100)), [(0, Exit::Expired), (2, Exit::Expired)]);
    assert_eq!((purgatory.metrics(Kind::Fetch).purgatory_size, purgatory.key_count()), (0, 0));
}

/// More than are near in memory, and more on one key than lie together.
#[test]
fn thousands_on_one_key_are_tried_in_their_order_and_leave_no_trace() {
    const WAITS: u32 = 5_000;
    let mut purgatory = Purgatory::<u32, ReadyWait, ConnectionId>::new();
    for name in 0..WAITS {
        // The fetch of many partitions: more keys than a wait keeps by itself.
        let keys = [WAITS, name % 7, WAITS + 1, name, 2 * WAITS + name];
        purgatory.park(keys, waiter(0, 100), fetch(name));
    }
    for divisor in [3, 2, 1] {
        let ready: BTreeSet<u32> = (0..WAITS).filter(|name| name % divisor == 0).collect();
        let before: Vec<u32> = purgatory.waits_on(&WAITS).map(|parked| parked.wait.name).collect();
        let mut world = world(&ready);
        let completed = wake(&mut purgatory, &WAITS, &mut world);
        assert_eq!(world.tried, before, "first come first served");
        let expected: Vec<u32> = before.iter().copied().filter(|name| ready.contains(name)).collect();
        assert_eq!(world.left.iter().map(|(name, _)| *name).collect::<Vec<_>>(), expected);
        assert_eq!(completed, expected.len());
        let left: Vec<u32> = purgatory.waits_on(&(WAITS + 1)).map(|parked| parked.wait.name).collect();
        assert_eq!(left.len(), purgatory.len());
        assert!(left.is_sorted());
    }
    assert_eq!((purgatory.key_count(), purgatory.next_deadline()), (0, None));
    assert_eq!(purgatory.metrics(Kind::Fetch).purgatory_size, 0);
}

#[test]
fn a_key_given_twice_counts_once() {
    let mut purgatory = TestPurgatory::new();
    purgatory.park(["a", "b", "a"], waiter(0, 100), fetch(1));
    assert_eq!(purgatory.metrics(Kind::Fetch).purgatory_size, 2);
    let ready = BTreeSet::new();
    let mut world = world(&ready);
    wake(&mut purgatory, &"a", &mut world);
    assert_eq!(world.tried, [1]);
}

#[test]
fn everything_on_a_key_can_be_taken_without_completing_it() {
    let mut purgatory = TestPurgatory::new();
    purgatory.park(["a"], waiter(0, 100), fetch(1));
    purgatory.park(["a", "b"], waiter(0, 100), fetch(2));
    purgatory.park(["b"], waiter(0, 100), fetch(3));
    let ids: Vec<WaitId> = purgatory.waits_on(&"a").map(|parked| parked.id).collect();
    let names: Vec<u32> =
        ids.iter().filter_map(|&id| purgatory.remove(id)).map(|(_, wait)| wait.name).collect();
    assert_eq!(names, [1, 2]);
    assert!(!purgatory.is_watched(&"a"));
    assert!(purgatory.is_watched(&"b"));
    assert_eq!(purgatory.metrics(Kind::Fetch).removed, 2);
    assert_eq!(expire(&mut purgatory, Instant::from_millis(100)), [(3, Exit::Expired)]);
}

#[test]
fn a_wait_leaves_once_whatever_comes_first() {
    let mut purgatory = TestPurgatory::new();
    let ready = BTreeSet::from([1, 2]);
    let mut world = world(&ready);
    let one = purgatory.park(["a"], waiter(0, 100), fetch(1));
    let two = purgatory.park(["a"], waiter(0, 100), fetch(2));
    let (departure, reply) = purgatory.release(one, &mut world).expect("it waits");
    assert_eq!((departure.id, departure.exit, reply), (one, Exit::Released, Reply::LetGo(1)));
    assert_eq!(departure.waiter, waiter(0, 100));
    assert!(purgatory.release(one, &mut world).is_none());
    assert!(purgatory.retry(one, &mut world).is_none());
    assert_eq!(purgatory.retry(two, &mut world).map(|(_, reply)| reply), Some(Reply::Data(2)));
    assert!(purgatory.remove(two).is_none());
    assert!(expire(&mut purgatory, Instant::from_millis(1000)).is_empty());
    let metrics = purgatory.metrics(Kind::Fetch);
    assert_eq!((metrics.released, metrics.completed, metrics.expired, metrics.removed), (1, 1, 0, 0));
    assert_eq!(metrics.parked(), 2);
}

/// More than are near in memory.
#[test]
fn many_are_taken_at_once_in_the_order_in_which_they_are_named() {
    const WAITS: u32 = 5_000;
    let mut purgatory = TestPurgatory::new();
    let ids: Vec<WaitId> =
        (0..WAITS).map(|name| purgatory.park(["a", "b"], waiter(0, 100), fetch(name))).collect();
    let (taken, kept) = ids.split_at(WAITS as usize / 2);
    // One has left already, one is named twice.
    assert!(purgatory.remove(taken[3]).is_some());
    let named: Vec<WaitId> = taken.iter().rev().copied().chain([taken[0]]).collect();
    let mut names = Vec::new();
    let count = purgatory.take_all(&named, Exit::Removed, |departure, wait| {
        assert_eq!((departure.exit, departure.waiter), (Exit::Removed, waiter(0, 100)));
        names.push(wait.name);
    });
    let expected: Vec<u32> = (0..WAITS / 2).rev().filter(|&name| name != 3).collect();
    assert_eq!((count, names), (expected.len(), expected));
    assert!(kept.iter().all(|&id| purgatory.get(id).is_some()));
    let metrics = purgatory.metrics(Kind::Fetch);
    assert_eq!((metrics.removed, metrics.purgatory_size), (u64::from(WAITS / 2), u64::from(WAITS)));
    assert_eq!(expire(&mut purgatory, Instant::from_millis(100)).len(), kept.len());
}

#[test]
fn an_id_never_names_a_later_wait() {
    let mut purgatory = TestPurgatory::new();
    let old = purgatory.park(["a"], waiter(0, 100), fetch(1));
    purgatory.remove(old);
    let new = purgatory.park(["a"], waiter(0, 100), fetch(2));
    assert!(old < new && purgatory.get(old).is_none() && purgatory.remove(old).is_none());
    assert!(!purgatory.reschedule(Instant::ZERO, old, Instant::ZERO));
    assert_eq!(purgatory.find(new.serial()), Some(new));
    assert_eq!(purgatory.find(old.serial()), None);
    assert_eq!((new.to_string(), old.to_string()), ("2".into(), "1".into()));
}

#[test]
fn a_deadline_can_be_moved_and_a_wait_describes_itself() {
    let mut purgatory = TestPurgatory::new();
    let id = purgatory.park([], waiter(0, 10), fetch(1));
    assert!(purgatory.reschedule(Instant::ZERO, id, Instant::from_millis(500)));
    assert!(expire(&mut purgatory, Instant::from_millis(499)).is_empty());
    let nothing = BTreeSet::new();
    let said = purgatory.get(id).map(|parked| parked.wait.describe(&world(&nothing)));
    let expected = Description { waits_for: "name 1".into(), progress: "ready 0 of 1".into() };
    assert_eq!(said, Some(expected));
    assert_eq!(expire(&mut purgatory, Instant::from_millis(500)).len(), 1);
}

#[test]
fn metrics_are_kept_by_kind_and_add_up() {
    let mut purgatory = TestPurgatory::new();
    purgatory.park(["a", "b"], waiter(0, 10), fetch(1));
    purgatory.park(["a"], waiter(0, 20), ReadyWait { kind: Kind::Produce, name: 2 });
    expire(&mut purgatory, Instant::from_millis(10));
    let (fetches, produces) = (purgatory.metrics(Kind::Fetch), purgatory.metrics(Kind::Produce));
    assert_eq!(fetches, Metrics { expired: 1, ..Metrics::default() });
    assert_eq!(produces, Metrics { purgatory_size: 1, num_delayed_operations: 1, ..Metrics::default() });
    let mut sum = fetches;
    sum += produces;
    assert_eq!(
        sum,
        Metrics { purgatory_size: 1, num_delayed_operations: 1, expired: 1, ..Metrics::default() }
    );
}

/// Completes when it is tried, if the context says that all is sound; panics otherwise.
#[derive(Debug)]
struct FragileWait;

impl Waiting for FragileWait {
    type Kind = Kind;

    fn kind(&self) -> Kind {
        Kind::Fetch
    }
}

impl Wait<bool> for FragileWait {
    type Reply = ();

    fn try_complete(&mut self, sound: &mut bool) -> Option<()> {
        assert!(*sound, "injected");
        Some(())
    }

    fn expire(self, _: &mut bool) {}

    fn describe(&self, _: &bool) -> Description {
        Description::default()
    }
}

#[test]
fn a_panic_in_a_wait_leaves_the_purgatory_as_it_was() {
    let mut purgatory = Purgatory::<u8, FragileWait, ()>::new();
    let forever = Waiter { owner: (), since: Instant::ZERO, deadline: Instant::NEVER };
    let ids = [1, 2].map(|key| purgatory.park([7, key], forever, FragileWait));
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        purgatory.wake(&7, &mut false, |_, _, ()| unreachable!("it panics"))
    }));
    assert!(panicked.is_err());
    assert_eq!((purgatory.len(), purgatory.metrics(Kind::Fetch).purgatory_size), (2, 4));
    assert!(purgatory.remove(ids[0]).is_some());
    assert_eq!(purgatory.wake(&7, &mut true, |_, departure, ()| assert_eq!(departure.id, ids[1])), 1);
    assert_eq!((purgatory.len(), purgatory.key_count()), (0, 0));
}

#[test]
fn an_emptied_purgatory_gives_its_memory_back() {
    let mut purgatory = Purgatory::<u32, ReadyWait, ConnectionId>::new();
    let count = KEPT_WAITS as u32 * 2;
    let ids: Vec<WaitId> =
        (0..count).map(|name| purgatory.park([name], waiter(0, i32::MAX), fetch(name))).collect();
    for &id in &ids {
        assert!(purgatory.remove(id).is_some());
    }
    assert_eq!(purgatory.slots.most(), 0);
    let id = purgatory.park([7], waiter(0, 10), fetch(1));
    assert!(!ids.contains(&id));
}

/// One step of a random run. Indices choose among what is there.
#[derive(Clone, Debug)]
enum Step {
    Park { keys: Vec<u8>, timeout: Duration, produce: bool },
    MakeReady { index: usize },
    Wake { key: u8 },
    Retry { index: usize },
    Release { index: usize },
    Remove { index: usize },
    Reschedule { index: usize, timeout: Duration },
    Pass { span: Duration },
    Expire,
    ExpireNext,
    Fork,
}

fn span() -> impl Strategy<Value = Duration> {
    prop_oneof![
        Just(Duration::ZERO),
        (0..3_000_000u64).prop_map(Duration::from_nanos),
        (0..50u64).prop_map(Duration::from_millis),
        (0..2_000_000_000u64).prop_map(Duration::from_nanos),
        (0..700_000u64).prop_map(Duration::from_millis),
        Just(Duration::from_millis(i32::MAX as u64)),
    ]
}

fn step() -> impl Strategy<Value = Step> {
    let timeout = || prop_oneof![9 => span(), 1 => Just(Duration::MAX)];
    prop_oneof![
        6 => (prop::collection::vec(0..6u8, 0..5), timeout(), any::<bool>())
            .prop_map(|(keys, timeout, produce)| Step::Park { keys, timeout, produce }),
        3 => any::<usize>().prop_map(|index| Step::MakeReady { index }),
        2 => (0..6u8).prop_map(|key| Step::Wake { key }),
        1 => any::<usize>().prop_map(|index| Step::Retry { index }),
        1 => any::<usize>().prop_map(|index| Step::Release { index }),
        1 => any::<usize>().prop_map(|index| Step::Remove { index }),
        1 => (any::<usize>(), timeout()).prop_map(|(index, timeout)| Step::Reschedule { index, timeout }),
        1 => span().prop_map(|span| Step::Pass { span }),
        2 => Just(Step::Expire),
        2 => Just(Step::ExpireNext),
        1 => Just(Step::Fork),
    ]
}

/// What is known of a wait, kept in the simplest way.
#[derive(Clone, Debug)]
struct ModelWait {
    id: WaitId,
    kind: Kind,
    keys: BTreeSet<u8>,
    waiter: Waiter<ConnectionId>,
    /// Orders deadlines of the same millisecond.
    scheduled: u64,
}

struct Model {
    now: Instant,
    purgatory: Purgatory<u8, ReadyWait, ConnectionId>,
    /// By name, which is the order in which they were parked.
    waits: BTreeMap<u32, ModelWait>,
    ready: BTreeSet<u32>,
    metrics: [Metrics; 2],
    names: u32,
    scheduled: u64,
}

impl Model {
    fn new() -> Self {
        Model {
            now: Instant::from_nanos(123_456_789),
            purgatory: Purgatory::new(),
            waits: BTreeMap::new(),
            ready: BTreeSet::new(),
            metrics: [Metrics::default(); 2],
            names: 0,
            scheduled: 0,
        }
    }

    fn chosen(&self, index: usize) -> Option<(u32, WaitId)> {
        let (&name, wait) = self.waits.iter().nth(index % self.waits.len().max(1))?;
        Some((name, wait.id))
    }

    fn left(&mut self, name: u32, departure: Departure<ConnectionId>, exit: Exit) {
        let wait = self.waits.remove(&name).expect("leaves once");
        assert_eq!((departure.id, departure.waiter, departure.exit), (wait.id, wait.waiter, exit));
        self.metrics[wait.kind.index()].leave(wait.keys.len() as u32, exit);
    }

    /// Names in the order in which they fire, each with the millisecond.
    fn firing(&self) -> Vec<(u64, u64, u32)> {
        let fires = |wait: &ModelWait| wait.waiter.deadline.as_nanos().div_ceil(1_000_000);
        let finite = self.waits.iter().filter(|(_, wait)| wait.waiter.deadline != Instant::NEVER);
        let mut firing: Vec<_> = finite.map(|(&name, wait)| (fires(wait), wait.scheduled, name)).collect();
        firing.sort();
        firing
    }

    fn expire(&mut self) -> usize {
        let due: Vec<u32> =
            self.firing().iter().filter(|due| due.0 <= self.now.as_millis()).map(|due| due.2).collect();
        for &name in &due {
            let (departure, wait) = self.purgatory.take_expired(self.now).expect("due");
            assert_eq!(wait.name, name, "by millisecond, then first come first served");
            assert!(departure.waiter.deadline <= self.now, "never early");
            self.left(name, departure, Exit::Expired);
        }
        assert!(self.purgatory.take_expired(self.now).is_none());
        let on_time = |wait: &ModelWait| wait.waiter.deadline + Duration::from_millis(1) > self.now;
        assert!(self.waits.values().all(on_time), "less than 1 ms late");
        match self.purgatory.next_deadline() {
            Some(next) => assert!(
                next > self.now && next.as_millis() <= self.firing()[0].0,
                "neither spins nor is late"
            ),
            None => assert!(self.firing().is_empty()),
        }
        due.len()
    }

    /// Sleeps as a driver does until something expires.
    fn expire_next(&mut self) {
        self.expire();
        let Some(&(first, ..)) = self.firing().first() else { return };
        for calls in 1.. {
            self.now = self.purgatory.next_deadline().expect("something is due some time");
            if self.expire() > 0 {
                assert!(calls <= 12, "few wake-ups for nothing");
                break;
            }
        }
        assert_eq!(self.now, Instant::from_millis(first));
    }

    fn park(&mut self, keys: Vec<u8>, timeout: Duration, produce: bool) {
        let (name, kind) = (self.names, if produce { Kind::Produce } else { Kind::Fetch });
        let owner = ConnectionId(u64::from(name));
        let waiter = Waiter { owner, since: self.now, deadline: self.now + timeout };
        let id = self.purgatory.park(keys.iter().copied(), waiter, ReadyWait { kind, name });
        assert!(self.waits.values().all(|wait| wait.id < id));
        let keys = BTreeSet::from_iter(keys);
        self.metrics[kind.index()].enter(keys.len() as u32);
        self.waits.insert(name, ModelWait { id, kind, keys, waiter, scheduled: self.scheduled });
        self.names += 1;
        self.scheduled += 1;
    }

    fn wake(&mut self, key: u8) {
        let queue: Vec<u32> = self.queue(key);
        let ready = self.ready.clone();
        let mut world = world(&ready);
        let mut gone = Vec::new();
        let count =
            self.purgatory.wake(&key, &mut world, |_, departure, reply| gone.push((reply, departure)));
        assert_eq!(world.tried, queue);
        let expected: Vec<u32> = queue.into_iter().filter(|name| ready.contains(name)).collect();
        assert_eq!(gone.iter().map(|(reply, _)| reply.name()).collect::<Vec<_>>(), expected);
        assert_eq!(count, expected.len());
        for (reply, departure) in gone {
            assert_eq!(reply, Reply::Data(reply.name()));
            self.left(reply.name(), departure, Exit::Completed);
        }
    }

    fn queue(&self, key: u8) -> Vec<u32> {
        self.waits.iter().filter(|(_, wait)| wait.keys.contains(&key)).map(|(&name, _)| name).collect()
    }

    fn take(&mut self, step: &Step, index: usize) {
        let Some((name, id)) = self.chosen(index) else { return };
        let ready = self.ready.clone();
        let mut world = world(&ready);
        match *step {
            Step::MakeReady { .. } => {
                self.ready.insert(name);
            }
            Step::Retry { .. } => match self.purgatory.retry(id, &mut world) {
                Some((departure, _)) => self.left(name, departure, Exit::Completed),
                None => assert!(!self.ready.contains(&name)),
            },
            Step::Release { .. } => {
                let (departure, reply) = self.purgatory.release(id, &mut world).expect("it waits");
                assert_eq!(reply, Reply::LetGo(name));
                self.left(name, departure, Exit::Released);
            }
            Step::Remove { .. } => {
                let (departure, _) = self.purgatory.remove(id).expect("it waits");
                self.left(name, departure, Exit::Removed);
            }
            Step::Reschedule { timeout, .. } => {
                let deadline = self.now + timeout;
                assert!(self.purgatory.reschedule(self.now, id, deadline));
                let wait = self.waits.get_mut(&name).expect("chosen");
                (wait.waiter.deadline, wait.scheduled) = (deadline, self.scheduled);
                self.scheduled += 1;
            }
            _ => unreachable!("takes no index"),
        }
        let gone = !self.waits.contains_key(&name);
        assert_eq!(gone, self.purgatory.get(id).is_none());
    }

    fn apply(&mut self, step: Step) {
        match step {
            Step::Park { keys, timeout, produce } => self.park(keys, timeout, produce),
            Step::Wake { key } => self.wake(key),
            Step::MakeReady { index }
            | Step::Retry { index }
            | Step::Release { index }
            | Step::Remove { index }
            | Step::Reschedule { index, .. } => self.take(&step, index),
            Step::Pass { span } => self.now = self.now + span,
            Step::Expire => {
                self.expire();
            }
            Step::ExpireNext => self.expire_next(),
            Step::Fork => self.purgatory = self.purgatory.clone(),
        }
        self.compare();
    }

    fn compare(&self) {
        assert_eq!(self.purgatory.len(), self.waits.len());
        for kind in [Kind::Fetch, Kind::Produce] {
            assert_eq!(self.purgatory.metrics(kind), self.metrics[kind.index()]);
        }
        let mut seen: Vec<_> = self.purgatory.iter().map(|p| (p.id, p.wait.name, p.waiter)).collect();
        seen.sort_by_key(|wait| wait.0);
        let known: Vec<_> = self.waits.iter().map(|(&name, wait)| (wait.id, name, wait.waiter)).collect();
        assert_eq!(seen, known);
        let queues: Vec<Vec<u32>> = (0..6).map(|key| self.queue(key)).collect();
        for (key, queue) in queues.iter().enumerate() {
            let waits: Vec<u32> =
                self.purgatory.waits_on(&(key as u8)).map(|parked| parked.wait.name).collect();
            assert_eq!(waits, *queue);
        }
        assert_eq!(self.purgatory.key_count(), queues.iter().filter(|queue| !queue.is_empty()).count());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn behaves_like_the_model(steps in prop::collection::vec(step(), 1..120)) {
        let mut model = Model::new();
        for step in steps {
            model.apply(step);
        }
        // In the end everything that has a deadline expires, in order.
        while !model.firing().is_empty() {
            model.expire_next();
        }
        model.compare();
    }
}
