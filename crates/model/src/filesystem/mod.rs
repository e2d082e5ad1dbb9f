//! Filesystems: where the pages of files lie on a drive, and which metadata has to be read and written for them.
//!
//! A filesystem here is a map and an accountant: it answers where a page is, which metadata block must be in memory
//! to know that, where new pages go, and what a journal commit writes. Reading and writing is done by whoever holds
//! the drive, so metadata and journal go through cache, scheduler and drive like everything else.
//!
//! Sources: ext3/ext4 on-disk layout (`Documentation/filesystems/ext4`), groups of new files (`fs/ext3/ialloc.c`,
//! `fs/ext4/ialloc.c`, `fs/xfs/xfs_ialloc.c`), reservation windows (`fs/ext3/balloc.c`), multi-block allocation
//! (`fs/ext4/mballoc.c`), XFS allocation groups and speculative preallocation (`fs/xfs/xfs_iomap.c`).

mod inodes;
mod metadata;
mod space;

use std::collections::HashMap;

use serde::{Deserialize, Serialize};

use metadata::TableBlock;
pub use space::Run;
use space::Space;

use crate::pagecache::PAGE_BYTES;

/// Blocks of all filesystems here are as large as pages.
pub const BLOCK_BYTES: u64 = PAGE_BYTES;
/// 512-byte sectors of a block.
pub const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / crate::SECTOR_BYTES;

/// Which filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemKind {
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
}

/// When reading a file changes its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessTime {
    /// Every read does, once a second at most (the default before 2.6.30).
    Strict,
    /// The first read after a change, or after a day.
    Relative,
    Never,
}

/// A filesystem and the state it is found in.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemSpec {
    pub kind: FilesystemKind,
    /// Mean length of a free extent; 0 for a fresh filesystem, whose space is in one piece a group.
    #[serde(default)]
    pub free_extent_bytes: u64,
    /// Share of the space that other files hold, spread over it (only with `free_extent_bytes`).
    #[serde(default)]
    pub used_fraction: f64,
    /// Where on the device, as a share of its length, the first directory lies.
    #[serde(default)]
    pub start_fraction: f64,
    /// Directories that the files are spread over; each has a group (ext) or allocation group (xfs) of its own.
    #[serde(default = "one")]
    pub directories: u32,
    #[serde(default = "relative")]
    pub access_time: AccessTime,
    /// Journal commits end with a cache flush (`barrier=1`); ext3 did not by default.
    #[serde(default)]
    pub barrier: Option<bool>,
    /// Seconds between commits; the kernel's default of each filesystem where not given.
    #[serde(default)]
    pub commit_interval_ns: Option<u64>,
}

fn one() -> u32 {
    1
}

fn relative() -> AccessTime {
    AccessTime::Relative
}

impl FilesystemSpec {
    pub fn fresh(kind: FilesystemKind) -> Self {
        FilesystemSpec {
            kind,
            free_extent_bytes: 0,
            used_fraction: 0.0,
            start_fraction: 0.0,
            directories: 1,
            access_time: AccessTime::Relative,
            barrier: None,
            commit_interval_ns: None,
        }
    }

    pub fn barrier(&self) -> bool {
        self.barrier.unwrap_or(self.kind != FilesystemKind::Ext3)
    }

    pub fn commit_interval_ns(&self) -> u64 {
        self.commit_interval_ns.unwrap_or(match self.kind {
            FilesystemKind::Ext3 | FilesystemKind::Ext4 => 5_000_000_000,
            FilesystemKind::Xfs | FilesystemKind::Btrfs => 30_000_000_000,
        })
    }
}

/// There is no room for that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;

/// Pages of a file that lie in a row.
#[derive(Clone, Copy, Debug)]
struct FileRun {
    page: u32,
    block: u64,
    pages: u32,
}

