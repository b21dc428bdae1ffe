//! Which topics match the regular expressions that the members of a group of the consumer protocol subscribe by. Many
//! expressions and many topics take long, so that this is done in steps, between which others are served; Kafka leaves it to a
//! thread of its own.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{ConsumerGroup, GroupError};
use crate::base::{ErrorCode, Pattern, WallTime};
use crate::controller::Controller;
use crate::coordinator::groups::{Effects, TimerKind};
use crate::coordinator::records::Record;
use crate::coordinator::records::consumer_groups::{Content, GroupEpoch, ResolvedRegex};

/// The most memory that a compiled regular expression may take, bytes (ours). It bounds the work for each character of a name,
/// which may go through all of it.
const MOST_REGEX_BYTES: usize = 256 << 10;

/// What most expressions take at most, bytes.
const SMALL_REGEX_BYTES: usize = 16 << 10;

/// How much of a compiled expression is looked at as one unit of work, bytes.
const UNIT_BYTES: usize = 64;

/// How many characters can be looked at in the time that it takes to compile an expression.
const CHARACTERS_A_COMPILATION: usize = 64;

/// How many units of work are done at once: a few milliseconds at worst.
const UNITS_AT_ONCE: usize = 1 << 20;

/// How much of resolved expressions is written at once, bytes.
const WRITTEN_AT_ONCE: usize = 256 << 10;

/// How often at most a group's regular expressions are resolved again, ms.
const REFRESH_PAUSE_MS: i64 = 10_000;

/// Compiles a regular expression for whole names.
///
/// # Errors
/// INVALID_REGULAR_EXPRESSION.
pub(super) fn compile(regex: &str) -> Result<Pattern, GroupError> {
    Pattern::compile(regex, MOST_REGEX_BYTES)
        .map_err(|error| GroupError::new(ErrorCode::InvalidRegularExpression, error.to_string()))
}

/// Regular expressions that are being resolved.
#[derive(Clone, Debug)]
pub(super) struct Resolving {
    /// The version of the topics that are looked through.
    version: i64,
    names: Arc<[Arc<str>]>,
    /// Those that have not been begun with.
    left: Vec<Arc<str>>,
    current: Option<Current>,
    done: Vec<(Arc<str>, BTreeSet<Arc<str>>)>,
}

/// The expression that is being looked for.
#[derive(Clone, Debug)]
struct Current {
    regex: Arc<str>,
    /// None if it can't be compiled: it comes from another broker's log, and matches nothing.
    pattern: Option<Pattern>,
    units_a_character: usize,
    topics: BTreeSet<Arc<str>>,
    /// The place of the next name.
    next: usize,
}

impl Current {
    fn new(regex: Arc<str>) -> Self {
        let small = Pattern::compile(&regex, SMALL_REGEX_BYTES).ok();
        let bytes = if small.is_some() { SMALL_REGEX_BYTES } else { MOST_REGEX_BYTES };
        let pattern = small.or_else(|| compile(&regex).ok());
        let units_a_character = bytes / UNIT_BYTES;
        Current { regex, pattern, units_a_character, topics: BTreeSet::new(), next: 0 }
    }
}

impl Resolving {
    fn new<'a>(regexes: impl Iterator<Item = &'a Arc<str>>, controller: &Controller) -> Self {
        let topics = controller.topics();
        Resolving {
            version: i64::try_from(topics.version()).unwrap_or(i64::MAX),
            names: topics.iter().map(|topic| topic.name.clone()).collect(),
            left: regexes.cloned().collect(),
            current: None,
            done: Vec::new(),
        }
    }

    /// Goes on with it. Whether all is done.
    fn step(&mut self) -> bool {
        let mut units = UNITS_AT_ONCE;
        while units > 0 {
            let Some(current) = &mut self.current else {
                let Some(regex) = self.left.pop() else { return true };
                let current = self.current.insert(Current::new(regex));
                units = units.saturating_sub(current.units_a_character * CHARACTERS_A_COMPILATION);
                continue;
            };
            let name = self.names.get(current.next);
            let (Some(pattern), Some(name)) = (&current.pattern, name) else {
                self.done.extend(self.current.take().map(|current| (current.regex, current.topics)));
                continue;
            };
            if pattern.matches(name) {
                current.topics.insert(name.clone());
            }
            current.next += 1;
            units = units.saturating_sub(current.units_a_character * name.len());
        }
        false
    }
}

