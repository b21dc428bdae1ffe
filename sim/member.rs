//! A member of a group, by the classic protocol or by KIP-848: joins, reads what it is assigned, commits what it has read
//! or leaves that to a transaction, is fenced, crashes.

use std::collections::BTreeMap;

use bytes::Bytes;
use kafka_protocol::protocol::StrBytes;

use super::checkers::Event;
use super::classic::Classic;
use super::group::{Asked, Group, GroupContacts};
use super::passing;
use super::reconciling::Reconciling;
use super::share::Taken;
use super::world::{ClientId, Incident, Notice, World};
use crate::base::{ErrorCode, NodeId};

/// A model member.
#[derive(Debug)]
pub struct Member {
    at: GroupContacts,
    protocol: Protocol,
}

/// How it comes into the group.
#[derive(Debug)]
enum Protocol {
    Classic(Classic),
    Consumer(Reconciling),
}

/// Who a member is to its group, as a transaction tells that commits its offsets (KIP-447).
#[derive(Clone, Debug)]
pub struct Identity {
    /// The group.
    pub group: &'static str,
    /// Its name there.
    pub member_id: StrBytes,
    /// Generation or member epoch.
    pub generation: i32,
}

impl Member {
    /// A member of the classic protocol that hasn't joined.
    pub fn classic(id: ClientId, bootstrap: Vec<NodeId>, group: Group) -> Self {
        let at = GroupContacts::new(id, bootstrap, group, 8);
        Member { at, protocol: Protocol::Classic(Classic::default()) }
    }

    /// A member of the consumer protocol that hasn't joined.
    pub fn consumer(id: ClientId, bootstrap: Vec<NodeId>, group: Group) -> Self {
        let at = GroupContacts::new(id, bootstrap, group, 9);
        Member { at, protocol: Protocol::Consumer(Reconciling::new()) }
    }

    /// Its group.
    pub fn group(&self) -> &Group {
        &self.at.group
    }

    /// Who it is, while it is in a generation.
    pub fn identity(&self) -> Option<Identity> {
        let generation = self.at.share.generation?;
        Some(Identity { group: self.at.group.id, member_id: self.at.member_id.clone(), generation })
    }

    /// What it has committed of what it owns, if it is in a generation.
    pub fn committed(&self) -> Option<BTreeMap<i32, i64>> {
        self.at.share.generation.map(|_| self.at.share.committed())
    }

    /// Takes up to so many records of each partition, for a transaction; none if there is nothing new.
    pub fn hand_over(&mut self, count: usize) -> Option<Taken> {
        self.at.share.take(count)
    }

    /// A transaction has committed what was taken.
    ///
    /// If the member has come into its group anew meanwhile, perhaps into the same generation, it may have asked where the
    /// group had come to before that: it asks again. Kafka's own consumers can't ask too early, since whoever polls one
    /// doesn't poll while its transaction is open.
    pub fn committed_to(&mut self, world: &mut World, taken: &Taken) {
        self.at.note_committed(world, &taken.offsets);
        self.at.share.committed_to(&taken.offsets);
        if taken.version != self.at.share.version {
            self.at.share.rewind();
        }
    }

    /// The transaction came to nothing, or may have.
    pub fn rewind(&mut self) {
        self.at.share.rewind();
    }

    /// The process ends without a word, and begins anew.
    pub fn crash(&mut self, world: &mut World) {
        self.at.crash(world);
        match &mut self.protocol {
            Protocol::Classic(classic) => classic.crash(&mut self.at),
            Protocol::Consumer(consumer) => consumer.crash(&mut self.at),
        }
    }

    /// There won't be another process after this one.
    pub fn leave_for_good(&mut self, world: &mut World) {
        world.note(Event::Left { group: self.at.group.id, reader: self.at.client });
    }

    /// Something has come about; it wakes again by itself.
    pub fn notice(&mut self, world: &mut World, notice: Notice) {
        if matches!(notice, Notice::Wake) {
            let after_ms = 50 + world.entropy.below(400);
            world.schedule(after_ms, Incident::Wake(self.at.client));
        }
        self.go_on(world, notice);
    }

