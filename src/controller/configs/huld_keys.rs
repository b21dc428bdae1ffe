//! huld's own broker keys. They are hidden from DescribeConfigs, which shows what Kafka shows.

use super::key::Allowed::AtLeast;
use super::tables::keys;

keys! { HULD_KEYS;
    "huld.log.memory.bytes": Long = None, AtLeast(1048576), High, ReadOnly, Acts, internal =>
        "The budget for the records of all logs; by default half of the machine's memory.";
    "huld.max.group.members": Int = Some("100000"), AtLeast(1), Medium, ReadOnly, Acts, internal =>
        "How many members the groups that a broker coordinates may have together.";
    "huld.max.groups": Int = Some("100000"), AtLeast(1), Medium, ReadOnly, Acts, internal =>
        "How many groups a broker may coordinate.";
    "huld.max.transactional.ids": Int = Some("100000"), AtLeast(1), Medium, ReadOnly, Acts, internal =>
        "How many transactional ids a broker may coordinate.";
    "huld.max.decompressed.bytes": Int = Some("67108864"), AtLeast(1024), Medium, ReadOnly, Acts, internal =>
        "How large a record batch may become when it is decompressed to be looked into.";
}
