//! Specification of a hard disk. Every field has a default except capacity, rotational speed, data
//! rates and seek times, so a data sheet is enough. The field comments state what the defaults
//! assume.

use serde::{Deserialize, Serialize};

use crate::spec::{refuse, within, within_int, Price, Sheet, Sources, SpecError};

/// A hard disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HddSpec {
    pub name: String,
    #[serde(default)]
    pub about: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub price: Option<Price>,
    pub capacity_bytes: u64,
    pub rotation_rpm: f64,
    /// Surfaces that hold data. Assumed 4 if the data sheet does not state them.
    #[serde(default = "four")]
    pub heads: u32,
    #[serde(default)]
    pub head_order: HeadOrder,
    /// The zones, outermost first, if known.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub zone: Vec<ZoneSpec>,
    /// Otherwise: the data rates from which zones are derived.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rates: Option<RatesSpec>,
    pub seek: SeekSpec,
    /// The seek curve of writes, if it differs from reads and is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seek_write: Option<SeekSpec>,
    #[serde(default = "head_switch")]
    pub head_switch_ms: f64,
    /// Additional settle time of a write after a seek.
    #[serde(default)]
    pub write_settle_ms: f64,
    /// Angular offset of each track from the previous one; default: a head switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew_ms: Option<f64>,
    /// Angular offset of each cylinder from the previous one; default: the shortest seek.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew_ms: Option<f64>,
    #[serde(default = "overhead")]
    pub controller_overhead_us: f64,
    /// Overheads that differ from `controller_overhead_us`, by kind of command.
    #[serde(default, skip_serializing_if = "OverheadSpec::is_default")]
    pub overhead: OverheadSpec,
    pub link_bytes_per_s: f64,
    /// Whether a read holds the link from its first to its last sector, so that no other transfer
    /// can use the pauses. A link slower than the medium has none.
    #[serde(default, skip_serializing_if = "is_false")]
    pub hold_link: bool,
    /// Whether a read begins with whatever of its sectors on the track comes first under the head.
    #[serde(default, skip_serializing_if = "is_false")]
    pub zero_latency: bool,
    #[serde(default)]
    pub queue: QueueSpec,
    #[serde(default)]
    pub buffer: BufferSpec,
    #[serde(default)]
    pub power: PowerSpec,
    #[serde(default, skip_serializing_if = "Sheet::is_empty")]
    pub sheet: Sheet,
    #[serde(default, skip_serializing_if = "Sources::is_empty")]
    pub source: Sources,
}

/// Controller time of a command by its kind and by the kind of the command before it. Each default
/// is `controller_overhead_us`. A read hits if its first sector is in the buffer or is being read
/// ahead; a write hits if the write cache takes it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct OverheadSpec {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hit_after_read_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_hit_after_write_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_miss_after_read_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_miss_after_write_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_hit_after_read_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_hit_after_write_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_miss_after_read_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_miss_after_write_us: Option<f64>,
    /// Time between the last transfer of a read and its completion.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub read_completion_us: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub write_completion_us: Option<f64>,
}

/// When an idle drive reads ahead of the last read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReadAhead {
    /// After each read, as far as `read_ahead_bytes`.
    #[default]
    Always,
    /// After each read, to the end of its track at most.
    Track,
    /// After each read, to the end of its cylinder at most.
    Cylinder,
    /// After each read, to the end of its track; to the end of the next track if the segment began
    /// before this one.
    TrackByTrack,
    /// Only after a read that continues the one before.
    Sequential,
}

/// Order in which the heads of a cylinder are used.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HeadOrder {
    /// Head 0 first in every cylinder: a step to the next cylinder also switches the head.
    #[default]
    Cylinder,
    /// Every other cylinder in reverse order: the head stays the same when the arm steps.
    Serpentine,
}

