//! Specification of a solid-state drive.

use serde::{Deserialize, Serialize};

use crate::request::SECTOR_BYTES;
use crate::spec::{refuse, within, within_int, Price, Sheet, Sources, SpecError};

/// What a queued read of up to 8 KiB takes on a SATA link besides its data: five frames (register
/// from the host and to the host, DMA setup, data, set device bits) of 20 doublewords in all, with
/// three doublewords of framing each (ATA/ATAPI-7 volume 3), and two exchanges of primitives each
/// (X_RDY and R_RDY, WTRM and R_OK).
///
/// Assumption: an exchange takes 20 doublewords, what the standard allows between HOLD and HOLDA
/// (15.4.8.1); it states no other latency. docs/models.md has what the assumption decides.
pub const SATA_READ_BYTES: f64 = 4.0 * (20.0 + 5.0 * (3.0 + 2.0 * 20.0));
/// The same for a queued write, which has one frame of one doubleword more (DMA activate).
pub const SATA_WRITE_BYTES: f64 = SATA_READ_BYTES + 4.0 * (1.0 + 3.0 + 2.0 * 20.0);

/// A solid-state drive.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdSpec {
    pub name: String,
    #[serde(default)]
    pub about: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    pub capacity_bytes: u64,
    pub link_bytes_per_s: f64,
    /// The link is full duplex (PCIe) or half duplex (SATA).
    #[serde(default)]
    pub link_duplex: bool,
    /// Link time of a command besides its data, in bytes at the rate of the link; default: that of
    /// SATA (`SATA_READ_BYTES`, `SATA_WRITE_BYTES`), and none on a duplex link.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub link_command_bytes: Option<f64>,
    /// Commands that the drive can hold.
    #[serde(default = "queue_depth")]
    pub queue_depth: u32,
    pub controller: ControllerSpec,
    pub flash: FlashSpec,
    #[serde(default)]
    pub mapping: MappingSpec,
    /// Flash beyond the capacity, divided by the capacity.
    #[serde(default = "spare_ratio")]
    pub spare_ratio: f64,
    /// Write buffer, whose writes are acknowledged before they are in flash.
    #[serde(default = "write_buffer")]
    pub write_buffer_bytes: u64,
    /// Capacitors protect the write buffer at a power loss, so a flush completes at once.
    #[serde(default)]
    pub write_buffer_protected: bool,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slc_cache: Option<SlcCacheSpec>,
    #[serde(default)]
    pub read_priority: ReadPriority,
    #[serde(default)]
    pub garbage_collection: GarbageCollection,
    #[serde(default)]
    pub initial: InitialState,
    /// The drive knows the TRIM command (on NVMe: Deallocate); otherwise discards do nothing.
    #[serde(default = "yes")]
    pub trim: bool,
    #[serde(default)]
    pub power: SsdPowerSpec,
    #[serde(default, skip_serializing_if = "Sheet::is_empty")]
    pub sheet: Sheet,
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub source: Sources,
}

/// The controller: costs per command, independent of its size.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ControllerSpec {
    /// Latency of a command in the controller, which overlaps with that of other commands.
    pub read_overhead_us: f64,
    pub write_overhead_us: f64,
    /// Commands per second that the controller can process, one at a time.
    pub read_iops_max: f64,
    pub write_iops_max: f64,
    /// What the controller reads from the flash ahead of reads in order, into its memory; 0: it
    /// does not read ahead.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub read_ahead_bytes: u64,
}

/// The flash chips.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FlashSpec {
    pub channels: u32,
    pub dies_per_channel: u32,
    /// Planes that a die reads or programs in parallel.
    #[serde(default = "one")]
    pub planes: u32,
    pub page_bytes: u32,
    pub pages_per_block: u32,
    pub read_us: f64,
    pub program_us: f64,
    pub erase_us: f64,
    pub channel_bytes_per_s: f64,
}

/// Address translation.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "ftl", rename_all = "snake_case", deny_unknown_fields)]
pub enum MappingSpec {
    /// Units can be anywhere; garbage collection takes the block with the fewest valid units. A
    /// write smaller than a unit reads and writes the whole unit.
    Page { unit_bytes: u32 },
    /// Blocks are mapped as a whole, striped over all dies. A few log blocks take writes, each for
    /// one block, and are merged with it when another block needs the log block (low-end
    /// controllers of about 2008 to 2010).
    LogBlock { unit_bytes: u32, block_bytes: u64, log_blocks: u32 },
}

/// Part of the flash used with one bit per cell, for bursts of writes.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SlcCacheSpec {
    pub bytes: u64,
    pub program_us: f64,
    #[serde(default)]
    pub when_full: SlcFull,
}

/// Where writes go while the SLC cache is full.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum SlcFull {
    /// Past the cache.
    #[default]
    Direct,
    /// Into the cache, once as much of it is folded.
    Fold,
}

/// Priority of a read whose die is programming or erasing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum ReadPriority {
    /// Wait for everything queued earlier.
    Fifo,
    /// Wait for the operation in progress, and go before queued ones.
    #[default]
    BetweenOperations,
    /// Suspend the operation in progress.
    Suspend { suspend_us: f64 },
}

/// When garbage collection is done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum GarbageCollection {
    /// A part with every program, and the rest in idle time.
    #[default]
    Incremental,
    /// A whole block at once when free blocks run out; all requests wait.
    Blocking,
}

/// State of the drive before the run: before a filesystem is made on it, which may discard it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(tag = "state", rename_all = "snake_case", deny_unknown_fields)]
pub enum InitialState {
    /// Never written, or completely trimmed.
    #[default]
    Fresh,
    /// This share of the capacity was written once, in order.
    Filled { fill: f64 },
    /// This share was overwritten randomly for a long time.
    Steady { fill: f64 },
}

