//! Regular expressions that a peer sends. The engine has no look-around and no back-references, so that matching takes time in
//! proportion to the text, whatever the expression.

use std::fmt;

use regex_lite::{Regex, RegexBuilder};

/// How deep an expression may nest.
const DEEPEST: u32 = 100;

/// A regular expression that must match the whole of a text.
#[derive(Clone, Debug)]
pub struct Pattern(Regex);

impl Pattern {
    /// Compiles an expression. What it compiles to may take `bytes_max` bytes of memory, which also bounds the time for each
    /// character that is looked at.
    ///
    /// # Errors
    /// [`InvalidPattern`] if it is none, or nests too deeply, or takes more memory.
    pub fn compile(expression: &str, bytes_max: usize) -> Result<Self, InvalidPattern> {
        let build =
            |pattern: &str| RegexBuilder::new(pattern).size_limit(bytes_max).nest_limit(DEEPEST).build();
        // By itself first, since in the brackets of the whole a stray one would find its partner.
        let compiled = build(expression).and_then(|_| build(&format!(r"\A(?:{expression})\z")));
        compiled
            .map(Pattern)
            .map_err(|error| InvalidPattern { expression: expression.to_owned(), reason: error.to_string() })
    }

    /// Whether the whole text matches.
    pub fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

/// Why a text is no regular expression; its [`fmt::Display`] is for whoever sent it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InvalidPattern {
    expression: String,
    reason: String,
}

impl fmt::Display for InvalidPattern {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "The regular expression `{}` is not valid: {}", self.expression, self.reason)
    }
}

impl std::error::Error for InvalidPattern {}

#[cfg(test)]
mod tests {
    use super::*;

    fn compile(expression: &str) -> Result<Pattern, InvalidPattern> {
        Pattern::compile(expression, 1 << 20)
    }

    #[test]
    fn an_expression_matches_whole_texts() {
        let matches = |expression: &str, text: &str| compile(expression).unwrap().matches(text);
        assert!(matches("foo.*", "foo-1") && !matches("foo", "foo-1") && !matches("oo", "foo"));
        assert!(matches("a|ab", "ab"), "of several ways, one fits the whole");
        assert!(matches("(?i)FOO", "foo") && matches("[[:alpha:]]{3}", "foo"));
        assert!(matches(r"[\w.-]{1,249}", &"x".repeat(249)));
        assert!(!matches("(?m)a$", "a\nb"), "lines are no texts of their own");
    }

    #[test]
    fn what_is_not_an_expression_is_refused() {
        let deep = format!("{}a{}", "(".repeat(200), ")".repeat(200));
        let wide = r"(\w{1000}){1000}";
        for bad in ["(", "a)(b", "*", "[z-a]", r"\1", "(?=a)", "(?<!a)b", "a{2,1}", &deep, wide] {
            let error = compile(bad).unwrap_err();
            assert!(error.to_string().contains(bad), "{error}");
        }
        assert!(Pattern::compile("a{1000}", 1 << 10).is_err(), "more memory than it may take");
    }

    #[test]
    fn a_poisonous_expression_takes_time_in_proportion() {
        assert!(!compile("(a*)*(a|aa)*b").unwrap().matches(&"a".repeat(249)));
    }
}
