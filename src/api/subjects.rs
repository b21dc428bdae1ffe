//! What requests are about, for rules that hold them: see [`crate::faults`].

use super::context::Broker;
use super::{Caller, Request};
use crate::base::{NodeId, TopicId};
use crate::controller::Controller;
use crate::faults;

/// Whether a request of an API names a topic. The broker is lent for what it remembers of earlier requests: a fetch
/// session's partitions.
pub(crate) type NamesTopic<R> = fn(&R, &NamedTopic<'_>, &Broker) -> bool;
/// Whether a request of an API names a group.
pub(crate) type NamesGroup<R> = fn(&R, &str) -> bool;

/// A topic, by what requests may call it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedTopic<'a> {
    pub(crate) name: &'a str,
    /// None if there is no such topic.
    pub(crate) id: Option<TopicId>,
}

impl NamedTopic<'_> {
    /// Whether a request that names a topic by either means this one.
    pub(crate) fn is(&self, name: &str, id: impl Into<TopicId>) -> bool {
        let id = id.into();
        name == self.name || (!id.is_zero() && self.id == Some(id))
    }

    pub(crate) fn is_named(&self, name: &str) -> bool {
        name == self.name
    }
}

/// A request that has come to a broker, as rules see it.
pub(crate) struct RequestSubject<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) request: &'a Request,
    pub(crate) broker: &'a Broker,
    pub(crate) controller: &'a Controller,
}

impl faults::Subject for RequestSubject<'_> {
    fn api(&self) -> i16 {
        self.request.api().key
    }

    fn broker(&self) -> NodeId {
        self.broker.id
    }

    fn client_id(&self) -> Option<&str> {
        self.caller.client_id.as_deref()
    }

    fn names_topic(&self, topic: &str) -> bool {
        let id = self.controller.topics().by_name(topic).map(|topic| topic.id);
        self.request.0.names_topic(&NamedTopic { name: topic, id }, self.broker)
    }

    fn names_group(&self, group: &str) -> bool {
        self.request.0.names_group(group)
    }
}
