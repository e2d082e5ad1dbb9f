//! What is known of the units of a large drive, in groups of `scale` units.
//!
//! One byte per group: 0 if the group holds no data, else 1 and the share of its units that lie
//! scattered, in steps of 1/253. Which units these are is not stored: they are those whose hash is
//! below the share. A unit that is written by itself becomes scattered, so that the share after n
//! writes at random is `1 - exp(-n/scale)`, that of all units written at least once. Units of a run
//! fill pages of the flash in order.

use crate::ssd::table::Table;

const HELD: u8 = 1;
/// All units of the group are scattered.
const SCATTERED: u8 = 254;
/// Steps of the scattered share.
const STEPS: u8 = SCATTERED - HELD;
/// Groups that share one byte while they have the same state: most of a drive does, and the table
/// of all groups is too large for fast caches.
const BLOCK_SHIFT: u32 = 6;
/// The groups of the block have states of their own.
const MIXED: u8 = 255;
/// Assumption: as many units in order (64 KiB of 4 KiB units) are in order on the flash, too: about
/// one page of all planes of a die.
pub(super) const RUN_UNITS: u64 = 16;

#[derive(Clone)]
pub(super) struct Groups {
    groups: u32,
    /// The state of all groups of a block, or `MIXED`.
    blocks: Table<u8>,
    /// States of the groups in blocks that are `MIXED`.
    table: Table<u8>,
    scale: u64,
    /// Steps of a group per unit.
    steps_per_unit: f32,
    /// Steps below one that are due.
    due: f32,
    /// The unit behind the last written one, and how many units in order end there.
    next: u64,
    run: u64,
    /// Steps that this run added to the group that it is in.
    added: u8,
}

/// Return bits that look random; the high ones are the best.
#[inline]
fn hash(unit: u64) -> u64 {
    let mixed = unit.wrapping_mul(0x9e37_79b9_7f4a_7c15);
    (mixed ^ mixed >> 29).wrapping_mul(0xbf58_476d_1ce4_e5b9)
}

/// Return whether a unit is scattered in a group of this state.
#[inline]
fn is_scattered(hash: u64, state: u8) -> bool {
    (((hash >> 20) & 0xffff) * u64::from(STEPS)) >> 16 < u64::from(state - HELD)
}

impl Groups {
    pub fn new(groups: u32, scale: u64) -> Self {
        let groups = if scale > 1 { groups } else { 0 };
        let blocks = groups.div_ceil(1 << BLOCK_SHIFT);
        Groups {
            groups,
            blocks: Table::new(0, blocks as usize),
            table: Table::new(0, (blocks << BLOCK_SHIFT) as usize),
            scale,
            steps_per_unit: f32::from(STEPS) / scale as f32,
            due: 0.0,
            next: u64::MAX,
            run: 0,
            added: 0,
        }
    }

    #[inline]
    fn get(&self, group: u32) -> u8 {
        match self.blocks.get(group >> BLOCK_SHIFT) {
            MIXED => self.table.get(group),
            state => state,
        }
    }

    #[inline]
    fn set(&mut self, group: u32, state: u8) {
        let block = group >> BLOCK_SHIFT;
        let before = self.blocks.get(block);
        if before != MIXED {
            self.table.set_run(block << BLOCK_SHIFT, 1 << BLOCK_SHIFT, |_| before);
            self.blocks.set(block, MIXED);
        }
        self.table.set(group, state);
    }

    /// Change the state of the groups from `first` to `end` (exclusive).
    fn change(&mut self, first: u64, end: u64, changed: impl Fn(u8) -> u8) {
        let (mut group, end) = (first as u32, (end as u32).min(self.groups));
        while group < end {
            let block = group >> BLOCK_SHIFT;
            let next = (block + 1) << BLOCK_SHIFT;
            let state = self.blocks.get(block);
            let whole = group.is_multiple_of(1 << BLOCK_SHIFT) && next.min(self.groups) <= end;
            if whole && state != MIXED {
                if changed(state) != state {
                    self.blocks.set(block, changed(state));
                }
                group = next;
                continue;
            }
            let state = self.get(group);
            if changed(state) != state {
                self.set(group, changed(state));
            }
            group += 1;
        }
    }

    /// Mark the groups from `first` to `end` (exclusive) as holding data, in order where they held
    /// none.
    pub fn store(&mut self, first: u64, end: u64) {
        self.change(first, end, |state| state.max(HELD));
    }

