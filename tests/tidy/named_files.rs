//! Files that comments and texts name exist: a map is only as good as its names.

use crate::Breach;
use crate::source::Source;

/// Names of sources in backticks, such as `log/read.rs`, that no tracked file has, as seen from a folder that the
/// file is in, from `src/` or from `tests/`.
pub(crate) fn breaches(source: &Source, tracked: &[&str]) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let own = source.path.trim_end_matches(".rs");
    let above = source.path.match_indices('/').map(|(at, _)| &source.path[..at]);
    let seen_from: Vec<&str> = above.chain([own, "src", "tests", ""]).collect();
    for (line, comment) in &source.comments {
        for name in comment.split('`').skip(1).step_by(2).filter(|name| is_source(name)) {
            let exists = seen_from.iter().any(|from| tracked.contains(&join(from, name).as_str()));
            if !exists {
                breaches.push(Breach::new(&source.path, *line, format!("no file is called {name}")));
            }
        }
    }
    breaches
}

fn is_source(name: &str) -> bool {
    let is_path = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '/' | '.');
    name.ends_with(".rs") && name.chars().all(is_path)
}

fn join(folder: &str, name: &str) -> String {
    if folder.is_empty() { name.to_owned() } else { format!("{folder}/{name}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_missing_files_are_found() {
        let tracked = ["src/log/mod.rs", "src/log/read.rs", "src/api/fetch/mod.rs", "tests/cli.rs"];
        let count = |text: &str| breaches(&Source::new("src/log/mod.rs", text), &tracked).len();
        assert_eq!(count("//! `read.rs`, `api/fetch/mod.rs`, `tests/cli.rs` and [`Log`], `NAME.rs`"), 0);
        assert_eq!(count("//! `write.rs` and\n//! `api/read.rs`"), 2);
        assert_eq!(count("//! This is write.rs."), 0);
    }
}
