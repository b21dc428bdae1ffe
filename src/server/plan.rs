//! Which brokers there are to be: their ids, racks and listeners, from what they share and what differs.

use std::collections::BTreeMap;

use super::options::StartError;
use crate::base::NodeId;
use crate::cluster::MAX_BROKERS;
use crate::controller::configs::{
    BrokerConfigs, BrokerSettings, Endpoint, ListenHost, Listener, Overrides, Resource,
};

/// One broker that there is to be.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct PlannedBroker {
    pub(super) id: NodeId,
    pub(super) rack: Option<String>,
    pub(super) listeners: Vec<Listener>,
    /// What differs from the shared configs.
    pub(super) configs: Overrides,
}

/// What the brokers share.
#[derive(Debug)]
pub(super) struct Shared<'a> {
    pub(super) configs: &'a BrokerConfigs,
    pub(super) settings: &'a BrokerSettings,
    /// Where the first one listens, if not where its settings say.
    pub(super) listeners: Option<&'a [Listener]>,
}

/// Plans `count` brokers: ids count up from `node.id`, ports from the first one's; a port of 0 stays 0. What differs by
/// `own` counts as it is written there.
pub(super) fn plan(
    count: u32,
    shared: &Shared<'_>,
    own: &BTreeMap<NodeId, Overrides>,
) -> Result<Vec<PlannedBroker>, StartError> {
    if !(1..=MAX_BROKERS).contains(&count) {
        return Err(StartError::BrokerCount { count });
    }
    let first = shared.settings.node_id.0;
    let by = count - 1;
    let last = first.checked_add_unsigned(by).ok_or(StartError::IdRange { first, by })?;
    if let Some(id) = own.keys().find(|id| !(first..=last).contains(&id.0)) {
        return Err(StartError::UnknownBroker { id: id.0, first, last });
    }
    (0..count).map(|at| plan_one(at, shared, own)).collect()
}

/// A setting that holds for the whole process, and that a broker has otherwise than all.
fn process_wide_difference(own: &BrokerSettings, shared: &BrokerSettings) -> Option<&'static str> {
    let (network, of_all) = (&own.network, &shared.network);
    let settings = [
        ("connections.max.idle.ms", network.connections_max_idle_ms == of_all.connections_max_idle_ms),
        ("socket.request.max.bytes", network.socket_request_max_bytes == of_all.socket_request_max_bytes),
        ("huld.log.memory.bytes", own.huld.log_memory_bytes == shared.huld.log_memory_bytes),
        (
            "huld.max.decompressed.bytes",
            own.huld.max_decompressed_bytes == shared.huld.max_decompressed_bytes,
        ),
    ];
    settings.into_iter().find_map(|(key, is_same)| (!is_same).then_some(key))
}

/// What a broker has of its own beside its id, which may be there if it is the one that it has anyway.
fn without_id(id: NodeId, own: &Overrides) -> Result<Overrides, StartError> {
    let mut own = own.clone();
    for key in ["node.id", "broker.id"] {
        let value = own.get(key).map(|value| value.text.trim().to_owned());
        if let Some(value) = value.filter(|value| *value != id.0.to_string()) {
            return Err(StartError::OwnId { id: id.0, key, value });
        }
        own.remove(key);
    }
    Ok(own)
}

