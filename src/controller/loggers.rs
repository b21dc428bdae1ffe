//! The loggers of the process and their levels, as its brokers show and change them: Kafka's BROKER_LOGGER resources
//! (`LoggingController`, `RuntimeLoggerManager`).
//!
//! All brokers of a cluster are one process, so its loggers belong to all of them. What logs is not known here.

use std::collections::BTreeMap;
use std::fmt;

/// Kafka's name of the logger above all others.
pub const ROOT_LOGGER: &str = "root";

/// How much a logger lets through: Kafka's `LogLevelConfig`, and nothing at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Nothing. A logger can begin with it, but not be set to it.
    Off,
    /// What ends the process.
    Fatal,
    /// Errors.
    Error,
    /// Warnings and worse.
    Warn,
    /// What is worth knowing, and worse.
    Info,
    /// What helps to find errors, and all above.
    Debug,
    /// Everything.
    Trace,
}

/// The levels that a logger can be set to, in the order in which Kafka lists them.
const SETTABLE: [LogLevel; 6] =
    [LogLevel::Debug, LogLevel::Error, LogLevel::Fatal, LogLevel::Info, LogLevel::Trace, LogLevel::Warn];

impl LogLevel {
    /// Kafka's name.
    pub const fn name(self) -> &'static str {
        match self {
            LogLevel::Off => "OFF",
            LogLevel::Fatal => "FATAL",
            LogLevel::Error => "ERROR",
            LogLevel::Warn => "WARN",
            LogLevel::Info => "INFO",
            LogLevel::Debug => "DEBUG",
            LogLevel::Trace => "TRACE",
        }
    }
}

impl fmt::Display for LogLevel {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// All loggers. There are none where the process's logs are not huld's, as in a broker inside another program.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Loggers {
    /// None: there are no loggers.
    root: Option<LogLevel>,
    /// By name, each with its own level if it has one.
    others: BTreeMap<String, Option<LogLevel>>,
    has_news: bool,
}

/// Why loggers can't be changed as asked.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LoggerError {
    /// There is no such logger.
    #[error("there is no logger '{0}'")]
    Unknown(String),
    /// There is no such level.
    #[error("logger '{logger}' can't have level '{level}': it must be one of {}", levels())]
    Level {
        /// Which logger.
        logger: String,
        /// What it was to be set to.
        level: String,
    },
    /// The root has nobody to take its level from.
    #[error("the logger '{ROOT_LOGGER}' can't be without a level of its own")]
    Root,
}

fn levels() -> String {
    SETTABLE.map(LogLevel::name).join(", ")
}

impl Loggers {
    /// A process with these loggers, which take their levels from above, and the root.
    pub fn new(root: LogLevel, names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let others = names.into_iter().map(|name| (name.into(), None)).collect();
        Loggers { root: Some(root), others, has_news: false }
    }

    /// The same, with a logger that has a level of its own.
    pub fn with_level(mut self, name: &str, level: LogLevel) -> Self {
        self.others.insert(name.to_owned(), Some(level));
        self
    }

    /// Every logger, with its own level or else that of the nearest above it; the root last.
    pub fn iter(&self) -> impl Iterator<Item = (&str, LogLevel)> {
        let root = self.root.into_iter();
        let others = self.others.keys().zip(root.clone().cycle());
        others
            .map(|(name, root)| (name.as_str(), self.level_of(name).unwrap_or(root)))
            .chain(root.map(|root| (ROOT_LOGGER, root)))
    }

    /// The root's level; none where there are no loggers.
    pub fn root(&self) -> Option<LogLevel> {
        self.root
    }

    /// The loggers that have a level of their own, but for the root.
    pub fn own_levels(&self) -> impl Iterator<Item = (&str, LogLevel)> {
        self.others.iter().filter_map(|(name, own)| Some((name.as_str(), (*own)?)))
    }

