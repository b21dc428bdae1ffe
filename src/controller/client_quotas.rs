//! Clients' quotas: stored and listed, not enforced (Kafka's `ClientQuotaControlManager`, KIP-546).

use core::net::IpAddr;
use std::collections::BTreeMap;

/// The most entities that may have quotas (ours).
pub const MAX_QUOTA_ENTITIES: usize = 100_000;

/// Who a quota is for: names by the kind of entity (`user`, `client-id`, `ip`), none for the default of its kind.
pub type QuotaEntity = BTreeMap<String, Option<String>>;

const USER: &str = "user";
const CLIENT_ID: &str = "client-id";
const IP: &str = "ip";

/// What becomes of one quota.
#[derive(Clone, Debug, PartialEq)]
pub struct QuotaOperation {
    /// The quota's name, such as `producer_byte_rate`.
    pub key: String,
    /// Its new value; none takes it away.
    pub value: Option<f64>,
}

/// Which entities are asked for, by one kind of entity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum QuotaMatch {
    /// The one of this name.
    Name(String),
    /// The default.
    Default,
    /// Any of this kind.
    Any,
}

/// Why a change of quotas is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its description")]
pub enum QuotaError {
    #[error("A quota is for somebody: the entity is empty.")]
    EmptyEntity,
    #[error("There is no entity of the kind '{0}'.")]
    UnknownKind(String),
    #[error("An entity of the kind '{0}' has a name, or null for the default.")]
    EmptyName(String),
    #[error("An ip stands alone, without user and client-id.")]
    IpWithOthers,
    #[error("'{0}' is not an address.")]
    NotAnAddress(String),
    #[error("An entity of this kind has no quota '{0}'.")]
    UnknownKey(String),
    #[error("The quota '{0}' is named twice.")]
    RepeatedKey(String),
    #[error("{key} must be {allowed}, not {value}.")]
    InvalidValue { key: String, value: String, allowed: &'static str },
    #[error("At most {MAX_QUOTA_ENTITIES} entities may have quotas.")]
    TooManyEntities,
}

/// All quotas.
#[derive(Clone, Debug, Default)]
pub struct ClientQuotas {
    by_entity: BTreeMap<QuotaEntity, BTreeMap<String, f64>>,
}

impl ClientQuotas {
    /// Changes the quotas of one entity, or with `validate_only` just says whether it could.
    ///
    /// # Errors
    /// If the entity, a quota's name or its value is wrong; nothing has changed then.
    pub fn alter(
        &mut self,
        entity: QuotaEntity,
        operations: &[QuotaOperation],
        validate_only: bool,
    ) -> Result<(), QuotaError> {
        let keys = check_entity(&entity)?;
        for (at, operation) in operations.iter().enumerate() {
            if operations[..at].iter().any(|earlier| earlier.key == operation.key) {
                return Err(QuotaError::RepeatedKey(operation.key.clone()));
            }
            check_operation(keys, operation)?;
        }
        if self.by_entity.len() >= MAX_QUOTA_ENTITIES && !self.by_entity.contains_key(&entity) {
            return Err(QuotaError::TooManyEntities);
        }
        if validate_only {
            return Ok(());
        }
        let mut quotas = self.by_entity.remove(&entity).unwrap_or_default();
        for operation in operations {
            match operation.value {
                Some(value) => quotas.insert(operation.key.clone(), value),
                None => quotas.remove(&operation.key),
            };
        }
        if !quotas.is_empty() {
            self.by_entity.insert(entity, quotas);
        }
        Ok(())
    }

