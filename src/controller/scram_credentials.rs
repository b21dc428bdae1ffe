//! Users' SCRAM credentials: stored and listed (Kafka's `ScramControlManager`, KIP-554). Nobody logs in with them yet.

use std::collections::BTreeMap;
use std::fmt;

use bytes::Bytes;

use crate::base::ErrorCode;

/// The most credentials that are kept (ours).
pub const MAX_SCRAM_CREDENTIALS: usize = 100_000;

/// The most iterations that Kafka accepts.
const MAX_ITERATIONS: i32 = 16_384;

/// Kafka's `ScramMechanism`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum ScramMechanism {
    /// SCRAM-SHA-256.
    Sha256 = 1,
    /// SCRAM-SHA-512.
    Sha512 = 2,
}

impl ScramMechanism {
    /// The number on the wire.
    pub const fn code(self) -> i8 {
        self as i8
    }

    /// The mechanism of this number.
    pub fn from_code(code: i8) -> Option<Self> {
        [ScramMechanism::Sha256, ScramMechanism::Sha512].into_iter().find(|known| known.code() == code)
    }

    const fn min_iterations(self) -> i32 {
        4096
    }
}

/// A credential, made by the client from a password that it keeps to itself.
#[derive(Clone, PartialEq, Eq)]
pub struct ScramCredential {
    /// How often the password was hashed.
    pub iterations: i32,
    /// What it was salted with.
    pub salt: Bytes,
    /// What came of it.
    pub salted_password: Bytes,
}

impl fmt::Debug for ScramCredential {
    /// Without the salted password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScramCredential").field("iterations", &self.iterations).finish_non_exhaustive()
    }
}

/// Why a change of credentials is refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[expect(missing_docs, reason = "each variant's message is its description")]
pub enum ScramError {
    #[error("A user has a name.")]
    NamelessUser,
    #[error("There is no SCRAM mechanism {0}.")]
    UnknownMechanism(i8),
    #[error("Too few iterations: at least {0}.")]
    TooFewIterations(i32),
    #[error("Too many iterations: at most {MAX_ITERATIONS}.")]
    TooManyIterations,
    #[error("A salted password is not empty.")]
    EmptyPassword,
    #[error("The user has no such credential.")]
    NoSuchCredential,
    #[error("A credential is named twice.")]
    Repeated,
    #[error("At most {MAX_SCRAM_CREDENTIALS} credentials are kept.")]
    TooManyCredentials,
}

impl ScramError {
    /// Kafka's code for the reason.
    pub fn code(self) -> ErrorCode {
        match self {
            Self::NamelessUser | Self::TooFewIterations(_) | Self::TooManyIterations => {
                ErrorCode::UnacceptableCredential
            }
            // Kafka's controller fails at making a key of it.
            Self::EmptyPassword => ErrorCode::UnknownServerError,
            Self::UnknownMechanism(_) => ErrorCode::UnsupportedSaslMechanism,
            Self::NoSuchCredential => ErrorCode::ResourceNotFound,
            Self::Repeated => ErrorCode::DuplicateResource,
            Self::TooManyCredentials => ErrorCode::PolicyViolation,
        }
    }
}

/// All credentials.
#[derive(Clone, Debug, Default)]
pub struct ScramCredentials {
    by_user: BTreeMap<String, BTreeMap<ScramMechanism, ScramCredential>>,
    count: usize,
}

impl ScramCredentials {
    /// Whether this user and mechanism could be changed, by their names alone.
    ///
    /// # Errors
    /// If the user has no name, or there is no such mechanism.
    pub fn check(user: &str, mechanism: i8) -> Result<ScramMechanism, ScramError> {
        if user.is_empty() {
            return Err(ScramError::NamelessUser);
        }
        ScramMechanism::from_code(mechanism).ok_or(ScramError::UnknownMechanism(mechanism))
    }

    /// Keeps a credential, in place of an earlier one.
    ///
    /// # Errors
    /// If it has too few or too many iterations, or no salted password; nothing has changed then.
    pub fn upsert(
        &mut self,
        user: &str,
        mechanism: ScramMechanism,
        credential: ScramCredential,
    ) -> Result<(), ScramError> {
        if credential.iterations < mechanism.min_iterations() {
            return Err(ScramError::TooFewIterations(mechanism.min_iterations()));
        }
        if credential.iterations > MAX_ITERATIONS {
            return Err(ScramError::TooManyIterations);
        }
        if credential.salted_password.is_empty() {
            return Err(ScramError::EmptyPassword);
        }
        // A slice of a request would keep its frame alive.
        let credential = ScramCredential {
            iterations: credential.iterations,
            salt: Bytes::copy_from_slice(&credential.salt),
            salted_password: Bytes::copy_from_slice(&credential.salted_password),
        };
        let earlier = self.by_user.entry(user.to_owned()).or_default().insert(mechanism, credential);
        self.count += usize::from(earlier.is_none());
        Ok(())
    }

    /// Forgets a credential.
    ///
    /// # Errors
    /// If there is none.
    pub fn delete(&mut self, user: &str, mechanism: ScramMechanism) -> Result<(), ScramError> {
        let of_user = self.by_user.get_mut(user).ok_or(ScramError::NoSuchCredential)?;
        of_user.remove(&mechanism).ok_or(ScramError::NoSuchCredential)?;
        self.count -= 1;
        if of_user.is_empty() {
            self.by_user.remove(user);
        }
        Ok(())
    }

    /// The credentials of a user, if there are any.
    pub fn of_user(&self, user: &str) -> Option<&BTreeMap<ScramMechanism, ScramCredential>> {
        self.by_user.get(user)
    }

    /// The credentials of one user alone, to be changed and put back with [`ScramCredentials::replace`].
    pub fn clone_of(&self, user: &str) -> ScramCredentials {
        let of_user = self.by_user.get(user).cloned().into_iter().map(|of_user| (user.to_owned(), of_user));
        let by_user: BTreeMap<_, BTreeMap<_, _>> = of_user.collect();
        let count = by_user.values().map(BTreeMap::len).sum();
        ScramCredentials { by_user, count }
    }

    /// Puts one user's changed credentials back.
    ///
    /// # Errors
    /// If there would be too many in all; nothing has changed then.
    pub fn replace(&mut self, user: &str, mut changed: ScramCredentials) -> Result<(), ScramError> {
        let before = self.by_user.get(user).map_or(0, BTreeMap::len);
        let count = self.count - before + changed.count;
        if count > MAX_SCRAM_CREDENTIALS && changed.count > before {
            return Err(ScramError::TooManyCredentials);
        }
        self.count = count;
        match changed.by_user.remove(user) {
            Some(of_user) => self.by_user.insert(user.to_owned(), of_user),
            None => self.by_user.remove(user),
        };
        Ok(())
    }

    /// All users that have credentials, by name.
    pub fn users(&self) -> impl Iterator<Item = &str> {
        self.by_user.keys().map(String::as_str)
    }
}
