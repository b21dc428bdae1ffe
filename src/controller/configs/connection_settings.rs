//! How many connections a broker may have: in all, by listener and by address (`ConnectionQuotas` reads these).

use std::collections::BTreeMap;
// Addresses alone, as values: sockets are not for this layer.
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use super::broker_settings::read;
use super::layers::BrokerConfigs;
use super::value::{ConfigError, Value};

const MAX_CONNECTIONS: &str = "max.connections";
const PER_IP: &str = "max.connections.per.ip";
const OVERRIDES: &str = "max.connections.per.ip.overrides";

/// Limits of a broker's connections, which it takes on while it runs.
#[derive(Clone, Debug, PartialEq)]
pub struct ConnectionSettings {
    /// `max.connections`: of all listeners together. Further ones wait to be served; if there are more when this is
    /// lowered, the quietest are closed.
    pub max_connections: usize,
    /// `listener.name.<listener>.max.connections`, by the listener's name in lower case.
    by_listener: BTreeMap<String, usize>,
    /// `max.connections.per.ip`: further ones are closed at once.
    max_connections_per_ip: usize,
    /// `max.connections.per.ip.overrides`, for addresses and localhost. Other names limit nothing: to look them up is not
    /// for this layer.
    by_address: BTreeMap<IpAddr, usize>,
}

impl ConnectionSettings {
    /// # Errors
    /// [`ConfigError::InvalidValue`] for overrides that can't be, and for 0 connections from each address without any.
    pub(super) fn resolve(configs: &BrokerConfigs) -> Result<Self, ConfigError> {
        let max_connections_per_ip = read(configs, PER_IP);
        let by_address = overrides(&read::<Option<String>>(configs, OVERRIDES).unwrap_or_default())?;
        if max_connections_per_ip == 0 && configs.set(OVERRIDES).is_none() {
            return Err(ConfigError::InvalidValue {
                key: PER_IP.to_owned(),
                value: "0".to_owned(),
                allowed: format!("at least 1 where {OVERRIDES} is not set"),
            });
        }
        Ok(ConnectionSettings {
            max_connections: read(configs, MAX_CONNECTIONS),
            by_listener: by_listener(configs),
            max_connections_per_ip,
            by_address,
        })
    }

    /// How many connections one listener may have: its own limit, or that of all together.
    pub fn of_listener(&self, name: &str) -> usize {
        self.by_listener.get(&name.to_lowercase()).copied().unwrap_or(self.max_connections)
    }

    /// How many connections may come from one address.
    pub fn of_address(&self, address: IpAddr) -> usize {
        self.by_address.get(&address.to_canonical()).copied().unwrap_or(self.max_connections_per_ip)
    }
}

impl Default for ConnectionSettings {
    /// Kafka's defaults: as good as no limits.
    fn default() -> Self {
        const NO_LIMIT: usize = i32::MAX as usize;
        ConnectionSettings {
            max_connections: NO_LIMIT,
            by_listener: BTreeMap::new(),
            max_connections_per_ip: NO_LIMIT,
            by_address: BTreeMap::new(),
        }
    }
}

fn by_listener(configs: &BrokerConfigs) -> BTreeMap<String, usize> {
    let mut limits = BTreeMap::new();
    for (name, set) in configs.layers().iter().flat_map(|(_, layer)| layer.iter()) {
        let listener =
            name.strip_prefix("listener.name.").and_then(|rest| rest.strip_suffix(MAX_CONNECTIONS));
        let Some(listener) = listener.and_then(|rest| rest.strip_suffix('.')) else { continue };
        if let Value::Integer(limit) = set.value {
            // The strongest layer comes first.
            limits.entry(listener.to_owned()).or_insert(usize::try_from(limit).unwrap_or(0));
        }
    }
    limits
}

