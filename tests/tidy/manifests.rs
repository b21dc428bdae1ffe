//! Dependencies come from the registry, at a version that the lock file pins.

use crate::Breach;

/// The one source that a lock file may name.
const REGISTRY: &str = "registry+https://github.com/rust-lang/crates.io-index";

pub(crate) fn breaches(manifest_path: &str, manifest: &str, lock_path: &str, lock: &str) -> Vec<Breach> {
    let locked = packages(lock);
    let mut breaches = Vec::new();
    for (line, name, requirement) in dependencies(manifest) {
        let mut breach = |message: String| breaches.push(Breach::new(manifest_path, line, message));
        if requirement.contains("git =") {
            breach(format!("{name} must come from the registry"));
        }
        if requirement.contains("path =") {
            continue;
        }
        let Some(version) = quoted(requirement) else {
            breach(format!("{name} has no version"));
            continue;
        };
        let is_pinned =
            locked.iter().any(|package| package.name == name && satisfies(package.version, version));
        if !is_pinned {
            breach(format!("{name} {version} is not pinned in {lock_path}: run cargo update -p {name}"));
        }
    }
    for package in locked.iter().filter(|package| package.source.is_some_and(|source| source != REGISTRY)) {
        breaches.push(Breach::new(lock_path, 1, format!("{} doesn't come from the registry", package.name)));
    }
    breaches
}

/// Line, name and requirement of each dependency.
fn dependencies(manifest: &str) -> Vec<(usize, &str, &str)> {
    let mut found = Vec::new();
    let mut is_dependencies = false;
    for (number, line) in manifest.lines().enumerate() {
        if line.starts_with('[') {
            is_dependencies = line.trim_end().ends_with("dependencies]");
        } else if let Some((name, requirement)) = line.split_once('=').filter(|_| is_dependencies) {
            found.push((number + 1, name.trim(), requirement));
        }
    }
    found
}

/// The version: the first text in quotes that begins with a digit.
fn quoted(requirement: &str) -> Option<&str> {
    requirement.split('"').skip(1).step_by(2).find(|text| text.starts_with(|c: char| c.is_ascii_digit()))
}

/// Whether `version` begins with the numbers of `requirement`, or has newer ones behind an equal first one.
fn satisfies(version: &str, requirement: &str) -> bool {
    let numbers = |text: &str| -> Vec<u64> {
        text.split(['.', '+', '-']).map_while(|number| number.parse().ok()).collect()
    };
    let (version, requirement) = (numbers(version), numbers(requirement));
    let leading = requirement.iter().position(|number| *number != 0).unwrap_or(0);
    version.get(..=leading) == requirement.get(..=leading) && version >= requirement
}

struct Package<'a> {
    name: &'a str,
    version: &'a str,
    source: Option<&'a str>,
}

fn packages(lock: &str) -> Vec<Package<'_>> {
    let value = |part: &'_ str, key: &str| -> Option<(usize, usize)> {
        let start = part.find(&format!("{key} = \""))? + key.len() + 4;
        Some((start, start + part[start..].find('"')?))
    };
    let field = |part, key| value(part, key).map(|(start, end)| &part[start..end]);
    lock.split("[[package]]")
        .skip(1)
        .filter_map(|part| {
            Some(Package {
                name: field(part, "\nname")?,
                version: field(part, "\nversion")?,
                source: field(part, "\nsource"),
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const LOCK: &str = "[[package]]\nname = \"a\"\nversion = \"1.2.3\"\nsource = \
                        \"registry+https://github.com/rust-lang/crates.io-index\"\n";

    fn count(dependency: &str, lock: &str) -> usize {
        breaches(
            "Cargo.toml",
            &format!("[dependencies]\n{dependency}\n[lib]\nname = \"z\""),
            "Cargo.lock",
            lock,
        )
        .len()
    }

    #[test]
    fn unpinned_dependencies_are_found() {
        for pinned in [
            "a = \"1\"",
            "a = \"1.2\"",
            "a = { features = [\"b\"], version = \"1.2.3\" }",
            "b = { path = \"..\" }",
        ] {
            assert_eq!(count(pinned, LOCK), 0, "{pinned}");
        }
        for planted in ["a = \"2\"", "a = \"1.3\"", "a = \"*\"", "b = \"1\"", "a = { git = \"https://b\" }"] {
            assert_ne!(count(planted, LOCK), 0, "{planted}");
        }
        assert_eq!(count("", &LOCK.replace("registry+", "sparse+")), 1);
    }
}
