//! Listeners: the addresses a broker opens and those it tells clients, from Kafka's texts.

use std::collections::BTreeMap;

use super::layers::BrokerConfigs;
use super::tables::Resource;
use super::value::{ConfigError, Value};

/// One address on which clients are served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Listener {
    /// Its name, in capitals: Kafka's listener name, such as `PLAINTEXT` or `INTERNAL`.
    pub name: String,
    /// Where to listen.
    pub host: ListenHost,
    /// The port; 0 lets the system choose.
    pub port: u16,
    /// What clients are told; none: the address by which the client came.
    pub advertised: Option<Endpoint>,
}

/// Where to listen.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ListenHost {
    /// On every address, IPv4 and IPv6: an empty host.
    All,
    /// On the addresses of this name (for `localhost` both families), or on this address; IPv6 without brackets.
    Named(String),
}

/// A host and a port as clients are told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// A name or an address; IPv6 without brackets.
    pub host: String,
    /// The port; 0 stands for the port that the listener got.
    pub port: u16,
}

/// The broker's listeners, without those of controllers, which huld does not have. What Kafka refuses is refused:
/// names and ports that come twice, a name without a security protocol, advertised names that don't exist and
/// wildcards as advertised hosts. Unlike Kafka, a wildcard in `listeners` is fine when nothing is advertised:
/// clients are then told the address by which they came.
///
/// # Errors
/// [`ConfigError::InvalidValue`] of the key that is to blame.
pub(super) fn listeners(configs: &BrokerConfigs) -> Result<Vec<Listener>, ConfigError> {
    let controllers = names(&text(configs, "controller.listener.names"));
    let protocols = protocol_map(configs)?;
    let mut found = Vec::new();
    for entry in entries(configs, "listeners")? {
        if controllers.contains(&entry.name) {
            continue;
        }
        check_protocol(configs, &entry, &protocols)?;
        found.push(entry);
    }
    check_distinct(configs, &found)?;
    let mut advertised = BTreeMap::new();
    for entry in entries(configs, "advertised.listeners")? {
        let refuse = |allowed: &str| Err(invalid(configs, "advertised.listeners", allowed));
        if controllers.contains(&entry.name) {
            continue;
        }
        if matches!(entry.host.as_str(), "" | "0.0.0.0" | "::" | "0:0:0:0:0:0:0:0") {
            return refuse("an address that clients can connect to: a wildcard is none");
        }
        if !found.iter().any(|listener| listener.name == entry.name) {
            return refuse(&format!("for names in listeners only; {} is not among them", entry.name));
        }
        let name = entry.name;
        if advertised.insert(name.clone(), Endpoint { host: entry.host, port: entry.port }).is_some() {
            return refuse(&format!("one address for each listener; {name} comes twice"));
        }
    }
    if found.is_empty() {
        let allowed = "at least one listener that isn't a controller's (those are not opened here)";
        return Err(invalid(configs, "listeners", allowed));
    }
    check_inter_broker(configs, &found)?;
    let listener = |entry: Entry| Listener {
        advertised: advertised.remove(&entry.name),
        name: entry.name,
        host: if entry.host.is_empty() { ListenHost::All } else { ListenHost::Named(entry.host) },
        port: entry.port,
    };
    Ok(found.into_iter().map(listener).collect())
}

/// An element of `listeners`: `NAME://host:port`.
struct Entry {
    name: String,
    host: String,
    port: u16,
}

fn entries(configs: &BrokerConfigs, key: &'static str) -> Result<Vec<Entry>, ConfigError> {
    let text = text(configs, key);
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items
        .map(|item| {
            read_entry(item).ok_or_else(|| {
                let allowed = format!("a list of NAME://host:port, with ports up to 65535; {item} is none");
                invalid(configs, key, &allowed)
            })
        })
        .collect()
}

/// Kafka's pattern: a name, `://`, a host of letters, digits and `-._%:` (IPv6 in brackets or bare), `:`, a port.
fn read_entry(item: &str) -> Option<Entry> {
    let (name, address) = item.split_once("://")?;
    let (host, port) = address.rsplit_once(':')?;
    let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let is_good = |c: char| c.is_ascii_alphanumeric() || "-._%:".contains(c);
    let port = port.parse().ok()?;
    (!name.is_empty() && host.chars().all(is_good)).then(|| Entry {
        name: name.to_ascii_uppercase(),
        host: host.to_owned(),
        port,
    })
}

