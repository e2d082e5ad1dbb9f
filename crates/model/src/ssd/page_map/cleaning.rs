//! Garbage collection: the blocks with the fewest valid units are cleaned, so that there are free
//! ones.

use super::{Cleaned, Open, PageMap};

impl PageMap {
    /// Return a free block, in place of one that is full. There is always one, because cleaning
    /// stops only at two free blocks.
    pub(super) fn open(&mut self, full: u32) -> Open {
        let block = self.free.pop_front().unwrap_or(self.host.block);
        self.is_free[block as usize] = false;
        self.fewest.lower(full, self.valid[full as usize]);
        Open { block, next: 0 }
    }

    /// Return the block with the fewest valid units that can be cleaned, and how many they are. Of
    /// several the first is taken, so that the choice does not depend on how it is found.
    pub(super) fn victim(&mut self) -> Option<(u32, u32)> {
        let open = [self.host.block, self.cleaner.block];
        let is_free = &self.is_free;
        self.fewest.find(&self.valid, |block| !is_free[block as usize] && !open.contains(&block))
    }

    /// Return what must have been cleaned for the block that is open, as far as the next victim
    /// tells: in steady state all victims hold about as much valid data, and a block's worth of
    /// free units takes several of them.
    pub fn last_cleaned(&mut self) -> Option<Cleaned> {
        let (_, valid) = self.victim()?;
        let gained = self.block_units.saturating_sub(valid);
        (gained > 0).then(|| {
            let victims = f64::from(self.block_units) / f64::from(gained);
            let units = |each: u32| (f64::from(each) * victims).round() as u32;
            Cleaned { valid: units(valid), block_units: units(self.block_units) }
        })
    }

    /// Clean the blocks with the fewest valid units until two are free.
    pub(super) fn clean(&mut self) {
        while self.free.len() < 2 {
            let Some((victim, fewest)) = self.victim() else { return };
            let first = victim * self.block_units;
            for place in first..first + self.block_units {
                if let Some(unit) = self.owners.get(place) {
                    if self.cleaner.next == self.block_units {
                        self.cleaner = self.open(self.cleaner.block);
                    }
                    self.owners.set(place, None);
                    let place = self.cleaner.block * self.block_units + self.cleaner.next;
                    self.cleaner.next += 1;
                    self.put(place, unit.number());
                }
            }
            self.valid[victim as usize] = 0;
            self.erases[victim as usize] += 1;
            self.is_free[victim as usize] = true;
            self.free.push_back(victim);
            let so_far = self.cleaned.unwrap_or(Cleaned { valid: 0, block_units: 0 });
            self.cleaned = Some(Cleaned {
                valid: so_far.valid + fewest,
                block_units: so_far.block_units + self.block_units,
            });
        }
    }
}