impl ConsumerGroup {
    /// Whether the group's regular expressions have to be resolved, if its members subscribe by so many.
    pub(super) fn needs_regexes(
        &self,
        subscribed: usize,
        is_new: bool,
        controller: &Controller,
        now: WallTime,
    ) -> bool {
        // All are resolved together, so that each knows when that was.
        let last = self.resolved_regexes.values().next();
        let since_ms = last.map(|resolved| now.as_millis().saturating_sub(resolved.timestamp_ms));
        if subscribed == 0 || since_ms.is_some_and(|since_ms| since_ms <= REFRESH_PAUSE_MS) {
            return false;
        }
        let interval_ms = controller.settings().consumer_groups.regex_refresh_interval_ms;
        is_new
            || subscribed != self.resolved_regexes.len()
            || last.is_none_or(|resolved| {
                u64::try_from(resolved.version).unwrap_or(0) < controller.topics().version_of_last_new()
            })
            || since_ms.is_none_or(|since_ms| u64::try_from(since_ms).unwrap_or(0) > interval_ms)
    }

    /// Looks which topics the members' regular expressions match by now, or goes on with that: then a timer is set. Gives what
    /// is to be written, in parts that need not stand or fall together.
    pub(in crate::coordinator::groups) fn refresh_regexes(
        &mut self,
        effects: &mut Effects<'_>,
    ) -> Vec<Vec<Record>> {
        let begin = || Resolving::new(self.subscribed_regexes.keys(), effects.controller);
        let mut resolving = self.resolving.take().unwrap_or_else(begin);
        if !resolving.step() {
            self.resolving = Some(resolving);
            effects.schedule(TimerKind::Regexes, 0);
            return Vec::new();
        }
        let Resolving { version, done, .. } = resolving;
        let timestamp_ms = effects.now.wall.as_millis();
        let mut topics = self.subscribed_topics.clone();
        let mut parts = Vec::new();
        let mut part = Vec::new();
        let mut bytes = 0;
        let mut is_news = false;
        for (regex, matching) in
            done.into_iter().filter(|(regex, _)| self.subscribed_regexes.contains_key(regex))
        {
            let old = self.resolved_regexes.get(&regex).map(|old| &old.topics);
            if old.map_or(!matching.is_empty(), |old| *old != matching) {
                is_news = true;
                self.forget_resolved(&regex, &mut topics);
                for topic in &matching {
                    topics.entry(topic.clone()).or_default().by_regex += 1;
                }
            }
            bytes += self.id.len() + regex.len() + matching.iter().map(|topic| topic.len()).sum::<usize>();
            let resolved = ResolvedRegex { topics: matching, version, timestamp_ms };
            part.push(self.record(Content::Regex(regex, Some(resolved))));
            if bytes >= WRITTEN_AT_ONCE {
                parts.push(std::mem::take(&mut part));
                bytes = 0;
            }
        }
        let metadata_hash = self.topic_hashes.of_all(&topics, effects.controller);
        if is_news || metadata_hash != self.metadata_hash {
            let epoch = self.epoch + 1;
            part.push(self.record(Content::Group(Some(GroupEpoch { epoch, metadata_hash }))));
            self.topics_seen = Some((effects.controller.topics().version(), epoch));
        }
        parts.push(part);
        parts.retain(|part| !part.is_empty());
        parts
    }
}

#[cfg(test)]
mod tests {
    use super::compile;
    use crate::base::ErrorCode;

    #[test]
    fn what_is_not_an_expression_is_refused() {
        assert_eq!(compile("(").unwrap_err().code, ErrorCode::InvalidRegularExpression);
        assert!(compile("foo.*").unwrap().matches("foo-1"));
    }

    #[test]
    fn what_is_meant_for_names_fits() {
        for regex in [r"[\w.-]{1,249}", "a{1,1000}", "(orders|payments|returns)-(eu|us)-[0-9]{1,3}"] {
            assert!(compile(regex).is_ok(), "{regex}");
        }
    }
}
