//! Brokers' replicas with the messages between them in the test's hand: who leads, what arrives, what time it is.

mod fetching;
mod in_sync;
mod model;
mod proposals;
mod roles;

use std::collections::VecDeque;
use std::sync::Arc;

use super::*;
use crate::controller::configs::TopicConfig;
use crate::controller::{LeaderRecovery, Partition};
use crate::wire::records::{BatchBuilder, BatchHeader};

pub(super) const TOPIC: TopicId = TopicId(7);
pub(super) const KEY: PartitionKey = PartitionKey { topic: TOPIC, index: 0 };

/// What is on its way, or waits on a leader.
#[derive(Clone, Debug)]
pub(super) enum Message {
    Fetch { to: NodeId, fetch: FollowerFetch },
    Fetched { to: NodeId, fetched: FollowerFetched },
    Proposal(AlterPartition),
    Answer { request: AlterPartition, answer: Result<Partition, ErrorCode> },
}

impl Message {
    /// The brokers that it comes from and goes to.
    fn ends(&self) -> [NodeId; 2] {
        match self {
            Message::Fetch { to, fetch } => [*to, fetch.replica],
            Message::Fetched { to, fetched } => [*to, fetched.leader],
            Message::Proposal(request) | Message::Answer { request, .. } => [request.broker; 2],
        }
    }
}

/// Brokers 1, 2 and so on, which hold partition 0 of one topic, and a controller that does what the test says.
#[derive(Clone)]
pub(super) struct World {
    pub(super) brokers: Vec<Replicas>,
    pub(super) pool: ChunkPool,
    pub(super) now_ms: u64,
    pub(super) partition: Partition,
    pub(super) registered: Vec<BrokerRegistration>,
    pub(super) config: TopicConfig,
    pub(super) on_their_way: VecDeque<Message>,
    /// Fetches that wait on a leader for something to read.
    pub(super) parked: Vec<(NodeId, FollowerFetch)>,
    /// Proposals that the controller has not answered.
    pub(super) proposals: Vec<AlterPartition>,
    /// Brokers whose links are cut: what they send and what is sent to them is kept until the links are whole again.
    pub(super) cut_off: Vec<NodeId>,
    kept: Vec<Message>,
    /// Whether the controller takes what leaders propose.
    pub(super) accepts: bool,
}

pub(super) fn node(id: i32) -> NodeId {
    NodeId(id)
}

pub(super) fn nodes(ids: &[i32]) -> Arc<[NodeId]> {
    ids.iter().copied().map(NodeId).collect()
}

impl World {
    /// So many brokers, of which the first leads and all are in sync.
    pub(super) fn new(count: i32) -> Self {
        let ids: Vec<i32> = (1..=count).collect();
        let mut world = World::idle(&ids);
        world.tell_everyone();
        world.run();
        world
    }

    /// Brokers that have not heard of the partition yet.
    pub(super) fn idle(ids: &[i32]) -> Self {
        let registered = ids.iter().map(|id| BrokerRegistration {
            id: node(*id),
            rack: None,
            epoch: 1,
            fenced: false,
            in_controlled_shutdown: false,
            endpoints: Vec::new(),
        });
        let brokers =
            ids.iter().map(|id| Replicas::new(node(*id), &BrokerSettings::default(), Now::at_millis(0)));
        let mut world = World {
            brokers: brokers.collect(),
            pool: ChunkPool::new(64 << 20),
            now_ms: 0,
            partition: first_partition(ids),
            registered: registered.collect(),
            config: TopicConfig::default(),
            on_their_way: VecDeque::new(),
            parked: Vec::new(),
            proposals: Vec::new(),
            cut_off: Vec::new(),
            kept: Vec::new(),
            accepts: true,
        };
        world.tell_brokers();
        world
    }

    pub(super) fn now(&self) -> Now {
        Now::at_millis(self.now_ms)
    }

    pub(super) fn topic(&self) -> Topic {
        Topic {
            id: TOPIC,
            name: "topic".into(),
            is_internal: false,
            partitions: vec![self.partition.clone()],
            overrides: Default::default(),
            config: Arc::new(self.config.clone()),
        }
    }

    pub(super) fn broker(&mut self, id: i32) -> &mut Replicas {
        let found = self.brokers.iter_mut().find(|broker| broker.brokers.this == node(id));
        found.expect("there is such a broker")
    }

    pub(super) fn replica(&self, id: i32) -> &Replica {
        let found = self.brokers.iter().find(|broker| broker.brokers.this == node(id));
        found.and_then(|broker| broker.replica(KEY)).expect("there is such a replica")
    }

