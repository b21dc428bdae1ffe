//! The controller by itself: brokers come and go, leaders propose, users ask. Scenarios of Kafka's
//! ReplicationControlManagerTest, with the time as a value.

mod brokers;
mod creation;
mod elections;
mod histories;
mod isrs;
mod partition_changes;
mod reassignments;

use std::time::Duration;

use super::configs::{BrokerConfigs, Overrides, Resource};
use super::*;
use crate::base::{ErrorCode, PartitionKey};

/// A controller and its clock.
struct Quorum {
    controller: Controller,
    now: Instant,
}

fn broker(id: i32) -> BrokerRegistration {
    BrokerRegistration {
        id: NodeId(id),
        rack: None,
        epoch: 0,
        fenced: false,
        in_controlled_shutdown: false,
        endpoints: Vec::new(),
    }
}

fn ids(ids: &[i32]) -> Vec<NodeId> {
    ids.iter().copied().map(NodeId).collect()
}

impl Quorum {
    /// Brokers with ids from 1 on.
    fn of(brokers: i32, configs: &[(&str, &str)]) -> Self {
        let fixed = Overrides::parse(Resource::Broker, configs.iter().copied()).unwrap();
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        let brokers = (1..=brokers).map(broker).collect();
        let now = Instant::from_millis(1_000);
        let controller = Controller::new(configs, brokers, &Entropy::new(1), now).unwrap();
        Quorum { controller, now }
    }

    /// A topic whose partitions are on these brokers.
    fn topic(&mut self, name: &str, assignment: &[&[i32]], configs: &[(&str, &str)]) -> PartitionKey {
        let assignments = assignment.iter().zip(0..).map(|(replicas, index)| (index, ids(replicas)));
        let new = NewTopic {
            name: name.to_owned(),
            partitions: -1,
            replication_factor: -1,
            assignments: assignments.collect(),
            configs: configs.iter().map(|(key, value)| (key.to_string(), Some(value.to_string()))).collect(),
        };
        let topic = self.controller.create_topic(new, false).unwrap();
        PartitionKey { topic: topic.id, index: 0 }
    }

    fn partition(&self, key: PartitionKey) -> &Partition {
        self.controller.topics().by_id(key.topic).unwrap().partition(key.index).unwrap()
    }

    /// Leader (−1 for none), ISR and ELR.
    fn state(&self, key: PartitionKey) -> (i32, Vec<i32>, Vec<i32>) {
        let partition = self.partition(key);
        let numbers = |ids: &[NodeId]| ids.iter().map(|id| id.0).collect();
        (partition.leader.map_or(-1, |id| id.0), numbers(&partition.isr), numbers(&partition.elr))
    }

    /// A heartbeat of a broker that has applied all there is.
    fn beat(&mut self, id: i32, want_fence: bool, want_shut_down: bool) -> HeartbeatReply {
        let last = self.controller.last_change();
        self.controller.acknowledge(NodeId(id), last);
        let epoch = self.controller.broker(NodeId(id)).unwrap().epoch;
        let heartbeat = Heartbeat { broker: NodeId(id), epoch, want_fence, want_shut_down };
        self.controller.heartbeat(self.now, heartbeat).unwrap()
    }

    fn fence(&mut self, id: i32) {
        assert!(self.beat(id, true, false).fenced);
    }

    fn unfence(&mut self, id: i32) {
        assert!(!self.beat(id, false, false).fenced);
    }

    fn register(&mut self, id: i32, was_shut_down_cleanly: bool) -> i64 {
        let registration =
            Registration { id: NodeId(id), rack: None, endpoints: Vec::new(), was_shut_down_cleanly };
        self.controller.register(self.now, registration)
    }

    /// Moves the clock on, with heartbeats of these brokers every second.
    fn pass(&mut self, seconds: u64, beating: &[i32]) {
        for _ in 0..seconds {
            self.now = self.now + Duration::from_secs(1);
            beating.iter().for_each(|id| {
                self.beat(*id, false, false);
            });
            self.controller.handle_timeout(self.now);
        }
    }

    /// What the leader of a partition would propose.
    fn proposal(&self, key: PartitionKey, isr: &[i32]) -> AlterPartition {
        let partition = self.partition(key);
        let broker = partition.leader.unwrap();
        let epoch = |id: NodeId| self.controller.broker(id).map_or(-1, |broker| broker.epoch);
        AlterPartition {
            broker,
            broker_epoch: epoch(broker),
            key,
            leader_epoch: partition.leader_epoch,
            partition_epoch: partition.partition_epoch,
            isr: ids(isr).into_iter().map(|id| (id, epoch(id))).collect(),
            recovery: LeaderRecovery::Recovered,
        }
    }

    fn alter(&mut self, key: PartitionKey, isr: &[i32]) -> Result<Partition, ErrorCode> {
        let proposal = self.proposal(key, isr);
        self.controller.alter_partition(&proposal)
    }
}
