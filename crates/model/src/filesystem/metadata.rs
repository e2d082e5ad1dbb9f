//! Metadata blocks: which must be read to find a page, and which change when a file grows. Each has
//! a number that identifies it in the cache and the journal.

use super::inodes::INODES_PER_BLOCK;
use super::{Filesystem, TableBlock, DIRECT_PAGES, INDIRECT_PAGES, LEAF_EXTENTS};
use super::{FilesystemKind, SECTORS_PER_BLOCK};

/// Descriptors of 32 bytes per block.
const DESCRIPTORS_PER_BLOCK: u64 = 128;

impl Filesystem {
    pub(super) fn new_metadata(&mut self, block: u64) -> u32 {
        self.metadata.push(block);
        (self.metadata.len() - 1) as u32
    }

    /// Return the number of a table block, which is at address `block`.
    pub(super) fn table_block(&mut self, table: TableBlock, block: u64) -> u32 {
        match self.tables.get(&table) {
            Some(&number) => number,
            None => {
                let number = self.new_metadata(block);
                self.tables.insert(table, number);
                number
            }
        }
    }

    /// Return the metadata blocks needed to find `page`, in read order, and the first page that
    /// needs others.
    pub fn metadata_for(&self, file: u32, page: u32) -> (impl Iterator<Item = u32>, u32) {
        let f = &self.files[file as usize];
        let (first, second, until) = match self.spec.kind {
            FilesystemKind::Ext3 if page < DIRECT_PAGES => (None, None, DIRECT_PAGES),
            FilesystemKind::Ext3 => {
                let number = (page - DIRECT_PAGES) / INDIRECT_PAGES;
                let until = DIRECT_PAGES + (number + 1) * INDIRECT_PAGES;
                let maps = f.maps.as_deref();
                let double = maps.filter(|_| number > 0).and_then(|maps| maps.double_indirect);
                (double, maps.and_then(|maps| maps.indirect.get(number as usize)).copied(), until)
            }
            _ if f.leaves().is_empty() => (None, None, u32::MAX),
            _ => {
                let at = f.runs.partition_point(|r| r.page <= page).saturating_sub(1);
                let leaf = at / LEAF_EXTENTS;
                let until = f.runs.get((leaf + 1) * LEAF_EXTENTS).map_or(u32::MAX, |r| r.page);
                (None, f.leaves().get(leaf).copied(), until)
            }
        };
        (first.into_iter().chain(second), until)
    }

    /// Return the metadata block with the file's inode, which is read at open and dirtied by
    /// changes.
    pub fn inode(&self, file: u32) -> u32 {
        self.files[file as usize].inode
    }

    /// Return whether the file's inode is the first in its block, so that the block was unused
    /// before.
    pub fn is_first_of_its_block(&self, file: u32) -> bool {
        self.files[file as usize].inode_number.is_multiple_of(INODES_PER_BLOCK)
    }

    /// Return the metadata blocks that change when pages up to `page` are added: the inode, the
    /// blocks that map the page, and the free-space accounting of the group (ext: the bitmap and
    /// the block with the group descriptor).
    pub fn dirtied_by_growth(&mut self, file: u32, page: u32) -> impl Iterator<Item = u32> {
        let mut changed = [None; 5];
        let (map, _) = self.metadata_for(file, page);
        map.zip(&mut changed[1..3]).for_each(|(block, slot)| *slot = Some(block));
        changed[0] = Some(self.inode(file));
        if let Some((sector, _)) = self.locate(file, page) {
            let block = sector / SECTORS_PER_BLOCK;
            if let Some((group, account)) = self.space.account_of(self.spec.kind, block) {
                changed[3] = Some(self.table_block(TableBlock::Free(account), account));
                if self.spec.kind != FilesystemKind::Xfs {
                    let number = group / DESCRIPTORS_PER_BLOCK;
                    changed[4] =
                        Some(self.table_block(TableBlock::Descriptors(number), 1 + number));
                }
            }
        }
        changed.into_iter().flatten()
    }

    /// Return the first sector of a metadata block.
    pub fn metadata_sector(&self, block: u32) -> u64 {
        self.metadata[block as usize] * SECTORS_PER_BLOCK
    }
}