    /// Something has come about.
    pub fn go_on(&mut self, world: &mut World, notice: Notice) {
        let is_awake = matches!(notice, Notice::Wake);
        // Whoever is refused waits for a moment before it asks again.
        let mut is_well = matches!(notice, Notice::Answered(..));
        for fate in self.at.contacts.take(world, notice) {
            match fate.answer {
                Some(frame) => is_well &= self.take(world, fate.asked, frame),
                None => self.failed(fate.broker, &fate.asked),
            }
        }
        // A leader may be the coordinator too, and a connection has one request at a time.
        let reads_first = is_awake && world.entropy.below(2) == 0;
        if reads_first {
            self.at.read_on(world);
        }
        if is_awake || is_well {
            self.ask_coordinator(world, is_awake);
        }
        if is_awake && !reads_first {
            self.at.read_on(world);
        }
        self.at.tell(world);
    }

    /// Asks the coordinator what is next: one thing at a time.
    fn ask_coordinator(&mut self, world: &mut World, is_awake: bool) {
        let Some(coordinator) = self.at.coordinator(world) else { return };
        let is_due = match &mut self.protocol {
            Protocol::Classic(classic) => classic.ask(&mut self.at, world, coordinator),
            Protocol::Consumer(consumer) => consumer.ask(&mut self.at, world, coordinator),
        };
        if is_due || self.at.ask_offsets(world, coordinator) {
            return;
        }
        if is_awake && self.at.group.commits && world.entropy.below(3) == 0 {
            self.at.ask_commit(world, coordinator);
        }
    }

    fn failed(&mut self, broker: NodeId, asked: &Asked) {
        if matches!(asked, Asked::Fetch(_)) {
            self.at.contacts.forget_leader_of_all(broker);
            return;
        }
        self.at.forget_coordinator();
        if let Protocol::Consumer(consumer) = &mut self.protocol {
            consumer.failed();
        }
    }

    /// Takes an answer. Returns whether it grants what was asked.
    fn take(&mut self, world: &mut World, asked: Asked, frame: Bytes) -> bool {
        let Member { at, protocol } = self;
        let code = match (asked, protocol) {
            (Asked::Fetch(positions), _) => {
                at.take_records(world, &positions, frame);
                0
            }
            (Asked::Offsets { version }, _) => at.take_offsets(world, version, frame),
            (Asked::Commit { offsets, generation }, _) => at.take_commit(world, &offsets, generation, frame),
            (Asked::Join, Protocol::Classic(classic)) => classic.take_join(at, frame),
            (Asked::Sync { generation }, Protocol::Classic(classic)) => {
                classic.take_sync(at, generation, frame)
            }
            (Asked::Heartbeat { asked_ms, owned }, Protocol::Classic(classic)) => {
                classic.take_heartbeat(at, world, asked_ms, owned, frame)
            }
            (Asked::Heartbeat { asked_ms, owned }, Protocol::Consumer(consumer)) => {
                consumer.take_heartbeat(at, world, asked_ms, &owned, frame)
            }
            (Asked::Join | Asked::Sync { .. }, Protocol::Consumer(_)) => 0,
        };
        if code != 0 {
            self.refused(world, code);
        }
        code == 0
    }

    /// What the coordinator's errors mean to a member.
    fn refused(&mut self, world: &mut World, code: i16) {
        let is_its_own = match &mut self.protocol {
            Protocol::Classic(classic) => classic.refused(&mut self.at, code),
            Protocol::Consumer(consumer) => consumer.refused(&mut self.at, code),
        };
        // What a transaction is about to commit is known once it has ended.
        if is_its_own || passing::is(code, &[ErrorCode::UnstableOffsetCommit]) {
            return;
        }
        if !passing::at_coordinators(code) {
            let what =
                format!("client {} was refused with {code} by its group's coordinator", self.at.client);
            world.note(Event::Broken(what));
        }
        self.at.forget_coordinator();
        if let Protocol::Consumer(consumer) = &mut self.protocol {
            consumer.failed();
        }
    }
}
