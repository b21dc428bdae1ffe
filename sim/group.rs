//! What every member of a group does, by whichever protocol it has come into it: it looks for the coordinator, asks for the
//! group's offsets, reads what it owns, and commits.

use std::collections::{BTreeMap, BTreeSet};

use bytes::Bytes;
use kafka_protocol::messages::offset_commit_request::{
    OffsetCommitRequestPartition, OffsetCommitRequestTopic,
};
use kafka_protocol::messages::offset_fetch_request::{OffsetFetchRequestGroup, OffsetFetchRequestTopics};
use kafka_protocol::messages::{GroupId, OffsetCommitRequest, OffsetFetchRequest};
use kafka_protocol::protocol::{Request, StrBytes};

use super::checkers::Event;
use super::consumer::{FETCH, Position, fetch, read_fetched};
use super::contacts::{Contacts, Coordinated, topic};
use super::passing;
use super::share::Share;
use super::world::{self, ClientId, World};
use crate::base::NodeId;

/// A group, and how its members use it.
#[derive(Clone, Copy, Debug)]
pub struct Group {
    /// Its id.
    pub id: &'static str,
    /// What its members read.
    pub topic: &'static str,
    /// Of that, what: 0 all that is replicated, 1 what is committed.
    pub isolation_level: i8,
    /// Whether members commit what they have read; or else a transaction does.
    pub commits: bool,
    /// Whether members ask for offsets that stay (KIP-447): as Kafka's own consumers do, and others don't.
    pub requires_stable: bool,
}

/// What a member has asked.
#[derive(Debug)]
pub enum Asked {
    /// To be in the group's next generation.
    Join,
    /// What it is assigned in a generation.
    Sync {
        /// The generation.
        generation: i32,
    },
    /// To stay, with what it owned when it asked.
    Heartbeat {
        /// When.
        asked_ms: u64,
        /// What it owned.
        owned: BTreeSet<i32>,
    },
    /// Where the group has come to.
    Offsets {
        /// The version of its share when it asked.
        version: u64,
    },
    /// To commit these offsets.
    Commit {
        /// The offsets.
        offsets: BTreeMap<i32, i64>,
        /// The generation in which it asked.
        generation: Option<i32>,
    },
    /// For records, from these offsets on.
    Fetch(BTreeMap<i32, i64>),
}

/// A member, but for how it comes into the group and stays there.
#[derive(Debug)]
pub struct GroupContacts {
    /// Which client.
    pub client: ClientId,
    /// The group.
    pub group: Group,
    /// The name that the group knows it by.
    pub member_id: StrBytes,
    /// Whether OffsetFetch and OffsetCommit are told member and epoch (KIP-848: version 9), or are not (8).
    version: i16,
    /// Whom it knows.
    pub contacts: Contacts<Asked>,
    /// What it owns.
    pub share: Share,
    /// What the checkers were told of it.
    told: Option<Option<(i32, BTreeSet<i32>)>>,
}

impl GroupContacts {
    /// Of a member that hasn't joined, and speaks these versions of OffsetFetch and OffsetCommit.
    pub fn new(client: ClientId, bootstrap: Vec<NodeId>, group: Group, version: i16) -> Self {
        GroupContacts {
            client,
            group,
            member_id: StrBytes::default(),
            version,
            contacts: Contacts::new(client, bootstrap, group.topic),
            share: Share::default(),
            told: None,
        }
    }

    /// The coordinator, which is looked for if it isn't known; none while that, or the topic, isn't known, or the
    /// coordinator owes an answer.
    pub fn coordinator(&mut self, world: &mut World) -> Option<NodeId> {
        if !self.contacts.look_up_leaders(world) {
            return None;
        }
        let coordinator = self.contacts.coordinator(world, &Coordinated::Group(self.group.id))?;
        let is_busy = self.contacts.is_asked(|asked| !matches!(asked, Asked::Fetch(_)));
        (!is_busy).then_some(coordinator)
    }

    /// The coordinator is another, or can't be heard.
    pub fn forget_coordinator(&mut self) {
        self.contacts.forget_coordinator(&Coordinated::Group(self.group.id));
    }

    /// The name of the group as the codec has it.
    pub fn group_id(&self) -> GroupId {
        GroupId(StrBytes::from_static_str(self.group.id))
    }

    /// Asks something of the coordinator.
    pub fn ask<R: Request>(
        &mut self,
        world: &mut World,
        broker: NodeId,
        version: i16,
        request: &R,
        asked: Asked,
    ) -> bool {
        self.contacts.ask(world, broker, version, request, asked)
    }

    /// Asks where the group has come to with what is owned, if that isn't known. Returns whether it isn't.
    pub fn ask_offsets(&mut self, world: &mut World, coordinator: NodeId) -> bool {
        let unknown = self.share.unknown();
        if unknown.is_empty() {
            return false;
        }
        let topics = OffsetFetchRequestTopics::default()
            .with_name(topic(self.group.topic))
            .with_partition_indexes(unknown);
        let mut group =
            OffsetFetchRequestGroup::default().with_group_id(self.group_id()).with_topics(Some(vec![topics]));
        if let (9.., Some(epoch)) = (self.version, self.share.generation) {
            group = group.with_member_id(Some(self.member_id.clone())).with_member_epoch(epoch);
        }
        let request = OffsetFetchRequest::default()
            .with_groups(vec![group])
            .with_require_stable(self.group.requires_stable);
        let asked = Asked::Offsets { version: self.share.version };
        if self.ask(world, coordinator, self.version, &request, asked) {
            let (group, reader, is_stable) = (self.group.id, self.client, self.group.requires_stable);
            world.note(Event::AskedCommitted { group, reader, is_stable });
        }
        true
    }