    /// Mark the data of the groups from `first` to `end` (exclusive) as lying in order.
    pub fn put_in_order(&mut self, first: u64, end: u64) {
        self.change(first, end, |state| state.min(HELD));
    }

    /// Mark the groups from `first` to `end` (exclusive) as holding scattered data.
    pub fn scatter(&mut self, first: u64, end: u64) {
        self.change(first, end, |_| SCATTERED);
    }

    /// Mark the groups from `first` to `end` (exclusive) as holding no data.
    pub fn clear(&mut self, first: u64, end: u64) {
        self.change(first, end, |_| 0);
    }

    /// Freeze the current contents as the shared initial state of clones.
    pub fn settle(&mut self) {
        self.blocks.settle();
        self.table.settle();
    }

    /// Return the place of a unit, numbered along the stripes; `None` if it holds no data. A
    /// scattered unit has a place that no other unit is near, possibly beyond the capacity.
    #[inline]
    pub fn place(&self, unit: u64) -> Option<u64> {
        let state = self.get((unit / self.scale) as u32);
        if state <= HELD {
            return (state == HELD).then_some(unit);
        }
        let hash = hash(unit);
        // Few bits, as dividing large numbers takes long.
        Some(if is_scattered(hash, state) { hash >> 38 } else { unit })
    }

    /// Write a unit.
    #[inline]
    pub fn write(&mut self, unit: u64) {
        let (group, number) = (unit / self.scale, unit % self.scale);
        let before = self.get(group as u32);
        let goes_on = unit == self.next;
        self.run = if goes_on { self.run + 1 } else { 1 };
        self.added = if goes_on && number > 0 { self.added } else { 0 };
        self.next = unit + 1;
        let state = before.max(HELD);
        let after = if self.run < RUN_UNITS {
            self.alone(unit, state)
        } else if number + 1 == self.scale && self.run >= self.scale {
            HELD
        } else {
            self.in_order(unit, state)
        };
        if after != before {
            self.set(group as u32, after);
        }
    }

    /// Return the state of a group after a unit was written by itself.
    #[inline]
    fn alone(&mut self, unit: u64, state: u8) -> u8 {
        if state == SCATTERED || is_scattered(hash(unit), state) {
            return state;
        }
        let after = state.saturating_add(self.steps()).min(SCATTERED);
        self.added += after - state;
        after
    }

    /// Return the state of a group after a unit was written in a run.
    #[inline]
    fn in_order(&mut self, unit: u64, state: u8) -> u8 {
        // The first units of the run were not by themselves.
        let state = state.saturating_sub(std::mem::take(&mut self.added)).max(HELD);
        if !is_scattered(hash(unit), state) {
            return state;
        }
        state.saturating_sub(self.steps()).max(HELD)
    }

    /// Return the whole steps of one more unit.
    #[inline]
    fn steps(&mut self) -> u8 {
        self.due += self.steps_per_unit;
        let whole = self.due as u8;
        self.due -= f32::from(whole);
        whole
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::stream::Stream;

    fn scattered(groups: &Groups, units: u64) -> f64 {
        let count = (0..units).filter(|&unit| groups.place(unit) != Some(unit)).count();
        count as f64 / units as f64
    }

    #[test]
    fn writes_at_random_scatter_what_they_hit_and_runs_bring_it_in_order() {
        for (count, scale) in [(1 << 10, 38), (1 << 7, 895), (8, 100_000)] {
            let units = u64::from(count) * scale;
            let mut groups = Groups::new(count, scale);
            groups.store(0, u64::from(count));
            assert_eq!(scattered(&groups, units), 0.0);
            let mut random = Stream::new(7, "writes");
            for (more, in_all) in [(0.5, 0.5f64), (0.5, 1.0), (1.0, 2.0)] {
                let writes = (units as f64 * more) as u64;
                (0..writes).for_each(|_| groups.write(random.below(units)));
                let (obtained, expected) = (scattered(&groups, units), 1.0 - (-in_all).exp());
                assert!((obtained - expected).abs() < 0.04, "{scale}: {obtained} {expected}");
            }
            (0..units).for_each(|unit| groups.write(unit));
            assert_eq!(scattered(&groups, units), 0.0, "{scale}");
        }
    }

    #[test]
    fn a_run_from_the_middle_of_a_group_scatters_nothing() {
        let mut groups = Groups::new(4, 895);
        (100..800).for_each(|unit| groups.write(unit));
        assert_eq!(scattered(&groups, 895), 0.0);
        groups.clear(0, 1);
        assert!((0..895).all(|unit| groups.place(unit).is_none()));
    }
}
