//! A file: where its blocks are, and which metadata blocks say so.

use super::groups::Run;

/// Contiguous pages of a file.
#[derive(Clone, Copy, Debug)]
pub(super) struct FileRun {
    pub(super) page: u32,
    pub(super) block: u64,
    pub(super) pages: u32,
}

#[derive(Clone, Debug, Default)]
pub(super) struct File {
    pub(super) runs: Vec<FileRun>,
    /// Group of its inode, where the search for its first block starts.
    pub(super) group: usize,
    pub(super) inode_number: u32,
    /// The metadata block that holds the inode.
    pub(super) inode: u32,
    /// Metadata blocks besides the inode: small files have none.
    pub(super) maps: Option<Box<Maps>>,
    /// Space reserved after the last allocation.
    pub(super) reserved: Run,
    pub(super) window_blocks: u64,
    pub(super) pages: u64,
}

/// Metadata blocks that say where a file's blocks are.
#[derive(Clone, Debug, Default)]
pub(super) struct Maps {
    /// ext3: the indirect blocks, one per 4 MiB of the file. The second one also needs the
    /// double-indirect block.
    pub(super) indirect: Vec<u32>,
    pub(super) double_indirect: Option<u32>,
    /// ext4, xfs, btrfs: metadata blocks with the extents that do not fit into the inode.
    pub(super) leaves: Vec<u32>,
}

impl Maps {
    /// Return all of these blocks.
    pub(super) fn blocks(&self) -> impl Iterator<Item = u32> + '_ {
        self.indirect.iter().chain(&self.double_indirect).chain(&self.leaves).copied()
    }
}

impl File {
    pub(super) fn leaves(&self) -> &[u32] {
        self.maps.as_deref().map_or(&[], |maps| &maps.leaves)
    }

    /// Return the maps, which get memory with the first call.
    pub(super) fn maps(&mut self) -> &mut Maps {
        self.maps.get_or_insert_default()
    }
}
