//! The owner of the [`Cluster`]: a lock, under which calls go in and outputs come out.
//!
//! A connection's own task takes the lock, hands its request in and takes its own reply out again, so that a request
//! that can be answered at once costs no wake-up. Replies for others go to their mailboxes. The lock is never held
//! over an await, and what is woken is woken after it is let go.
//!
//! All connections are served by one thread. Other ways were tried, on two cores shared with the client, all in one
//! binary, four rounds in turn; the broker's CPU time as a multiple of this way's (least disturbed rounds):
//!
//! | | 1 produce in flight | 4 × 5 produces of 16 KiB | 1 record wakes 1,000 fetches |
//! |---|---|---|---|
//! | two threads that serve connections and share the lock | 1.0–2.0 | 1.2 | 1.3 |
//! | a task that owns the cluster, fed by a channel | 1.1 | 1.3 | 1.2 |
//! | a thread that owns the cluster, fed by a channel | 1.9 | 1.5 | 1.3 |

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Duration;

use slab::Slab;
use tokio::sync::{Notify, mpsc, oneshot};

use super::clock::{Clock, ClusterClock, Pace};
use super::doors::{AddBrokerError, DoorChange, NewBroker};
use super::lock;
use super::mailbox::{Delivery, Ending, Mailbox};
use super::options::LogControl;
use super::quotas::ConnectionQuotas;
use crate::api::{Connection, Prepared, Reply};
use crate::base::{ConnectionId, Instant, NodeId, Now};
use crate::cluster::{BROKER_DOWN, BrokerState, CLIENT_GONE, Cluster, Command, CommandError, Done, Output};

/// What became of a request.
#[derive(Debug)]
pub(crate) enum Turn {
    /// It is answered.
    Reply(Reply),
    /// It waits; the mailbox will have its reply.
    Parked,
    /// The connection must be closed.
    End(Ending),
}

/// Owns the cluster and knows every connection.
#[derive(Debug)]
pub(crate) struct Driver {
    core: Mutex<Core>,
    /// The machine's, not the cluster's.
    clock: Clock,
    /// What the timer task sleeps for, in nanoseconds on the machine's clock.
    armed: AtomicU64,
    rearmed: Notify,
    open: AtomicUsize,
    closed: Notify,
    stopping: AtomicBool,
    panics: AtomicU64,
    doors: mpsc::UnboundedSender<DoorChange>,
    quotas: Arc<ConnectionQuotas>,
    log_control: Option<LogControl>,
}

#[derive(Debug)]
struct Core {
    cluster: Cluster,
    clock: ClusterClock,
    /// Where those who move the clock on want it to be, the furthest of them.
    wanted: Instant,
    connections: Slab<Entry>,
    /// Makes ids unique although places in the slab are used again.
    opened: u32,
}

#[derive(Debug)]
struct Entry {
    id: ConnectionId,
    node: NodeId,
    mailbox: Arc<Mailbox>,
}

impl Driver {
    /// `steered` is the cluster's clock, told from the machine's. `doors` hears of brokers that go down and come up
    /// again.
    pub(crate) fn new(
        cluster: Cluster,
        clock: Clock,
        steered: ClusterClock,
        doors: mpsc::UnboundedSender<DoorChange>,
    ) -> Self {
        let deadline = cluster.poll_timeout().and_then(|deadline| steered.on_machine(deadline));
        let armed = deadline.map_or(u64::MAX, Instant::as_nanos);
        let wanted = Instant::ZERO;
        let quotas = Arc::new(ConnectionQuotas::default());
        for (node, _) in cluster.brokers() {
            quotas.set(node, &cluster.controller().settings_of(node).connections);
        }
        Driver {
            core: Mutex::new(Core { cluster, clock: steered, wanted, connections: Slab::new(), opened: 0 }),
            clock,
            armed: AtomicU64::new(armed),
            rearmed: Notify::new(),
            open: AtomicUsize::new(0),
            closed: Notify::new(),
            stopping: AtomicBool::new(false),
            panics: AtomicU64::new(0),
            doors,
            quotas,
            log_control: None,
        }
    }

    /// The same, with the process's loggers.
    pub(crate) fn with_log_control(self, log_control: Option<LogControl>) -> Self {
        Driver { log_control, ..self }
    }