fn plan_one(
    at: u32,
    shared: &Shared<'_>,
    own: &BTreeMap<NodeId, Overrides>,
) -> Result<PlannedBroker, StartError> {
    let id = NodeId(shared.settings.node_id.0.saturating_add_unsigned(at));
    let own = own.get(&id).map(|own| without_id(id, own)).transpose()?.filter(|own| !own.is_empty());
    let own = own.as_ref();
    let own_settings = own
        .map(|own| {
            let mut configs = shared.configs.clone();
            configs.fixed.extend(own);
            BrokerSettings::resolve(&configs)
        })
        .transpose()
        .map_err(|source| StartError::OfBroker { id: id.0, source })?;
    let settings = own_settings.as_ref().unwrap_or(shared.settings);
    if let Some(key) = process_wide_difference(settings, shared.settings) {
        return Err(StartError::ProcessWide { id: id.0, key });
    }
    let rack = settings.rack.clone();
    let mut configs = own.cloned().unwrap_or_default();
    let has_own_listeners = own.is_some_and(|own| own.get("listeners").is_some());
    if has_own_listeners {
        return Ok(PlannedBroker { id, rack, listeners: settings.listeners.clone(), configs });
    }
    let listeners = shared.listeners.unwrap_or(&settings.listeners);
    let listeners: Vec<Listener> =
        listeners.iter().map(|listener| shifted(listener, at)).collect::<Result<_, _>>()?;
    if at > 0 && shared.listeners.is_none() && shared.configs.set("listeners").is_some() {
        configs.set(Resource::Broker, "listeners", &texts(listeners.iter().map(listened_on)))?;
        let advertised = listeners.iter().filter_map(|listener| {
            let Endpoint { host, port } = listener.advertised.as_ref()?;
            Some((listener.name.as_str(), host.as_str(), *port))
        });
        let advertised = texts(advertised);
        if !advertised.is_empty() {
            configs.set(Resource::Broker, "advertised.listeners", &advertised)?;
        }
    }
    Ok(PlannedBroker { id, rack, listeners, configs })
}

fn listened_on(listener: &Listener) -> (&str, &str, u16) {
    let host = match &listener.host {
        ListenHost::All => "",
        ListenHost::Named(host) => host,
    };
    (&listener.name, host, listener.port)
}

/// Names, hosts and ports as Kafka's settings have them.
fn texts<'a>(addresses: impl Iterator<Item = (&'a str, &'a str, u16)>) -> String {
    let text = |(name, host, port): (&str, &str, u16)| match host.contains(':') {
        true => format!("{name}://[{host}]:{port}"),
        false => format!("{name}://{host}:{port}"),
    };
    addresses.map(text).collect::<Vec<_>>().join(",")
}

/// The same listener so many ports on.
fn shifted(listener: &Listener, by: u32) -> Result<Listener, StartError> {
    let shift = |port: u16| match port {
        0 => Ok(0),
        _ => u16::try_from(u32::from(port) + by).map_err(|_| StartError::PortRange { first: port, by }),
    };
    let mut listener = listener.clone();
    listener.port = shift(listener.port)?;
    if let Some(advertised) = &mut listener.advertised {
        advertised.port = shift(advertised.port)?;
    }
    Ok(listener)
}

#[cfg(test)]
mod tests {
    use super::super::options::localhost;
    use super::*;

    fn planned(
        count: u32,
        settings: &[(&str, &str)],
        own: &[(i32, &[(&str, &str)])],
    ) -> Result<Vec<PlannedBroker>, StartError> {
        let parse =
            |pairs: &[(&str, &str)]| Overrides::parse(Resource::Broker, pairs.iter().copied()).unwrap();
        let configs = BrokerConfigs::started_with(parse(settings));
        let settings = BrokerSettings::resolve(&configs).unwrap();
        let own = own.iter().map(|(id, pairs)| (NodeId(*id), parse(pairs))).collect();
        plan(count, &Shared { configs: &configs, settings: &settings, listeners: None }, &own)
    }

    fn ids_and_ports(brokers: &[PlannedBroker]) -> Vec<(i32, u16)> {
        brokers.iter().map(|broker| (broker.id.0, broker.listeners[0].port)).collect()
    }

