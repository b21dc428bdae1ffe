//! What requests about access control may not say: Kafka takes the number 0 of a kind of resource, pattern, operation or
//! permission, which stands for one that it doesn't know, for a malformed request. Other numbers that it doesn't know it
//! lets through (`CreateAclsRequest.validate` and its like).

use super::Refusal;
use super::prepare::Preparation;

/// Kafka's number for what isn't known.
const UNKNOWN: i8 = 0;

/// Whether all kinds are named: resource and pattern, operation and permission.
///
/// # Errors
/// [`Refusal::Malformed`] if one is unknown; the connection is then closed, as by Kafka.
pub(crate) fn check(preparation: &Preparation, names: [i8; 2], rights: [i8; 2]) -> Result<(), Refusal> {
    match names.iter().chain(&rights).any(|kind| *kind == UNKNOWN) {
        true => {
            Err(preparation.malformed("a resource, pattern, operation or permission of kind 0 (unknown)"))
        }
        false => Ok(()),
    }
}
