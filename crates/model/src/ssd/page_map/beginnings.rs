//! Initial maps that drives share. The first drive of its kind builds one; others wait for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

/// An initial map, as soon as it is built.
pub(super) type Beginning<M> = OnceLock<M>;

/// How many of the maps used last stay when no drive uses them. Trials that run one after the other
/// need the maps of the one before: a drive with data takes about three, of up to 10 MB each.
const KEPT: usize = 4;

/// Maps `M` by the kind of drive `K`.
pub(super) struct Beginnings<K, M> {
    known: Vec<(K, Weak<Beginning<M>>)>,
    /// Used last: the last one.
    kept: VecDeque<Arc<Beginning<M>>>,
}

impl<K: Clone + PartialEq, M: Clone> Beginnings<K, M> {
    pub(super) const fn new() -> Self {
        Beginnings { known: Vec::new(), kept: VecDeque::new() }
    }

    /// Return the map of a kind, which may have to be built.
    fn of(&mut self, kind: &K) -> Arc<Beginning<M>> {
        self.known.retain(|(_, beginning)| beginning.strong_count() > 0);
        let there = self.known.iter().find(|(other, _)| other == kind);
        let beginning = there.and_then(|(_, beginning)| beginning.upgrade()).unwrap_or_else(|| {
            let new = Arc::new(Beginning::new());
            self.known.push((kind.clone(), Arc::downgrade(&new)));
            new
        });
        self.kept.retain(|kept| !Arc::ptr_eq(kept, &beginning));
        self.kept.push_back(beginning.clone());
        if self.kept.len() > KEPT {
            self.kept.pop_front();
        }
        beginning
    }

    /// Return a clone of the map of a kind, and what keeps that; `make` builds it if there is none.
    pub(super) fn shared(
        all: &Mutex<Self>,
        kind: &K,
        make: impl FnOnce() -> M,
    ) -> (M, Arc<Beginning<M>>) {
        let beginning = all.lock().unwrap_or_else(PoisonError::into_inner).of(kind);
        (beginning.get_or_init(make).clone(), beginning)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_maps_used_last_stay_without_a_drive() {
        let mut beginnings = Beginnings::<u64, ()>::new();
        let mut made = |units| Arc::as_ptr(&beginnings.of(&units));
        let first = made(0);
        for units in 1..KEPT as u64 {
            made(units);
        }
        assert_eq!(made(0), first);
        for units in 1..KEPT as u64 {
            made(100 + units);
        }
        assert_eq!(made(0), first, "used again, so not the oldest");
        let others = beginnings.known.iter().filter(|(_, map)| map.strong_count() > 0);
        assert_eq!(others.count(), KEPT);
    }
}
