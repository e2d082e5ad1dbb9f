//! Filesystems: where the pages of files are on a drive, and which metadata must be read and
//! written for them.
//!
//! A filesystem model only keeps maps: it returns where a page is, which metadata block that
//! look-up needs in memory, where new pages are allocated, and what a journal commit writes. The
//! owner of the drive reads and writes, so metadata and journal pass through cache, scheduler and
//! drive like all other data.
//!
//! Sources: ext3/ext4 on-disk layout (`Documentation/filesystems/ext4`), groups of new files
//! (`fs/ext3/ialloc.c`, `fs/ext4/ialloc.c`, `fs/xfs/xfs_ialloc.c`), reservation windows
//! (`fs/ext3/balloc.c`), multi-block allocation (`fs/ext4/mballoc.c`), XFS allocation groups and
//! speculative preallocation (`fs/xfs/xfs_iomap.c`).

mod file;
mod groups;
mod inodes;
mod metadata;
mod space;
mod spec;

use rustc_hash::FxHashMap;

use file::{File, FileRun};
pub use groups::Run;
use space::Space;
pub use spec::{
    AccessTime, FilesystemKind, FilesystemSpec, NoSpace, BLOCK_BYTES, SECTORS_PER_BLOCK,
};

use crate::pagecache::PAGE_BYTES;
use crate::ranges;
use crate::request::SectorRange;
use crate::slots::make_room;

/// Pages that an ext3 inode maps directly, and pages per indirect block.
const DIRECT_PAGES: u32 = 12;
const INDIRECT_PAGES: u32 = 1024;
/// Extents per inode and per metadata block: ext4 4 and 340; xfs 9 (256-byte inode) and 254.
const INODE_EXTENTS: usize = 4;
const LEAF_EXTENTS: usize = 340;

/// A block shared by many files.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum TableBlock {
    /// A block of an inode table, by its address.
    Inodes(u64),
    /// The free-space block of a group, by its address: the bitmap of ext, or the header of an XFS
    /// allocation group with the roots of its trees.
    Free(u64),
    /// A block of group descriptors, by its index on the device.
    Descriptors(u64),
}

/// The filesystem of one device.
#[derive(Debug)]
pub struct Filesystem {
    spec: FilesystemSpec,
    sectors: u64,
    space: Space,
    files: Vec<File>,
    free_files: Vec<u32>,
    /// Location of each metadata block; the index identifies the block.
    metadata: Vec<u64>,
    /// The metadata block of each block of a group's tables.
    tables: FxHashMap<TableBlock, u32>,
    created: u32,
    journal_start: u64,
    journal_blocks: u64,
    journal_at: u64,
    seed: u64,
}

impl Filesystem {
    /// Create a filesystem of `capacity_sectors`. `seed` determines the free extents of an aged
    /// one.
    pub fn new(spec: &FilesystemSpec, capacity_sectors: u64, seed: u64) -> Self {
        let blocks = capacity_sectors / SECTORS_PER_BLOCK;
        let space = Space::new(spec, blocks, seed);
        let journal_blocks = (blocks / 64).clamp(8, 32_768);
        // mke2fs and mkfs.xfs place the journal in the middle.
        let journal_start = blocks / 2;
        Filesystem {
            spec: spec.clone(),
            sectors: capacity_sectors,
            space,
            files: Vec::new(),
            free_files: Vec::new(),
            metadata: Vec::new(),
            tables: FxHashMap::default(),
            created: 0,
            journal_start,
            journal_blocks,
            journal_at: 0,
            seed,
        }
    }

    pub fn spec(&self) -> &FilesystemSpec {
        &self.spec
    }

    /// Return whether the page cache keeps files of this filesystem in large folios, on kernels
    /// that can (ext4 since 6.16, which mounts ext3 too; XFS since 5.18).
    pub fn has_large_folios(&self) -> bool {
        self.spec.kind != FilesystemKind::Btrfs
    }

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn free_blocks(&self) -> u64 {
        self.space.free_blocks()
    }

    /// Return the sectors of the device.
    pub fn sectors(&self) -> u64 {
        self.sectors
    }

    /// Return everything stored on the device: superblock and tables, journal, metadata and files.
    pub fn stored(&self) -> Vec<SectorRange> {
        let own = [
            Run { block: 0, blocks: 1 },
            Run { block: self.journal_start, blocks: self.journal_blocks },
        ];
        let sectors = |run: Run| (run.block * SECTORS_PER_BLOCK, run.blocks * SECTORS_PER_BLOCK);
        ranges::merge(self.space.stored().chain(own).map(sectors).collect())
    }

    /// Create an empty file. Directories are used in turn.
    pub fn create(&mut self) -> u32 {
        let directory = self.created % self.spec.directories.max(1);
        self.created += 1;
        let (group, inode_number, block) = self.space.new_inode(self.spec.kind, directory);
        let inode = self.table_block(TableBlock::Inodes(block), block);
        let file = File { group, inode_number, inode, ..File::default() };
        match self.free_files.pop() {
            Some(index) => {
                self.files[index as usize] = file;
                index
            }
            None => {
                make_room(&mut self.files, 1);
                self.files.push(file);
                (self.files.len() - 1) as u32
            }
        }
    }