#[derive(Clone, Debug, Default)]
struct File {
    runs: Vec<FileRun>,
    /// Where its inode lies, and its first block is looked for.
    group: usize,
    inode_number: u32,
    /// The metadata block that holds the inode.
    inode: u32,
    /// ext3: the indirect blocks, by 4 MiB of file; the double-indirect one comes with the second.
    indirect: Vec<u32>,
    double_indirect: Option<u32>,
    /// ext4, xfs, btrfs: metadata blocks that list the extents which do not fit into the inode.
    leaves: Vec<u32>,
    /// Space set aside behind the last allocation.
    reserved: Run,
    window_blocks: u64,
    pages: u64,
}

/// Pages an ext3 inode maps by itself, and pages an indirect block maps.
const DIRECT_PAGES: u32 = 12;
const INDIRECT_PAGES: u32 = 1024;
/// Extents that fit into the inode, and into a metadata block: ext4 4 and 340; xfs 9 (256-byte inode) and 254.
const INODE_EXTENTS: usize = 4;
const LEAF_EXTENTS: usize = 340;
/// The filesystem of one device.
#[derive(Debug)]
pub struct Filesystem {
    spec: FilesystemSpec,
    space: Space,
    files: Vec<File>,
    free_files: Vec<u32>,
    /// Where each metadata block lies; metadata is named by its number here.
    metadata: Vec<u64>,
    /// The metadata block that stands for a block of a group's tables.
    tables: HashMap<TableBlock, u32>,
    created: u32,
    journal_start: u64,
    journal_blocks: u64,
    journal_at: u64,
    seed: u64,
}

