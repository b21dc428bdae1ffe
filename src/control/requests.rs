//! What may be asked, as JSON and as parts of a path.

use std::collections::BTreeMap;
use std::time::Duration;

use serde::Deserialize;
use serde::de::DeserializeOwned;

use super::problem::{Blame, Problem};
use crate::api::{self, Kind};
use crate::base::NodeId;
use crate::cluster::{Command, Kept, Link, Party, WaitDescription};
use crate::controller::NewTopic;
use crate::faults::{HoldId, HoldPoint, HoldRule};
use crate::purgatory::WaitKind;

/// Reads a request's body; an empty one stands for `{}`.
///
/// # Errors
/// If it isn't a JSON object of this shape.
pub fn read<T: DeserializeOwned>(body: &[u8]) -> Result<T, Problem> {
    let body = body.trim_ascii_start();
    let body = if body.is_empty() { b"{}" } else { body };
    // The decoder would take an array for the fields in the order in which they are declared.
    if body.first() != Some(&b'{') {
        return Err(Problem::new(
            Blame::Request,
            "the body is not a JSON object",
            "send JSON of the fields that docs/control.md names",
        ));
    }
    serde_json::from_slice(body).map_err(|error| {
        Problem::new(
            Blame::Request,
            format_args!("the body can't be read: {error}"),
            "send JSON of the fields that docs/control.md names",
        )
    })
}

/// How a wait is called: its broker and its number there, such as `1-42`.
pub fn wait_name(node: NodeId, serial: u64) -> String {
    format!("{}-{serial}", node.0)
}

/// Reads what [`wait_name`] writes.
///
/// # Errors
/// If it is no such name.
pub fn wait_id(text: &str) -> Result<Command, Problem> {
    let parsed =
        text.rsplit_once('-').and_then(|(node, serial)| Some((node.parse().ok()?, serial.parse().ok()?)));
    let (node, serial) = parsed.ok_or_else(|| {
        let what = format_args!("'{text}' is no wait's id");
        Problem::new(
            Blame::Request,
            what,
            "write the broker's id and the wait's number, such as 1-42; GET /waits lists them",
        )
    })?;
    Ok(Command::Release { node: NodeId(node), serial })
}

/// Reads the number of a rule.
///
/// # Errors
/// If it is no number.
pub fn hold_id(text: &str) -> Result<HoldId, Problem> {
    number(text, "a rule's number").map(HoldId)
}

/// Reads a broker's id.
///
/// # Errors
/// If it is no number.
pub fn node_id(text: &str) -> Result<NodeId, Problem> {
    number(text, "a broker's id").map(NodeId)
}

/// Reads a partition's number.
///
/// # Errors
/// If it is no number.
pub fn partition_index(text: &str) -> Result<i32, Problem> {
    number(text, "a partition's number")
}

fn number<T: std::str::FromStr>(text: &str, of: &str) -> Result<T, Problem> {
    text.parse().map_err(|_| {
        Problem::new(Blame::Request, format_args!("'{text}' is not {of}"), "write it as a number")
    })
}

/// Which waits are to be shown: those of which everything is true that is said.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct WaitsRequest {
    /// Names of kinds, with commas between them.
    kind: Option<String>,
    client_id: Option<String>,
    broker: Option<i32>,
}

impl WaitsRequest {
    /// What tells whether a wait is to be shown.
    ///
    /// # Errors
    /// If there is no such kind of wait.
    pub fn filter(self) -> Result<impl Fn(&WaitDescription) -> bool, Problem> {
        let kinds = self.kind.as_ref().map(|names| names.split(',').map(kind).collect::<Result<Vec<_>, _>>());
        let kinds = kinds.transpose()?;
        Ok(move |wait: &WaitDescription| {
            kinds.as_ref().is_none_or(|kinds| kinds.contains(&wait.kind))
                && self.client_id.as_ref().is_none_or(|id| wait.client_id.as_deref() == Some(id))
                && self.broker.is_none_or(|broker| wait.node == NodeId(broker))
        })
    }
}

fn kind(name: &str) -> Result<Kind, Problem> {
    let named = |kind: &Kind| format!("{kind:?}").eq_ignore_ascii_case(name.trim());
    Kind::ALL.iter().copied().find(named).ok_or_else(|| {
        let names = Kind::ALL.iter().map(|kind| format!("{kind:?}")).collect::<Vec<_>>().join(", ");
        let what = format_args!("'{name}' is no kind of wait");
        Problem::new(Blame::Request, what, format_args!("name some of {names}"))
    })
}