/// Reads `host:count` pairs; the count is behind the last colon, since the host may be an IPv6 address.
fn overrides(text: &str) -> Result<BTreeMap<IpAddr, usize>, ConfigError> {
    let parse = |pair: &str| {
        let (host, count) = pair.rsplit_once(':')?;
        let count: i32 = count.trim().parse().ok()?;
        Some((addresses(host.trim()), usize::try_from(count).unwrap_or(0)))
    };
    let mut limits = BTreeMap::new();
    for pair in text.split(',').map(str::trim).filter(|pair| !pair.is_empty()) {
        let (addresses, count) = parse(pair).ok_or_else(|| ConfigError::InvalidValue {
            key: OVERRIDES.to_owned(),
            value: text.to_owned(),
            allowed: format!("host:count pairs; '{pair}' is none"),
        })?;
        limits.extend(addresses.into_iter().map(|address| (address, count)));
    }
    Ok(limits)
}

fn addresses(host: &str) -> Vec<IpAddr> {
    if host == "localhost" {
        return vec![Ipv4Addr::LOCALHOST.into(), Ipv6Addr::LOCALHOST.into()];
    }
    let number = host.strip_prefix('[').and_then(|rest| rest.strip_suffix(']')).unwrap_or(host);
    number.parse::<IpAddr>().map(|address| address.to_canonical()).into_iter().collect()
}

#[cfg(test)]
mod tests {
    use super::super::layers::Overrides;
    use super::super::tables::Resource;
    use super::*;

    fn resolve(pairs: &[(&str, &str)]) -> Result<ConnectionSettings, String> {
        let fixed = Overrides::parse(Resource::Broker, pairs.iter().copied()).unwrap();
        let configs = BrokerConfigs { fixed, ..BrokerConfigs::default() };
        ConnectionSettings::resolve(&configs).map_err(|error| error.to_string())
    }

    #[test]
    fn a_listener_has_its_own_limit_or_that_of_all() {
        let settings =
            resolve(&[("max.connections", "9"), ("listener.name.inside.max.connections", "3")]).unwrap();
        assert_eq!((settings.of_listener("INSIDE"), settings.of_listener("OUTSIDE")), (3, 9));
        assert_eq!(settings.max_connections, 9);
    }

    #[test]
    fn the_strongest_layer_counts_for_a_listener() {
        let set = |limit: &str| {
            let pairs = [("listener.name.a.max.connections", limit)];
            Overrides::parse(Resource::Broker, pairs).unwrap()
        };
        let mut configs = BrokerConfigs { fixed: set("1"), ..BrokerConfigs::default() };
        configs.dynamic_default = set("2");
        assert_eq!(ConnectionSettings::resolve(&configs).unwrap().of_listener("A"), 2);
        configs.dynamic = set("3");
        assert_eq!(ConnectionSettings::resolve(&configs).unwrap().of_listener("A"), 3);
    }

    #[test]
    fn addresses_have_limits_of_their_own() {
        let settings = resolve(&[(PER_IP, "5"), (OVERRIDES, "192.0.2.7:1, 2001:db8::7:2 ,[::1]:0")]).unwrap();
        let of = |address: &str| settings.of_address(address.parse().unwrap());
        assert_eq!((of("192.0.2.7"), of("::ffff:192.0.2.7"), of("192.0.2.8")), (1, 1, 5));
        assert_eq!((of("2001:db8::7"), of("::1")), (2, 0));
        let settings = resolve(&[(OVERRIDES, "localhost:4,some.host:1")]).unwrap();
        let of = |address: &str| settings.of_address(address.parse().unwrap());
        assert_eq!((of("127.0.0.1"), of("::1")), (4, 4));
        for bad in ["192.0.2.7", "192.0.2.7:x", "host"] {
            let error = resolve(&[(OVERRIDES, bad)]).unwrap_err();
            assert!(
                error.starts_with(&format!("{OVERRIDES}={bad}: the value must be host:count")),
                "{error}"
            );
        }
    }

    #[test]
    fn no_connections_at_all_needs_exceptions() {
        assert!(resolve(&[(PER_IP, "0")]).is_err());
        assert!(resolve(&[(PER_IP, "0"), (OVERRIDES, "127.0.0.1:9")]).is_ok());
    }
}
