//! Every API's file says which it is, and at which versions it is served, as the table has it.

use crate::Breach;
use crate::source::Source;

/// Where the table is declared.
const TABLE_PATH: &str = "src/api/mod.rs";

/// What the table says of an API.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Row {
    name: &'static str,
    key: i16,
    min_version: i16,
    max_version: i16,
}

impl From<&huld::api::ApiEntry> for Row {
    fn from(entry: &huld::api::ApiEntry) -> Self {
        let huld::api::ApiEntry { key, name, min_version, max_version, .. } = *entry;
        Row { name, key, min_version, max_version }
    }
}

impl Row {
    /// How the header of the API's file must begin.
    fn header(&self) -> String {
        let Row { name, key, min_version, max_version } = self;
        if min_version == max_version {
            format!("//! {name} ({key}), version {min_version}: ")
        } else {
            format!("//! {name} ({key}), versions {min_version}–{max_version}: ")
        }
    }
}

pub(crate) fn breaches(sources: &[Source], table: &[Row]) -> Vec<Breach> {
    let modules = declared(sources);
    let mut breaches = Vec::new();
    for row in table {
        let Some((_, module)) = modules.iter().find(|(name, _)| name == row.name) else {
            breaches.push(Breach::new(TABLE_PATH, 1, format!("apis! doesn't declare {}", row.name)));
            continue;
        };
        let paths = [format!("src/api/{module}.rs"), format!("src/api/{module}/mod.rs")];
        let file = sources.iter().find(|source| paths.contains(&source.path));
        let header = file.and_then(|file| file.comments.first()).map(|(_, text)| text.as_str());
        if !header.is_some_and(|header| header.starts_with(&row.header())) {
            let path = file.map_or(&paths[0], |file| &file.path);
            breaches.push(Breach::new(
                path,
                1,
                format!("begin with `{}`, then what it does", row.header().trim_end()),
            ));
        }
    }
    breaches
}

/// The rows of `apis! { Name = module::Type, … }`: name and module.
fn declared(sources: &[Source]) -> Vec<(String, String)> {
    let Some(source) = sources.iter().find(|source| source.path == TABLE_PATH) else { return Vec::new() };
    let Some(start) = source.find_all(&["apis", "!", "{"]).next() else { return Vec::new() };
    let text = |at: usize| source.tokens[at].text.clone();
    let signs = (start..source.closing(start + 2)).filter(|&at| source.matches(at, &["="]));
    signs.map(|sign| (text(sign - 1), text(sign + 1))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &[Row] = &[
        Row { name: "Fetch", key: 1, min_version: 4, max_version: 18 },
        Row { name: "Metadata", key: 3, min_version: 0, max_version: 0 },
    ];
    const DECLARED: &str = "apis! {\n Fetch = fetch::Fetch,\n Metadata = metadata::Metadata,\n}";

    fn count(declared: &str, fetch: &str, metadata: &str) -> usize {
        let sources = [
            Source::new(TABLE_PATH, declared),
            Source::new("src/api/fetch/mod.rs", fetch),
            Source::new("src/api/metadata.rs", metadata),
        ];
        breaches(&sources, TABLE).len()
    }

    #[test]
    fn headers_that_differ_from_the_table_are_found() {
        let (fetch, metadata) = ("//! Fetch (1), versions 4–18: x.", "//! Metadata (3), version 0: x.");
        assert_eq!(count(DECLARED, fetch, metadata), 0);
        assert_eq!(count(DECLARED, "//! Fetch (1), versions 4–17: x.", metadata), 1);
        assert_eq!(count(DECLARED, "//! Fetch (2), versions 4–18: x.", metadata), 1);
        assert_eq!(count(DECLARED, "//! Records.", metadata), 1);
        assert_eq!(count(DECLARED, "", metadata), 1);
        assert_eq!(count("apis! { Fetch = fetch::Fetch, }", fetch, metadata), 1);
    }
}