    /// Asks for what was read to be committed.
    pub fn ask_commit(&mut self, world: &mut World, coordinator: NodeId) {
        let offsets = self.share.positions();
        let Some(generation) = self.share.generation.filter(|_| offsets != self.share.committed()) else {
            return;
        };
        let partitions = offsets.iter().map(|(partition, offset)| {
            OffsetCommitRequestPartition::default()
                .with_partition_index(*partition)
                .with_committed_offset(*offset)
        });
        let topics = OffsetCommitRequestTopic::default()
            .with_name(topic(self.group.topic))
            .with_partitions(partitions.collect());
        let request = OffsetCommitRequest::default()
            .with_group_id(self.group_id())
            .with_generation_id_or_member_epoch(generation)
            .with_member_id(self.member_id.clone())
            .with_topics(vec![topics]);
        let asked = Asked::Commit { offsets, generation: self.share.generation };
        self.ask(world, coordinator, self.version, &request, asked);
    }

    /// Asks every leader for records of what is owned.
    pub fn read_on(&mut self, world: &mut World) {
        let mut by_leader: BTreeMap<NodeId, BTreeMap<i32, i64>> = BTreeMap::new();
        for (partition, position) in self.share.positions() {
            if let Some(leader) = self.contacts.leader(partition) {
                by_leader.entry(leader).or_default().insert(partition, position);
            }
        }
        for (leader, positions) in by_leader {
            let known = |(partition, position): (&i32, &i64)| -> Position {
                (*partition, *position, self.contacts.leader_epoch(*partition))
            };
            // A fetch must not keep the heartbeats from the coordinator waiting.
            let request = fetch(self.group.topic, positions.iter().map(known))
                .with_isolation_level(self.group.isolation_level)
                .with_max_wait_ms(0);
            self.contacts.ask(world, leader, FETCH, &request, Asked::Fetch(positions));
        }
    }

    /// Where the group has come to. Returns the code of an error that is the group's, or 0.
    pub fn take_offsets(&mut self, world: &mut World, version: u64, frame: Bytes) -> i16 {
        let (_, response) = world::read::<OffsetFetchRequest>(frame, self.version);
        let group = &response.groups[0];
        let mut code = group.error_code;
        for found in group.topics.iter().flat_map(|topic| &topic.partitions) {
            let (partition, offset) = (found.partition_index, found.committed_offset);
            if found.error_code != 0 {
                code = found.error_code;
                continue;
            }
            world.note(Event::FoundCommitted {
                group: self.group.id,
                reader: self.client,
                partition,
                offset,
            });
            if version == self.share.version {
                self.share.found(partition, offset.max(0));
            }
        }
        code
    }

    /// Whether offsets are committed. Returns the code of an error, or 0.
    pub fn take_commit(
        &mut self,
        world: &mut World,
        offsets: &BTreeMap<i32, i64>,
        generation: Option<i32>,
        frame: Bytes,
    ) -> i16 {
        let (_, response) = world::read::<OffsetCommitRequest>(frame, self.version);
        let results = response.topics.iter().flat_map(|topic| &topic.partitions);
        if let Some(refused) = results.map(|result| result.error_code).find(|code| *code != 0) {
            return refused;
        }
        self.note_committed(world, offsets);
        if generation == self.share.generation {
            self.share.committed_to(offsets);
        }
        0
    }

    /// Tells the checkers what is committed.
    pub fn note_committed(&self, world: &mut World, offsets: &BTreeMap<i32, i64>) {
        for (partition, offset) in offsets {
            let (partition, offset) = (*partition, *offset);
            world.note(Event::Committed { group: self.group.id, partition, offset });
        }
    }

    /// Records have come.
    pub fn take_records(&mut self, world: &mut World, asked: &BTreeMap<i32, i64>, frame: Bytes) {
        for (partition, outcome) in read_fetched(frame) {
            match outcome {
                Err(code) => {
                    if !passing::for_readers(code) {
                        let what = format!(
                            "client {} was refused with {code} on partition {partition}: {:?}",
                            self.client, self.share
                        );
                        world.note(Event::Broken(what));
                    }
                    self.contacts.forget_leader(partition);
                }
                Ok(fetched) => {
                    let records = if self.group.commits { Vec::new() } else { fetched.names() };
                    self.share.read(partition, asked[&partition], fetched.next_offset, records);
                }
            }
        }
    }

    /// Tells the checkers what it owns, if that has changed.
    pub fn tell(&mut self, world: &mut World) {
        let now = self.share.generation.map(|generation| (generation, self.share.owned()));
        if self.told.as_ref() != Some(&now) {
            world.note(Event::Owns {
                group: self.group.id,
                reader: self.client,
                share: now.clone(),
                of: self.contacts.partitions,
            });
            self.told = Some(now);
        }
    }

    /// The process ends without a word.
    pub fn crash(&mut self, world: &mut World) {
        self.contacts.close_all(world);
        self.share.leave();
        self.tell(world);
    }
}
