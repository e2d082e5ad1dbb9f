//! Page-mapped flash translation with greedy garbage collection.
//!
//! A block here is a row of blocks over all dies, written as one stripe. A large drive is modelled
//! by a slice: every `scale`-th unit of its address space, with blocks that are smaller by the same
//! factor. Sequential, random and local writes hit the slice in proportion, so valid counts, write
//! amplification and wear equal those of the drive, in bounded memory.
//!
//! Of the units that are not modelled, groups of `scale` units are known (`groups.rs`): whether a
//! group holds data, and the share of its units that lie scattered over the flash.
//!
//! Drives with the same specification and the same stored data share their initial map and copy
//! only what they write: a thousand nodes do not need a thousand maps.

mod beginnings;
mod cleaning;
mod fewest;
mod groups;

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use super::amplification::{valid_share_at_age, victim_valid_share};
use super::spec::InitialState;
use super::table::Table;
use crate::request::StoredOrder;
use crate::slots::Id;
use beginnings::{Beginning, Beginnings};
use fewest::Fewest;
use groups::{Groups, RUN_UNITS};

/// A modelled unit; only its ids are used.
#[derive(Debug)]
enum Unit {}

/// A physical place of a unit; only its ids are used.
#[derive(Debug)]
enum Place {}

/// Maximum number of modelled units. A larger drive is modelled by a slice.
const SLICE_UNITS_MAX: u64 = 1 << 20;
/// Blocks without data in steady state: two open for writing (host, garbage collection) and one in
/// reserve.
const OPEN_BLOCKS: u32 = 3;
const BLOCK_UNITS_MIN: u64 = 64;

static BEGINNINGS: Mutex<Beginnings<Kind, PageMap>> = Mutex::new(Beginnings::new());

/// Cost and result of cleaning, in units of the slice.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cleaned {
    pub valid: u32,
    pub block_units: u32,
}

#[derive(Clone)]
pub struct PageMap {
    /// Units of the drive per modelled unit.
    pub scale: u64,
    units: u32,
    /// Units of the slice that hold data.
    mapped: u32,
    /// Units of the drive.
    all_units: u64,
    block_units: u32,
    /// All units by groups; unused if every unit is modelled.
    groups: Groups,
    /// Physical place of each unit that holds data.
    places: Table<Option<Id<Place>>>,
    /// Unit at each physical place that holds valid data.
    owners: Table<Option<Id<Unit>>>,
    /// Valid units of each block.
    valid: Vec<u32>,
    fewest: Fewest,
    erases: Vec<u32>,
    /// Least recently erased first, for wear levelling.
    free: VecDeque<u32>,
    is_free: Vec<bool>,
    host: Open,
    cleaner: Open,
    host_units: u64,
    flash_units: u64,
    cleaned: Option<Cleaned>,
    /// Nothing was written or discarded since the initial state.
    untouched: bool,
    /// Places before this one hold data that were put in order.
    next_in_order: u32,
    /// The shared initial map of drives of this kind, kept alive while it is in use.
    beginning: Option<(Kind, Arc<Beginning<PageMap>>)>,
}

/// A range of units: first unit and end (exclusive).
pub type UnitRange = (u64, u64);

/// Everything that determines the initial map.
#[derive(Clone, PartialEq)]
struct Kind {
    units: u64,
    row_units: u64,
    spare_ratio: f64,
    initial: InitialState,
    prepared: Arc<[Prepared]>,
}

/// A change of the initial map before the first write.
#[derive(Clone, Copy, PartialEq)]
enum Prepared {
    Stored(UnitRange, StoredOrder),
    Trimmed(UnitRange),
}

#[derive(Clone, Copy)]
struct Open {
    block: u32,
    next: u32,
}

impl PageMap {
    /// Create a map of `units` with `spare_ratio` additional flash, in rows of `row_units`.
    pub fn new(units: u64, row_units: u64, spare_ratio: f64, initial: InitialState) -> Self {
        let kind = Kind { units, row_units, spare_ratio, initial, prepared: Arc::default() };
        Self::shared(&kind, || Self::begin(&kind))
    }

    /// Return the shared initial map of the kind; `make` builds it if there is none.
    fn shared(kind: &Kind, make: impl FnOnce() -> PageMap) -> Self {
        let (mut map, beginning) = Beginnings::shared(&BEGINNINGS, kind, make);
        map.beginning = Some((kind.clone(), beginning));
        map
    }