#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ZoneSpec {
    pub cylinders: u32,
    pub sectors_per_track: u32,
    /// Of those, sectors at the end of each track that hold no data unless others fail.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub spare_sectors_per_track: u32,
    /// Angular offset of each track of this zone; default: `track_skew_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub track_skew_sectors: Option<f64>,
    /// Angular offset of each cylinder of this zone; default: `cylinder_skew_ms`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cylinder_skew_sectors: Option<f64>,
}

/// Sustained data rates at the outer and the inner edge.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RatesSpec {
    pub outer_bytes_per_s: f64,
    /// Default: half the outer rate, the usual ratio of the radii.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub inner_bytes_per_s: Option<f64>,
    #[serde(default = "sixteen")]
    pub zones: u32,
}

/// Seek time as a function of the distance in cylinders.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "curve", rename_all = "snake_case", deny_unknown_fields)]
pub enum SeekSpec {
    /// From a data sheet: a square-root curve with the given track-to-track and average times.
    Sheet { track_to_track_ms: f64, average_ms: f64 },
    /// `short_base + short_root * sqrt(d)` below the boundary, `long_base + long_slope * d` from it
    /// on.
    TwoPiece {
        short_base_ms: f64,
        short_root_ms: f64,
        boundary_cylinders: u32,
        long_base_ms: f64,
        long_slope_ms: f64,
    },
    /// Points of a measured curve, interpolated linearly.
    Table { distance_cylinders: Vec<u32>, time_ms: Vec<f64> },
}

/// Command queuing.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct QueueSpec {
    /// Commands that the drive can hold (SATA: 32).
    #[serde(default = "thirty_two")]
    pub depth: u32,
    /// Share of the queued commands, besides the oldest, among which the drive chooses: 0 serves in
    /// order, 1 takes the shortest access of all. Real drives are in between. Rounded down: with
    /// 0.3 reordering begins when five wait, with 1 when two do.
    #[serde(default = "reordering")]
    pub reordering: f64,
    /// Most commands, or ranges of the write cache, among which the drive chooses; default: no
    /// limit.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window: Option<u32>,
    /// The drive chooses its next command as late as that is still reached in the same revolution,
    /// less this time; commands that arrive meanwhile take part. Default: when the arm is free.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit_ms: Option<f64>,
    /// A command older than this is served next. Cached writes have no such limit unless a flush
    /// waits for them.
    #[serde(default = "age_limit")]
    pub age_limit_ms: f64,
    /// A flush is a command of the queue, as over SCSI and SAS (SYNCHRONIZE CACHE). Otherwise, as
    /// over SATA (FLUSH CACHE EXT is no queued command: ACS-3, 4.16), it begins when the commands
    /// before it have ended, and those after it begin when it has ended.
    #[serde(default, skip_serializing_if = "is_false")]
    pub queued_flush: bool,
}

/// The drive's internal memory.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct BufferSpec {
    #[serde(default = "sixteen")]
    pub segments: u32,
    #[serde(default = "segment_bytes")]
    pub segment_bytes: u64,
    /// Read-ahead of an idle drive beyond the last read; 0: none.
    #[serde(default = "segment_bytes")]
    pub read_ahead_bytes: u64,
    #[serde(default, skip_serializing_if = "ReadAhead::is_default")]
    pub read_ahead: ReadAhead,
    /// Whether data stay in the buffer after they were sent to the host.
    #[serde(default = "yes", skip_serializing_if = "is_true")]
    pub keep_sent: bool,
    /// Whether data of the write cache can be read from the buffer after they were written: they
    /// then take a segment.
    #[serde(default, skip_serializing_if = "is_false")]
    pub keep_written: bool,
    /// Read-ahead after a sequential read even if other commands wait.
    #[serde(default)]
    pub read_ahead_min_bytes: u64,
    /// Share of a write that must have crossed the link before the medium is written, for writes
    /// that the write cache does not acknowledge.
    #[serde(default = "whole_write", skip_serializing_if = "is_whole")]
    pub write_water_mark: f64,
    /// Write cache, whose writes are acknowledged before they are on the platter; 0: write-through.
    #[serde(default = "write_cache_bytes")]
    pub write_cache_bytes: u64,
    /// Number of separate ranges in the write cache.
    #[serde(default = "write_cache_extents")]
    pub write_cache_extents: u32,
    /// Idle time before cached writes are destaged.
    #[serde(default = "destage_idle")]
    pub destage_idle_ms: f64,
    /// Fill level of the write cache (share of bytes or ranges) above which destaging alternates
    /// with waiting reads.
    #[serde(default = "destage_threshold")]
    pub destage_threshold: f64,
}