    /// The machine's clock, by which the shell lives.
    pub(crate) fn clock(&self) -> Clock {
        self.clock
    }

    /// How many panics have ended a connection or a call into the cluster since the start.
    pub(crate) fn panics(&self) -> u64 {
        self.panics.load(Ordering::Relaxed)
    }

    /// How many requests wait.
    #[cfg(test)]
    pub(super) fn parked(&self) -> usize {
        self.look(|cluster, now| cluster.waits(now).len())
    }

    /// How many connections there may be.
    pub(crate) fn quotas(&self) -> &Arc<ConnectionQuotas> {
        &self.quotas
    }

    /// Connections that are open.
    pub(crate) fn open_connections(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }

    /// Waits until a connection closes, if [`Driver::open_connections`] was asked after this was called.
    pub(crate) fn connection_closed(&self) -> tokio::sync::futures::Notified<'_> {
        self.closed.notified()
    }

    /// A client has connected. The connection ends when the handle is dropped.
    pub(crate) fn open(self: &Arc<Self>, connection: Connection) -> Handle {
        let mailbox = Arc::new(Mailbox::new(self.clock.instant()));
        let mut core = lock(&self.core);
        core.opened = core.opened.wrapping_add(1);
        let generation = core.opened;
        let place = core.connections.vacant_entry();
        let key = u32::try_from(place.key()).unwrap_or(u32::MAX);
        let id = ConnectionId(u64::from(generation) << 32 | u64::from(key));
        place.insert(Entry { id, node: connection.node, mailbox: mailbox.clone() });
        self.open.fetch_add(1, Ordering::Relaxed);
        drop(core);
        self.call(None, |cluster, now| cluster.handle_opened(now, id, connection));
        if self.stopping.load(Ordering::Relaxed) {
            mailbox.deliver(Delivery::End(Ending::Shutdown));
        }
        Handle { driver: self.clone(), id, mailbox }
    }

    /// Has the cluster carry out a command.
    ///
    /// # Errors
    /// As the cluster has them.
    pub(crate) fn command(&self, command: Command) -> Result<Done, CommandError> {
        let mut done = Err(CommandError::Defect);
        self.call(None, |cluster, now| done = cluster.handle_command(now, command));
        done
    }

    /// When all listening sockets are as the commands that were carried out before want them; with a line for each
    /// that can't be.
    pub(crate) fn doors_settled(&self) -> oneshot::Receiver<Vec<String>> {
        let (settled, when) = oneshot::channel();
        self.change_door(DoorChange::Settle(settled));
        when
    }

    /// Starts one more broker, with listeners of its own; the answer says which.
    pub(crate) fn add_broker(&self, broker: NewBroker) -> oneshot::Receiver<Result<NodeId, AddBrokerError>> {
        let (done, when) = oneshot::channel();
        self.change_door(DoorChange::Add(broker, done));
        when
    }

    /// Nobody listens once the server has stopped, and there is nothing left to open or close then.
    pub(crate) fn change_door(&self, change: DoorChange) {
        let _ = self.doors.send(change);
    }

    /// Every broker and how it is.
    pub(crate) fn brokers(&self) -> Vec<(NodeId, BrokerState)> {
        lock(&self.core).cluster.brokers()
    }

    /// Looks at the cluster.
    pub(crate) fn look<T>(&self, look: impl FnOnce(&mut Cluster, Now) -> T) -> T {
        let mut core = lock(&self.core);
        let now = core.clock.now(self.clock.now());
        look(&mut core.cluster, now)
    }

    /// The cluster's clock: how it goes, and what it shows.
    pub(crate) fn time(&self) -> (Pace, Now) {
        let core = lock(&self.core);
        (core.clock.pace(), core.clock.now(self.clock.now()))
    }

    /// Lets the cluster's clock go otherwise from now on.
    pub(crate) fn set_pace(&self, pace: Pace) {
        let machine = self.clock.now();
        lock(&self.core).clock.set_pace(machine, pace);
        // The timer task looks again: what it sleeps for may be nearer now.
        self.call(None, Cluster::handle_timeout);
    }

    /// Begins to move the cluster's clock on by `span`; [`Driver::step_towards`] must be called until it is there.
    /// Several who do this at a time move it by all their spans.
    pub(crate) fn begin_advance(&self, span: Duration) -> Instant {
        let mut core = lock(&self.core);
        let now = core.clock.now(self.clock.now()).instant;
        core.wanted = core.wanted.max(now) + span;
        core.wanted
    }

    /// Moves the cluster's clock on towards `end`, no further than to the next moment at which something happens by
    /// itself, which then does. Returns whether the clock is there and nothing is left to do.
    pub(crate) fn step_towards(&self, end: Instant) -> bool {
        let mut core = lock(&self.core);
        let machine = self.clock.now();
        let now = core.clock.now(machine).instant;
        let due = core.cluster.poll_timeout().filter(|due| *due <= end.max(now));
        core.clock.move_to(machine, due.unwrap_or(end));
        drop(core);
        match due {
            Some(_) => self.call(None, Cluster::handle_timeout),
            // Deadlines are nearer now.
            None => self.call(None, |_, _| ()),
        };
        due.is_none()
    }

    /// Ends every connection, those that wait with the answer that there is, and every one that comes later.
    pub(crate) fn shut_down(&self) {
        // It refuses nothing.
        let _ = self.command(Command::Shutdown);
        self.stopping.store(true, Ordering::Relaxed);
        let everyone = lock(&self.core).connections.iter().map(|(_, entry)| entry.mailbox.clone()).collect();
        end_all(everyone, Ending::Shutdown);
    }

    /// Ends the connections that have done nothing for `max_idle`, and asks those that have done nothing for
    /// `max_buffer_idle` to give up their buffers. Returns when the quietest one of the others was last active.
    pub(crate) fn sweep(
        &self,
        now: Instant,
        max_idle: Option<Duration>,
        max_buffer_idle: Duration,
    ) -> Option<Instant> {
        let mut idle = Vec::new();
        let mut trimmed = Vec::new();
        let mut oldest = None;
        for (_, entry) in &lock(&self.core).connections {
            let active = entry.mailbox.active();
            let quiet = now.saturating_since(active);
            if active == Instant::NEVER {
                continue;
            } else if max_idle.is_some_and(|max_idle| quiet >= max_idle) {
                idle.push(entry.mailbox.clone());
                continue;
            } else if quiet >= max_buffer_idle {
                trimmed.extend(entry.mailbox.ask_to_trim());
            }
            oldest = Some(oldest.map_or(active, |oldest: Instant| oldest.min(active)));
        }
        end_all(idle, Ending::Idle);
        trimmed.into_iter().for_each(Waker::wake);
        oldest
    }

    /// Calls the cluster when its deadlines come. Never returns.
    pub(crate) async fn run_timer(&self) {
        loop {
            let armed = self.armed.load(Ordering::Acquire);
            let rearmed = self.rearmed.notified();
            if armed == u64::MAX {
                rearmed.await;
                continue;
            }
            let deadline = Instant::from_nanos(armed);
            let due = tokio::select! {
                biased;
                () = rearmed => false,
                () = tokio::time::sleep_until(self.clock.at(deadline)) => true,
            };
            if due {
                self.armed.store(u64::MAX, Ordering::Release);
                self.call(None, Cluster::handle_timeout);
                // Where there is more to do at once, others have their turn first.
                tokio::task::yield_now().await;
            }
        }
    }

    /// One call into the cluster, and everything that comes out of it. The reply of `own`, if there is one, is
    /// returned; everything else is delivered.
    fn call(&self, own: Option<ConnectionId>, into: impl FnOnce(&mut Cluster, Now)) -> Option<Delivery> {
        let mut woken = Vec::new();
        let mut mine = None;
        let mut core = lock(&self.core);
        let Core { cluster, clock, connections, .. } = &mut *core;
        let now = clock.now(self.clock.now());
        // The cluster stays usable after a panic: it is a plain value, and what the handler had not done is not done.
        if catch_unwind(AssertUnwindSafe(|| into(cluster, now))).is_err() {
            self.panics.fetch_add(1, Ordering::Relaxed);
            mine = Some(Delivery::End(Ending::Panicked));
        }
        while let Some(output) = cluster.poll_output() {
            let (connection, delivery) = match output {
                Output::Reply(reply) => (reply.connection, Delivery::Reply(reply)),
                Output::Close { connection, reason: BROKER_DOWN } => {
                    (connection, Delivery::End(Ending::BrokerDown))
                }
                Output::Close { connection, reason: CLIENT_GONE } => {
                    (connection, Delivery::End(Ending::ClientGone))
                }
                Output::Close { connection, reason } => (connection, Delivery::End(Ending::Refused(reason))),
                Output::BrokerDown(node) => {
                    self.change_door(DoorChange::Close(node));
                    continue;
                }
                Output::BrokerRemoved(node) => {
                    self.change_door(DoorChange::Remove(node));
                    continue;
                }
                Output::BrokerUp(node) => {
                    self.change_door(DoorChange::Open(node));
                    continue;
                }
                Output::Configured(node, settings) => {
                    let excess = self.quotas.set(node, &settings.connections);
                    woken.extend(end_quietest(connections, node, excess));
                    continue;
                }
                Output::LogLevels(loggers) => {
                    if let Some(control) = &self.log_control {
                        (control.apply)(&loggers);
                    }
                    continue;
                }
            };
            if Some(connection) == own && mine.is_none() {
                mine = Some(delivery);
            } else if let Some(mailbox) = find(connections, connection) {
                woken.extend(mailbox.deliver(delivery));
            }
        }
        let deadline = cluster.poll_timeout().and_then(|deadline| clock.on_machine(deadline));
        drop(core);
        self.arm(deadline);
        woken.into_iter().for_each(Waker::wake);
        mine
    }

    fn arm(&self, deadline: Option<Instant>) {
        let Some(deadline) = deadline else { return };
        let nanos = deadline.as_nanos();
        if self.armed.fetch_min(nanos, Ordering::AcqRel) > nanos {
            self.rearmed.notify_one();
        }
    }
}

