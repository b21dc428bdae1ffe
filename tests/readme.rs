//! The README's table of APIs is made from the table that huld serves and the headers of the APIs' files, and the tables of
//! `docs/settings.md` from those of the configs.
//!
//! `HULD_UPDATE_README=1 cargo test --test readme` writes them.

use std::fmt::Write;
use std::path::{Path, PathBuf};

use huld::api::{ApiEntry, TABLE};
use huld::controller::configs::{Change, Effect, Key, Resource};

#[test]
fn table_of_apis_is_what_is_served() {
    check_or_write("README.md", "APIs", &made_table());
}

#[test]
fn tables_of_settings_are_those_of_the_configs() {
    let parts = [
        ("topics that act", Resource::Topic, Effect::Acts),
        ("topics that are kept", Resource::Topic, Effect::Stored),
        ("brokers that act", Resource::Broker, Effect::Acts),
        ("brokers that are kept", Resource::Broker, Effect::Stored),
        ("groups that act", Resource::Group, Effect::Acts),
        ("groups that are kept", Resource::Group, Effect::Stored),
        ("client metrics", Resource::ClientMetrics, Effect::Acts),
    ];
    let mut told = 0;
    for (name, resource, effect) in parts {
        let keys: Vec<_> = resource.keys().filter(|key| key.effect == effect).collect();
        told += keys.len();
        check_or_write("docs/settings.md", name, &settings(resource, &keys));
    }
    let resources = [Resource::Topic, Resource::Broker, Resource::Group, Resource::ClientMetrics];
    assert_eq!(told, resources.iter().flat_map(|resource| resource.keys()).count(), "each is told once");
}

/// Compares the part of a document between its marks with what it should be, or writes it.
fn check_or_write(document: &str, part: &str, made: &str) {
    let begin = format!("<!-- {part}: made by `HULD_UPDATE_README=1 cargo test --test readme` -->\n");
    let end = format!("<!-- end of {part} -->\n");
    let path = root().join(document);
    let text = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = text.split_once(&begin).expect("the document has the mark where the part begins");
    let (found, after) = rest.split_once(&end).expect("the document has the mark where the part ends");
    if found == made {
        return;
    }
    if std::env::var_os("HULD_UPDATE_README").is_some() {
        std::fs::write(&path, format!("{before}{begin}{made}{end}{after}")).unwrap();
        return;
    }
    panic!(
        "\"{part}\" in {document} is not what the code has; write it anew:\n\
         HULD_UPDATE_README=1 cargo test --test readme\n\nit should be:\n{made}"
    );
}

fn settings(resource: Resource, keys: &[&Key]) -> String {
    let of_broker = resource == Resource::Broker;
    let (head, line) = if of_broker { (" Changed while it runs |", "---|") } else { ("", "") };
    let mut table = format!("| Key | Type | Default |{head} What |\n|---|---|---|{line}---|\n");
    for key in keys {
        let kind = key.kind.name().to_lowercase();
        let default = key.default.map_or_else(|| "none".to_owned(), |default| format!("`{default}`"));
        let default = if key.default == Some("") { "empty".to_owned() } else { default };
        let change = match key.change {
            _ if !of_broker => "",
            Change::ReadOnly => " no |",
            Change::PerBroker => " for one broker |",
            Change::ClusterWide => " yes |",
        };
        let does = in_a_cell(key.documentation);
        writeln!(table, "| `{}` | {kind} | {} |{change} {does} |", key.name, in_a_cell(&default)).unwrap();
    }
    table
}

fn root() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn made_table() -> String {
    let headers = headers(&root().join("src/api"));
    let mut table = String::from(
        "| API | Key | Versions | What it does | Not done, or done otherwise |\n|---|---|---|---|---|\n",
    );
    for ApiEntry { key, name, min_version, max_version, .. } in TABLE {
        let versions = match max_version - min_version {
            0 => format!("version {min_version}"),
            _ => format!("versions {min_version}–{max_version}"),
        };
        let beginning = format!("{name} ({key}), {versions}: ");
        let header = headers.iter().find_map(|header| header.strip_prefix(&beginning));
        let header = header.unwrap_or_else(|| panic!("no file of src/api begins with `//! {beginning}`"));
        let versions = versions.trim_start_matches(|c: char| !c.is_ascii_digit());
        let (does, differs) = (first_sentence(header), differences(header));
        writeln!(table, "| {name} | {key} | {versions} | {does} | {differs} |").unwrap();
    }
    table
}

/// The module comments of all files in this folder and its folders: paragraphs as lines.
fn headers(folder: &Path) -> Vec<String> {
    let mut headers = Vec::new();
    for entry in std::fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            headers.extend(self::headers(&path));
        } else {
            headers.push(header(&std::fs::read_to_string(path).unwrap()));
        }
    }
    headers
}

fn header(source: &str) -> String {
    let mut header = String::new();
    for line in source.lines().map_while(|line| line.strip_prefix("//!")) {
        match line.trim() {
            "" => header.push('\n'),
            line if header.is_empty() || header.ends_with('\n') => header.push_str(line),
            line => {
                header.push(' ');
                header.push_str(line);
            }
        }
    }
    header
}

/// Up to the first full stop, which is left out.
fn first_sentence(header: &str) -> String {
    let paragraph = header.lines().next().unwrap_or_default();
    let sentence = paragraph.split(". ").next().unwrap_or_default();
    in_a_cell(sentence.trim_end_matches('.'))
}

/// The paragraphs that say what is not done, or done otherwise.
fn differences(header: &str) -> String {
    let told: Vec<&str> = header
        .lines()
        .filter_map(|paragraph| {
            paragraph.strip_prefix("Not done: ").or_else(|| paragraph.strip_prefix("Not as in Kafka: "))
        })
        .collect();
    in_a_cell(&told.join(" "))
}

fn in_a_cell(text: &str) -> String {
    text.replace('|', "\\|")
}

#[test]
fn headers_are_taken_apart() {
    let text = "//! Fetch (1), version 4: records. More.\n//! More.\n//!\n//! Not done: this,\n//! that.\n\nuse a;\n//! b";
    let header = header(text);
    assert_eq!(header, "Fetch (1), version 4: records. More. More.\nNot done: this, that.");
    assert_eq!(first_sentence(&header), "Fetch (1), version 4: records");
    assert_eq!(differences(&header), "this, that.");
}