    pub(super) fn leader(&self) -> i32 {
        self.partition.leader.expect("somebody leads").0
    }

    /// Log end and high watermark of a broker.
    pub(super) fn ends(&self, id: i32) -> (i64, i64) {
        let replica = self.replica(id);
        (replica.log().log_end_offset(), replica.high_watermark())
    }

    /// All records' bytes of a broker's log.
    pub(super) fn contents(&self, id: i32) -> Vec<u8> {
        self.replica(id).log().batches().flat_map(|batch| batch.bytes.to_vec()).collect()
    }

    /// Tells a broker how the partition is now.
    pub(super) fn tell(&mut self, id: i32) -> Moved {
        let (topic, now) = (self.topic(), self.now());
        let at = self.brokers.iter().position(|broker| broker.brokers.this == node(id));
        let at = at.expect("there is such a broker");
        self.brokers[at].apply(&topic, 0, now, &mut self.pool)
    }

    pub(super) fn tell_everyone(&mut self) {
        let ids: Vec<i32> = self.brokers.iter().map(|broker| broker.brokers.this.0).collect();
        for id in ids {
            if !self.cut_off.contains(&node(id)) {
                self.tell(id);
            }
        }
    }

    pub(super) fn tell_brokers(&mut self) {
        let registered: Arc<[BrokerRegistration]> = self.registered.clone().into();
        self.brokers.iter_mut().for_each(|broker| drop(broker.apply_brokers(&registered)));
    }

    /// Another leader, with this ISR.
    pub(super) fn elect(&mut self, leader: i32, isr: &[i32]) {
        self.partition.leader = Some(node(leader));
        self.partition.isr = nodes(isr);
        self.partition.leader_epoch += 1;
        self.partition.partition_epoch += 1;
        self.tell_everyone();
    }

    /// Another ISR, as the controller decides it.
    pub(super) fn set_isr(&mut self, isr: &[i32]) {
        self.partition.isr = nodes(isr);
        self.partition.partition_epoch += 1;
        self.tell_everyone();
    }

    /// Appends a batch of so many records at the leader, and tells what that has moved.
    pub(super) fn append(&mut self, count: usize) -> Moved {
        self.append_to(self.leader(), count)
    }

    pub(super) fn append_to(&mut self, id: i32, count: usize) -> Moved {
        let batch = batch(count, self.now_ms);
        let now = self.now();
        let at = self.brokers.iter().position(|broker| broker.brokers.this == node(id));
        let broker = &mut self.brokers[at.expect("there is such a broker")];
        let appended = broker.append(KEY, &mut self.pool, &batch, AppendOrigin::Client, now);
        appended.expect("there is a replica").expect("appended").1
    }

    /// Lets messages arrive until none is on its way.
    pub(super) fn run(&mut self) {
        for _ in 0..10_000 {
            if !self.step() {
                return;
            }
        }
        panic!("the brokers don't come to rest");
    }

    /// Lets one message arrive. Returns whether there was one.
    pub(super) fn step(&mut self) -> bool {
        self.collect();
        self.unpark();
        let message = self.on_their_way.pop_front();
        message.map(|message| self.deliver(message)).is_some()
    }

    /// Takes what the brokers have to say.
    pub(super) fn collect(&mut self) {
        for broker in &mut self.brokers {
            for outgoing in broker.take_outgoing() {
                self.on_their_way.push_back(match outgoing {
                    Outgoing::Fetch { to, fetch } => Message::Fetch { to, fetch },
                    Outgoing::AlterPartition(request) => Message::Proposal(request),
                });
            }
        }
    }

    /// Answers fetches that wait and for which there is something now.
    pub(super) fn unpark(&mut self) {
        for (leader, fetch) in std::mem::take(&mut self.parked) {
            let fetched = self.broker(leader.0).read_for_follower(&fetch);
            if fetched.is_empty() {
                self.parked.push((leader, fetch));
            } else {
                self.on_their_way.push_back(Message::Fetched { to: fetch.replica, fetched });
            }
        }
    }

    /// Answers all fetches that wait, as when their time is up.
    pub(super) fn expire_fetches(&mut self) {
        for (leader, fetch) in std::mem::take(&mut self.parked) {
            let fetched = self.broker(leader.0).read_for_follower(&fetch);
            self.on_their_way.push_back(Message::Fetched { to: fetch.replica, fetched });
        }
        self.run();
    }