/// Kafka's rule: names differ, and so do ports, but for port 0 and for one port on an IPv4 and an IPv6 address
/// (KIP-797).
fn check_distinct(configs: &BrokerConfigs, found: &[Entry]) -> Result<(), ConfigError> {
    let address = |entry: &Entry| entry.host.parse::<core::net::IpAddr>().ok();
    for (at, entry) in found.iter().enumerate() {
        for other in &found[..at] {
            if other.name == entry.name {
                let allowed = format!("listeners of different names; {} comes twice", entry.name);
                return Err(invalid(configs, "listeners", &allowed));
            }
            let families = (address(other), address(entry));
            let is_dual = matches!(families, (Some(a), Some(b)) if a.is_ipv4() != b.is_ipv4());
            if other.port == entry.port && entry.port != 0 && !is_dual {
                let allowed = format!("listeners on different ports; {} comes twice", entry.port);
                return Err(invalid(configs, "listeners", &allowed));
            }
        }
    }
    Ok(())
}

fn protocol_map(configs: &BrokerConfigs) -> Result<BTreeMap<String, String>, ConfigError> {
    const KEY: &str = "listener.security.protocol.map";
    const PROTOCOLS: [&str; 4] = ["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"];
    let mut map = BTreeMap::new();
    let text = text(configs, KEY);
    for item in text.split(',').map(str::trim).filter(|item| !item.is_empty()) {
        let pair = item.rsplit_once(':').map(|(name, protocol)| (name.trim(), protocol.trim()));
        let Some((name, protocol)) = pair.filter(|(_, protocol)| PROTOCOLS.contains(protocol)) else {
            let allowed =
                format!("a list of NAME:PROTOCOL with protocols {}; {item} is none", PROTOCOLS.join(", "));
            return Err(invalid(configs, KEY, &allowed));
        };
        map.insert(name.to_ascii_uppercase(), protocol.to_owned());
    }
    Ok(map)
}

fn check_protocol(
    configs: &BrokerConfigs,
    entry: &Entry,
    protocols: &BTreeMap<String, String>,
) -> Result<(), ConfigError> {
    match protocols.get(&entry.name).map(String::as_str) {
        Some("PLAINTEXT") => Ok(()),
        Some(protocol) => {
            let allowed = format!(
                "listeners with the protocol PLAINTEXT; {} asks for {protocol}, which is not done yet",
                entry.name
            );
            Err(invalid(configs, "listeners", &allowed))
        }
        None => {
            let allowed = format!(
                "for names in listener.security.protocol.map only; {} has no protocol there",
                entry.name
            );
            Err(invalid(configs, "listeners", &allowed))
        }
    }
}

fn check_inter_broker(configs: &BrokerConfigs, found: &[Entry]) -> Result<(), ConfigError> {
    const KEY: &str = "inter.broker.listener.name";
    let name = text(configs, KEY).to_ascii_uppercase();
    if name.is_empty() || found.iter().any(|entry| entry.name == name) {
        return Ok(());
    }
    Err(invalid(configs, KEY, "the name of one of the broker's listeners"))
}

fn names(text: &str) -> Vec<String> {
    let items = text.split(',').map(str::trim).filter(|item| !item.is_empty());
    items.map(str::to_ascii_uppercase).collect()
}

fn text(configs: &BrokerConfigs, name: &'static str) -> String {
    let value = Resource::Broker.key(name).and_then(|key| configs.value(key));
    match value {
        Some(Value::Text(text)) => text,
        Some(other) => other.to_string(),
        None => String::new(),
    }
}

fn invalid(configs: &BrokerConfigs, key: &'static str, allowed: &str) -> ConfigError {
    ConfigError::InvalidValue { key: key.to_owned(), value: text(configs, key), allowed: allowed.to_owned() }
}

#[cfg(test)]
mod tests {
    use super::super::layers::Overrides;
    use super::*;

    fn read(pairs: &[(&str, &str)]) -> Result<Vec<Listener>, String> {
        let fixed = Overrides::parse(Resource::Broker, pairs.iter().copied()).unwrap();
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        listeners(&configs).map_err(|error| error.to_string())
    }

