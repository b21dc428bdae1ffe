//! How many partitions each member is to have, in the order of their ids: all that an even share needs to know of most of them.
//! One line of memory for ten thousand members, where a walk through their targets would be ten thousand.

use std::sync::Arc;

/// The sizes of the members' targets.
#[derive(Clone, Debug, Default)]
pub(super) struct Shares {
    /// By member id; none for members that no target was computed for.
    of_members: Vec<(Arc<str>, Option<usize>)>,
}

impl Shares {
    fn position(&self, id: &str) -> Result<usize, usize> {
        self.of_members.binary_search_by(|(of, _)| (**of).cmp(id))
    }

    /// Somebody is a member, with a target of this size, or without one.
    pub(super) fn set(&mut self, id: &Arc<str>, size: Option<usize>) {
        match self.position(id) {
            Ok(at) => self.of_members[at].1 = size,
            Err(at) => self.of_members.insert(at, (id.clone(), size)),
        }
    }

    /// A member's target has another size. Whoever is no member has no share.
    pub(super) fn resize(&mut self, id: &str, size: Option<usize>) {
        if let Ok(at) = self.position(id) {
            self.of_members[at].1 = size;
        }
    }

    /// Somebody isn't a member any more.
    pub(super) fn remove(&mut self, id: &str) {
        if let Ok(at) = self.position(id) {
            self.of_members.remove(at);
        }
    }

    /// All members once one of them has this share, who may be new, and another has gone.
    pub(super) fn with<'a>(
        &'a self,
        id: &'a Arc<str>,
        gone: Option<&Arc<str>>,
        size: Option<usize>,
    ) -> With<'a> {
        let gone = gone.and_then(|gone| self.position(gone).ok());
        With { shares: self, id, size, at: self.position(id), gone }
    }
}

/// [`Shares`] in which one is as given, and another may be gone.
pub(super) struct With<'a> {
    shares: &'a Shares,
    id: &'a Arc<str>,
    size: Option<usize>,
    at: Result<usize, usize>,
    gone: Option<usize>,
}

impl<'a> With<'a> {
    /// How many members there are.
    pub(super) fn len(&self) -> usize {
        self.shares.of_members.len() + usize::from(self.at.is_err()) - usize::from(self.gone.is_some())
    }

    /// In the order of ids.
    pub(super) fn iter(&self) -> impl Iterator<Item = (&'a Arc<str>, Option<usize>)> + use<'a> {
        let (split, skipped) = match self.at {
            Ok(at) => (at, Some(at)),
            Err(at) => (at, None),
        };
        let gone = self.gone;
        let part = move |from: usize, part: &'a [(Arc<str>, Option<usize>)]| {
            let indexed = (from..).zip(part);
            let there = indexed.filter(move |(at, _)| Some(*at) != skipped && Some(*at) != gone);
            there.map(|(_, (id, size))| (id, *size))
        };
        let (before, after) = self.shares.of_members.split_at(split);
        part(0, before).chain([(self.id, self.size)]).chain(part(split, after))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_may_be_as_given_and_another_gone() {
        let mut shares = Shares::default();
        for (id, size) in [("d", Some(3)), ("b", Some(2)), ("a", None), ("c", Some(9))] {
            shares.set(&id.into(), size);
        }
        shares.remove("c");
        shares.remove("nobody");
        shares.resize("nobody", Some(1));
        shares.resize("a", Some(1));
        let with = |id: &str, gone: Option<&str>| {
            let (id, gone) = (Arc::from(id), gone.map(Arc::from));
            let with = shares.with(&id, gone.as_ref(), Some(7));
            let all: Vec<(String, Option<usize>)> =
                with.iter().map(|(id, size)| (id.to_string(), size)).collect();
            assert_eq!(all.len(), with.len());
            all
        };
        let is = |all: &[(&str, usize)]| {
            all.iter().map(|(id, size)| ((*id).to_owned(), Some(*size))).collect::<Vec<_>>()
        };
        assert_eq!(with("b", None), is(&[("a", 1), ("b", 7), ("d", 3)]));
        assert_eq!(with("c", None), is(&[("a", 1), ("b", 2), ("c", 7), ("d", 3)]));
        assert_eq!(with("0", Some("d")), is(&[("0", 7), ("a", 1), ("b", 2)]));
        assert_eq!(with("e", Some("a")), is(&[("b", 2), ("d", 3), ("e", 7)]));
        assert_eq!(with("d", Some("a")), is(&[("b", 2), ("d", 7)]));
    }
}
