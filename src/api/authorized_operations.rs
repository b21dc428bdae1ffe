//! What a client may do, as a bit field (KIP-430). There is no authorizer, so everybody may do all that there is to
//! do with a thing of its kind.

/// Stands for "was not asked for".
pub(crate) const NOT_REQUESTED: i32 = i32::MIN;

const fn bits(operations: &[u8]) -> i32 {
    let (mut bits, mut at) = (0, 0);
    while at < operations.len() {
        bits |= 1 << operations[at];
        at += 1;
    }
    bits
}

// Numbers of Kafka's AclOperation.
const READ: u8 = 3;
const WRITE: u8 = 4;
const CREATE: u8 = 5;
const DELETE: u8 = 6;
const ALTER: u8 = 7;
const DESCRIBE: u8 = 8;
const CLUSTER_ACTION: u8 = 9;
const DESCRIBE_CONFIGS: u8 = 10;
const ALTER_CONFIGS: u8 = 11;
const IDEMPOTENT_WRITE: u8 = 12;

/// All operations on a topic, if they were asked for.
pub(crate) fn on_topic(requested: bool) -> i32 {
    const ALL: i32 = bits(&[READ, WRITE, CREATE, DELETE, ALTER, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);
    if requested { ALL } else { NOT_REQUESTED }
}

/// All operations on a group, if they were asked for.
pub(crate) fn on_group(requested: bool) -> i32 {
    const ALL: i32 = bits(&[READ, DELETE, DESCRIBE, DESCRIBE_CONFIGS, ALTER_CONFIGS]);
    if requested { ALL } else { NOT_REQUESTED }
}

/// All operations on a cluster, if they were asked for.
pub(crate) fn on_cluster(requested: bool) -> i32 {
    const ALL: i32 =
        bits(&[CREATE, ALTER, DESCRIBE, CLUSTER_ACTION, DESCRIBE_CONFIGS, ALTER_CONFIGS, IDEMPOTENT_WRITE]);
    if requested { ALL } else { NOT_REQUESTED }
}
