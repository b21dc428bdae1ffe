//! What the core must not call: it takes the time and the seed as values, and gives its effects as values, so that a
//! run can be repeated. And what code that reads bytes of a peer must not do.

use crate::Breach;
use crate::layers::is_core;
use crate::source::Source;

/// Names that the core must not use, and why. A path is written as its tokens.
const BANNED: &[(&[&str], &str)] = &[
    (&["tokio"], "sockets and tasks belong to the server"),
    (&["std", ":", ":", "net"], "sockets belong to the server"),
    (&["std", ":", ":", "fs"], "files belong to the command line"),
    (&["std", ":", ":", "env"], "the environment belongs to the command line"),
    (&["std", ":", ":", "process"], "processes belong to the command line"),
    (&["std", ":", ":", "thread"], "threads belong to the server"),
    (&["thread", ":", ":"], "threads belong to the server"),
    (&["std", ":", ":", "time", ":", ":", "Instant"], "the time comes in as a value: Now"),
    (&["Instant", ":", ":", "now"], "the time comes in as a value: Now"),
    (&["SystemTime"], "the time comes in as a value: Now"),
    (&["rand"], "random draws come from base::entropy, which is seeded"),
    (&["getrandom"], "random draws come from base::entropy, which is seeded"),
    (&["new_v4"], "random draws come from base::entropy, which is seeded"),
    (&["RandomState"], "its order differs from run to run"),
    (&["HashMap"], "its order differs from run to run: use FxHashMap, and don't iterate over it"),
    (&["HashSet"], "its order differs from run to run: use FxHashSet, and don't iterate over it"),
    (&["Mutex"], "the core has one owner and no locks"),
    (&["RwLock"], "the core has one owner and no locks"),
    (&["print", "!"], "standard output belongs to the command line"),
    (&["println", "!"], "standard output belongs to the command line"),
    (&["eprint", "!"], "people read the log: tracing"),
    (&["eprintln", "!"], "people read the log: tracing"),
];

/// What stands between a name of the standard library and the crate's: `use std::{net, time::Instant}` would get
/// past the list above, so that a group right after `std::` is not used in the core.
const GROUP: &[&str] = &["std", ":", ":", "{"];
/// For the same reason `use std::time::{…}` is looked into.
const TIME_GROUP: &[&str] = &["std", ":", ":", "time", ":", ":", "{"];

pub(crate) fn breaches(source: &Source) -> Vec<Breach> {
    if !source.module().is_some_and(is_core) {
        return Vec::new();
    }
    let mut breaches = Vec::new();
    let mut breach = |at: usize, name: &[&str], why: &str| {
        if !source.is_in_test(at) {
            let message = format!("the core must not use {}: {why}", name.concat());
            breaches.push(Breach::new(&source.path, source.tokens[at].line, message));
        }
    };
    for (name, why) in BANNED {
        source.find_all(name).for_each(|at| breach(at, name, why));
    }
    for at in source.find_all(GROUP) {
        breach(at, GROUP, "name each module of std in a line of its own, so that it shows");
    }
    for at in source.find_all(TIME_GROUP) {
        let group = at..source.closing(at + 6);
        group.filter(|&at| source.matches(at, &["Instant"])).for_each(|at| {
            breach(at, &["std::time::Instant"], "the time comes in as a value: Now");
        });
    }
    breaches
}

/// The modules that read what peers send, and the lints that keep them from panicking on it.
const READERS: &[&str] = &["src/wire/mod.rs", "src/session/mod.rs"];
const DENIED: &[&str] = &["unwrap_used", "expect_used", "indexing_slicing", "panic", "unreachable"];

/// Readers that don't deny those lints; clippy itself then finds what would break them.
pub(crate) fn missing_denials(sources: &[Source]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for path in READERS {
        let source = sources.iter().find(|source| source.path == *path);
        for lint in DENIED {
            let is_denied = source.is_some_and(|source| {
                source.find_all(&["#", "!", "[", "deny", "("]).any(|at| {
                    (at..source.closing(at + 2)).any(|at| source.matches(at, &["clippy", ":", ":", lint]))
                })
            });
            if !is_denied {
                breaches.push(Breach::new(
                    path,
                    1,
                    format!("must have #![deny(clippy::{lint})]: it reads what peers send"),
                ));
            }
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str, text: &str) -> usize {
        breaches(&Source::new(path, text)).len()
    }

    #[test]
    fn calls_to_the_outside_are_found_in_the_core() {
        for planted in [
            "use tokio::net::TcpStream;",
            "use std::net::IpAddr;",
            "fn f() { std::fs::read(path); }",
            "fn f() { std::env::var(name); }",
            "use std::time::SystemTime;",
            "use std::time::{Duration, Instant};",
            "fn f() { std::time::Instant::now(); }",
            "fn f() { rand::random::<u8>(); }",
            "fn f() { Uuid::new_v4(); }",
            "use std::collections::HashMap;",
            "use std::collections::{BTreeMap, HashSet};",
            "use std::{net, sync};",
            "use std::sync::Mutex;",
            "use std::thread;",
            "fn f() { println!(); }",
        ] {
            assert_ne!(count("src/api/fetch/mod.rs", planted), 0, "{planted}");
            assert_eq!(count("src/server/mod.rs", planted), 0, "{planted}");
        }
    }

    #[test]
    fn the_core_may_name_them_in_words_and_tests() {
        assert_eq!(count("src/log/mod.rs", "//! No tokio here.\nfn f() { log(\"tokio\"); }"), 0);
        assert_eq!(count("src/log/mod.rs", "#[cfg(test)]\nmod tests { use std::collections::HashMap; }"), 0);
        assert_eq!(count("src/log/mod.rs", "use crate::base::Instant; use rustc_hash::FxHashMap;"), 0);
        assert_eq!(count("src/log/mod.rs", "use std::time::{Duration};"), 0);
    }

    #[test]
    fn readers_without_denials_are_found() {
        let lints: Vec<_> = DENIED.iter().map(|lint| format!("clippy::{lint}")).collect();
        let all = format!("#![deny({})]", lints.join(", "));
        let [wire, session] = READERS else { panic!("two readers") };
        assert_eq!(missing_denials(&[Source::new(wire, &all), Source::new(session, &all)]), []);
        let some = "#![deny(clippy::unwrap_used)]";
        assert_eq!(
            missing_denials(&[Source::new(wire, &all), Source::new(session, some)]).len(),
            DENIED.len() - 1
        );
        assert_eq!(missing_denials(&[Source::new(wire, &all)]).len(), DENIED.len());
    }
}
