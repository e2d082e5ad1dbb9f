//! Block-mapped flash translation with a few log blocks.
//!
//! A write goes to the log block of its block. When all log blocks are in use, the least recently
//! used one is merged: a switch merge if it was written in order to its end, a partial merge if in
//! order but not to its end, otherwise a full merge that copies the whole block. (Kim et al., "A
//! space-efficient flash translation layer for CompactFlash systems", 2002.) With many streams of
//! small writes, every write costs a whole block.

/// Cost of a merge, in units of the mapping and in blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Merge {
    pub copied_units: u64,
    pub erased_blocks: u64,
}

#[derive(Clone, Copy)]
struct Log {
    block: u64,
    used: u64,
    in_order: bool,
    last_use: u64,
}

pub struct LogBlocks {
    block_units: u64,
    logs: Vec<Log>,
    capacity: usize,
    /// Which blocks hold data.
    written: Vec<bool>,
    clock: u64,
    host_units: u64,
    flash_units: u64,
}

impl LogBlocks {
    /// Create the map; `filled` is the share of blocks that hold data initially.
    pub fn new(units: u64, block_units: u64, log_blocks: u32, filled: f64) -> Self {
        let blocks = units.div_ceil(block_units);
        let full = (blocks as f64 * filled) as u64;
        LogBlocks {
            block_units,
            logs: Vec::with_capacity(log_blocks as usize),
            capacity: log_blocks as usize,
            written: (0..blocks).map(|block| block < full).collect(),
            clock: 0,
            host_units: 0,
            flash_units: 0,
        }
    }

    pub fn block_units(&self) -> u64 {
        self.block_units
    }

    pub fn holds(&self, unit: u64) -> bool {
        let block = unit / self.block_units;
        self.written[block as usize] || self.logs.iter().any(|log| log.block == block)
    }

    /// Write a unit; return the merge that it required, if any.
    pub fn write(&mut self, unit: u64) -> Option<Merge> {
        let (block, offset) = (unit / self.block_units, unit % self.block_units);
        self.clock += 1;
        self.host_units += 1;
        self.flash_units += 1;
        let mut merge = None;
        let mut index = self.logs.iter().position(|log| log.block == block);
        if let Some(full) = index.filter(|&index| self.logs[index].used == self.block_units) {
            merge = Some(self.merge(full));
            index = None;
        }
        if index.is_none() && self.logs.len() == self.capacity {
            let uses = self.logs.iter().map(|log| log.last_use).enumerate();
            if let Some((oldest, _)) = uses.min_by_key(|&(_, last_use)| last_use) {
                merge = Some(self.merge(oldest));
            }
        }
        let index = index.unwrap_or_else(|| {
            self.logs.push(Log { block, used: 0, in_order: true, last_use: 0 });
            self.logs.len() - 1
        });
        let log = &mut self.logs[index];
        log.in_order &= offset == log.used;
        log.used += 1;
        log.last_use = self.clock;
        merge
    }

    fn merge(&mut self, index: usize) -> Merge {
        let log = self.logs.swap_remove(index);
        let held = std::mem::replace(&mut self.written[log.block as usize], true);
        let copied_units = match (log.in_order, held) {
            (true, true) => self.block_units - log.used,
            (true, false) => 0,
            (false, true) => self.block_units,
            (false, false) => log.used,
        };
        self.flash_units += copied_units;
        // The old block is erased, and the log block too unless it replaces the block.
        let erased_blocks = u64::from(held) + u64::from(!log.in_order);
        Merge { copied_units, erased_blocks }
    }

    pub fn discard(&mut self, first: u64, end: u64) {
        for block in first.div_ceil(self.block_units)..end / self.block_units {
            self.written[block as usize] = false;
            self.logs.retain(|log| log.block != block);
        }
    }

    /// Store units from `first` to `end` (exclusive): mark their blocks as holding data.
    pub fn preload(&mut self, first: u64, end: u64) {
        let blocks = (first / self.block_units) as usize..end.div_ceil(self.block_units) as usize;
        self.written[blocks].fill(true);
    }

    pub fn written(&self) -> (u64, u64) {
        (self.flash_units, self.host_units)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_order_costs_nothing_at_random_costs_blocks() {
        let mut log_blocks = LogBlocks::new(64 * 512, 512, 4, 1.0);
        for unit in 0..64 * 512 {
            log_blocks.write(unit);
        }
        assert_eq!(log_blocks.written(), (64 * 512, 64 * 512));
        // Five streams at random places with four log blocks: each write copies a block.
        let merges = (0..100).filter_map(|i| log_blocks.write((i % 5) * 512 + 7));
        let copied: u64 = merges.map(|merge| merge.copied_units).sum();
        assert!(copied > 90 * 500, "{copied}");
    }
}