/// Power in watts per state; seek and transfer are totals, not increments.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct PowerSpec {
    pub idle_w: f64,
    pub seek_w: f64,
    pub transfer_w: f64,
    #[serde(default)]
    pub standby_w: f64,
    #[serde(default)]
    pub spin_up_w: f64,
    #[serde(default)]
    pub spin_up_s: f64,
    /// Idle time before the spindle stops; default: never.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub standby_after_s: Option<f64>,
}

fn is_zero(value: &u32) -> bool {
    *value == 0
}

fn yes() -> bool {
    true
}

fn is_true(value: &bool) -> bool {
    *value
}

fn is_false(value: &bool) -> bool {
    !value
}
fn is_whole(share: &f64) -> bool {
    *share == whole_write()
}
fn whole_write() -> f64 {
    1.0
}
fn four() -> u32 {
    4
}
fn sixteen() -> u32 {
    16
}
fn thirty_two() -> u32 {
    32
}
fn head_switch() -> f64 {
    0.8
}
fn overhead() -> f64 {
    100.0
}
fn reordering() -> f64 {
    0.3
}
fn age_limit() -> f64 {
    1000.0
}
fn segment_bytes() -> u64 {
    512 << 10
}
fn write_cache_bytes() -> u64 {
    8 << 20
}
fn write_cache_extents() -> u32 {
    64
}
fn destage_idle() -> f64 {
    10.0
}
fn destage_threshold() -> f64 {
    0.5
}

impl ReadAhead {
    fn is_default(&self) -> bool {
        *self == ReadAhead::default()
    }
}

impl OverheadSpec {
    fn is_default(&self) -> bool {
        *self == OverheadSpec::default()
    }

