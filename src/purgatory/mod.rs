//! purgatory
