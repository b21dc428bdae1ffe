//! How files and functions are built: their size, their names, their headers, and the lints that they switch off.

use crate::Breach;
use crate::source::Source;

/// A file that is longer gets a note.
pub(crate) const FILE_LINES_NOTED: usize = 500;
/// A file must not be longer, what is behind `#[cfg(test)]` not counted.
const FILE_LINES_MAX: usize = 800;
/// A function must not be longer, from the line of its `fn` to that of its last brace.
const FUNCTION_LINES_MAX: usize = 70;
/// What a module must not be called, since it says nothing: anything may be put there.
const EMPTY_NAMES: &[&str] = &["common", "helper", "helpers", "misc", "shared", "types", "util", "utils"];

pub(crate) fn lines_without_tests(source: &Source) -> usize {
    let line = |at: usize| source.tokens[at].line;
    let tests = source.test_items().into_iter().map(|(start, end)| line(end) + 1 - line(start));
    source.lines - tests.sum::<usize>()
}

pub(crate) fn size_breaches(source: &Source) -> Vec<Breach> {
    let is_generated = source.comments.first().is_some_and(|(_, text)| text.starts_with("//! @generated"));
    if is_generated {
        return Vec::new();
    }
    let mut breaches = Vec::new();
    let lines = lines_without_tests(source);
    if lines > FILE_LINES_MAX {
        let message = format!("the file has {lines} lines without its tests, more than {FILE_LINES_MAX}");
        breaches.push(Breach::new(&source.path, 1, message));
    }
    for function in functions(source) {
        let lines = function.last_line + 1 - function.line;
        if lines > FUNCTION_LINES_MAX {
            let message = format!("fn {} has {lines} lines, more than {FUNCTION_LINES_MAX}", function.name);
            breaches.push(Breach::new(&source.path, function.line, message));
        }
    }
    breaches
}

/// A function with a body.
struct Function<'a> {
    name: &'a str,
    line: usize,
    last_line: usize,
}

fn functions(source: &Source) -> Vec<Function<'_>> {
    let mut functions = Vec::new();
    for start in source.find_all(&["fn"]) {
        // A type such as fn(u8) -> u8 has no name.
        let Some(name) = source.tokens.get(start + 1).filter(|token| token.is_word()) else { continue };
        let mut at = start + 2;
        while source.tokens.get(at).is_some_and(|token| !token.is("{") && !token.is(";")) {
            let opens = source.tokens[at].is("(") || source.tokens[at].is("[");
            at = if opens { source.closing(at) + 1 } else { at + 1 };
        }
        if source.matches(at, &["{"]) {
            let last_line = source.tokens[source.closing(at)].line;
            functions.push(Function { name: &name.text, line: source.tokens[start].line, last_line });
        }
    }
    functions
}

pub(crate) fn name_breaches(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    let names = source.path.split('/').map(|part| part.trim_end_matches(".rs"));
    for name in names.filter(|name| EMPTY_NAMES.contains(name)) {
        let message = format!("{name} says nothing: name the module after the noun that it is about");
        breaches.push(Breach::new(&source.path, 1, message));
    }
    for function in functions(source) {
        // The standard library's names for a borrow that can be changed are an exception.
        let is_standard = matches!(function.name, "get_mut" | "get_or_insert_with");
        if function.name.starts_with("get_") && !is_standard {
            let message = format!("fn {}: leave get_ out", function.name);
            breaches.push(Breach::new(&source.path, function.line, message));
        }
    }
    breaches
}

/// A file without a `//!` comment at its beginning. Unit tests in a file of their own need none, nor do the few lines
/// that a fuzz target consists of.
pub(crate) fn missing_header(source: &Source) -> Option<Breach> {
    if source.path.ends_with("/tests.rs") || source.path.starts_with("fuzz/fuzz_targets/") {
        return None;
    }
    let first_code = source.tokens.iter().find(|token| !token.is("#") && !token.is("!"));
    let is_told = source.comments.iter().any(|(line, text)| {
        let is_attribute = source.matches(0, &["#", "!"]);
        text.starts_with("//!") && (is_attribute || first_code.is_none_or(|token| *line < token.line))
    });
    let is_unit_tests = source.path.ends_with("/tests.rs");
    (!is_told && !is_unit_tests).then(|| {
        Breach::new(&source.path, 1, "begin with //!: what the module is for, and what it must not know")
    })
}

