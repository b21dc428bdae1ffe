//! The controller: topics, partitions, leaders, broker registrations, configs.

pub mod configs;
