//! Initial maps that drives share. The first drive of its kind builds one; others wait for it.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex, OnceLock, PoisonError, Weak};

use super::{Kind, PageMap};

/// An initial map, as soon as it is built.
pub(super) type Beginning = OnceLock<PageMap>;

/// How many of the maps used last stay when no drive uses them. Trials that run one after the other
/// need the maps of the one before: a drive with data takes about three, of up to 10 MB each.
const KEPT: usize = 4;

pub(super) static BEGINNINGS: Mutex<Beginnings> = Mutex::new(Beginnings::new());

#[derive(Default)]
pub(super) struct Beginnings {
    known: Vec<(Kind, Weak<Beginning>)>,
    /// Used last: the last one.
    kept: VecDeque<Arc<Beginning>>,
}

impl Beginnings {
    pub(super) const fn new() -> Self {
        Beginnings { known: Vec::new(), kept: VecDeque::new() }
    }

    /// Return the map of a kind, which may have to be built.
    pub(super) fn of(&mut self, kind: &Kind) -> Arc<Beginning> {
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
}

/// Return a clone of the map of a kind, and what keeps that; `make` builds it if there is none.
pub(super) fn shared(kind: &Kind, make: impl FnOnce() -> PageMap) -> (PageMap, Arc<Beginning>) {
    let beginning = BEGINNINGS.lock().unwrap_or_else(PoisonError::into_inner).of(kind);
    (beginning.get_or_init(make).clone(), beginning)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ssd::spec::InitialState;

    fn kind(units: u64) -> Kind {
        let initial = InitialState::Fresh;
        Kind { units, row_units: 64, spare_ratio: 0.1, initial, prepared: Arc::default() }
    }

    #[test]
    fn the_maps_used_last_stay_without_a_drive() {
        let mut beginnings = Beginnings::new();
        let mut made = |units| Arc::as_ptr(&beginnings.of(&kind(units)));
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
