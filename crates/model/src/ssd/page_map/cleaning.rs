//! Garbage collection: the blocks with the fewest valid units are cleaned, so that there are free
//! ones.

use super::{Cleaned, Open, PageMap};

/// Blocks that are judged at once in the search for one to clean: most groups have none with fewer
/// valid units than the groups before, and a minimum without branches is fast.
const SCAN_BLOCKS: usize = 64;

impl PageMap {
    /// Return a free block. There is always one, because cleaning stops only at two free blocks.
    pub(super) fn open(&mut self) -> Open {
        let block = self.free.pop_front().unwrap_or(self.host.block);
        self.is_free[block as usize] = false;
        Open { block, next: 0 }
    }

    /// Return the block with the fewest valid units that can be cleaned (the first of these), and
    /// how many they are.
    pub(super) fn victim(&self) -> Option<(u32, u32)> {
        let (mut victim, mut fewest) = (None, u32::MAX);
        let chunks = self.valid.chunks(SCAN_BLOCKS).zip(self.is_free.chunks(SCAN_BLOCKS));
        for (number, (valid, free)) in chunks.enumerate() {
            if fewest_used(valid, free) >= fewest {
                continue;
            }
            let blocks = valid.iter().zip(free);
            for (block, (&valid, &free)) in (number * SCAN_BLOCKS..).zip(blocks) {
                let block = block as u32;
                let open = block == self.host.block || block == self.cleaner.block;
                if valid < fewest && !free && !open {
                    fewest = valid;
                    victim = Some((block, valid));
                }
            }
        }
        victim
    }

    /// Clean the blocks with the fewest valid units until two are free.
    pub(super) fn clean(&mut self) {
        while self.free.len() < 2 {
            let Some((victim, fewest)) = self.victim() else { return };
            let first = victim * self.block_units;
            for place in first..first + self.block_units {
                if let Some(unit) = self.owners.get(place) {
                    if self.cleaner.next == self.block_units {
                        self.cleaner = self.open();
                    }
                    self.owners.set(place, None);
                    let mut open = self.cleaner;
                    self.put(&mut open, unit.number());
                    self.cleaner = open;
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

/// Return the least number of valid units of the blocks that are not free. Several minima side by
/// side let the compiler use vector instructions.
#[inline]
fn fewest_used(valid: &[u32], free: &[bool]) -> u32 {
    const LANES: usize = 8;
    let mut least = [u32::MAX; LANES];
    // All bits are set in the number of a free block.
    let number = |valid: u32, free: bool| valid | u32::from(free).wrapping_neg();
    let (groups, group_free) = (valid.chunks_exact(LANES), free.chunks_exact(LANES));
    let rest = groups.remainder().iter().zip(group_free.remainder());
    let least_of_rest = rest.map(|(&valid, &free)| number(valid, free)).min();
    for (valid, free) in groups.zip(group_free) {
        for lane in 0..LANES {
            least[lane] = least[lane].min(number(valid[lane], free[lane]));
        }
    }
    least.into_iter().chain(least_of_rest).fold(u32::MAX, u32::min)
}
