//! What no text of the project says: what is still to be done (that is for the tracker), and where on some machine it
//! was made.

use crate::Breach;
use crate::source::Source;

/// Marks of unfinished work. Put together here, so that this file has none.
const UNFINISHED: &[&str] = &[concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X")];
/// Folders that only one machine has.
const MACHINE_PATHS: &[&str] = &[
    concat!("/ro", "ot/"),
    concat!("/ho", "me/"),
    concat!("/Us", "ers/"),
    concat!("/wo", "rk/"),
    concat!("/tm", "p/wt/"),
];
/// Where packages come from is each machine's own setting.
const REGISTRY_HOSTS: &[&str] = &[
    concat!("registry.np", "mjs.org"),
    concat!("py", "pi.org"),
    concat!("python", "hosted.org"),
    concat!("proxy.go", "lang.org"),
    concat!("maven.apache", ".org/maven2"),
    concat!("repo1.ma", "ven.org"),
    concat!("static.crat", "es.io"),
    concat!("index.crat", "es.io"),
];

pub(crate) fn breaches(path: &str, text: &str) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for (number, line) in text.lines().enumerate() {
        let number = number + 1;
        for found in MACHINE_PATHS.iter().filter(|folder| has_path(line, folder)) {
            breaches.push(Breach::new(path, number, format!("{found} is a folder of one machine")));
        }
        for found in REGISTRY_HOSTS.iter().filter(|host| line.contains(*host)) {
            breaches.push(Breach::new(path, number, format!("{found} is for the machine's settings")));
        }
    }
    let is_recorded = path.starts_with("fixtures/") || path.ends_with(".lock") || path.ends_with(".sum");
    let notes: Vec<(usize, String)> = if is_recorded {
        Vec::new()
    } else if path.ends_with(".rs") {
        let is_of_line = |(line, text): (usize, String)| {
            let lines = text.lines().enumerate();
            lines.map(|(below, text)| (line + below, text.to_owned())).collect::<Vec<_>>()
        };
        Source::new(path, text).comments.into_iter().flat_map(is_of_line).collect()
    } else {
        text.lines().enumerate().map(|(number, line)| (number + 1, line.to_owned())).collect()
    };
    for (number, line) in notes {
        for found in UNFINISHED.iter().filter(|mark| has_word(&line, mark)) {
            breaches.push(Breach::new(path, number, format!("{found}: do it, or put it into the tracker")));
        }
    }
    breaches
}

/// Whether `line` names a file below `folder`, which stands at the beginning of a path.
fn has_path(line: &str, folder: &str) -> bool {
    line.match_indices(folder).any(|(at, _)| {
        let before = line[..at].chars().next_back();
        before.is_none_or(|c| !c.is_alphanumeric() && !matches!(c, '.' | '_' | '-' | '}' | '*' | '/'))
    })
}

fn has_word(line: &str, word: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_';
    line.match_indices(word).any(|(at, _)| {
        let [before, behind] = [line[..at].chars().next_back(), line[at + word.len()..].chars().next()];
        !before.is_some_and(is_part) && !behind.is_some_and(is_part)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unfinished_work_is_found() {
        let mark = UNFINISHED[0];
        assert_eq!(breaches("src/a.rs", &format!("// {mark}: later")).len(), 1);
        assert_eq!(
            breaches("src/a.rs", &format!("/* a\n {mark} */")),
            [Breach::new("src/a.rs", 2, format!("{mark}: do it, or put it into the tracker"))]
        );
        assert_eq!(breaches("src/a.rs", &format!("f(\"{mark}\"); // {mark}S")), []);
        assert_eq!(breaches("integration/run", &format!("# {mark}")).len(), 1);
        assert_eq!(breaches("go.sum", mark), []);
    }

    #[test]
    fn machine_paths_and_registries_are_found() {
        for folder in MACHINE_PATHS {
            assert_eq!(breaches("README.md", &format!("see {folder}a")).len(), 1, "{folder}");
            assert_eq!(breaches("README.md", &format!("see target{folder}a")), [], "{folder}");
        }
        for host in REGISTRY_HOSTS {
            assert_eq!(breaches("Cargo.lock", &format!("https://{host}/a")).len(), 1, "{host}");
        }
    }
}
