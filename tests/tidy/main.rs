//! Holds the rules of CONTRIBUTING.md: reads every source that git tracks, and fails with a line for each breach.
//!
//! A rule is a function from sources to breaches, and each has a test of its own that plants a breach and sees it
//! found. What the compiler or clippy can hold is not here but in `Cargo.toml` (`[lints]`) and `clippy.toml`.

mod api_headers;
mod calls;
mod layers;
mod loggers;
mod manifests;
mod named_files;
mod shape;
mod source;
mod texts;

use std::fmt;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use source::Source;

/// A rule that isn't kept, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Breach {
    path: String,
    line: usize,
    message: String,
}

impl Breach {
    fn new(path: &str, line: usize, message: impl Into<String>) -> Self {
        Breach { path: path.to_owned(), line, message: message.into() }
    }
}

impl fmt::Display for Breach {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.path, self.line, self.message)
    }
}

/// Every text file that git tracks, or would if it were added: path from the root, and text.
static TEXTS: LazyLock<Vec<(String, String)>> = LazyLock::new(|| {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let listed = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .expect("tidy asks git for the files it tracks");
    assert!(listed.status.success(), "git ls-files: {}", String::from_utf8_lossy(&listed.stderr));
    let paths = String::from_utf8(listed.stdout).expect("paths are UTF-8");
    let read = |path: &str| {
        let bytes = std::fs::read(root.join(path)).ok()?;
        Some((path.to_owned(), String::from_utf8(bytes).ok()?))
    };
    let texts: Vec<_> = paths.split_terminator('\0').filter_map(read).collect();
    assert!(texts.iter().any(|(path, _)| path == "src/lib.rs"), "git tracks no sources here");
    texts
});

/// Those of them that are Rust.
static SOURCES: LazyLock<Vec<Source>> = LazyLock::new(|| {
    let rust = |(path, text): &(String, String)| path.ends_with(".rs").then(|| Source::new(path, text));
    TEXTS.iter().filter_map(rust).collect()
});

/// Fails with all breaches, one a line.
fn hold(breaches: impl IntoIterator<Item = Breach>) {
    let lines: Vec<String> = breaches.into_iter().map(|breach| breach.to_string()).collect();
    assert!(
        lines.is_empty(),
        "{} breaches of a rule (see CONTRIBUTING.md):\n{}",
        lines.len(),
        lines.join("\n")
    );
}

#[test]
fn modules_use_only_what_stands_above_them() {
    hold(SOURCES.iter().flat_map(layers::breaches));
}

#[test]
fn files_and_functions_keep_their_size() {
    for source in SOURCES.iter() {
        let lines = shape::lines_without_tests(source);
        if lines > shape::FILE_LINES_NOTED {
            println!("note: {} has {lines} lines without its tests; is it still one thing?", source.path);
        }
    }
    hold(SOURCES.iter().flat_map(shape::size_breaches));
}

#[test]
fn modules_and_functions_are_named_for_what_they_are() {
    hold(SOURCES.iter().flat_map(shape::name_breaches));
}

#[test]
fn modules_say_what_they_are_for() {
    hold(SOURCES.iter().filter_map(shape::missing_header));
}

#[test]
fn the_core_calls_nothing_outside() {
    hold(SOURCES.iter().flat_map(calls::breaches));
}

#[test]
fn what_reads_peers_cannot_panic_on_them() {
    hold(calls::missing_denials(&SOURCES));
}

#[test]
fn apis_have_headers_that_agree_with_the_table() {
    let table: Vec<_> = huld::api::TABLE.iter().map(api_headers::Row::from).collect();
    hold(api_headers::breaches(&SOURCES, &table));
}

#[test]
fn what_logs_is_a_logger() {
    hold(loggers::breaches(&SOURCES));
}

#[test]
fn switched_off_lints_say_why() {
    hold(SOURCES.iter().flat_map(shape::lint_switches));
}

#[test]
fn texts_speak_of_the_product_alone() {
    hold(TEXTS.iter().flat_map(|(path, text)| texts::breaches(path, text)));
}

#[test]
fn files_that_comments_name_exist() {
    let tracked: Vec<&str> = TEXTS.iter().map(|(path, _)| path.as_str()).collect();
    hold(SOURCES.iter().flat_map(|source| named_files::breaches(source, &tracked)));
}

#[test]
fn dependencies_are_pinned() {
    let text = |path: &str| {
        let found = TEXTS.iter().find(|(tracked, _)| tracked == path);
        found.map(|(_, text)| text.as_str()).unwrap_or_else(|| panic!("{path} is not tracked"))
    };
    for folder in ["", "fuzz/"] {
        let [manifest, lock] = ["Cargo.toml", "Cargo.lock"].map(|name| format!("{folder}{name}"));
        hold(manifests::breaches(&manifest, text(&manifest), &lock, text(&lock)));
    }
}
