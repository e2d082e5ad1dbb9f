//! Specification of a RAID, and of the storage device of a host: one drive or a RAID of several.

use serde::{Deserialize, Serialize};

use crate::faults::FaultSpec;
use crate::request::SECTOR_BYTES;
use crate::spec::{refuse, within_int, DriveSpec, SpecError};

/// A RAID of drives. Every drive contributes the capacity of the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RaidSpec {
    /// 0, 1, 5, 6 or 10.
    pub level: u32,
    pub drives: u32,
    #[serde(default = "chunk_bytes")]
    pub chunk_bytes: u64,
    /// Maximum rebuild rate.
    #[serde(default = "rebuild_bytes_per_s")]
    pub rebuild_bytes_per_s: u64,
    /// Memory per drive of the stripe cache, for levels with parity (`stripe_cache_size` pages).
    #[serde(default = "stripe_cache_bytes")]
    pub stripe_cache_bytes: u64,
}

/// One block device of a host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct StorageSpec {
    /// One drive, or as many as the RAID has. A single one stands for all if they are equal.
    pub drives: Vec<DriveSpec>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raid: Option<RaidSpec>,
    /// Faults of the drives.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub faults: Vec<FaultSpec>,
}

impl StorageSpec {
    /// Return whether it takes discards: an SSD without TRIM does not, and md passes none on to
    /// members with parity. A disk ignores them.
    pub fn takes_discards(&self) -> bool {
        let parity = self.raid.is_some_and(|raid| raid.level == 5 || raid.level == 6);
        let knows = |drive: &DriveSpec| match drive {
            DriveSpec::Ssd(ssd) => ssd.trim,
            DriveSpec::Hdd(_) => true,
        };
        !parity && self.drives.iter().all(knows)
    }
}

/// The kernel's default since 2.6.33 is 512 KiB; 64 KiB before.
fn chunk_bytes() -> u64 {
    64 << 10
}

/// `dev.raid.speed_limit_max` of the Linux kernel.
fn rebuild_bytes_per_s() -> u64 {
    200_000 << 10
}

/// 256 pages. Kernels since 4.1 let it grow when it is full.
fn stripe_cache_bytes() -> u64 {
    256 * 4096
}

impl RaidSpec {
    pub fn check(&self) -> Result<(), SpecError> {
        let least = match self.level {
            0 | 1 => 2,
            5 => 3,
            6 | 10 => 4,
            _ => return refuse("raid.level", self.level, "0, 1, 5, 6 or 10"),
        };
        within_int("raid.drives", u64::from(self.drives), least, 512)?;
        if self.level == 10 && !self.drives.is_multiple_of(2) {
            return refuse("raid.drives", self.drives, "an even number for level 10");
        }
        within_int("raid.rebuild_bytes_per_s", self.rebuild_bytes_per_s, 1, 1 << 50)?;
        within_int("raid.stripe_cache_bytes", self.stripe_cache_bytes, 16 * 4096, 32_768 * 4096)?;
        within_int("raid.chunk_bytes", self.chunk_bytes, SECTOR_BYTES, 1 << 30)?;
        if !self.chunk_bytes.is_multiple_of(SECTOR_BYTES) {
            return refuse("raid.chunk_bytes", self.chunk_bytes, "a multiple of 512");
        }
        Ok(())
    }
}

impl StorageSpec {
    /// Return the drives of the storage device after a check of their number.
    pub fn members(&self) -> Result<Vec<&DriveSpec>, SpecError> {
        let wanted = match &self.raid {
            Some(raid) => {
                raid.check()?;
                raid.drives as usize
            }
            None => 1,
        };
        match self.drives.len() {
            1 => Ok(vec![&self.drives[0]; wanted]),
            given if given == wanted => Ok(self.drives.iter().collect()),
            given => {
                refuse("drives", format!("{given} drives"), &format!("one for all, or {wanted}"))
            }
        }
    }
}
