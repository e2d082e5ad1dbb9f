//! Free space of a filesystem: groups of blocks, each with a moving allocation pointer and a list
//! of freed extents. `groups.rs` holds them; `inodes.rs` chooses the group of a new file.

use super::groups::{Group, Groups, Run};
use super::spec::{FilesystemKind, FilesystemSpec, NoSpace, BLOCK_BYTES};

/// Blocks per bitmap block.
const GROUP_BLOCKS: u64 = 32_768;

#[derive(Debug)]
pub(super) struct Space {
    pub(super) groups: Groups,
    pub(super) directory_groups: Vec<usize>,
    free_extent_blocks: f64,
    used_extent_blocks: f64,
    free: u64,
}

impl Space {
    pub(super) fn new(spec: &FilesystemSpec, blocks: u64, seed: u64) -> Self {
        // ext: block groups of 128 MiB with metadata at their start (ext4 packs that of 16 groups:
        // flex_bg). XFS: four large allocation groups, at most 1 TiB each.
        let (group_blocks, table_blocks) = match spec.kind {
            FilesystemKind::Ext3 => (GROUP_BLOCKS, 514),
            FilesystemKind::Ext4 => (GROUP_BLOCKS * 16, 514 * 16),
            FilesystemKind::Xfs => ((blocks / 4).clamp(4096, 1 << 28), 16),
            FilesystemKind::Btrfs => (262_144, 0),
        };
        let free_extent_blocks = (spec.free_extent_bytes / BLOCK_BYTES) as f64;
        let used = spec.used_fraction.clamp(0.0, 0.98);
        let aged = spec.free_extent_bytes > 0;
        let groups = Groups::new(blocks, group_blocks, table_blocks, aged, seed);
        let directories = spec.directories.max(1) as usize;
        let first = (spec.start_fraction.clamp(0.0, 0.999) * groups.len() as f64) as usize;
        // Directories are spread over the remaining groups (Orlov; XFS rotates over its allocation
        // groups).
        let directory_groups =
            (0..directories).map(|d| first + d * (groups.len() - first) / directories).collect();
        let free = groups.blocks_for_files();
        let free = if aged { (free as f64 * (1.0 - used)) as u64 } else { free };
        Space {
            groups,
            directory_groups,
            free_extent_blocks,
            used_extent_blocks: free_extent_blocks * used / (1.0 - used),
            free,
        }
    }

    pub(super) fn free_blocks(&self) -> u64 {
        self.free
    }

    /// Return the 128 MiB group of a block (XFS: the allocation group) and the block that tracks
    /// its free blocks. ext4 packs the bitmaps of 16 groups at the start of the first. `None` for
    /// btrfs: its trees count when they are written.
    pub(super) fn account_of(&self, kind: FilesystemKind, block: u64) -> Option<(u64, u64)> {
        let number = self.groups.holding(block);
        let start = self.groups.start(number);
        match kind {
            FilesystemKind::Ext3 | FilesystemKind::Ext4 => {
                Some((block / GROUP_BLOCKS, start + (block - start) / GROUP_BLOCKS))
            }
            FilesystemKind::Xfs => Some((number as u64, start)),
            FilesystemKind::Btrfs => None,
        }
    }

