//! Placement of inodes: the group of a new file's inode. Its data is placed nearby, so this
//! determines the distances between files.
//!
//! - ext3 (`find_group_other` in `fs/ext3/ialloc.c`): the directory's group while it has a free
//!   inode and a free block; then groups at distances 1, 3, 7, 15, ... from a start group given by
//!   the directory's inode number; if all those are full, the first group after the directory's
//!   with a free inode, where data continues at the next free block. Large files of one directory
//!   are therefore contiguous, except for about one per doubling of the number of groups.
//! - ext4 (`find_group_other` in `fs/ext4/ialloc.c`, groups packed by flex_bg): the directory's
//!   flex group while it has a free inode, even without free blocks.
//! - XFS (`xfs_ialloc_ag_select` in `fs/xfs/xfs_ialloc.c`): the directory's allocation group while
//!   it has free space.

use std::cmp::Reverse;

use super::groups::Group;
use super::space::Space;
use super::spec::FilesystemKind;

/// Inodes of 256 bytes per block.
pub(super) const INODES_PER_BLOCK: u32 = 16;
/// Inode number of the root directory of ext filesystems (`EXT3_ROOT_INO`).
const ROOT_INODE: usize = 2;

impl Group {
    /// Two blocks of the table are bitmaps.
    fn inode_blocks(&self) -> u32 {
        self.table.saturating_sub(2).max(1) as u32
    }

    fn has_free_inode(&self) -> bool {
        !self.inodes.freed.is_empty() || self.inodes.used < self.inode_blocks() * INODES_PER_BLOCK
    }
}

impl Space {
    /// Allocate an inode for a new file of a directory; return its group, its number there and its
    /// block. If no inode is free, an additional one is allocated: the model does not simulate
    /// inode exhaustion.
    pub(super) fn new_inode(&mut self, kind: FilesystemKind, directory: u32) -> (usize, u32, u64) {
        let parent = self.directory_groups[directory as usize % self.directory_groups.len()];
        let chosen = match kind {
            FilesystemKind::Ext3 => self.hashed_group(parent),
            FilesystemKind::Ext4 => self.group_from(parent, |group| self.has_free_inode(group)),
            FilesystemKind::Xfs | FilesystemKind::Btrfs => {
                self.group_from(parent, |group| self.has_free_blocks(group))
            }
        };
        let number = chosen.unwrap_or(parent);
        let group = self.groups.change(number);
        let inode = match group.inodes.freed.pop() {
            Some(Reverse(inode)) => inode,
            None => {
                group.inodes.used += 1;
                group.inodes.used - 1
            }
        };
        let block = group.start + 2 + u64::from(inode / INODES_PER_BLOCK % group.inode_blocks());
        (number, inode, block)
    }

    pub(super) fn release_inode(&mut self, group: usize, inode: u32) {
        self.groups.change(group).inodes.freed.push(Reverse(inode));
    }

    fn has_free_inode(&self, group: usize) -> bool {
        self.groups.read(group, Group::has_free_inode)
    }

    /// Return the first group from `start` on, with wrap-around, that satisfies `will_do`.
    fn group_from(&self, start: usize, will_do: impl Fn(usize) -> bool) -> Option<usize> {
        let count = self.groups.len();
        (0..count).map(|step| (start + step) % count).find(|&group| will_do(group))
    }

    fn hashed_group(&self, parent: usize) -> Option<usize> {
        let count = self.groups.len();
        let will_do = |group: usize| self.has_free_inode(group) && self.has_free_blocks(group);
        if will_do(parent) {
            return Some(parent);
        }
        // A directory other than the root is the first inode of its group.
        let inodes = (self.groups.read(parent, Group::inode_blocks) * INODES_PER_BLOCK) as usize;
        let directory_inode = if parent == 0 { ROOT_INODE } else { parent * inodes + 1 };
        let mut group = (parent + directory_inode) % count;
        let mut step = 1;
        while step < count {
            group = (group + step) % count;
            if will_do(group) {
                return Some(group);
            }
            step *= 2;
        }
        self.group_from(parent + 1, |group| self.has_free_inode(group))
    }
}