    /// Create a file that exists before the run, with all its pages allocated.
    pub fn create_filled(&mut self, bytes: u64) -> Result<u32, NoSpace> {
        // A file of more pages than these numbers have is larger than any volume.
        let pages = u32::try_from(bytes.div_ceil(PAGE_BYTES)).map_err(|_| NoSpace)?;
        let file = self.create();
        self.allocate(file, 0, pages)?;
        self.close(file);
        Ok(file)
    }

    /// Delete a file and free its space. Return what is to be discarded of the device: the file's
    /// data if it is mounted with `discard`.
    pub fn delete(&mut self, file: u32) -> Vec<SectorRange> {
        self.close(file);
        let gone = std::mem::take(&mut self.files[file as usize]);
        self.space.release_inode(gone.group, gone.inode_number);
        let mut freed = Vec::new();
        for run in gone.runs {
            let run = Run { block: run.block, blocks: u64::from(run.pages) };
            self.space.release(run);
            if self.spec.discard {
                freed.push((run.block * SECTORS_PER_BLOCK, run.blocks * SECTORS_PER_BLOCK));
            }
        }
        for block in gone.maps.iter().flat_map(|maps| maps.blocks()) {
            self.space.release(Run { block: self.metadata[block as usize], blocks: 1 });
        }
        self.free_files.push(file);
        ranges::merge(freed)
    }

    /// Close a file for writing and free its reserved space.
    pub fn close(&mut self, file: u32) {
        let reserved = std::mem::take(&mut self.files[file as usize].reserved);
        if reserved.blocks > 0 {
            self.space.release(reserved);
        }
    }

    /// Return how many blocks to reserve when `wanted` are needed.
    fn window(&mut self, file: u32, wanted: u64) -> u64 {
        let f = &mut self.files[file as usize];
        match self.spec.kind {
            // Reservation windows: 8 blocks, doubled as the file grows, at most 1027.
            FilesystemKind::Ext3 => {
                f.window_blocks = (f.window_blocks * 2).clamp(8, 1024);
                if wanted > 4096 {
                    // Allocated in one call before the run, as by a single writer.
                    wanted
                } else {
                    f.window_blocks
                }
            }
            // mballoc rounds up to powers of two, up to 8 MiB.
            FilesystemKind::Ext4 => {
                let size = (f.pages + wanted).next_power_of_two().clamp(4, 2048);
                wanted.max(size)
            }
            // Speculative preallocation: as much as the file already has, up to 64 MiB.
            FilesystemKind::Xfs => wanted.max(f.pages.next_power_of_two().clamp(16, 16_384)),
            FilesystemKind::Btrfs => wanted,
        }
    }

    /// Allocate blocks for the pages in `start..start + pages` that have none. Others keep their
    /// blocks (btrfs: get new ones).
    pub fn allocate(&mut self, file: u32, start: u32, pages: u32) -> Result<(), NoSpace> {
        let end = start + pages;
        let mut page = start;
        while page < end {
            if self.spec.kind != FilesystemKind::Btrfs {
                if let Some((_, there)) = self.locate(file, page) {
                    page += there.min(end - page);
                    continue;
                }
            }
            let next = self.next_placed(file, page).min(end);
            let mut until = next;
            if self.spec.kind == FilesystemKind::Ext3 {
                until = self.indirect_for(file, page)?.min(next);
            }
            while page < until {
                let run = self.take(file, u64::from(until - page))?;
                self.place(file, page, run);
                page += run.blocks as u32;
            }
        }
        if self.spec.kind != FilesystemKind::Ext3 {
            self.grow_leaves(file)?;
        }
        Ok(())
    }