    #[test]
    fn ids_and_ports_count_up() {
        let brokers = planned(3, &[("node.id", "5"), ("listeners", "PLAINTEXT://:9100")], &[]).unwrap();
        assert_eq!(ids_and_ports(&brokers), [(5, 9100), (6, 9101), (7, 9102)]);
        let brokers = planned(2, &[("listeners", "PLAINTEXT://:0")], &[]).unwrap();
        assert_eq!(ids_and_ports(&brokers), [(1, 0), (2, 0)]);
        let advertised = [
            ("listeners", "A://:9100"),
            ("advertised.listeners", "A://kafka:19100"),
            ("listener.security.protocol.map", "A:PLAINTEXT"),
            ("inter.broker.listener.name", "A"),
        ];
        let brokers = planned(2, &advertised, &[]).unwrap();
        assert_eq!(brokers[1].listeners[0].advertised.as_ref().unwrap().port, 19101);
        // Each shows its own when it is asked for its configs.
        let shown = |at: usize, key: &str| brokers[at].configs.get(key).map(|set| set.text.to_string());
        assert_eq!((shown(0, "listeners"), shown(1, "listeners")), (None, Some("A://:9101".to_owned())));
        assert_eq!(shown(1, "advertised.listeners").as_deref(), Some("A://kafka:19101"));
    }

    #[test]
    fn what_differs_counts_as_it_is_written() {
        let own: &[(i32, &[(&str, &str)])] =
            &[(1, &[("broker.rack", "a")]), (2, &[("broker.rack", "b"), ("listeners", "PLAINTEXT://:7000")])];
        let brokers = planned(3, &[("broker.rack", "all")], own).unwrap();
        let racks: Vec<_> = brokers.iter().map(|broker| broker.rack.as_deref().unwrap()).collect();
        assert_eq!(racks, ["a", "b", "all"]);
        assert_eq!(ids_and_ports(&brokers), [(1, 9092), (2, 7000), (3, 9094)]);
    }

    #[test]
    fn what_cannot_be_is_said() {
        let error = |count, settings: &[(&str, &str)], own: &[(i32, &[(&str, &str)])]| {
            planned(count, settings, own).unwrap_err().to_string()
        };
        assert_eq!(
            error(2, &[], &[(2, &[("node.id", "7")])]),
            "broker 2 can't be node.id=7: ids count up from the node.id that all brokers share"
        );
        let lag = error(2, &[], &[(2, &[("replica.lag.time.max.ms", "1")])]);
        assert!(lag.starts_with("what broker 2 has of its own: replica."), "{lag}");
        assert!(planned(2, &[], &[(2, &[("node.id", "2"), ("broker.rack", "a")])]).is_ok());
        assert_eq!(error(0, &[], &[]), "0 brokers can't be run: it must be 1 to 64");
        assert_eq!(error(65, &[], &[]), "65 brokers can't be run: it must be 1 to 64");
        assert_eq!(
            error(3, &[], &[(4, &[("broker.rack", "a")])]),
            "there is no broker 4: the brokers are 1 to 3"
        );
        assert_eq!(
            error(2, &[("listeners", "PLAINTEXT://:65535")], &[]),
            "there is no port 65535 + 1 for another broker: choose a lower one for the first"
        );
        assert_eq!(
            error(3, &[("node.id", "2147483646")], &[]),
            "there is no id 2147483646 + 2 for another broker: choose a lower node.id for the first"
        );
        assert!(planned(2, &[("node.id", "2147483646")], &[]).is_ok());
        for key in ["huld.log.memory.bytes", "huld.max.decompressed.bytes", "socket.request.max.bytes"] {
            let expected = format!(
                "broker 2 can't have {key} of its own, which holds for the whole process: set it for all brokers"
            );
            assert_eq!(error(2, &[], &[(2, &[(key, "2000000")])]), expected);
            assert!(planned(2, &[(key, "2000000")], &[(2, &[(key, "2000000")])]).is_ok(), "{key}");
        }
        assert!(
            error(2, &[], &[(1, &[("connections.max.idle.ms", "5")])]).contains("connections.max.idle.ms")
        );
        assert_eq!(localhost(7).port, 7);
    }
}