    pub(super) fn deliver(&mut self, message: Message) {
        let now = self.now();
        if message.ends().iter().any(|end| self.cut_off.contains(end)) {
            self.kept.push(message);
            return;
        }
        match message {
            Message::Fetch { to, fetch } => {
                let broker = self.broker(to.0);
                let recorded = broker.record_follower_fetch(&fetch, now);
                let mut fetched = broker.read_for_follower(&fetch);
                if let Err(error) = recorded {
                    fetched.result = Err(error);
                }
                if fetched.is_empty() {
                    self.parked.push((to, fetch));
                } else {
                    self.on_their_way.push_back(Message::Fetched { to: fetch.replica, fetched });
                }
            }
            Message::Fetched { to, fetched } => {
                let at = self.brokers.iter().position(|broker| broker.brokers.this == to);
                let broker = &mut self.brokers[at.expect("there is such a broker")];
                broker.apply_fetched(fetched, now, &mut self.pool);
            }
            Message::Proposal(request) if self.accepts => self.decide(request),
            Message::Proposal(request) => self.proposals.push(request),
            Message::Answer { request, answer } => {
                self.broker(request.broker.0).isr_answered(&request, answer, now);
            }
        }
    }

    /// All links are whole again.
    pub(super) fn reconnect(&mut self) {
        self.cut_off.clear();
        self.on_their_way.extend(self.kept.drain(..));
    }

    /// All links are whole again, and all is told that was missed.
    pub(super) fn heal(&mut self) {
        self.reconnect();
        self.tell_everyone();
        self.run();
    }

    /// The controller takes a proposal, unless it is out of date.
    pub(super) fn decide(&mut self, request: AlterPartition) {
        let partition = &mut self.partition;
        let epoch = |id: NodeId| self.registered.iter().find(|broker| broker.id == id).map(|b| b.epoch);
        let is_known = |(id, said): &(NodeId, i64)| *said == -1 || epoch(*id) == Some(*said);
        let answer = if epoch(request.broker) != Some(request.broker_epoch) {
            Err(ErrorCode::StaleBrokerEpoch)
        } else if request.leader_epoch < partition.leader_epoch {
            Err(ErrorCode::FencedLeaderEpoch)
        } else if request.partition_epoch < partition.partition_epoch {
            Err(ErrorCode::InvalidUpdateVersion)
        } else if !request.isr.iter().all(is_known) {
            Err(ErrorCode::IneligibleReplica)
        } else {
            partition.isr = request.isr.iter().map(|(id, _)| *id).collect();
            partition.partition_epoch += 1;
            Ok(partition.clone())
        };
        self.on_their_way.push_back(Message::Answer { request, answer });
    }

    /// Lets time pass: what is due happens, and fetches that wait are answered every half second.
    pub(super) fn pass(&mut self, ms: u64) {
        let end = self.now_ms + ms;
        while self.now_ms < end {
            let next_ms = (self.now_ms + 500).min(end);
            let due = self.brokers.iter().filter_map(|broker| broker.next_timeout()).min();
            self.now_ms =
                due.map_or(next_ms, |due| due.as_nanos().div_ceil(1_000_000).clamp(self.now_ms, next_ms));
            let now = self.now();
            for broker in &mut self.brokers {
                if broker.next_timeout().is_some_and(|due| due <= now.instant) {
                    broker.handle_timeout(now, &mut self.pool);
                }
            }
            if self.now_ms == next_ms {
                self.expire_fetches();
            }
            self.run();
        }
    }
}

fn first_partition(replicas: &[i32]) -> Partition {
    Partition {
        replicas: nodes(replicas),
        isr: nodes(replicas),
        elr: nodes(&[]),
        last_known_elr: nodes(&[]),
        adding_replicas: nodes(&[]),
        removing_replicas: nodes(&[]),
        leader: Some(node(replicas[0])),
        leader_epoch: 0,
        partition_epoch: 0,
        recovery: LeaderRecovery::Recovered,
    }
}

/// A fetch of a broker that holds everything below `offset`, in the first leader epoch.
pub(super) fn fetch_of(replica: i32, offset: i64) -> FollowerFetch {
    FollowerFetch {
        key: KEY,
        replica: node(replica),
        broker_epoch: 1,
        leader_epoch: 0,
        offset,
        last_fetched_epoch: -1,
        log_start_offset: 0,
        high_watermark: -1,
        max_bytes: 1 << 20,
        max_wait: Duration::from_millis(500),
        sequence: 0,
    }
}

/// A batch of so many records.
pub(super) fn batch(count: usize, seed: u64) -> Vec<u8> {
    let mut builder = BatchBuilder::new(BatchHeader::default());
    for index in 0..count as u64 {
        builder.push(1_000_000_000_000, None, Some(&(seed * 1_000 + index).to_be_bytes()), []);
    }
    builder.build().expect("a batch").to_vec()
}
