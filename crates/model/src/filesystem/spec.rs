//! The parameters of a filesystem.

use serde::{Deserialize, Serialize};

use crate::pagecache::PAGE_BYTES;

/// Block size of all filesystems here: one page.
pub const BLOCK_BYTES: u64 = PAGE_BYTES;
/// 512-byte sectors per block.
pub const SECTORS_PER_BLOCK: u64 = BLOCK_BYTES / crate::SECTOR_BYTES;

/// Kind of filesystem.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FilesystemKind {
    Ext3,
    Ext4,
    Xfs,
    Btrfs,
}

/// When a read of a file changes its inode.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum AccessTime {
    /// At every read, at most once per second (the default before 2.6.30).
    Strict,
    /// At the first read after a change, or after a day.
    Relative,
    Never,
}

/// A filesystem and its initial state.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FilesystemSpec {
    pub kind: FilesystemKind,
    /// Mean length of a free extent; 0 for a fresh filesystem, whose free space is contiguous in
    /// each group.
    #[serde(default)]
    pub free_extent_bytes: u64,
    /// Share of the space that other files use, spread over the device (only with
    /// `free_extent_bytes`).
    #[serde(default)]
    pub used_fraction: f64,
    /// Position of the first directory on the device, as a fraction of the device's length.
    #[serde(default)]
    pub start_fraction: f64,
    /// Number of directories that the files are distributed over. Each has its own group (ext) or
    /// allocation group (xfs).
    #[serde(default = "one")]
    pub directories: u32,
    #[serde(default = "relative")]
    pub access_time: AccessTime,
    /// Journal commits end with a cache flush (`barrier=1`); not the default of ext3.
    #[serde(default)]
    pub barrier: Option<bool>,
    /// Time between journal commits; default: the kernel's default of each filesystem.
    #[serde(default)]
    pub commit_interval_ns: Option<u64>,
    /// Making it discarded the whole device first, as mkfs does unless told otherwise; default:
    /// only if it is fresh. An aged filesystem has been written over since.
    #[serde(default)]
    pub discarded: Option<bool>,
    /// Space of removed files is discarded (`mount -o discard`).
    #[serde(default)]
    pub discard: bool,
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
            discarded: None,
            discard: false,
        }
    }

    /// Return whether making the filesystem discarded the device.
    pub fn discarded(&self) -> bool {
        self.discarded.unwrap_or(self.free_extent_bytes == 0)
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

/// Not enough free space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NoSpace;