/// A rule that is to hold requests: see [`HoldRule`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HoldRequest {
    point: String,
    api: Option<String>,
    client_id: Option<String>,
    topic: Option<String>,
    group: Option<String>,
    broker: Option<i32>,
    count: Option<u64>,
    time_limit_ms: Option<u64>,
}

impl HoldRequest {
    /// The command that makes the rule.
    ///
    /// # Errors
    /// If there is no such point or no such API.
    pub fn command(self) -> Result<Command, Problem> {
        let point = HoldPoint::ALL.into_iter().find(|point| point.name() == self.point);
        let point = point.ok_or_else(|| {
            let names = HoldPoint::ALL.map(HoldPoint::name).join(", ");
            let what = format_args!("'{}' is no point at which requests are held", self.point);
            Problem::new(Blame::Request, what, format_args!("name one of {names}"))
        })?;
        let api = self.api.map(|name| {
            let entry = api::TABLE.iter().find(|entry| entry.name.eq_ignore_ascii_case(&name));
            entry.map(|entry| entry.key).ok_or_else(|| {
                let what = format_args!("no API that is served is called '{name}'");
                Problem::new(Blame::Request, what, "name one of the README's table, such as Produce")
            })
        });
        Ok(Command::AddHold(HoldRule {
            api: api.transpose()?,
            client_id: self.client_id.map(Into::into),
            topic: self.topic.map(Into::into),
            group: self.group.map(Into::into),
            broker: self.broker.map(NodeId),
            count: self.count,
            time_limit: self.time_limit_ms.map(Duration::from_millis),
            ..HoldRule::new(point)
        }))
    }
}

/// A topic that is to be made: see [`NewTopic`].
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TopicRequest {
    name: String,
    partitions: Option<i32>,
    replication_factor: Option<i16>,
    #[serde(default)]
    configs: BTreeMap<String, String>,
}

impl TopicRequest {
    /// The command that makes the topic.
    pub fn command(self) -> Command {
        Command::CreateTopic(NewTopic {
            name: self.name,
            partitions: self.partitions.unwrap_or(-1),
            replication_factor: self.replication_factor.unwrap_or(-1),
            configs: self.configs.into_iter().map(|(key, value)| (key, Some(value))).collect(),
            ..NewTopic::default()
        })
    }
}

/// One end of a link: a broker's id, or `controller`.
#[derive(Clone, Debug, Deserialize)]
#[serde(untagged)]
enum PartyName {
    Broker(i32),
    Name(String),
}

impl PartyName {
    fn party(&self) -> Result<Party, Problem> {
        match self {
            PartyName::Broker(id) => Ok(Party::Broker(NodeId(*id))),
            PartyName::Name(name) if name == "controller" => Ok(Party::Controller),
            PartyName::Name(name) => node_id(name).map(Party::Broker),
        }
    }
}

/// How a link is to be from now on; what isn't said stays.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LinkRequest {
    from: PartyName,
    to: PartyName,
    delay_ms: Option<u64>,
    cut: Option<bool>,
}

impl LinkRequest {
    /// The command that changes the link, which is now as `current` says.
    ///
    /// # Errors
    /// If an end is neither a broker's id nor `controller`.
    pub fn command(&self, current: impl FnOnce(Party, Party) -> Link) -> Result<Command, Problem> {
        let (from, to) = (self.from.party()?, self.to.party()?);
        let current = current(from, to);
        let delay = self.delay_ms.map_or(current.delay, Duration::from_millis);
        Ok(Command::SetLink { from, to, link: Link { delay, cut: self.cut.unwrap_or(current.cut) } })
    }
}

/// How a broker is to start.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StartRequest {
    #[serde(default)]
    kept: KeptName,
}

#[derive(Clone, Copy, Debug, Default, Deserialize)]
#[serde(rename_all = "lowercase")]
enum KeptName {
    #[default]
    Everything,
    Replicated,
}

impl StartRequest {
    /// The command that starts the broker.
    pub fn command(self, broker: NodeId) -> Command {
        let kept = match self.kept {
            KeptName::Everything => Kept::Everything,
            KeptName::Replicated => Kept::Replicated,
        };
        Command::StartBroker { broker, kept }
    }
}

