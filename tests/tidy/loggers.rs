//! The loggers that a client is shown are the modules that log, and no others.

use std::collections::BTreeSet;

use crate::Breach;
use crate::source::{Kind, Source};

/// Where the list is.
const LIST_PATH: &str = "src/cli/logging.rs";
const LEVELS: [&str; 5] = ["error", "warn", "info", "debug", "trace"];

pub(crate) fn breaches(sources: &[Source]) -> Vec<Breach> {
    let listed = sources.iter().find(|source| source.path == LIST_PATH).map(listed).unwrap_or_default();
    let mut logging = BTreeSet::new();
    let mut breaches = Vec::new();
    for source in sources.iter().filter(|source| source.module().is_some()) {
        let Some(line) = first_event(source) else { continue };
        let logger = logger(&source.path);
        if !listed.contains(&logger) {
            breaches.push(Breach::new(
                &source.path,
                line,
                format!("LOGGERS in {LIST_PATH} needs \"{logger}\""),
            ));
        }
        logging.insert(logger);
    }
    let idle = listed.difference(&logging);
    breaches.extend(idle.map(|logger| Breach::new(LIST_PATH, 1, format!("nothing is logged by {logger}"))));
    breaches
}

/// The line of the first event that the module itself logs.
fn first_event(source: &Source) -> Option<usize> {
    let is_event = |at: &usize| {
        LEVELS.iter().any(|level| source.matches(*at, &["tracing", ":", ":", level, "!"]))
            && !source.is_in_test(*at)
    };
    (0..source.tokens.len()).find(is_event).map(|at| source.tokens[at].line)
}

/// What the module in a file is called where it logs.
fn logger(path: &str) -> String {
    let inside = path.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
    format!("huld::{}", inside.replace('/', "::"))
}

/// The names in LOGGERS.
fn listed(source: &Source) -> BTreeSet<String> {
    let Some(at) = source.find_all(&["LOGGERS", ":"]).next() else { return BTreeSet::new() };
    let list = source.tokens[at..].iter().take_while(|token| !token.is(";"));
    let names = list.filter(|token| token.kind == Kind::Literal);
    names.map(|token| token.text.trim_matches('"').to_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn loggers_that_are_missing_or_idle_are_found() {
        let list = r#"const LOGGERS: &[&str] = &["huld::cli::logging", "huld::log"]; fn a() { tracing::info!("x"); }"#;
        let sources = |event: &str| {
            let list = Source::new(LIST_PATH, list);
            [list, Source::new("src/log/mod.rs", &format!("fn a() {{ {event} }}"))]
        };
        assert_eq!(breaches(&sources("tracing::warn!(\"x\");")).len(), 0);
        assert_eq!(breaches(&sources("")).len(), 1, "an idle one");
        let [list, log] = sources("tracing::warn!(\"x\");");
        let wire = Source::new("src/wire/frame.rs", "fn a() { tracing::debug!(\"x\") }");
        assert_eq!(breaches(&[list, log, wire]).len(), 1, "a missing one");
    }
}
