//! Specification of a RAID, and of the storage device of a host: one drive or a RAID of several.

use serde::{Deserialize, Serialize};

use crate::faults::FaultSpec;
use crate::request::SECTOR_BYTES;
use crate::spec::{refuse, within, within_int, DriveSpec, SpecError};

/// A RAID of drives. Every drive contributes the capacity of the smallest.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
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
    /// Bytes that each bit of an internal write-intent bitmap stands for; no bitmap without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub bitmap_chunk_bytes: Option<u64>,
    /// The hardware that the drives are connected to; Linux md without it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controller: Option<ControllerSpec>,
}

/// A RAID 0 of two drives with the defaults of every other field.
impl Default for RaidSpec {
    fn default() -> Self {
        RaidSpec {
            level: 0,
            drives: 2,
            chunk_bytes: chunk_bytes(),
            rebuild_bytes_per_s: rebuild_bytes_per_s(),
            stripe_cache_bytes: stripe_cache_bytes(),
            bitmap_chunk_bytes: None,
            controller: None,
        }
    }
}

/// What a controller's sheet and firmware say.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Memory for data that are not on the drives yet.
    pub cache_bytes: u64,
    /// Its battery (or flash with a capacitor) is charged. Without it there is no write-back.
    #[serde(default = "yes")]
    pub battery: bool,
    /// Commands that the kernel sends at once.
    pub queue_depth: u32,
    /// Time of the controller's processor for a command.
    pub command_us: f64,
    /// The link to the host.
    pub link_bytes_per_s: f64,
    /// Unwritten data wait this long at most.
    pub flush_interval_s: f64,
    /// Share of the cache above which stripes are written although they are not complete.
    #[serde(default = "destage_above")]
    pub destage_above: f64,
}

fn yes() -> bool {
    true
}

fn destage_above() -> f64 {
    0.5
}

impl ControllerSpec {
    fn check(&self) -> Result<(), SpecError> {
        within_int("controller.cache_bytes", self.cache_bytes, 1 << 20, 1 << 40)?;
        within_int("controller.queue_depth", u64::from(self.queue_depth), 1, 65_536)?;
        within("controller.command_us", self.command_us, 0.0, 1e5)?;
        within("controller.link_bytes_per_s", self.link_bytes_per_s, 1e6, 1e12)?;
        within("controller.flush_interval_s", self.flush_interval_s, 0.01, 3600.0)?;
        if self.destage_above.is_nan() || !(0.0..=1.0).contains(&self.destage_above) {
            return refuse("controller.destage_above", self.destage_above, "0 to 1");
        }
        Ok(())
    }
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
    /// Return whether it takes discards: an SSD without TRIM does not, md passes none on to members
    /// with parity, and a controller none at all. A disk ignores them.
    pub fn takes_discards(&self) -> bool {
        let kept_back = self
            .raid
            .is_some_and(|raid| raid.controller.is_some() || raid.level == 5 || raid.level == 6);
        let knows = |drive: &DriveSpec| match drive {
            DriveSpec::Ssd(ssd) => ssd.trim,
            DriveSpec::Hdd(_) => true,
        };
        !kept_back && self.drives.iter().all(knows)
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
        if let Some(bytes) = self.bitmap_chunk_bytes {
            // md's smallest is a page; larger than the largest drive is no use.
            within_int("raid.bitmap_chunk_bytes", bytes, 4096, 1 << 50)?;
            if !bytes.is_power_of_two() {
                return refuse("raid.bitmap_chunk_bytes", bytes, "a power of two");
            }
            if self.level == 0 {
                return refuse("raid.bitmap_chunk_bytes", bytes, "none for RAID 0");
            }
            if self.controller.is_some() {
                return refuse("raid.bitmap_chunk_bytes", bytes, "none with a controller");
            }
        }
        self.controller.as_ref().map_or(Ok(()), ControllerSpec::check)
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