/// A broker that is to be added.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NewBrokerRequest {
    /// Its id; the next free one if there is none.
    pub id: Option<i32>,
    /// Kafka's `broker.rack`.
    pub rack: Option<String>,
    /// Where it listens, written as `--listen` has it; a free port of localhost if nothing is said.
    #[serde(default)]
    pub listen: Vec<String>,
}

/// Who is to lead a partition.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeaderRequest {
    broker: i32,
}

impl LeaderRequest {
    /// The command that moves the leader.
    pub fn command(self, topic: String, index: i32) -> Command {
        Command::MoveLeader { topic, index, to: NodeId(self.broker) }
    }
}

/// Who is to be in sync.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct IsrRequest {
    isr: Vec<i32>,
}

impl IsrRequest {
    /// The command that sets the ISR.
    pub fn command(self, topic: String, index: i32) -> Command {
        Command::SetIsr { topic, index, isr: self.isr.into_iter().map(NodeId).collect() }
    }
}

/// Whose fetching of a partition is to stand still, or to go on.
#[derive(Clone, Copy, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FetcherRequest {
    broker: i32,
    frozen: bool,
}

impl FetcherRequest {
    /// The command that freezes or thaws the fetcher.
    pub fn command(self, topic: String, index: i32) -> Command {
        Command::FreezeFetcher { broker: NodeId(self.broker), topic, index, frozen: self.frozen }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn hold(json: &str) -> Result<HoldRule, Problem> {
        match read::<HoldRequest>(json.as_bytes())?.command()? {
            Command::AddHold(rule) => Ok(rule),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn rules_are_read() {
        let rule = hold(r#"{"point": "before-apply"}"#).unwrap();
        assert_eq!(rule, HoldRule::new(HoldPoint::BeforeApply));
        let all = r#"{"point": "after-apply-then-disconnect", "api": "produce", "client_id": "c", "topic": "t",
            "group": "g", "broker": 2, "count": 3, "time_limit_ms": 1500}"#;
        let expected = HoldRule {
            api: Some(0),
            client_id: Some("c".into()),
            topic: Some("t".into()),
            group: Some("g".into()),
            broker: Some(NodeId(2)),
            count: Some(3),
            time_limit: Some(Duration::from_millis(1500)),
            ..HoldRule::new(HoldPoint::AfterApplyThenDisconnect)
        };
        assert_eq!(hold(all), Ok(expected));
    }

    #[test]
    fn what_cannot_be_read_is_told() {
        for (json, told) in [
            ("", "missing field `point`"),
            ("{", "EOF"),
            (r#"{"point": "before-apply", "topics": "t"}"#, "unknown field `topics`"),
            (r#"{"point": "before-apply", "count": -1}"#, "invalid value"),
            (r#"{"point": "before"}"#, "'before' is no point"),
            (r#"{"point": "before-apply", "api": "Prodce"}"#, "called 'Prodce'"),
        ] {
            let problem = hold(json).unwrap_err();
            assert!(problem.what.contains(told), "{json}: {problem:?}");
            assert_eq!(problem.blame, Blame::Request);
        }
    }

    #[test]
    fn waits_are_named_by_broker_and_number() {
        let name = wait_name(NodeId(3), 17);
        assert!(matches!(wait_id(&name), Ok(Command::Release { node: NodeId(3), serial: 17 })));
        for text in ["", "17", "3-", "-17", "a-1", "1-2-3"] {
            assert!(wait_id(text).is_err(), "{text}");
        }
    }

    #[test]
    fn links_change_what_is_said_alone() {
        let now = Link { delay: Duration::from_millis(7), cut: true };
        let link = |json: &str| match read::<LinkRequest>(json.as_bytes())?.command(|_, _| now)? {
            Command::SetLink { from, to, link } => Ok::<_, Problem>((from, to, link)),
            other => panic!("{other:?}"),
        };
        let ends = (Party::Controller, Party::Broker(NodeId(2)));
        let mended = link(r#"{"from": "controller", "to": 2, "cut": false}"#).unwrap();
        assert_eq!(mended, (ends.0, ends.1, Link { cut: false, ..now }));
        let slower = link(r#"{"from": "2", "to": "controller", "delay_ms": 0}"#).unwrap();
        assert_eq!(slower, (ends.1, ends.0, Link { delay: Duration::ZERO, ..now }));
        assert!(link(r#"{"from": "me", "to": 2}"#).is_err());
    }
}