    /// ext3: allocate the indirect block of `page` if needed; return the first page that it does
    /// not map.
    fn indirect_for(&mut self, file: u32, page: u32) -> Result<u32, NoSpace> {
        if page < DIRECT_PAGES {
            return Ok(DIRECT_PAGES);
        }
        let number = ((page - DIRECT_PAGES) / INDIRECT_PAGES) as usize;
        if number >= 1 && self.files[file as usize].maps().double_indirect.is_none() {
            let run = self.take(file, 1)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].maps().double_indirect = Some(block);
        }
        while self.files[file as usize].maps().indirect.len() <= number {
            let run = self.take(file, 1)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].maps().indirect.push(block);
        }
        Ok(DIRECT_PAGES + (number as u32 + 1) * INDIRECT_PAGES)
    }

    fn grow_leaves(&mut self, file: u32) -> Result<(), NoSpace> {
        let f = &self.files[file as usize];
        let needed =
            if f.runs.len() > INODE_EXTENTS { f.runs.len().div_ceil(LEAF_EXTENTS) } else { 0 };
        while self.files[file as usize].leaves().len() < needed {
            let group = self.files[file as usize].group;
            let run = self.space.take(group, 1, None)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].maps().leaves.push(block);
        }
        Ok(())
    }

    /// Allocate up to `wanted` contiguous blocks for a file.
    fn take(&mut self, file: u32, wanted: u64) -> Result<Run, NoSpace> {
        if self.files[file as usize].reserved.blocks == 0 {
            let window = self.window(file, wanted);
            let f = &self.files[file as usize];
            let goal = f.runs.last().map(|run| run.block + u64::from(run.pages));
            let run = match self.space.take(f.group, window, goal) {
                Ok(run) => run,
                Err(NoSpace) => self.space.take(f.group, 1, None)?,
            };
            self.files[file as usize].reserved = run;
        }
        let reserved = &mut self.files[file as usize].reserved;
        let blocks = wanted.min(reserved.blocks);
        let run = Run { block: reserved.block, blocks };
        reserved.block += blocks;
        reserved.blocks -= blocks;
        Ok(run)
    }

    fn place(&mut self, file: u32, page: u32, run: Run) {
        let f = &mut self.files[file as usize];
        let pages = run.blocks as u32;
        if self.spec.kind == FilesystemKind::Btrfs {
            let mut freed = Vec::new();
            cut(&mut f.runs, page, pages, &mut freed);
            freed.into_iter().for_each(|run| self.space.release(run));
        }
        let f = &mut self.files[file as usize];
        let at = f.runs.partition_point(|r| r.page < page);
        f.pages += run.blocks;
        if at > 0 {
            let before = &mut f.runs[at - 1];
            if before.page + before.pages == page
                && before.block + u64::from(before.pages) == run.block
            {
                before.pages += pages;
                return;
            }
        }
        f.runs.insert(at, FileRun { page, block: run.block, pages });
    }

    fn next_placed(&self, file: u32, page: u32) -> u32 {
        if self.spec.kind == FilesystemKind::Btrfs {
            return u32::MAX;
        }
        let runs = &self.files[file as usize].runs;
        runs.get(runs.partition_point(|r| r.page <= page)).map_or(u32::MAX, |r| r.page)
    }

    /// Return the first sector of `page` and the number of contiguous pages from there; `None` for
    /// a hole.
    pub fn locate(&self, file: u32, page: u32) -> Option<(u64, u32)> {
        let runs = &self.files[file as usize].runs;
        let run = &runs[runs.partition_point(|r| r.page <= page).checked_sub(1)?];
        let offset = page - run.page;
        (offset < run.pages)
            .then(|| ((run.block + u64::from(offset)) * SECTORS_PER_BLOCK, run.pages - offset))
    }

    /// Return the number of contiguous pieces of the file.
    pub fn fragments(&self, file: u32) -> usize {
        self.files[file as usize].runs.len()
    }

    /// Return the location of a commit of `blocks` metadata blocks, as first sector and number of
    /// sectors, including descriptor and commit blocks. XFS logs changes, not blocks: one eighth of
    /// the space (an assumption: 512 B per block).
    pub fn journal_write(&mut self, blocks: u64) -> (u64, u32) {
        let blocks = match self.spec.kind {
            FilesystemKind::Ext3 | FilesystemKind::Ext4 => blocks + 2,
            FilesystemKind::Xfs => blocks.div_ceil(8) + 1,
            // Tree nodes of 16 KiB, written twice (metadata profile DUP), plus the superblock.
            FilesystemKind::Btrfs => blocks * 8 + 1,
        };
        let blocks = blocks.min(self.journal_blocks);
        if self.journal_at + blocks > self.journal_blocks {
            self.journal_at = 0;
        }
        let at = self.journal_start + self.journal_at;
        self.journal_at += blocks;
        (at * SECTORS_PER_BLOCK, (blocks * SECTORS_PER_BLOCK) as u32)
    }
}

/// Remove pages `page..page + pages` from the runs and add their blocks to `freed`.
fn cut(runs: &mut Vec<FileRun>, page: u32, pages: u32, freed: &mut Vec<Run>) {
    let end = page + pages;
    let mut kept = Vec::with_capacity(runs.len() + 1);
    for run in runs.drain(..) {
        let (from, to) = (run.page.max(page), (run.page + run.pages).min(end));
        if from >= to {
            kept.push(run);
            continue;
        }
        freed.push(Run {
            block: run.block + u64::from(from - run.page),
            blocks: u64::from(to - from),
        });
        if run.page < from {
            kept.push(FileRun { pages: from - run.page, ..run });
        }
        if to < run.page + run.pages {
            let skipped = to - run.page;
            kept.push(FileRun {
                page: to,
                block: run.block + u64::from(skipped),
                pages: run.pages - skipped,
            });
        }
    }
    *runs = kept;
}

#[cfg(test)]
mod tests;