    /// Return name and value of each field.
    fn fields(&self) -> [(&'static str, Option<f64>); 10] {
        [
            ("overhead.read_hit_after_read_us", self.read_hit_after_read_us),
            ("overhead.read_hit_after_write_us", self.read_hit_after_write_us),
            ("overhead.read_miss_after_read_us", self.read_miss_after_read_us),
            ("overhead.read_miss_after_write_us", self.read_miss_after_write_us),
            ("overhead.write_hit_after_read_us", self.write_hit_after_read_us),
            ("overhead.write_hit_after_write_us", self.write_hit_after_write_us),
            ("overhead.write_miss_after_read_us", self.write_miss_after_read_us),
            ("overhead.write_miss_after_write_us", self.write_miss_after_write_us),
            ("overhead.read_completion_us", self.read_completion_us),
            ("overhead.write_completion_us", self.write_completion_us),
        ]
    }
}

impl Default for QueueSpec {
    fn default() -> Self {
        QueueSpec {
            depth: thirty_two(),
            reordering: reordering(),
            commit_ms: None,
            window: None,
            age_limit_ms: age_limit(),
            queued_flush: false,
        }
    }
}

impl Default for BufferSpec {
    fn default() -> Self {
        BufferSpec {
            segments: sixteen(),
            segment_bytes: segment_bytes(),
            read_ahead_bytes: segment_bytes(),
            read_ahead: ReadAhead::Always,
            keep_sent: true,
            keep_written: false,
            read_ahead_min_bytes: 0,
            write_water_mark: whole_write(),
            write_cache_bytes: write_cache_bytes(),
            write_cache_extents: write_cache_extents(),
            destage_idle_ms: destage_idle(),
            destage_threshold: destage_threshold(),
        }
    }
}

/// A 3.5-inch drive with 7200 rpm, typical of data sheets of the last twenty years.
impl Default for PowerSpec {
    fn default() -> Self {
        PowerSpec {
            idle_w: 6.0,
            seek_w: 10.0,
            transfer_w: 8.5,
            standby_w: 1.0,
            spin_up_w: 24.0,
            spin_up_s: 10.0,
            standby_after_s: None,
        }
    }
}

impl HddSpec {
    /// Check each field on its own. Geometry and seek curve check combinations.
    pub fn check(&self) -> Result<(), SpecError> {
        if self.name.is_empty() {
            return refuse("name", "\"\"", "a name");
        }
        within_int("capacity_bytes", self.capacity_bytes, 1 << 20, 1 << 50)?;
        within("rotation_rpm", self.rotation_rpm, 60.0, 60_000.0)?;
        within_int("heads", u64::from(self.heads), 1, 256)?;
        within("head_switch_ms", self.head_switch_ms, 0.0, 100.0)?;
        within("write_settle_ms", self.write_settle_ms, 0.0, 100.0)?;
        let turn_ms = 60_000.0 / self.rotation_rpm;
        for (field, skew) in
            [("track_skew_ms", self.track_skew_ms), ("cylinder_skew_ms", self.cylinder_skew_ms)]
        {
            if let Some(skew) = skew {
                within(field, skew, 0.0, turn_ms)?;
            }
        }
        within("controller_overhead_us", self.controller_overhead_us, 0.001, 1e6)?;
        for (field, us) in self.overhead.fields() {
            within(field, us.unwrap_or(0.0), 0.0, 1e6)?;
        }
        within("link_bytes_per_s", self.link_bytes_per_s, 1e5, 1e12)?;
        within_int("queue.depth", u64::from(self.queue.depth), 1, 1024)?;
        within("queue.reordering", self.queue.reordering, 0.0, 1.0)?;
        if let Some(commit_ms) = self.queue.commit_ms {
            within("queue.commit_ms", commit_ms, 0.05, 100.0)?;
        }
        if let Some(window) = self.queue.window {
            within_int("queue.window", u64::from(window), 1, 1024)?;
        }
        within("queue.age_limit_ms", self.queue.age_limit_ms, 0.0, 1e7)?;
        let buffer = &self.buffer;
        within_int("buffer.segments", u64::from(buffer.segments), 1, 4095)?;
        within_int("buffer.segment_bytes", buffer.segment_bytes, 4096, 1 << 32)?;
        within_int("buffer.read_ahead_bytes", buffer.read_ahead_bytes, 0, buffer.segment_bytes)?;
        within_int(
            "buffer.read_ahead_min_bytes",
            buffer.read_ahead_min_bytes,
            0,
            buffer.read_ahead_bytes,
        )?;
        within("buffer.write_water_mark", buffer.write_water_mark, 0.0, 1.0)?;
        within_int("buffer.write_cache_bytes", buffer.write_cache_bytes, 0, 1 << 34)?;
        within_int("buffer.write_cache_extents", u64::from(buffer.write_cache_extents), 1, 4096)?;
        within("buffer.destage_idle_ms", buffer.destage_idle_ms, 0.0, 1e6)?;
        within("buffer.destage_threshold", buffer.destage_threshold, 0.0, 1.0)?;
        let power = &self.power;
        for (field, watts) in [
            ("power.idle_w", power.idle_w),
            ("power.seek_w", power.seek_w),
            ("power.transfer_w", power.transfer_w),
            ("power.standby_w", power.standby_w),
            ("power.spin_up_w", power.spin_up_w),
        ] {
            within(field, watts, 0.0, 1000.0)?;
        }
        within("power.spin_up_s", power.spin_up_s, 0.0, 600.0)?;
        if let Some(after) = power.standby_after_s {
            within("power.standby_after_s", after, 0.1, 1e7)?;
        }
        Ok(())
    }
}