fn find(connections: &Slab<Entry>, id: ConnectionId) -> Option<&Arc<Mailbox>> {
    let key = usize::try_from(id.0 & u64::from(u32::MAX)).ok()?;
    connections.get(key).filter(|entry| entry.id == id).map(|entry| &entry.mailbox)
}

/// Ends those of a broker's connections that have done nothing for longest (`Processor.closeExcessConnections`).
fn end_quietest(connections: &Slab<Entry>, node: NodeId, count: usize) -> Vec<Waker> {
    if count == 0 {
        return Vec::new();
    }
    let mut entries: Vec<&Entry> =
        connections.iter().map(|(_, entry)| entry).filter(|entry| entry.node == node).collect();
    entries.sort_by_key(|entry| (entry.mailbox.active(), entry.id));
    let ended = entries.into_iter().take(count);
    ended.filter_map(|entry| entry.mailbox.deliver(Delivery::End(Ending::Excess))).collect()
}

fn end_all(mailboxes: Vec<Arc<Mailbox>>, ending: Ending) {
    for mailbox in mailboxes {
        if let Some(waker) = mailbox.deliver(Delivery::End(ending)) {
            waker.wake();
        }
    }
}

/// One connection, as its task holds it. Dropping it tells the cluster that the client has gone.
#[derive(Debug)]
pub(crate) struct Handle {
    driver: Arc<Driver>,
    id: ConnectionId,
    mailbox: Arc<Mailbox>,
}