    /// Store ranges of units before the first write, in the given order. They are valid and cause
    /// no wear.
    pub fn preload(&mut self, ranges: &[UnitRange], order: StoredOrder) {
        let stored = ranges.iter().map(|&range| Prepared::Stored(range, order));
        self.prepare(stored.collect());
    }

    /// Discard a range of units before the first write.
    pub fn trim(&mut self, range: UnitRange) {
        self.prepare(vec![Prepared::Trimmed(range)]);
    }

    fn prepare(&mut self, changes: Vec<Prepared>) {
        if changes.is_empty() {
            return;
        }
        match self.beginning.take() {
            Some((mut kind, _)) if self.untouched => {
                kind.prepared = kind.prepared.iter().chain(&changes).copied().collect();
                *self = Self::shared(&kind, || {
                    let mut map = self.clone();
                    map.change(&changes);
                    map.settle();
                    map
                });
            }
            beginning => {
                self.change(&changes);
                self.beginning = beginning;
            }
        }
    }

    fn change(&mut self, changes: &[Prepared]) {
        let untouched = self.untouched;
        for change in changes {
            match *change {
                Prepared::Stored(range, order) => {
                    self.store(range);
                    if order == StoredOrder::Written {
                        self.put_in_order(range);
                    }
                }
                Prepared::Trimmed((first, end)) => self.discard(first, end),
            }
        }
        self.untouched = untouched;
    }

    fn store(&mut self, (first, end): UnitRange) {
        let counts = (self.host_units, self.flash_units, self.cleaned, self.erases.clone());
        let end = end.min(self.all_units);
        self.groups.store(first / self.scale, end.div_ceil(self.scale));
        let followed = first.div_ceil(self.scale)..end.div_ceil(self.scale);
        let (mut unit, end) = (followed.start as u32, followed.end as u32);
        while unit < end {
            if self.places.get(unit).is_some() {
                unit += 1;
                continue;
            }
            let free = (unit..end).take_while(|&unit| self.places.get(unit).is_none()).count();
            self.write_run(unit, free as u32);
            unit += free as u32;
        }
        (self.host_units, self.flash_units, self.cleaned, self.erases) = counts;
    }

    /// Bring a range in order that was written as a whole. Units change places with each other, so
    /// that blocks have as many valid ones as before, and cleaning finds as much to copy.
    fn put_in_order(&mut self, (first, end): UnitRange) {
        let end = end.min(self.all_units);
        if end.saturating_sub(first) < RUN_UNITS {
            return;
        }
        if self.scale > 1 {
            return self.groups.put_in_order(first.div_ceil(self.scale), end / self.scale);
        }
        let units = first as u32..end as u32;
        if units.clone().filter_map(|unit| self.places.get(unit)).is_sorted_by_key(Id::number) {
            return;
        }
        for unit in units {
            let Some(before) = self.places.get(unit) else { continue };
            let Some((place, other)) = self.next_to_order() else { return };
            self.places.set(unit, Some(place));
            self.owners.set(place.number(), Some(Id::numbered(unit)));
            if other.number() != unit {
                self.places.set(other.number(), Some(before));
                self.owners.set(before.number(), Some(other));
            }
        }
    }

    /// Return the next place for data in order, and the unit that is there. On an aged drive these
    /// are the places written last, where nearly all units are valid.
    fn next_to_order(&mut self) -> Option<(Id<Place>, Id<Unit>)> {
        let places = self.valid.len() as u32 * self.block_units;
        for _ in 0..places {
            let place = self.next_in_order % places;
            self.next_in_order = place + 1;
            if let Some(unit) = self.owners.get(place) {
                return Some((Id::numbered(place), unit));
            }
        }
        None
    }

    /// Write contiguous units that have no place yet.
    fn write_run(&mut self, mut unit: u32, mut count: u32) {
        while count > 0 {
            if self.host.next == self.block_units {
                self.clean();
                self.host = self.open(self.host.block);
            }
            let length = count.min(self.block_units - self.host.next);
            let place = self.host.block * self.block_units + self.host.next;
            self.places.set_run(unit, length, |number| Some(Id::numbered(place + number)));
            self.owners.set_run(place, length, |number| Some(Id::numbered(unit + number)));
            self.valid[self.host.block as usize] += length;
            self.mapped += length;
            self.host.next += length;
            self.flash_units += u64::from(length);
            (unit, count) = (unit + length, count - length);
        }
    }