    fn error(pairs: &[(&str, &str)]) -> String {
        read(pairs).unwrap_err()
    }

    #[test]
    fn several_listeners_by_name() {
        let found = read(&[
            ("listeners", "internal://:9092, EXTERNAL://[::1]:0,CONTROLLER://:9093"),
            ("advertised.listeners", "EXTERNAL://[2001:db8::1]:19092,INTERNAL://broker-1.test:9092"),
            ("listener.security.protocol.map", "INTERNAL:PLAINTEXT, EXTERNAL:PLAINTEXT,CONTROLLER:SSL"),
            ("controller.listener.names", "CONTROLLER"),
            ("inter.broker.listener.name", "internal"),
        ])
        .unwrap();
        let [internal, external] = found.as_slice() else { panic!("{found:?}") };
        assert_eq!(
            (internal.name.as_str(), &internal.host, internal.port),
            ("INTERNAL", &ListenHost::All, 9092)
        );
        assert_eq!(internal.advertised, Some(Endpoint { host: "broker-1.test".into(), port: 9092 }));
        assert_eq!((&external.host, external.port), (&ListenHost::Named("::1".into()), 0));
        assert_eq!(external.advertised, Some(Endpoint { host: "2001:db8::1".into(), port: 19092 }));
    }

    #[test]
    fn a_wildcard_is_listened_on_but_not_advertised() {
        let found = read(&[("listeners", "PLAINTEXT://0.0.0.0:9092")]).unwrap();
        assert_eq!(found[0].host, ListenHost::Named("0.0.0.0".into()));
        assert_eq!(found[0].advertised, None);
        for wildcard in ["0.0.0.0", "[::]", "::", ""] {
            let advertised = format!("PLAINTEXT://{wildcard}:9092");
            let error = error(&[("listeners", "PLAINTEXT://:9092"), ("advertised.listeners", &advertised)]);
            let reason = "the value must be an address that clients can connect to: a wildcard is none";
            assert_eq!(error, format!("advertised.listeners={advertised}: {reason}"));
        }
    }

    #[test]
    fn what_kafka_refuses_is_refused() {
        let map = ("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT,S:SSL,P:SASL_PLAINTEXT");
        let refused = |listeners: &str| error(&[("listeners", listeners), map]);
        assert!(refused("A://:1,A://:2").ends_with("listeners of different names; A comes twice"));
        assert!(refused("A://:1,B://:1").ends_with("listeners on different ports; 1 comes twice"));
        assert!(refused("A://127.0.0.1:1,B://127.0.0.2:1").contains("different ports"));
        assert!(refused("C://:1").contains("C has no protocol there"));
        assert!(refused("S://:1").contains("S asks for SSL, which is not done yet"));
        assert!(refused("P://:1").contains("P asks for SASL_PLAINTEXT"));
        for malformed in ["A", "A://", "A://host", "A://:65536", "A://:-1", "://:1", "A://a b:1", "A://:x"] {
            assert!(refused(malformed).contains(&format!("{malformed} is none")), "{malformed}");
        }
        assert!(refused("").contains("at least one listener"));
        assert!(error(&[("advertised.listeners", "B://h:1")]).contains("B is not among them"));
        let twice = ("advertised.listeners", "PLAINTEXT://h:1,PLAINTEXT://h:2");
        assert!(error(&[twice]).contains("PLAINTEXT comes twice"));
        assert!(error(&[("inter.broker.listener.name", "B")]).contains("one of the broker's listeners"));
        assert!(error(&[("listener.security.protocol.map", "A:TLS")]).contains("A:TLS is none"));
        let only = [("listeners", "CONTROLLER://:9093"), ("controller.listener.names", "CONTROLLER")];
        assert!(error(&only).contains("at least one listener that isn't a controller's"));
    }

    #[test]
    fn one_port_may_serve_both_families_and_port_0_any_number() {
        let map = ("listener.security.protocol.map", "A:PLAINTEXT,B:PLAINTEXT");
        assert_eq!(read(&[("listeners", "A://127.0.0.1:1,B://[::1]:1"), map]).unwrap().len(), 2);
        assert_eq!(read(&[("listeners", "A://:0,B://:0"), map]).unwrap().len(), 2);
    }
}