    /// The entities that have every kind that is asked for, matching; with `strict` no others. In a fixed order.
    pub fn matching(
        &self,
        components: &BTreeMap<String, QuotaMatch>,
        strict: bool,
    ) -> impl Iterator<Item = (&QuotaEntity, &BTreeMap<String, f64>)> {
        let matches = move |entity: &QuotaEntity| {
            let all = components.iter().all(|(kind, wanted)| match (entity.get(kind), wanted) {
                (Some(Some(name)), QuotaMatch::Name(wanted)) => name == wanted,
                (Some(None), QuotaMatch::Default) | (Some(_), QuotaMatch::Any) => true,
                _ => false,
            });
            all && (!strict || entity.len() == components.len())
        };
        self.by_entity.iter().filter(move |(entity, _)| matches(entity))
    }
}

/// Whether a kind of entity is known.
pub fn is_entity_kind(kind: &str) -> bool {
    [USER, CLIENT_ID, IP].contains(&kind)
}

/// A quota's name, and whether its value is a whole number.
type QuotaKey = (&'static str, bool);

const CLIENT_QUOTAS: &[QuotaKey] = &[
    ("consumer_byte_rate", true),
    ("controller_mutation_rate", false),
    ("producer_byte_rate", true),
    ("request_percentage", false),
];
const IP_QUOTAS: &[QuotaKey] = &[("connection_creation_rate", true)];

/// The quotas that the entity may have.
fn check_entity(entity: &QuotaEntity) -> Result<&'static [QuotaKey], QuotaError> {
    if entity.is_empty() {
        return Err(QuotaError::EmptyEntity);
    }
    for (kind, name) in entity {
        if !is_entity_kind(kind) {
            return Err(QuotaError::UnknownKind(kind.clone()));
        }
        if name.as_ref().is_some_and(String::is_empty) {
            return Err(QuotaError::EmptyName(kind.clone()));
        }
    }
    let Some(ip) = entity.get(IP) else { return Ok(CLIENT_QUOTAS) };
    if entity.len() > 1 {
        return Err(QuotaError::IpWithOthers);
    }
    match ip {
        Some(address) if address.parse::<IpAddr>().is_err() => Err(QuotaError::NotAnAddress(address.clone())),
        _ => Ok(IP_QUOTAS),
    }
}

fn check_operation(keys: &[QuotaKey], operation: &QuotaOperation) -> Result<(), QuotaError> {
    let QuotaOperation { key, value } = operation;
    // Whatever is not there can be taken away.
    let Some(value) = *value else { return Ok(()) };
    let known = keys.iter().find(|(name, _)| name == key);
    let (_, is_whole) = known.ok_or_else(|| QuotaError::UnknownKey(key.clone()))?;
    let invalid = |allowed| QuotaError::InvalidValue { key: key.clone(), value: value.to_string(), allowed };
    // Neither of Kafka's comparisons holds for NaN, which it takes.
    if value <= 0.0 {
        return Err(invalid("larger than 0"));
    }
    // Kafka allows for what is lost between a double and a long.
    const LOST: f64 = 1e-6;
    // As in Java, a value beyond the range of a long becomes the largest one, and is then no whole number.
    let whole = (value + LOST) as i64 as f64;
    if *is_whole && value + LOST - whole > 2.0 * LOST {
        return Err(invalid("a whole number"));
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entity(parts: &[(&str, Option<&str>)]) -> QuotaEntity {
        parts.iter().map(|(kind, name)| ((*kind).to_owned(), name.map(str::to_owned))).collect()
    }

    fn set(key: &str, value: f64) -> Vec<QuotaOperation> {
        vec![QuotaOperation { key: key.to_owned(), value: Some(value) }]
    }

    #[test]
    fn values_are_kafkas() {
        let mut quotas = ClientQuotas::default();
        let mut alter = |key, value| quotas.alter(entity(&[(USER, None)]), &set(key, value), false);
        assert_eq!(alter("consumer_byte_rate", 1e9), Ok(()));
        assert_eq!(alter("consumer_byte_rate", f64::NAN), Ok(()));
        assert_eq!(alter("request_percentage", 0.5), Ok(()));
        assert!(alter("consumer_byte_rate", 0.5).is_err());
        assert!(alter("consumer_byte_rate", 1e300).is_err());
        assert!(alter("consumer_byte_rate", 0.0).is_err());
        assert!(alter("connection_creation_rate", 1.0).is_err());
    }

    #[test]
    fn entities_are_found_by_their_parts() {
        let mut quotas = ClientQuotas::default();
        for parts in [&[(CLIENT_ID, Some("c"))][..], &[(CLIENT_ID, Some("c")), (USER, None)]] {
            quotas.alter(entity(parts), &set("producer_byte_rate", 1.0), false).unwrap();
        }
        let found = |kind: &str, wanted: QuotaMatch, strict| {
            quotas.matching(&BTreeMap::from([(kind.to_owned(), wanted)]), strict).count()
        };
        assert_eq!(found(CLIENT_ID, QuotaMatch::Name("c".to_owned()), false), 2);
        assert_eq!(found(CLIENT_ID, QuotaMatch::Name("c".to_owned()), true), 1);
        assert_eq!(found(USER, QuotaMatch::Default, false), 1);
        assert_eq!(found(CLIENT_ID, QuotaMatch::Default, false), 0);
        assert_eq!(quotas.matching(&BTreeMap::new(), false).count(), 2);
    }

    #[test]
    fn an_entity_without_quotas_is_forgotten() {
        let mut quotas = ClientQuotas::default();
        let who = entity(&[(IP, Some("127.0.0.1"))]);
        quotas.alter(who.clone(), &set("connection_creation_rate", 5.0), true).unwrap();
        assert_eq!(quotas.by_entity.len(), 0, "a dry run changes nothing");
        quotas.alter(who.clone(), &set("connection_creation_rate", 5.0), false).unwrap();
        let gone = ["connection_creation_rate", "no_such_quota"]
            .map(|key| QuotaOperation { key: key.to_owned(), value: None });
        quotas.alter(who, &gone, false).unwrap();
        assert_eq!(quotas.by_entity.len(), 0);
    }
}