    /// Freeze the current contents as the shared initial state of clones.
    fn settle(&mut self) {
        self.places.settle();
        self.owners.settle();
        self.groups.settle();
    }

    fn begin(kind: &Kind) -> Self {
        let Kind { units, row_units, spare_ratio, initial, .. } = *kind;
        let all_units = units;
        let scale = units.div_ceil(SLICE_UNITS_MAX).max(1);
        let units = units.div_ceil(scale) as u32;
        let block_units =
            (row_units / scale).max(BLOCK_UNITS_MIN).min(u64::from(units).max(1)) as u32;
        let flash = (f64::from(units) * (1.0 + spare_ratio) / f64::from(block_units)).ceil() as u32;
        // At least one block more than the data need; otherwise no block could ever be cleaned.
        let blocks = flash.max(units.div_ceil(block_units) + 1 + OPEN_BLOCKS);
        let mut map = PageMap {
            scale,
            units,
            mapped: 0,
            all_units,
            block_units,
            groups: Groups::new(units, scale),
            places: Table::new(None, units as usize),
            owners: Table::new(None, (blocks * block_units) as usize),
            valid: vec![0; blocks as usize],
            fewest: Fewest::new(blocks),
            erases: vec![0; blocks as usize],
            free: (2..blocks).collect(),
            is_free: vec![true; blocks as usize],
            host: Open { block: 0, next: 0 },
            cleaner: Open { block: 1, next: 0 },
            host_units: 0,
            flash_units: 0,
            cleaned: None,
            untouched: true,
            next_in_order: 0,
            beginning: None,
        };
        map.is_free[0] = false;
        map.is_free[1] = false;
        match initial {
            InitialState::Fresh => {}
            InitialState::Filled { fill } => {
                let filled = (f64::from(map.units) * fill) as u32;
                map.write_run(0, filled);
                map.groups.store(0, u64::from(filled));
            }
            InitialState::Steady { fill } => {
                let mapped = (f64::from(map.units) * fill) as u32;
                map.age(mapped);
                map.groups.scatter(0, u64::from(mapped));
            }
        }
        map.host_units = 0;
        map.flash_units = 0;
        map.cleaned = None;
        map.settle();
        map
    }

    /// Place `mapped` units as after a long time of random overwrites: all blocks except the open
    /// ones hold data, and older blocks have fewer valid units. The block into which cleaning copies
    /// is nearly full: cleaning ends when it has gained a block, and then has less room there than
    /// the next victim needs.
    fn age(&mut self, mapped: u32) {
        let full = self.valid.len() as u32 - OPEN_BLOCKS;
        let spare_ratio = f64::from(full * self.block_units) / f64::from(mapped.max(1)) - 1.0;
        // An order that separates consecutive units.
        let step = coprime_near(u64::from(mapped), 0.618);
        let mut unit = 0u64;
        let copied = (1.0 + victim_valid_share(spare_ratio)) / 2.0 * f64::from(self.block_units);
        let mut placed = (copied as u32).min(mapped);
        self.place_aged(self.cleaner.block, placed, &mut unit, (step, mapped));
        self.cleaner.next = placed;
        let mut due = f64::from(placed);
        let share_left = f64::from(mapped - placed) / f64::from(mapped.max(1));
        for index in 0..full {
            let Some(block) = self.free.pop_front() else { return };
            self.is_free[block as usize] = false;
            let age = (f64::from(index) + 0.5) / f64::from(full);
            let valid_share = valid_share_at_age(spare_ratio, age) * share_left;
            due += valid_share * f64::from(self.block_units);
            let last = index + 1 == full;
            let upto = if last { mapped } else { (due.round() as u32).min(mapped) };
            let count = (upto - placed).min(self.block_units);
            self.place_aged(block, count, &mut unit, (step, mapped));
            self.fewest.lower(block, count);
            placed += count;
        }
        // Rounding can leave a few units, which are written normally.
        for _ in placed..mapped {
            self.write_unit(unit as u32);
            unit = (unit + step) % u64::from(mapped);
        }
    }

    /// Place `count` units in a block: `unit` and others, `step` apart, of those `mapped`.
    fn place_aged(&mut self, block: u32, count: u32, unit: &mut u64, (step, mapped): (u64, u32)) {
        for offset in 0..count {
            let place = block * self.block_units + offset;
            self.owners.set(place, Some(Id::numbered(*unit as u32)));
            self.places.set(*unit as u32, Some(Id::numbered(place)));
            *unit = (*unit + step) % u64::from(mapped);
        }
        self.valid[block as usize] = count;
        self.mapped += count;
    }

