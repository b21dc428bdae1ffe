//! Java's properties syntax, as `java.util.Properties` reads it: the format of Kafka's `server.properties`.

/// One setting of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Property {
    /// The number of the line on which it begins, from 1.
    pub line: usize,
    /// The key, escapes resolved.
    pub key: String,
    /// The value, escapes resolved; blanks at its end are part of it.
    pub value: String,
}

/// A `\u` that four hexadecimal digits don't follow.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("\\u must be followed by four hexadecimal digits")]
pub struct MalformedEscape {
    /// The number of the line on which the setting begins, from 1.
    pub line: usize,
}

/// Reads all settings in the order of the text. Blank lines and those that begin with `#` or `!` are skipped; a
/// backslash at the end continues a line; key and value are separated by `=`, `:` or blanks.
///
/// # Errors
/// [`MalformedEscape`]; nothing else can be wrong.
pub fn parse(text: &str) -> Result<Vec<Property>, MalformedEscape> {
    let mut properties = Vec::new();
    for (line, logical) in logical_lines(text) {
        let (key, value) = split(&logical);
        let resolve = |raw: &str| unescape(raw).ok_or(MalformedEscape { line });
        properties.push(Property { line, key: resolve(key)?, value: resolve(value)? });
    }
    Ok(properties)
}

const BLANKS: [char; 3] = [' ', '\t', '\u{c}'];

/// Lines with their continuations joined, each with the number of its first line.
fn logical_lines(text: &str) -> Vec<(usize, String)> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text).replace("\r\n", "\n").replace('\r', "\n");
    let mut found = Vec::new();
    let mut lines = text.split('\n').zip(1..);
    while let Some((line, number)) = lines.next() {
        let line = line.trim_start_matches(BLANKS);
        if line.is_empty() || line.starts_with(['#', '!']) {
            continue;
        }
        let mut logical = line.to_owned();
        while ends_open(&logical) {
            logical.pop();
            match lines.next() {
                Some((next, _)) => logical.push_str(next.trim_start_matches(BLANKS)),
                None => break,
            }
        }
        found.push((number, logical));
    }
    found
}

/// Whether an odd number of backslashes ends the line: the last one is not itself escaped.
fn ends_open(line: &str) -> bool {
    line.bytes().rev().take_while(|byte| *byte == b'\\').count() % 2 == 1
}

/// Key and value, still with escapes.
fn split(line: &str) -> (&str, &str) {
    let mut escaped = false;
    let end = line.char_indices().find(|&(_, c)| {
        let ends = !escaped && (c == '=' || c == ':' || BLANKS.contains(&c));
        escaped = !escaped && c == '\\';
        ends
    });
    let Some((end, _)) = end else { return (line, "") };
    let (key, rest) = line.split_at(end);
    let rest = rest.trim_start_matches(BLANKS);
    let value = rest.strip_prefix(['=', ':']).unwrap_or(rest);
    (key, value.trim_start_matches(BLANKS))
}

/// The text with its escapes resolved. Escaped UTF-16 surrogates that are no pair become U+FFFD.
fn unescape(raw: &str) -> Option<String> {
    let mut units = Vec::with_capacity(raw.len());
    let mut buffer = [0; 2];
    let mut chars = raw.chars();
    while let Some(c) = chars.next() {
        let resolved = match (c, if c == '\\' { chars.next() } else { None }) {
            ('\\', Some('u')) => {
                let digits = chars.as_str().get(..4)?;
                chars = chars.as_str().get(4..)?.chars();
                let is_hex = digits.bytes().all(|byte| byte.is_ascii_hexdigit());
                units.push(u16::from_str_radix(digits, 16).ok().filter(|_| is_hex)?);
                continue;
            }
            ('\\', Some('t')) => '\t',
            ('\\', Some('n')) => '\n',
            ('\\', Some('r')) => '\r',
            ('\\', Some('f')) => '\u{c}',
            ('\\', Some(other)) => other,
            ('\\', None) => continue,
            (plain, _) => plain,
        };
        units.extend_from_slice(resolved.encode_utf16(&mut buffer));
    }
    Some(String::from_utf16_lossy(&units))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in "[a-c=:# !\\\\\r\n\tu0-9é]{0,40}") {
            let lines = text.replace("\r\n", "\n").split(['\r', '\n']).count();
            match parse(&text) {
                Ok(found) => prop_assert!(found.is_sorted_by(|a, b| a.line < b.line) && found.len() <= lines),
                Err(error) => prop_assert!((1..=lines).contains(&error.line)),
            }
        }
    }

    /// What `java.util.Properties` makes of the same text: see the head of the recorded file.
    #[test]
    fn reads_what_java_reads() {
        let text = include_str!("../../fixtures/configs/syntax.properties");
        let recorded = include_str!("../../fixtures/configs/syntax.tsv");
        let expected: Vec<(String, String)> = recorded
            .lines()
            .filter(|line| !line.starts_with('#'))
            .map(|line| {
                let (key, value) = line.split_once('\t').unwrap();
                (unescape(key).unwrap(), unescape(value).unwrap())
            })
            .collect();
        let mut found: Vec<(String, String)> =
            parse(text).unwrap().into_iter().map(|property| (property.key, property.value)).collect();
        found.sort();
        assert!(expected.len() > 20);
        assert_eq!(found, expected);
    }

    #[test]
    fn a_setting_has_the_number_of_its_first_line() {
        let found = parse("# head\r\n\r\na=1\\\r\n  2\r\n\rb 3").unwrap();
        let lines: Vec<_> = found.iter().map(|p| (p.line, p.key.as_str(), p.value.as_str())).collect();
        assert_eq!(lines, [(3, "a", "12"), (6, "b", "3")]);
    }

    #[test]
    fn a_malformed_escape_is_an_error_with_its_line() {
        for bad in ["a=\\u12", "a=\\u12g4", "\\uzzzz=1", "a=\\u+123", "a=\\u12é4"] {
            assert_eq!(parse(&format!("x=1\n{bad}")), Err(MalformedEscape { line: 2 }), "{bad}");
        }
    }
}