/// Power in watts; read and write are totals of the active drive.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct SsdPowerSpec {
    pub idle_w: f64,
    pub read_w: f64,
    pub write_w: f64,
}

fn is_zero(bytes: &u64) -> bool {
    *bytes == 0
}
fn one() -> u32 {
    1
}
fn yes() -> bool {
    true
}
fn queue_depth() -> u32 {
    32
}
fn spare_ratio() -> f64 {
    0.07
}
fn write_buffer() -> u64 {
    1 << 20
}

impl Default for MappingSpec {
    fn default() -> Self {
        MappingSpec::Page { unit_bytes: 4096 }
    }
}

/// A 2.5-inch SATA drive.
impl Default for SsdPowerSpec {
    fn default() -> Self {
        SsdPowerSpec { idle_w: 0.5, read_w: 2.0, write_w: 2.5 }
    }
}

impl SsdSpec {
    pub fn unit_bytes(&self) -> u32 {
        match self.mapping {
            MappingSpec::Page { unit_bytes } | MappingSpec::LogBlock { unit_bytes, .. } => {
                unit_bytes
            }
        }
    }

    /// Return whether a flush waits for the commands before it, and those after it for the flush,
    /// as over SATA (ACS-3, 4.16).
    pub fn flushes_alone(&self) -> bool {
        !self.link_duplex
    }

    pub fn dies(&self) -> u32 {
        self.flash.channels * self.flash.dies_per_channel
    }

    /// Check every field and their combinations.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.name.is_empty() {
            return refuse("name", "\"\"", "a name");
        }
        within_int("capacity_bytes", self.capacity_bytes, 1 << 20, 1 << 50)?;
        within("link_bytes_per_s", self.link_bytes_per_s, 1e5, 1e12)?;
        within("link_command_bytes", self.link_command_bytes.unwrap_or(0.0), 0.0, 1e6)?;
        within_int("queue_depth", u64::from(self.queue_depth), 1, 1 << 20)?;
        let c = &self.controller;
        within("controller.read_overhead_us", c.read_overhead_us, 0.0, 1e6)?;
        within("controller.write_overhead_us", c.write_overhead_us, 0.0, 1e6)?;
        within("controller.read_iops_max", c.read_iops_max, 0.001, 5e8)?;
        within("controller.write_iops_max", c.write_iops_max, 0.001, 5e8)?;
        within_int("controller.read_ahead_bytes", c.read_ahead_bytes, 0, 1 << 30)?;
        self.check_flash()?;
        within("spare_ratio", self.spare_ratio, 0.001, 20.0)?;
        let die_page = u64::from(self.flash.planes) * u64::from(self.flash.page_bytes);
        within_int("write_buffer_bytes", self.write_buffer_bytes, 2 * die_page, 1 << 36)?;
        if let Some(cache) = &self.slc_cache {
            within_int("slc_cache.bytes", cache.bytes, die_page, self.capacity_bytes)?;
            within("slc_cache.program_us", cache.program_us, 0.1, 1e6)?;
        }
        if let ReadPriority::Suspend { suspend_us } = self.read_priority {
            within("read_priority.suspend_us", suspend_us, 0.0, 1e6)?;
        }
        if let InitialState::Filled { fill } | InitialState::Steady { fill } = self.initial {
            within("initial.fill", fill, 0.01, 1.0)?;
        }
        let p = &self.power;
        for (field, watts) in
            [("power.idle_w", p.idle_w), ("power.read_w", p.read_w), ("power.write_w", p.write_w)]
        {
            within(field, watts, 0.0, 1000.0)?;
        }
        Ok(())
    }

    fn check_flash(&self) -> Result<(), SpecError> {
        let f = &self.flash;
        within_int("flash.channels", u64::from(f.channels), 1, 1024)?;
        within_int("flash.dies_per_channel", u64::from(f.dies_per_channel), 1, 1024)?;
        within_int("flash.planes", u64::from(f.planes), 1, 64)?;
        within_int("flash.page_bytes", u64::from(f.page_bytes), SECTOR_BYTES, 1 << 20)?;
        within_int("flash.pages_per_block", u64::from(f.pages_per_block), 1, 1 << 16)?;
        within("flash.read_us", f.read_us, 0.1, 1e6)?;
        within("flash.program_us", f.program_us, 0.1, 1e6)?;
        within("flash.erase_us", f.erase_us, 0.0, 1e7)?;
        within("flash.channel_bytes_per_s", f.channel_bytes_per_s, 1e5, 1e12)?;
        let die_page = f.planes * f.page_bytes;
        let unit = self.unit_bytes();
        if u64::from(unit) < SECTOR_BYTES
            || !unit.is_power_of_two()
            || !die_page.is_multiple_of(unit)
        {
            let allowed =
                format!("a power of two from 512 on that divides planes x page_bytes = {die_page}");
            return refuse("mapping.unit_bytes", unit, &allowed);
        }
        if let MappingSpec::LogBlock { block_bytes, log_blocks, .. } = self.mapping {
            within_int("mapping.log_blocks", u64::from(log_blocks), 1, 4096)?;
            within_int(
                "mapping.block_bytes",
                block_bytes,
                u64::from(die_page),
                self.capacity_bytes,
            )?;
            if !block_bytes.is_multiple_of(u64::from(die_page)) {
                let allowed = format!("a multiple of planes x page_bytes = {die_page}");
                return refuse("mapping.block_bytes", block_bytes, &allowed);
            }
        }
        Ok(())
    }
}
