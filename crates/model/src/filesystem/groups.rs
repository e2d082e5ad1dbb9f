//! The block groups of a filesystem.
//!
//! A group takes memory once it is changed: a node of a cluster writes to a few of hundreds.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use crate::stream::Stream;

/// Groups that are made together, so that the list of those made is short.
const TOGETHER: usize = 8;

/// Contiguous blocks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Run {
    pub block: u64,
    pub blocks: u64,
}

/// Inodes of a group. The lowest free one is allocated.
#[derive(Debug, Default)]
pub(super) struct InodeTable {
    pub(super) used: u32,
    pub(super) freed: BinaryHeap<Reverse<u32>>,
}

#[derive(Debug)]
pub(super) struct Group {
    pub(super) start: u64,
    pub(super) end: u64,
    /// Metadata blocks at the start of the group: bitmaps and inode table.
    pub(super) table: u64,
    pub(super) inodes: InodeTable,
    /// The free extent used for current allocations.
    pub(super) open: Run,
    /// Freed extents, sorted by address.
    pub(super) returned: Vec<Run>,
    pub(super) holes: Stream,
}

/// The groups, in the order of their blocks.
#[derive(Debug)]
pub(super) struct Groups {
    /// Blocks of the device, and of each group but the last.
    blocks: u64,
    group_blocks: u64,
    table_blocks: u64,
    /// Free extents of an aged filesystem are drawn one after the other.
    aged: bool,
    seed: u64,
    len: usize,
    made: Vec<Option<Box<[Group; TOGETHER]>>>,
}

impl Groups {
    pub(super) fn new(
        blocks: u64,
        group_blocks: u64,
        table_blocks: u64,
        aged: bool,
        seed: u64,
    ) -> Self {
        // The last group has room for its table and 64 blocks more.
        let len = blocks.saturating_sub(table_blocks + 64).div_ceil(group_blocks) as usize;
        let made = (0..len.div_ceil(TOGETHER)).map(|_| None).collect();
        Groups { blocks, group_blocks, table_blocks, aged, seed, len, made }
    }

    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Return the blocks of all groups without their tables.
    pub(super) fn blocks_for_files(&self) -> u64 {
        self.start(self.len).min(self.blocks) - self.len as u64 * self.table_blocks
    }

    /// Return the first block of a group.
    pub(super) fn start(&self, number: usize) -> u64 {
        number as u64 * self.group_blocks
    }

    /// Return the number of the group that holds a block.
    pub(super) fn holding(&self, block: u64) -> usize {
        ((block / self.group_blocks) as usize).min(self.len.saturating_sub(1))
    }

    /// Return a group as it is before its first change.
    fn fresh(&self, number: usize) -> Group {
        let start = self.start(number);
        let end = (start + self.group_blocks).min(self.blocks);
        let table = self.table_blocks;
        let free = if self.aged { 0 } else { end.saturating_sub(start + table) };
        Group {
            start,
            end,
            table,
            inodes: InodeTable::default(),
            open: Run { block: start + table, blocks: free },
            returned: Vec::new(),
            holes: Stream::numbered(self.seed, "filesystem/holes", number as u64),
        }
    }

    /// Return what `look` finds in a group.
    pub(super) fn read<R>(&self, number: usize, look: impl FnOnce(&Group) -> R) -> R {
        match &self.made[number / TOGETHER] {
            Some(groups) => look(&groups[number % TOGETHER]),
            None => look(&self.fresh(number)),
        }
    }

    /// Return a group to change it.
    pub(super) fn change(&mut self, number: usize) -> &mut Group {
        let place = number / TOGETHER;
        let groups = match self.made[place].take() {
            Some(groups) => groups,
            None => Box::new(std::array::from_fn(|at| self.fresh(place * TOGETHER + at))),
        };
        &mut self.made[place].insert(groups)[number % TOGETHER]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_the_same_before_and_after_they_are_made() {
        let mut groups = Groups::new(100_000, 4096, 16, false, 7);
        assert_eq!((groups.len(), groups.holding(99_999)), (25, 24));
        let look = |group: &Group| (group.start, group.end, group.open, group.returned.len());
        let before: Vec<_> = (0..25).map(|number| groups.read(number, look)).collect();
        groups.change(3).open.block += 1;
        let made = groups.made.iter().flatten().count();
        assert_eq!(made, 1);
        for (number, expected) in before.iter().enumerate().filter(|(number, _)| *number != 3) {
            assert_eq!(groups.read(number, look), *expected);
        }
        assert_eq!(groups.read(3, |group| group.open.block), before[3].2.block + 1);
        let free: u64 = before.iter().map(|(start, end, ..)| end - start - 16).sum();
        assert_eq!(groups.blocks_for_files(), free);
    }
}