/// Lints that are switched off without a reason, or in the library with `allow`, which nobody notices when it is no
/// longer needed.
pub(crate) fn lint_switches(source: &Source) -> Vec<Breach> {
    let mut breaches = Vec::new();
    for open in source.find_all(&["["]).filter(|&at| source.matches(at + 2, &["("])) {
        let behind =
            |signs: &[&str]| open.checked_sub(signs.len()).is_some_and(|at| source.matches(at, signs));
        let is_attribute = behind(&["#"]) || behind(&["#", "!"]);
        let switch = source.tokens[open + 1].text.as_str();
        if !is_attribute || !matches!(switch, "allow" | "expect") {
            continue;
        }
        let mut message = |message: &str| {
            breaches.push(Breach::new(&source.path, source.tokens[open].line, message));
        };
        let end = source.closing(open);
        if !(open..end).any(|at| source.matches(at, &["reason", "="])) {
            message("say why the lint is switched off: reason = \"…\"");
        }
        if switch == "allow" && source.path.starts_with("src/") {
            message("use expect, which tells when it is no longer needed, instead of allow");
        }
    }
    breaches
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> Source {
        Source::new("src/log/read.rs", text)
    }

    #[test]
    fn long_files_are_found_but_their_tests_do_not_count() {
        let lines = |count: usize| "const A: u8 = 0;\n".repeat(count);
        assert_eq!(size_breaches(&source(&lines(800))), []);
        assert_eq!(size_breaches(&source(&lines(801))).len(), 1);
        let tests = format!("{}#[cfg(test)]\nmod tests {{\n{}}}\n", lines(800), lines(500));
        assert_eq!(lines_without_tests(&source(&tests)), 800);
        assert_eq!(size_breaches(&source(&tests)), []);
        let generated = format!("//! @generated by a tool\n{}", lines(900));
        assert_eq!(size_breaches(&source(&generated)), []);
    }

    #[test]
    fn long_functions_are_found() {
        let function = |lines: usize| {
            format!("fn f(a: [u8; 2]) -> u8 {{\n{}}}\n", "x('}', \"}\"); // }\n".repeat(lines - 2))
        };
        assert_eq!(size_breaches(&source(&function(70))), []);
        let breaches = size_breaches(&source(&format!("\nfn g() {{}}\n{}", function(71))));
        assert_eq!(breaches, [Breach::new("src/log/read.rs", 3, "fn f has 71 lines, more than 70")]);
        let in_impl = format!("impl A {{\nfn a();\ntype B = fn(u8);\n{}}}", function(71));
        assert_eq!(size_breaches(&source(&in_impl)).len(), 1);
    }

    #[test]
    fn empty_names_are_found() {
        assert_eq!(name_breaches(&Source::new("src/log/utils.rs", "")).len(), 1);
        assert_eq!(name_breaches(&Source::new("src/common/mod.rs", "")).len(), 1);
        assert_eq!(name_breaches(&source("fn get_offset() {}")).len(), 1);
        assert_eq!(name_breaches(&source("fn offset() {} fn get_mut() {}")), []);
    }

    #[test]
    fn missing_headers_are_found() {
        assert_eq!(missing_header(&source("//! What it is for.\nuse a;")), None);
        assert_eq!(missing_header(&source("#![forbid(unsafe_code)]\n//! What it is for.\nuse a;")), None);
        assert!(missing_header(&source("// What it is for.\nuse a;")).is_some());
        assert!(missing_header(&source("use a;\nmod b {\n//! What b is for.\n}")).is_some());
    }

    #[test]
    fn lints_switched_off_without_a_reason_are_found() {
        assert_eq!(
            lint_switches(&source("#[expect(dead_code, reason = \"a test uses it\")]\nfn f() {}")),
            []
        );
        assert_eq!(lint_switches(&source("#[expect(dead_code)]\nfn f() {}")).len(), 1);
        assert_eq!(lint_switches(&source("#![allow(dead_code)]")).len(), 2);
        assert_eq!(lint_switches(&source("#![allow(dead_code, reason = \"\")]")).len(), 1);
        let test = Source::new("tests/a.rs", "#![allow(dead_code, reason = \"each test uses a part\")]");
        assert_eq!(lint_switches(&test), []);
        assert_eq!(lint_switches(&source("a[expect(b)]; matches[allow(c)]")), []);
    }
}
