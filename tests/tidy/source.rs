//! A Rust source, cut into tokens: enough to tell code from comments and strings, and to match brackets.

/// A file of Rust, read.
#[derive(Debug)]
pub(crate) struct Source {
    /// From the project's root, with `/` between folders.
    pub(crate) path: String,
    pub(crate) tokens: Vec<Token>,
    /// Comments with their first line, in order.
    pub(crate) comments: Vec<(usize, String)>,
    /// Lines of the file.
    pub(crate) lines: usize,
}

/// A token, and the line that it begins on (from 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Token {
    pub(crate) kind: Kind,
    pub(crate) text: String,
    pub(crate) line: usize,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// An identifier or keyword.
    Word,
    /// One character of punctuation.
    Sign,
    /// A number, a lifetime, a character or a string.
    Literal,
}

impl Token {
    pub(crate) fn is(&self, text: &str) -> bool {
        self.kind != Kind::Literal && self.text == text
    }

    pub(crate) fn is_word(&self) -> bool {
        self.kind == Kind::Word
    }
}

impl Source {
    pub(crate) fn new(path: &str, text: &str) -> Self {
        let mut lexer = Lexer { rest: text, line: 1, tokens: Vec::new(), comments: Vec::new() };
        lexer.run();
        let Lexer { tokens, comments, .. } = lexer;
        Source { path: path.to_owned(), tokens, comments, lines: text.lines().count() }
    }

    /// The top-level module that the file belongs to, if it is one of the library's.
    pub(crate) fn module(&self) -> Option<&str> {
        let inside = self.path.strip_prefix("src/")?;
        let first = inside.split('/').next()?;
        let name = first.strip_suffix(".rs").unwrap_or(first);
        (!matches!(name, "lib" | "main")).then_some(name)
    }

    /// Whether the tokens from `at` on are these.
    pub(crate) fn matches(&self, at: usize, texts: &[&str]) -> bool {
        let tokens = self.tokens.get(at..at + texts.len());
        tokens.is_some_and(|tokens| tokens.iter().zip(texts).all(|(token, text)| token.is(text)))
    }

    /// Where these tokens begin, wherever they stand.
    pub(crate) fn find_all<'a>(&'a self, texts: &'a [&str]) -> impl Iterator<Item = usize> + 'a {
        (0..self.tokens.len()).filter(move |&at| self.matches(at, texts))
    }

    /// The bracket that closes the one at `open`; the last token if none does.
    pub(crate) fn closing(&self, open: usize) -> usize {
        let mut depth = 0usize;
        for (at, token) in self.tokens.iter().enumerate().skip(open) {
            match token.text.as_str() {
                "(" | "[" | "{" if token.kind == Kind::Sign => depth += 1,
                ")" | "]" | "}" if token.kind == Kind::Sign => depth = depth.saturating_sub(1),
                _ => continue,
            }
            if depth == 0 {
                return at;
            }
        }
        self.tokens.len().saturating_sub(1)
    }

    /// The items behind `#[cfg(test)]`: first and last token of each, the attribute included.
    pub(crate) fn test_items(&self) -> Vec<(usize, usize)> {
        let mut items: Vec<(usize, usize)> = Vec::new();
        for start in self.find_all(&["#", "[", "cfg", "(", "test", ")", "]"]) {
            if items.last().is_none_or(|&(_, end)| end < start) {
                items.push((start, self.item_end(start + 7)));
            }
        }
        items
    }

    /// The last token of the item at `start`: a semicolon, or the bracket that closes its body.
    fn item_end(&self, start: usize) -> usize {
        let mut at = start;
        while let Some(token) = self.tokens.get(at) {
            if token.is("{") {
                return self.closing(at);
            } else if token.is(";") {
                return at;
            } else if token.is("(") || token.is("[") {
                at = self.closing(at);
            }
            at += 1;
        }
        self.tokens.len().saturating_sub(1)
    }

    /// Whether the token at `at` is part of a test.
    pub(crate) fn is_in_test(&self, at: usize) -> bool {
        self.is_test_file() || self.test_items().iter().any(|&(start, end)| (start..=end).contains(&at))
    }

    /// Whether the whole file is tests of the module above it: called `tests`, or in a folder `tests`.
    pub(crate) fn is_test_file(&self) -> bool {
        self.path.ends_with("/tests.rs") || self.path.split('/').any(|folder| folder == "tests")
    }
}

struct Lexer<'a> {
    rest: &'a str,
    line: usize,
    tokens: Vec<Token>,
    comments: Vec<(usize, String)>,
}

impl<'a> Lexer<'a> {
    fn run(&mut self) {
        while let Some(first) = self.rest.chars().next() {
            if self.rest.starts_with("//") {
                let length = self.rest.find('\n').unwrap_or(self.rest.len());
                self.comment(length);
            } else if self.rest.starts_with("/*") {
                self.comment(block_comment_length(self.rest));
            } else if let Some(length) = literal_length(self.rest) {
                self.token(Kind::Literal, length);
            } else if first.is_alphabetic() || first == '_' {
                let raw = if self.rest.starts_with("r#") { 2 } else { 0 };
                self.token(Kind::Word, raw + word_length(&self.rest[raw..]));
            } else if first.is_whitespace() {
                self.take(first.len_utf8());
            } else {
                self.token(Kind::Sign, first.len_utf8());
            }
        }
    }