    /// Return the used blocks in order: tables, files, and other files of an aged filesystem. Of
    /// the latter only the amount is known where no space has been allocated yet; it is placed at
    /// the end of each group.
    pub(super) fn stored(&self) -> impl Iterator<Item = Run> + '_ {
        let used =
            self.used_extent_blocks / (self.used_extent_blocks + self.free_extent_blocks).max(1.0);
        let of_group = move |group: &Group| {
            let mut from = group.start;
            let mut stored = Vec::with_capacity(group.returned.len() + 2);
            for free in group.returned.iter().filter(|free| free.block < group.open.block) {
                stored.push(Run { block: from, blocks: free.block.saturating_sub(from) });
                from = free.block + free.blocks;
            }
            stored.push(Run { block: from, blocks: group.open.block.saturating_sub(from) });
            let untouched = group.end.saturating_sub(group.open.block + group.open.blocks);
            let of_others = (untouched as f64 * used) as u64;
            stored.push(Run { block: group.end - of_others, blocks: of_others });
            stored
        };
        (0..self.groups.len()).flat_map(move |number| self.groups.read(number, of_group))
    }

    /// Return whether the group has a free block (aged: whether it may have unallocated holes).
    pub(super) fn has_free_blocks(&self, number: usize) -> bool {
        self.groups.read(number, |group| {
            group.open.blocks > 0
                || !group.returned.is_empty()
                || (self.free_extent_blocks > 0.0 && group.open.block < group.end)
        })
    }

    /// Allocate up to `wanted` contiguous blocks: at `goal` if free, else in the file's group, else
    /// in later groups.
    pub(super) fn take(
        &mut self,
        group: usize,
        wanted: u64,
        goal: Option<u64>,
    ) -> Result<Run, NoSpace> {
        let home = match goal {
            Some(block) => self.groups.holding(block),
            None => group,
        };
        for step in 0..self.groups.len() {
            let number = (home + step) % self.groups.len();
            if let Some(run) = self.take_in(number, wanted, goal.filter(|_| step == 0)) {
                self.free = self.free.saturating_sub(run.blocks);
                return Ok(run);
            }
        }
        Err(NoSpace)
    }

    fn take_in(&mut self, number: usize, wanted: u64, goal: Option<u64>) -> Option<Run> {
        let group = self.groups.change(number);
        if let Some(goal) = goal {
            if group.open.blocks > 0 && group.open.block == goal {
                return Some(take_front(&mut group.open, wanted));
            }
            if let Some(at) = group.returned.iter().position(|r| r.block == goal) {
                return Some(take_returned(&mut group.returned, at, wanted));
            }
        }
        // First a freed extent that holds everything (first fit), then unused space, then the
        // largest freed extent.
        if let Some(at) = group.returned.iter().position(|r| r.blocks >= wanted) {
            return Some(take_returned(&mut group.returned, at, wanted));
        }
        while group.open.blocks == 0
            && self.free_extent_blocks > 0.0
            && group.open.block < group.end
        {
            let gap = group.holes.exponential(self.used_extent_blocks.max(1.0)) as u64 + 1;
            let length = group.holes.exponential(self.free_extent_blocks) as u64 + 1;
            let block = group.open.block + gap;
            let blocks = length.min(group.end.saturating_sub(block));
            group.open = Run { block: block.min(group.end), blocks };
        }
        if group.open.blocks > 0 {
            return Some(take_front(&mut group.open, wanted));
        }
        let (at, _) = group.returned.iter().enumerate().max_by_key(|(_, r)| r.blocks)?;
        Some(take_returned(&mut group.returned, at, wanted))
    }

    /// Free blocks and join them with adjacent free extents.
    pub(super) fn release(&mut self, run: Run) {
        self.free += run.blocks;
        let number = self.groups.holding(run.block);
        let group = self.groups.change(number);
        if run.block + run.blocks == group.open.block && group.open.blocks > 0 {
            group.open = Run { block: run.block, blocks: run.blocks + group.open.blocks };
            return;
        }
        let list = &mut group.returned;
        let at = list.partition_point(|r| r.block < run.block);
        list.insert(at, run);
        if at + 1 < list.len() && list[at].block + list[at].blocks == list[at + 1].block {
            list[at].blocks += list[at + 1].blocks;
            list.remove(at + 1);
        }
        if at > 0 && list[at - 1].block + list[at - 1].blocks == list[at].block {
            list[at - 1].blocks += list[at].blocks;
            list.remove(at);
        }
    }
}

fn take_front(run: &mut Run, wanted: u64) -> Run {
    let taken = Run { block: run.block, blocks: wanted.min(run.blocks) };
    run.block += taken.blocks;
    run.blocks -= taken.blocks;
    taken
}

fn take_returned(list: &mut Vec<Run>, at: usize, wanted: u64) -> Run {
    let taken = take_front(&mut list[at], wanted);
    if list[at].blocks == 0 {
        list.remove(at);
    }
    taken
}