    /// Sets levels, or takes them away (`None`), all or none of them.
    ///
    /// # Errors
    /// For the first change that can't be; nothing has changed then.
    pub fn alter(
        &mut self,
        changes: &[(String, Option<String>)],
        validate_only: bool,
    ) -> Result<(), LoggerError> {
        let mut altered = self.clone();
        for (name, level) in changes {
            let is_root = name == ROOT_LOGGER && self.root.is_some();
            if !is_root && !self.others.contains_key(name) {
                return Err(LoggerError::Unknown(name.clone()));
            }
            let level = match level {
                Some(text) => {
                    let known = SETTABLE.into_iter().find(|level| level.name() == text);
                    let bad = || LoggerError::Level { logger: name.clone(), level: text.clone() };
                    Some(known.ok_or_else(bad)?)
                }
                None if is_root => return Err(LoggerError::Root),
                None => None,
            };
            if is_root {
                altered.root = level;
            } else {
                altered.others.insert(name.clone(), level);
            }
        }
        if !validate_only {
            altered.has_news = true;
            *self = altered;
        }
        Ok(())
    }

    /// The loggers, if they have changed since the last call.
    pub fn take_news(&mut self) -> Option<Loggers> {
        std::mem::take(&mut self.has_news).then(|| self.clone())
    }

    /// The level of the logger with the longest name that `name` begins with.
    fn level_of(&self, name: &str) -> Option<LogLevel> {
        let above = self.own_levels().filter(|(above, _)| name.starts_with(above));
        above.max_by_key(|(above, _)| above.len()).map(|(_, level)| level)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn loggers() -> Loggers {
        Loggers::new(LogLevel::Warn, ["a", "a.b", "c"]).with_level("c", LogLevel::Off)
    }

    fn shown(loggers: &Loggers) -> String {
        let shown: Vec<String> = loggers.iter().map(|(name, level)| format!("{name}={level}")).collect();
        shown.join(" ")
    }

    fn change(name: &str, level: Option<&str>) -> (String, Option<String>) {
        (name.to_owned(), level.map(str::to_owned))
    }

    #[test]
    fn a_logger_without_a_level_has_that_of_the_nearest_above_it() {
        let mut loggers = loggers();
        assert_eq!(shown(&loggers), "a=WARN a.b=WARN c=OFF root=WARN");
        loggers.alter(&[change("a", Some("DEBUG"))], false).unwrap();
        assert_eq!(shown(&loggers), "a=DEBUG a.b=DEBUG c=OFF root=WARN");
        loggers.alter(&[change("root", Some("ERROR")), change("a.b", Some("FATAL"))], false).unwrap();
        assert_eq!(shown(&loggers), "a=DEBUG a.b=FATAL c=OFF root=ERROR");
        loggers.alter(&[change("a", None), change("c", None)], false).unwrap();
        assert_eq!(shown(&loggers), "a=ERROR a.b=FATAL c=ERROR root=ERROR");
    }

    #[test]
    fn what_is_wrong_changes_nothing() {
        let mut loggers = loggers();
        let good = change("a", Some("DEBUG"));
        let errors = [
            (change("b", Some("INFO")), LoggerError::Unknown("b".to_owned())),
            (change("b", None), LoggerError::Unknown("b".to_owned())),
            (
                change("a.b", Some("info")),
                LoggerError::Level { logger: "a.b".to_owned(), level: "info".to_owned() },
            ),
            (
                change("c", Some("OFF")),
                LoggerError::Level { logger: "c".to_owned(), level: "OFF".to_owned() },
            ),
            (change("root", None), LoggerError::Root),
        ];
        for (bad, error) in errors {
            assert_eq!(loggers.alter(&[good.clone(), bad], false), Err(error));
        }
        loggers.alter(&[good], true).unwrap();
        assert_eq!(loggers, self::loggers());
        assert_eq!(loggers.take_news(), None);
    }

    #[test]
    fn news_are_told_once() {
        let mut loggers = loggers();
        loggers.alter(&[change("a", Some("DEBUG"))], false).unwrap();
        assert_eq!(loggers.take_news().as_ref(), Some(&loggers));
        assert_eq!(loggers.take_news(), None);
    }

    #[test]
    fn where_there_are_no_loggers_there_is_no_root() {
        let mut loggers = Loggers::default();
        assert_eq!(shown(&loggers), "");
        let error = loggers.alter(&[change("root", Some("INFO"))], false);
        assert_eq!(error, Err(LoggerError::Unknown("root".to_owned())));
    }
}