    fn take(&mut self, length: usize) -> &'a str {
        let (taken, rest) = self.rest.split_at(length);
        self.line += taken.matches('\n').count();
        self.rest = rest;
        taken
    }

    fn token(&mut self, kind: Kind, length: usize) {
        let line = self.line;
        let text = self.take(length).to_owned();
        self.tokens.push(Token { kind, text, line });
    }

    fn comment(&mut self, length: usize) {
        let line = self.line;
        let text = self.take(length).to_owned();
        self.comments.push((line, text));
    }
}

fn word_length(text: &str) -> usize {
    text.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(text.len())
}

/// Comments between `/*` and `*/` nest.
fn block_comment_length(text: &str) -> usize {
    let mut depth = 0usize;
    let mut at = 0;
    while at < text.len() {
        if text.as_bytes()[at..].starts_with(b"/*") {
            depth += 1;
            at += 2;
        } else if text.as_bytes()[at..].starts_with(b"*/") {
            depth -= 1;
            at += 2;
            if depth == 0 {
                return at;
            }
        } else {
            at += 1;
        }
    }
    text.len()
}

/// How long the number, lifetime, character or string is that `text` begins with, if it does.
fn literal_length(text: &str) -> Option<usize> {
    let first = text.chars().next()?;
    if first.is_ascii_digit() {
        return Some(word_length(text));
    }
    let prefix = ["br", "cr", "r", "b", "c"]
        .into_iter()
        .find(|prefix| text.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(['"', '\'', '#'])));
    let prefix = prefix.unwrap_or_default();
    let body = &text[prefix.len()..];
    if prefix.ends_with('r') {
        let hashes = body.find(|c| c != '#')?;
        let open = body[hashes..].strip_prefix('"')?;
        let end = format!("\"{}", &body[..hashes]);
        let inside = open.find(&end).unwrap_or(open.len());
        return Some((prefix.len() + hashes + 1 + inside + end.len()).min(text.len()));
    }
    if body.starts_with('"') {
        return Some(prefix.len() + quoted_length(body, '"'));
    }
    let inside = body.strip_prefix('\'')?;
    let next = inside.chars().next()?;
    let is_character = next == '\\' || inside[next.len_utf8()..].starts_with('\'');
    let length = if is_character { quoted_length(body, '\'') } else { 1 + word_length(inside) };
    Some(prefix.len() + length)
}

/// The length of what stands between two of `quote`, both included.
fn quoted_length(text: &str, quote: char) -> usize {
    let mut characters = text.char_indices().skip(1);
    while let Some((at, character)) = characters.next() {
        if character == '\\' {
            characters.next();
        } else if character == quote {
            return at + quote.len_utf8();
        }
    }
    text.len()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn words(text: &str) -> Vec<String> {
        Source::new("src/a.rs", text)
            .tokens
            .into_iter()
            .filter(Token::is_word)
            .map(|token| token.text)
            .collect()
    }

    #[test]
    fn strings_and_comments_are_no_code() {
        assert_eq!(words(r##"a("b { \" c", b'\'', r#"d " e"#, br"f", 'g', '\u{1f}') h"##), ["a", "h"]);
        assert_eq!(words("a // b\nc /* d /* e */ f */ g"), ["a", "c", "g"]);
        assert_eq!(words("x<'a>(b: &'static str, 'c: loop {})"), ["x", "b", "str", "loop"]);
        assert_eq!(words("0..n; 1_000u64.max(m); r#fn"), ["n", "max", "m", "r#fn"]);
    }

    #[test]
    fn tokens_know_their_lines() {
        let source = Source::new("src/a.rs", "/* 1\n2 */ a \"3\n\" b\n// c\n");
        let lines: Vec<_> = source.tokens.iter().map(|token| token.line).collect();
        assert_eq!(lines, [2, 2, 3]);
        assert_eq!(source.comments, [(1, "/* 1\n2 */".to_owned()), (4, "// c".to_owned())]);
        assert_eq!(source.lines, 4);
    }

    #[test]
    fn test_items_end_with_their_body() {
        let source =
            Source::new("src/a.rs", "a! {} #[cfg(test)] mod b; c! {} #[cfg(test)] fn d([u8; 1]) {{}} e!{}");
        let texts = |&(start, end): &(usize, usize)| (source.tokens[start].text.clone(), end);
        let items = source.test_items();
        assert_eq!(items.len(), 2, "{items:?}");
        assert!(source.matches(items[0].1 + 1, &["c", "!"]), "{:?}", texts(&items[0]));
        assert!(source.matches(items[1].1 + 1, &["e", "!"]), "{:?}", texts(&items[1]));
    }
}