    /// Return the unit of the slice for a unit of the drive, if that unit is modelled.
    #[inline]
    fn followed(&self, unit: u64) -> Option<u32> {
        if self.scale == 1 {
            Some(unit as u32)
        } else if unit.is_multiple_of(self.scale) {
            Some((unit / self.scale) as u32)
        } else {
            None
        }
    }

    /// Return the place of a unit, numbered along the stripes; `None` if it holds no data.
    #[inline]
    pub fn place(&self, unit: u64) -> Option<u64> {
        if self.scale == 1 {
            self.places.get(unit as u32).map(|place| u64::from(place.number()))
        } else {
            self.groups.place(unit)
        }
    }

    /// Write a unit of the drive and return its place, as `place` does.
    #[inline]
    pub fn write(&mut self, unit: u64) -> Option<u64> {
        self.untouched = false;
        if self.scale == 1 {
            self.host_units += 1;
            return Some(u64::from(self.write_unit(unit as u32)));
        }
        self.groups.write(unit);
        if let Some(unit) = self.followed(unit) {
            self.host_units += 1;
            self.write_unit(unit);
        }
        self.groups.place(unit)
    }

    /// Return the units per block of the slice, which is how many units the host writes between
    /// cleanings.
    pub fn block_units(&self) -> u64 {
        u64::from(self.block_units)
    }

    /// Take the cost of the last cleaning.
    #[inline]
    pub fn take_cleaned(&mut self) -> Option<Cleaned> {
        self.cleaned.take()
    }

    pub fn discard(&mut self, first: u64, end: u64) {
        self.untouched = false;
        if self.scale > 1 {
            let last = if end >= self.all_units { u64::from(self.units) } else { end / self.scale };
            self.groups.clear(first.div_ceil(self.scale), last);
        }
        let (first, end) = (first.div_ceil(self.scale), end.div_ceil(self.scale));
        for unit in first..end.min(u64::from(self.units)) {
            if self.places.get(unit as u32).is_some() {
                self.invalidate(unit as u32);
                self.places.set(unit as u32, None);
                self.mapped -= 1;
            }
        }
    }

    /// Drop the old data of a unit; return whether there were any.
    #[inline]
    fn invalidate(&mut self, unit: u32) -> bool {
        let old = self.places.get(unit);
        if let Some(old) = old {
            self.owners.set(old.number(), None);
            let block = old.number() / self.block_units;
            let valid = &mut self.valid[block as usize];
            *valid -= 1;
            self.fewest.lower(block, *valid);
        }
        old.is_some()
    }

    /// Write a unit of the slice and return its place.
    #[inline]
    fn write_unit(&mut self, unit: u32) -> u32 {
        if self.host.next == self.block_units {
            self.clean();
            self.host = self.open(self.host.block);
        }
        self.mapped += u32::from(!self.invalidate(unit));
        let place = self.host.block * self.block_units + self.host.next;
        self.host.next += 1;
        self.put(place, unit);
        place
    }

    #[inline]
    fn put(&mut self, place: u32, unit: u32) {
        self.owners.set(place, Some(Id::numbered(unit)));
        self.places.set(unit, Some(Id::numbered(place)));
        self.valid[(place / self.block_units) as usize] += 1;
        self.flash_units += 1;
    }

    /// Return the units of the slice written to flash and by the host since the start.
    pub fn written(&self) -> (u64, u64) {
        (self.flash_units, self.host_units)
    }

    /// Return the erase count of each block of the slice.
    pub fn erases(&self) -> &[u32] {
        &self.erases
    }

    /// Return the units of the slice that hold data.
    pub fn mapped_units(&self) -> u64 {
        u64::from(self.mapped)
    }
}

/// Return a number coprime to `n`, near the fraction `share` of it.
fn coprime_near(n: u64, share: f64) -> u64 {
    let gcd = |mut a: u64, mut b: u64| {
        while b != 0 {
            (a, b) = (b, a % b);
        }
        a
    };
    let mut step = ((n as f64 * share) as u64).max(1);
    while gcd(step, n) != 1 {
        step += 1;
    }
    step
}

#[cfg(test)]
mod tests;