impl Handle {
    pub(crate) fn driver(&self) -> &Driver {
        &self.driver
    }

    pub(crate) fn mailbox(&self) -> &Mailbox {
        &self.mailbox
    }

    /// Hands a request to the cluster.
    pub(crate) fn request(&self, prepared: Prepared) -> Turn {
        let id = self.id;
        match self.driver.call(Some(id), |cluster, now| cluster.handle_request(now, id, prepared)) {
            Some(Delivery::Reply(reply)) => Turn::Reply(reply),
            Some(Delivery::End(ending)) => Turn::End(ending),
            None => Turn::Parked,
        }
    }

    /// Tells the cluster that the client sends no more.
    pub(crate) fn sending_ended(&self) {
        let id = self.id;
        self.driver.call(None, |cluster, _| cluster.handle_sending_ended(id));
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        if std::thread::panicking() {
            // What the connection's own task does, reading requests and encoding responses, has panicked.
            self.driver.panics.fetch_add(1, Ordering::Relaxed);
        }
        let id = self.id;
        let key = usize::try_from(id.0 & u64::from(u32::MAX)).unwrap_or(usize::MAX);
        lock(&self.driver.core).connections.try_remove(key);
        self.driver.call(None, |cluster, now| cluster.handle_closed(now, id));
        self.driver.open.fetch_sub(1, Ordering::Relaxed);
        self.driver.closed.notify_waiters();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::api::Endpoint;
    use crate::cluster::ClusterConfig;
    use crate::faults::{HoldPoint, HoldRule};

    fn api_versions() -> Prepared {
        // Key, version, correlation id, and no client id.
        let frame: &[u8] = &[0, 18, 0, 0, 0, 0, 0, 1, 0xff, 0xff];
        crate::api::Preparer::default().prepare(bytes::Bytes::copy_from_slice(frame)).unwrap()
    }

    fn driver() -> Arc<Driver> {
        let cluster = Cluster::new(ClusterConfig::default(), Now::default()).unwrap();
        let clock = Clock::start();
        let steered = ClusterClock::new(clock.now(), Pace::Machine);
        Arc::new(Driver::new(cluster, clock, steered, mpsc::unbounded_channel().0))
    }

    fn open(driver: &Arc<Driver>) -> Handle {
        let local = Endpoint { host: "127.0.0.1".into(), port: 1 };
        driver.open(Connection { node: NodeId(1), listener: "PLAINTEXT".into(), local, peer: "test".into() })
    }

    #[test]
    fn a_panic_of_a_connections_task_is_counted_and_its_connection_gone() {
        let driver = driver();
        let handle = open(&driver);
        let panicked = std::thread::spawn(move || {
            let _handle = handle;
            panic!("a test wants it");
        });
        assert!(panicked.join().is_err());
        assert_eq!((driver.panics(), driver.open_connections()), (1, 0));
        drop(open(&driver));
        assert_eq!(driver.panics(), 1);
    }

    #[test]
    fn a_manual_clock_is_moved_from_deadline_to_deadline() {
        let driver = driver();
        driver.set_pace(Pace::Manual);
        let (pace, start) = driver.time();
        assert_eq!(pace, Pace::Manual);
        let rule =
            HoldRule { time_limit: Some(Duration::from_secs(3)), ..HoldRule::new(HoldPoint::BeforeApply) };
        driver.command(Command::AddHold(rule)).unwrap();
        let handle = open(&driver);
        let turn = handle.request(api_versions());
        assert!(matches!(turn, Turn::Parked), "{turn:?}");
        let mut steps = 0;
        let mut advance = |millis| {
            let end = driver.begin_advance(Duration::from_millis(millis));
            while !driver.step_towards(end) {
                steps += 1;
            }
            (driver.time().1.instant - start.instant, driver.parked(), steps)
        };
        assert_eq!(advance(2_999), (Duration::from_millis(2_999), 1, 0));
        assert_eq!(advance(100_000), (Duration::from_millis(102_999), 0, 1));
        let mut context = std::task::Context::from_waker(Waker::noop());
        assert!(matches!(
            handle.mailbox().poll_delivery(&mut context),
            std::task::Poll::Ready(Delivery::Reply(_))
        ));
    }

    #[test]
    fn two_who_move_the_clock_move_it_by_both_spans() {
        let driver = driver();
        driver.set_pace(Pace::Manual);
        let start = driver.time().1.instant;
        let ends = [10, 20].map(|millis| driver.begin_advance(Duration::from_millis(millis)));
        for end in ends {
            assert!(driver.step_towards(end));
        }
        assert_eq!(driver.time().1.instant - start, Duration::from_millis(30));
    }

    #[test]
    fn ids_are_not_used_again_although_places_are() {
        let driver = driver();
        let first = open(&driver);
        let first_id = first.id;
        drop(first);
        let second = open(&driver);
        assert_ne!(second.id, first_id);
        let core = lock(&driver.core);
        assert_eq!(core.connections.len(), 1);
        assert!(find(&core.connections, first_id).is_none());
        assert!(find(&core.connections, second.id).is_some());
    }

    #[test]
    fn a_connection_that_opens_while_the_broker_stops_is_ended() {
        let driver = driver();
        let before = open(&driver);
        driver.shut_down();
        let after = open(&driver);
        for handle in [before, after] {
            let mut context = std::task::Context::from_waker(Waker::noop());
            let ending = handle.mailbox().poll_ending(&mut context);
            assert_eq!(ending, std::task::Poll::Ready(Ending::Shutdown));
        }
    }
}