impl Filesystem {
    /// A filesystem over that many sectors; `seed` decides where the holes of an aged one are.
    pub fn new(spec: &FilesystemSpec, capacity_sectors: u64, seed: u64) -> Self {
        let blocks = capacity_sectors / SECTORS_PER_BLOCK;
        let space = Space::new(spec, blocks, seed);
        let journal_blocks = (blocks / 64).clamp(8, 32_768);
        // mke2fs and mkfs.xfs put the journal in the middle.
        let journal_start = blocks / 2;
        Filesystem {
            spec: spec.clone(),
            space,
            files: Vec::new(),
            free_files: Vec::new(),
            metadata: Vec::new(),
            tables: HashMap::new(),
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

    pub fn seed(&self) -> u64 {
        self.seed
    }

    pub fn free_blocks(&self) -> u64 {
        self.space.free_blocks()
    }

    /// A new, empty file. Files go to the directories in turn.
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
                self.files.push(file);
                (self.files.len() - 1) as u32
            }
        }
    }

    /// A file that was there before the run, with all its pages.
    pub fn create_filled(&mut self, bytes: u64) -> Result<u32, NoSpace> {
        let file = self.create();
        self.allocate(file, 0, bytes.div_ceil(PAGE_BYTES) as u32)?;
        self.close(file);
        Ok(file)
    }

    /// Gives the file's space back.
    pub fn delete(&mut self, file: u32) {
        self.close(file);
        let gone = std::mem::take(&mut self.files[file as usize]);
        self.space.release_inode(gone.group, gone.inode_number);
        for run in gone.runs {
            self.space.release(Run { block: run.block, blocks: u64::from(run.pages) });
        }
        for block in gone.indirect.into_iter().chain(gone.double_indirect).chain(gone.leaves) {
            self.space.release(Run { block: self.metadata[block as usize], blocks: 1 });
        }
        self.free_files.push(file);
    }

    /// The writer is done: what was set aside for it is free again.
    pub fn close(&mut self, file: u32) {
        let reserved = std::mem::take(&mut self.files[file as usize].reserved);
        if reserved.blocks > 0 {
            self.space.release(reserved);
        }
    }

    /// Blocks to set aside at once when `wanted` are needed.
    fn window(&mut self, file: u32, wanted: u64) -> u64 {
        let f = &mut self.files[file as usize];
        match self.spec.kind {
            // Reservation windows: 8 blocks, doubled while the file is written on, 1027 at most.
            FilesystemKind::Ext3 => {
                f.window_blocks = (f.window_blocks * 2).clamp(8, 1024);
                if wanted > 4096 {
                    // Written in one go before the run: as if alone.
                    wanted
                } else {
                    f.window_blocks
                }
            }
            // mballoc normalises to powers of two, up to 8 MiB.
            FilesystemKind::Ext4 => {
                let size = (f.pages + wanted).next_power_of_two().clamp(4, 2048);
                wanted.max(size)
            }
            // Speculative preallocation: as much again as the file has, up to 64 MiB.
            FilesystemKind::Xfs => wanted.max(f.pages.next_power_of_two().clamp(16, 16_384)),
            FilesystemKind::Btrfs => wanted,
        }
    }

    /// Gives pages `start..start + pages` that have none a place. Pages that have one keep it (btrfs: get a new one).
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

    /// ext3: makes sure the indirect block of `page` has a place; returns the first page that it does not map.
    fn indirect_for(&mut self, file: u32, page: u32) -> Result<u32, NoSpace> {
        if page < DIRECT_PAGES {
            return Ok(DIRECT_PAGES);
        }
        let number = ((page - DIRECT_PAGES) / INDIRECT_PAGES) as usize;
        if number >= 1 && self.files[file as usize].double_indirect.is_none() {
            let run = self.take(file, 1)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].double_indirect = Some(block);
        }
        while self.files[file as usize].indirect.len() <= number {
            let run = self.take(file, 1)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].indirect.push(block);
        }
        Ok(DIRECT_PAGES + (number as u32 + 1) * INDIRECT_PAGES)
    }

    fn grow_leaves(&mut self, file: u32) -> Result<(), NoSpace> {
        let f = &self.files[file as usize];
        let needed = if f.runs.len() > INODE_EXTENTS { f.runs.len().div_ceil(LEAF_EXTENTS) } else { 0 };
        while self.files[file as usize].leaves.len() < needed {
            let group = self.files[file as usize].group;
            let run = self.space.take(group, 1, None)?;
            let block = self.new_metadata(run.block);
            self.files[file as usize].leaves.push(block);
        }
        Ok(())
    }

    /// Up to `wanted` blocks in a row for that file.
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
            if before.page + before.pages == page && before.block + u64::from(before.pages) == run.block {
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

    /// Where `page` lies (first sector) and how many pages from it on lie in a row; `None` for a hole.
    pub fn locate(&self, file: u32, page: u32) -> Option<(u64, u32)> {
        let runs = &self.files[file as usize].runs;
        let run = &runs[runs.partition_point(|r| r.page <= page).checked_sub(1)?];
        let offset = page - run.page;
        (offset < run.pages)
            .then(|| ((run.block + u64::from(offset)) * SECTORS_PER_BLOCK, run.pages - offset))
    }

    /// Pieces the file lies in.
    pub fn fragments(&self, file: u32) -> usize {
        self.files[file as usize].runs.len()
    }

    /// Where a commit of `blocks` metadata blocks goes: first sector and number of sectors, its descriptor and commit
    /// blocks included. XFS logs changes, not blocks: an eighth of the space (an assumption: 512 B a block).
    pub fn journal_write(&mut self, blocks: u64) -> (u64, u32) {
        let blocks = match self.spec.kind {
            FilesystemKind::Ext3 | FilesystemKind::Ext4 => blocks + 2,
            FilesystemKind::Xfs => blocks.div_ceil(8) + 1,
            // Tree nodes of 16 KiB, written twice (metadata profile DUP), and the superblock.
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

/// Takes pages `page..page + pages` out of the runs; their blocks go to `freed`.
fn cut(runs: &mut Vec<FileRun>, page: u32, pages: u32, freed: &mut Vec<Run>) {
    let end = page + pages;
    let mut kept = Vec::with_capacity(runs.len() + 1);
    for run in runs.drain(..) {
        let (from, to) = (run.page.max(page), (run.page + run.pages).min(end));
        if from >= to {
            kept.push(run);
            continue;
        }
        freed.push(Run { block: run.block + u64::from(from - run.page), blocks: u64::from(to - from) });
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
