//! A module uses only what stands above it.

use crate::Breach;
use crate::source::Source;

/// The library's modules, each below what it may use.
///
/// `api` has the values that its handlers are lent (`Context`, `Node`) and what answers need (`Reply`), since the
/// handlers stand above `cluster`. `faults` has rules and their matching, which the cluster asks; what it holds waits as
/// anything else does (`api/held.rs`).
pub(crate) const LAYERS: &[&str] = &[
    "base",
    "wire",
    "log",
    "purgatory",
    "controller",
    "replica",
    "coordinator",
    "faults",
    "api",
    "cluster",
    "session",
    "sim",
    "control",
    "server",
    "cli",
];

/// Where structs of the codec may be named: below it, everybody has values of their own.
const KNOW_THE_CODEC: &[&str] = &["wire", "api"];

/// The layers whose outside is the shell: no clock, no socket, no randomness.
pub(crate) fn is_core(module: &str) -> bool {
    place(module) <= place("session")
}

fn place(module: &str) -> Option<usize> {
    LAYERS.iter().position(|layer| *layer == module)
}

pub(crate) fn breaches(source: &Source) -> Vec<Breach> {
    let Some(module) = source.module() else { return Vec::new() };
    let Some(own) = place(module) else {
        let message = format!("module {module} is no layer; they are {}", LAYERS.join(", "));
        return vec![Breach::new(&source.path, 1, message)];
    };
    let mut breaches = Vec::new();
    let mut breach = |at: usize, message: String| {
        breaches.push(Breach::new(&source.path, source.tokens[at].line, message));
    };
    for (at, used) in used_modules(source) {
        match place(&used) {
            Some(place) if place <= own => {}
            Some(_) => breach(at, format!("{module} must not use {used}, which stands below it")),
            None => breach(at, format!("crate::{used} is no layer")),
        }
    }
    for at in source.find_all(&["super", ":", ":"]) {
        if supers(source, at) >= module_depth(source, at) {
            breach(at, "name another layer by crate::, so that it shows".to_owned());
        }
    }
    if !KNOW_THE_CODEC.contains(&module) {
        let codec = source.find_all(&["kafka_protocol"]).filter(|&at| !source.is_in_test(at));
        codec.for_each(|at| {
            breach(at, format!("structs of the wire stop at api; {module} must not know them"))
        });
    }
    breaches
}

/// The modules named after `crate::`, with where.
fn used_modules(source: &Source) -> Vec<(usize, String)> {
    let mut used = Vec::new();
    for at in source.find_all(&["crate", ":", ":"]) {
        let first = at + 3;
        let Some(token) = source.tokens.get(first) else { continue };
        if token.is_word() {
            used.push((first, token.text.clone()));
        } else if token.is("{") {
            let end = source.closing(first);
            let mut inside = first + 1;
            while inside < end {
                used.push((inside, source.tokens[inside].text.clone()));
                while inside < end && !source.tokens[inside].is(",") {
                    inside = if source.tokens[inside].is("{") { source.closing(inside) } else { inside + 1 };
                }
                inside += 1;
            }
        }
    }
    used
}

/// How many `super`s follow each other from `at` on; only counted where the chain begins.
fn supers(source: &Source, at: usize) -> usize {
    if at >= 3 && source.matches(at - 3, &["super", ":", ":"]) {
        return 0;
    }
    (0..).take_while(|count| source.matches(at + 3 * count, &["super", ":", ":"])).count()
}

/// How many modules deep the token at `at` is: that many `super`s arrive at the crate.
fn module_depth(source: &Source, at: usize) -> usize {
    let folders = source.path.trim_start_matches("src/").trim_end_matches("/mod.rs").split('/').count();
    let inline = source.find_all(&["mod"]).filter(|&start| {
        let body = start + 2;
        source.matches(body, &["{"]) && (body..source.closing(body)).contains(&at)
    });
    folders + inline.count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn messages(path: &str, text: &str) -> Vec<String> {
        breaches(&Source::new(path, text)).into_iter().map(|breach| breach.to_string()).collect()
    }

    #[test]
    fn what_stands_above_may_be_used() {
        assert_eq!(
            messages("src/log/read.rs", "use crate::base::{A, B};\nuse crate::{log, wire::{x, y}};"),
            [""; 0]
        );
        assert_eq!(
            messages("src/log/read.rs", "//! [`crate::server`]\nfn f() { \"crate::server\"; }"),
            [""; 0]
        );
    }

    #[test]
    fn what_stands_below_is_found() {
        let below = messages("src/log/read.rs", "\nuse crate::controller::X;");
        assert_eq!(below, ["src/log/read.rs:2: log must not use controller, which stands below it"]);
        let grouped = messages("src/log/mod.rs", "use crate::{base::{A, B}, server::C};");
        assert_eq!(grouped, ["src/log/mod.rs:1: log must not use server, which stands below it"]);
        assert_eq!(messages("src/wire/a.rs", "fn f(x: crate::api::Y) {}").len(), 1);
        assert_eq!(messages("src/wire/a.rs", "use crate::frob::Y;").len(), 1);
        assert_eq!(messages("src/frob.rs", "").len(), 1);
    }

    #[test]
    fn other_layers_are_not_reached_by_super() {
        assert_eq!(messages("src/log/read.rs", "use super::segment::X;"), [""; 0]);
        assert_eq!(messages("src/log/read.rs", "mod tests { use super::super::segment::X; }"), [""; 0]);
        assert_eq!(messages("src/log/read.rs", "use super::super::api::X;").len(), 1);
        assert_eq!(messages("src/log/mod.rs", "use super::api::X;").len(), 1);
        assert_eq!(messages("src/log/mod.rs", "mod tests { use super::X; }"), [""; 0]);
    }

    #[test]
    fn structs_of_the_codec_stop_at_api() {
        let text = "use kafka_protocol::messages::X;";
        assert_eq!(messages("src/api/fetch.rs", text), [""; 0]);
        assert_eq!(messages("src/cluster/tests/mod.rs", text), [""; 0]);
        assert_eq!(messages("src/cluster/mod.rs", text).len(), 1);
    }
}
