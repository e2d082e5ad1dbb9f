//! The SSD model: link, controller, write buffer, flash translation layer and dies.
//!
//! Every resource serves requests in submission order, but reads may go before programs and erases
//! of their die; so the completion time is known at submission. The link and each channel are
//! clocks of accepted work: they bound the throughput, but data do not wait on them for the flash
//! operations of other requests.

mod activity;
pub mod amplification;
pub mod dies;
pub mod log_blocks;
pub mod page_map;
mod read_ahead;
mod slc;
pub mod spec;
mod table;

use crate::completions::Completions;
use crate::moment::Moment;
use crate::request::{
    Completion, Device, Fault, FaultCounts, FlashWrites, Medium, Nanos, Op, Request, SectorRange,
    Status, StoredOrder, SECTOR_BYTES,
};
use crate::spec::SpecError;
use activity::Activity;
use dies::{CleaningShare, Dies};
use log_blocks::LogBlocks;
use page_map::{Cleaned, PageMap};
use read_ahead::ReadAhead;
use slc::SlcCache;
use spec::{
    GarbageCollection, InitialState, MappingSpec, SsdPowerSpec, SsdSpec, SATA_READ_BYTES,
    SATA_WRITE_BYTES,
};

/// Units of the write buffer whose completion times are stored. A larger buffer counts as this
/// size.
const BUFFER_UNITS_MAX: u64 = 1 << 18;

enum Translation {
    Page(Box<PageMap>),
    LogBlock(LogBlocks),
}

impl Translation {
    /// `row_units`: units of one block of every die.
    fn new(spec: &SsdSpec, row_units: u64) -> Self {
        let unit_bytes = u64::from(spec.unit_bytes());
        let units = spec.capacity_bytes.div_ceil(unit_bytes);
        match spec.mapping {
            MappingSpec::Page { .. } => {
                let map = PageMap::new(units, row_units, spec.spare_ratio, spec.initial);
                Translation::Page(Box::new(map))
            }
            MappingSpec::LogBlock { block_bytes, log_blocks, .. } => {
                let filled = match spec.initial {
                    InitialState::Fresh => 0.0,
                    InitialState::Filled { fill } | InitialState::Steady { fill } => fill,
                };
                let block_units = block_bytes / unit_bytes;
                Translation::LogBlock(LogBlocks::new(units, block_units, log_blocks, filled))
            }
        }
    }
}

/// A unit in the write buffer.
#[derive(Clone, Copy)]
struct Buffered {
    /// When the unit is in flash and its slot is free again; never until it is programmed.
    stable: Moment,
    unit: u64,
}

/// A solid-state drive.
pub struct Ssd {
    capacity_sectors: u64,
    unit_shift: u32,
    unit_sectors: u64,
    unit_bytes: u64,
    page_units: u64,
    read_overhead_ns: Nanos,
    write_overhead_ns: Nanos,
    read_command_ns: Nanos,
    write_command_ns: Nanos,
    link_ns_per_byte: f64,
    /// Link time of a command besides its data. A single read waits for its flash meanwhile.
    link_read_command_ns: Nanos,
    link_write_command_ns: Nanos,
    channel_ns_per_byte: f64,
    /// The channel of each die.
    channel_of: Vec<usize>,
    read_ns: f64,
    program_ns: Nanos,
    erase_ns: f64,
    /// Units per block of one die, all planes together.
    die_block_units: f64,
    blocking: bool,
    /// The drive begins in steady state.
    steady: bool,
    protected: bool,
    flushes_alone: bool,
    /// The drive knows TRIM.
    trim: bool,
    power: SsdPowerSpec,

    controller_free: Nanos,
    /// Clocks of the link's work: [from the drive, to the drive]. Both directions use the first
    /// clock if the link is not duplex.
    link_clock: [Nanos; 2],
    inbound: usize,
    channel_clock: Vec<Nanos>,
    dies: Dies,
    translation: Translation,
    buffer: Vec<Buffered>,
    buffer_next: usize,
    /// Units in the partly filled page.
    gathered: usize,
    next_die: usize,
    last_stable: Nanos,
    /// Garbage collection that goes with each program, and the number of programs that remain.
    cleaning: CleaningShare,
    cleaning_programs: u64,
    slc: Option<SlcCache>,
    /// None if the controller does not read ahead.
    ahead: Option<ReadAhead>,
    /// When the drive is done with everything that it has accepted.
    busy_until: Nanos,
    done: Completions,
    activity: Activity,
}

impl Ssd {
    pub fn new(spec: &SsdSpec) -> Result<Self, SpecError> {
        spec.check()?;
        let unit_bytes = u64::from(spec.unit_bytes());
        let die_page_bytes = u64::from(spec.flash.planes) * u64::from(spec.flash.page_bytes);
        let page_units = die_page_bytes / unit_bytes;
        let dies = Dies::new(spec);
        let die_block_units = page_units * u64::from(spec.flash.pages_per_block);
        let ns = |us: f64| (us * 1e3) as Nanos;
        let command_ns = |sata_bytes: f64| {
            let default = if spec.link_duplex { 0.0 } else { sata_bytes };
            (spec.link_command_bytes.unwrap_or(default) / spec.link_bytes_per_s * 1e9) as Nanos
        };
        let buffer_units = (spec.write_buffer_bytes / unit_bytes).min(BUFFER_UNITS_MAX);
        let mut ssd = Ssd {
            capacity_sectors: spec.capacity_bytes / SECTOR_BYTES,
            unit_shift: (unit_bytes / SECTOR_BYTES).trailing_zeros(),
            unit_sectors: unit_bytes / SECTOR_BYTES,
            unit_bytes,
            page_units,
            read_overhead_ns: ns(spec.controller.read_overhead_us),
            write_overhead_ns: ns(spec.controller.write_overhead_us),
            read_command_ns: ((1e9 / spec.controller.read_iops_max) as Nanos).max(1),
            write_command_ns: ((1e9 / spec.controller.write_iops_max) as Nanos).max(1),
            link_ns_per_byte: 1e9 / spec.link_bytes_per_s,
            link_read_command_ns: command_ns(SATA_READ_BYTES),
            link_write_command_ns: command_ns(SATA_WRITE_BYTES),
            channel_ns_per_byte: 1e9 / spec.flash.channel_bytes_per_s,
            channel_of: (0..dies.count()).map(|die| die % spec.flash.channels as usize).collect(),
            read_ns: spec.flash.read_us * 1e3,
            program_ns: ns(spec.flash.program_us),
            erase_ns: spec.flash.erase_us * 1e3,
            die_block_units: die_block_units as f64,
            blocking: spec.garbage_collection == GarbageCollection::Blocking,
            steady: matches!(spec.initial, InitialState::Steady { .. }),
            protected: spec.write_buffer_protected,
            flushes_alone: spec.flushes_alone(),
            trim: spec.trim,
            power: spec.power,
            controller_free: 0,
            link_clock: [0; 2],
            inbound: usize::from(spec.link_duplex),
            channel_clock: vec![0; spec.flash.channels as usize],
            translation: Translation::new(spec, die_block_units * dies.count() as u64),
            buffer: vec![Buffered { stable: Moment::at(0), unit: 0 }; buffer_units as usize],
            buffer_next: 0,
            gathered: 0,
            next_die: 0,
            last_stable: 0,
            cleaning: CleaningShare::default(),
            cleaning_programs: 0,
            busy_until: 0,
            ahead: (spec.controller.read_ahead_bytes > 0)
                .then(|| ReadAhead::new(spec.controller.read_ahead_bytes.div_ceil(unit_bytes))),
            slc: SlcCache::of(spec, dies.count() as f64 * page_units as f64),
            dies,
            done: Completions::new(),
            activity: Activity::default(),
        };
        ssd.continue_cleaning();
        Ok(ssd)
    }

    /// A drive in steady state has just cleaned blocks for the one that it writes now, and pays for
    /// that with its programs from the first one on.
    fn continue_cleaning(&mut self) {
        let Translation::Page(map) = &mut self.translation else { return };
        if !self.steady || self.blocking {
            return;
        }
        self.cleaning_programs = 0;
        if let Some(cleaned) = map.last_cleaned() {
            let (scale, until_next) = (map.scale, map.block_units() * map.scale);
            self.charge_cleaning(0, cleaned, scale, until_next);
        }
    }

    /// Return the units written to flash and by the host; their ratio is the write amplification.
    pub fn written(&self) -> (u64, u64) {
        match &self.translation {
            Translation::Page(map) => map.written(),
            Translation::LogBlock(log_blocks) => log_blocks.written(),
        }
    }

    /// Return the erase count of each block (of the modelled slice, for a large drive); empty if
    /// not counted.
    pub fn erases(&self) -> &[u32] {
        match &self.translation {
            Translation::Page(map) => map.erases(),
            Translation::LogBlock(_) => &[],
        }
    }

    #[inline]
    fn place(&self, unit: u64) -> Option<u64> {
        match &self.translation {
            Translation::Page(map) => map.place(unit),
            Translation::LogBlock(log_blocks) => log_blocks.holds(unit).then_some(unit),
        }
    }

    /// Transfer bytes over the link and return when the transfer ends. The last part is available
    /// at `ready`.
    #[inline]
    fn over_link(
        &mut self,
        side: usize,
        submitted: Nanos,
        ready: Nanos,
        bytes: u64,
        last_bytes: u64,
    ) -> Nanos {
        let clock = &mut self.link_clock[side];
        *clock = (*clock).max(submitted) + (bytes as f64 * self.link_ns_per_byte) as Nanos;
        (*clock).max(ready + (last_bytes as f64 * self.link_ns_per_byte) as Nanos)
    }

    #[inline]
    fn units_of(&self, request: &Request) -> (u64, u64) {
        let end = request.sector + u64::from(request.sectors);
        (request.sector >> self.unit_shift, (end + self.unit_sectors - 1) >> self.unit_shift)
    }

    fn read(&mut self, ready: Nanos, request: &Request) -> Nanos {
        let (first, end) = self.units_of(request);
        let bytes = u64::from(request.sectors) * SECTOR_BYTES;
        let unit_bytes = self.unit_bytes.min(bytes);
        let there = match self.ahead.take() {
            None => self.fetch(first, end, ready, unit_bytes),
            Some(mut ahead) => {
                let range = (request.sector, u64::from(request.sectors));
                let whole_end = (range.0 + range.1) >> self.unit_shift;
                let units = self.capacity_sectors >> self.unit_shift;
                let fetch = |first, end| self.fetch(first, end, ready, unit_bytes);
                let there = ahead.read(range, (first, end), whole_end, units, fetch);
                self.ahead = Some(ahead);
                there
            }
        };
        self.link_clock[0] = self.link_clock[0].max(ready) + self.link_read_command_ns;
        self.over_link(0, ready, there, bytes, unit_bytes)
    }

    /// Read units from the flash, and return when the last of them is in the controller.
    /// `unit_bytes`: of each that cross the channel.
    #[inline]
    fn fetch(&mut self, first: u64, end: u64, ready: Nanos, unit_bytes: u64) -> Nanos {
        let over_channel = (unit_bytes as f64 * self.channel_ns_per_byte) as Nanos;
        let mut there = ready;
        let (mut last_page, mut last_read) = (None, ready);
        for unit in first..end {
            let Some(place) = self.place(unit) else {
                continue;
            };
            let page = place / self.page_units;
            let die = (page % self.dies.count() as u64) as usize;
            if last_page != Some(page) {
                last_read = self.dies.read(die, page, ready);
                last_page = Some(page);
            }
            let channel = &mut self.channel_clock[self.channel_of[die]];
            *channel = (*channel).max(ready) + over_channel;
            there = there.max((*channel).max(last_read + over_channel));
        }
        there
    }

    fn write(&mut self, ready: Nanos, request: &Request) -> Nanos {
        let (first, end) = self.units_of(request);
        self.ahead.iter_mut().for_each(|ahead| ahead.forget(first, end));
        let request_end = request.sector + u64::from(request.sectors);
        let here = if request.op == Op::WriteZeroes {
            ready
        } else {
            let bytes = u64::from(request.sectors) * SECTOR_BYTES;
            let link = &mut self.link_clock[self.inbound];
            *link = (*link).max(ready) + self.link_write_command_ns;
            self.over_link(self.inbound, ready, ready, bytes, bytes)
        };
        let mut taken = here;
        for unit in first..end {
            let unit_end = ((unit + 1) << self.unit_shift).min(self.capacity_sectors);
            let whole = unit << self.unit_shift >= request.sector && unit_end <= request_end;
            let mut data = here;
            if !whole {
                if let Some(place) = self.place(unit) {
                    let page = place / self.page_units;
                    let die = (page % self.dies.count() as u64) as usize;
                    data = self.dies.read(die, page, here);
                }
            }
            // The buffer is a ring: this slot is free once its previous unit is in flash.
            let room = self.buffer[self.buffer_next].stable.time();
            taken = taken.max(room.expect("checked: the buffer holds more than one page"));
            self.buffer[self.buffer_next] = Buffered { stable: Moment::NEVER, unit };
            let next = self.buffer_next + 1;
            self.buffer_next = if next == self.buffer.len() { 0 } else { next };
            self.gathered += 1;
            // Where only a part of the map is followed, new data keep the place of the old ones.
            if let Some(place) = self.translate_write(unit, taken) {
                let page = place / self.page_units;
                self.dies.forget((page % self.dies.count() as u64) as usize, page);
            }
            if self.gathered as u64 == self.page_units {
                self.program(taken.max(data));
            }
        }
        if request.fua && !self.protected {
            self.program(taken);
            taken = taken.max(self.last_stable);
        }
        taken
    }

    /// Return the new place of the unit.
    fn translate_write(&mut self, unit: u64, now: Nanos) -> Option<u64> {
        match &mut self.translation {
            Translation::Page(map) => {
                let place = map.write(unit);
                if let Some(cleaned) = map.take_cleaned() {
                    let (scale, until_next) = (map.scale, map.block_units() * map.scale);
                    self.charge_cleaning(now, cleaned, scale, until_next);
                }
                place
            }
            Translation::LogBlock(log_blocks) => {
                if let Some(merge) = log_blocks.write(unit) {
                    let block_units = log_blocks.block_units() as f64;
                    let pages = merge.copied_units as f64 / self.page_units as f64;
                    let die_blocks =
                        merge.erased_blocks as f64 * block_units / self.die_block_units;
                    let die_time = pages * (self.read_ns + self.program_ns as f64)
                        + die_blocks.ceil() * self.erase_ns;
                    self.dies.occupy_all(now, die_time, self.read_ns as Nanos + self.program_ns);
                    self.activity.write(now, now + (die_time / self.dies.count() as f64) as Nanos);
                }
                self.place(unit)
            }
        }
    }

    /// Charge the dies for cleaned blocks: reads of the pages with valid units, programs and
    /// erases. Non-blocking cleaning goes in whole operations with the host writes until the next
    /// cleaning (`until_next` units).
    fn charge_cleaning(&mut self, now: Nanos, cleaned: Cleaned, scale: u64, until_next: u64) {
        let units = f64::from(cleaned.block_units) * scale as f64;
        let valid = f64::from(cleaned.valid) * scale as f64;
        let per_page = self.page_units as f64;
        let untouched = (1.0 - valid / units).powf(per_page);
        let reads = units / per_page * (1.0 - untouched);
        let copies = valid / per_page;
        let erases = units / self.die_block_units;
        if self.blocking {
            let die_time =
                reads * self.read_ns + copies * self.program_ns as f64 + erases * self.erase_ns;
            self.dies.occupy_all(now, die_time, (die_time / self.dies.count() as f64) as Nanos);
        } else {
            self.cleaning_programs = until_next.div_ceil(self.page_units);
            let programs = self.cleaning_programs as f64;
            let read_ns = if copies > 0.0 { reads / copies * self.read_ns } else { 0.0 };
            self.cleaning = CleaningShare {
                copies: copies / programs,
                erases: erases / programs,
                copy_ns: read_ns as Nanos + self.program_ns,
            };
        }
    }

    /// Program the units of the partly filled page on the next die: over its channel, then in the
    /// flash.
    fn program(&mut self, ready: Nanos) {
        if self.gathered == 0 {
            return;
        }
        let die = self.next_die;
        self.next_die = if die + 1 == self.dies.count() { 0 } else { die + 1 };
        let now = self.controller_free;
        let there = self.over_channel(die, ready, self.gathered as f64);
        let mut program_ns = self.program_ns;
        if let Some(slc) = self.slc.as_mut().and_then(|slc| slc.take(self.gathered)) {
            program_ns = slc.program_ns;
            if slc.fold_ns > 0 {
                self.dies.work(die, now, now, slc.fold_ns, slc.fold_ns);
            }
        }
        let stable = self.dies.work(die, now, there, program_ns, program_ns);
        if self.cleaning_programs > 0 {
            self.cleaning_programs -= 1;
            let copies = self.dies.clean(die, self.cleaning);
            if copies > 0 {
                // To the controller, which corrects errors, and back.
                self.over_channel(die, now, f64::from(2 * copies) * self.page_units as f64);
            }
        }
        let size = self.buffer.len();
        for back in 1..=self.gathered {
            let next = self.buffer_next;
            let slot = if next >= back { next - back } else { next + size - back };
            self.buffer[slot].stable = Moment::at(stable);
        }
        self.gathered = 0;
        self.last_stable = self.last_stable.max(stable);
        let done = self.dies.done(die);
        self.busy_until = self.busy_until.max(done);
        self.activity.write(ready, done);
    }

    /// Transfer units over the channel of a die and return when the transfer ends.
    #[inline]
    fn over_channel(&mut self, die: usize, ready: Nanos, units: f64) -> Nanos {
        let time = (units * self.unit_bytes as f64 * self.channel_ns_per_byte) as Nanos;
        let clock = &mut self.channel_clock[self.channel_of[die]];
        *clock = (*clock).max(self.controller_free) + time;
        (*clock).max(ready + time)
    }

    /// Return the units that lie in a range completely; the last unit of the drive can be shorter
    /// than the others. A drive that does not know TRIM discards none.
    fn units_discarded(&self, (sector, sectors): SectorRange) -> Option<(u64, u64)> {
        let end = (sector + sectors).min(self.capacity_sectors);
        let rest = if end == self.capacity_sectors { self.unit_sectors - 1 } else { 0 };
        let first = (sector + self.unit_sectors - 1) >> self.unit_shift;
        let end = (end + rest) >> self.unit_shift;
        (self.trim && first < end).then_some((first, end))
    }

    fn discard(&mut self, request: &Request) {
        let range = (request.sector, u64::from(request.sectors));
        let Some((first, end)) = self.units_discarded(range) else { return };
        self.ahead.iter_mut().for_each(|ahead| ahead.forget(first, end));
        match &mut self.translation {
            Translation::Page(map) => {
                let before = map.mapped_units();
                map.discard(first, end);
                // Of data in the cache and elsewhere, the same share is discarded.
                let share = 1.0 - map.mapped_units() as f64 / before.max(1) as f64;
                self.slc.iter_mut().for_each(|slc| slc.discard(share));
            }
            Translation::LogBlock(log_blocks) => log_blocks.discard(first, end),
        }
    }
}

impl Medium for Ssd {
    fn capacity_sectors(&self) -> u64 {
        self.capacity_sectors
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        self.activity.joules(&self.power, now)
    }

    /// Return the units in the write buffer; none if capacitors protect it.
    fn unflushed(&mut self, now: Nanos) -> Vec<SectorRange> {
        if self.protected {
            return Vec::new();
        }
        let lost = self.buffer.iter().filter(|buffered| !buffered.stable.has_come(now));
        lost.map(|buffered| (buffered.unit << self.unit_shift, self.unit_sectors)).collect()
    }

    /// Of a large drive, estimated from the modelled slice. Data that a drive first keeps in one bit
    /// per cell counts once.
    fn flash_writes(&self) -> FlashWrites {
        let (flash, host) = self.written();
        let units = match &self.translation {
            Translation::Page(map) => map.scale,
            Translation::LogBlock(_) => 1,
        };
        let bytes = units * self.unit_sectors * SECTOR_BYTES;
        FlashWrites { host_bytes: host * bytes, flash_bytes: flash * bytes }
    }

    fn fault_counts(&self) -> FaultCounts {
        FaultCounts::default()
    }

    fn preload(&mut self, data: &[SectorRange], order: StoredOrder) {
        let capacity = self.capacity_sectors;
        let units = |&(first, sectors): &SectorRange| {
            let end = (first + sectors).min(capacity);
            (first >> self.unit_shift, (end + self.unit_sectors - 1) >> self.unit_shift)
        };
        let ranges: Vec<_> = data.iter().map(units).filter(|(first, end)| first < end).collect();
        match &mut self.translation {
            Translation::Page(map) => map.preload(&ranges, order),
            Translation::LogBlock(log_blocks) => {
                ranges.iter().for_each(|&(first, end)| log_blocks.preload(first, end));
            }
        }
        self.continue_cleaning();
    }

    fn trim(&mut self, data: &[SectorRange]) {
        for &range in data {
            let Some((first, end)) = self.units_discarded(range) else { continue };
            match &mut self.translation {
                Translation::Page(map) => map.trim((first, end)),
                Translation::LogBlock(log_blocks) => log_blocks.discard(first, end),
            }
        }
        self.continue_cleaning();
    }
}

impl Device for Ssd {
    fn submit(&mut self, now: Nanos, request: Request) {
        let seq = self.done.admit();
        let (command_ns, overhead_ns) = match request.op {
            Op::Read => (self.read_command_ns, self.read_overhead_ns),
            _ => (self.write_command_ns, self.write_overhead_ns),
        };
        let stands_alone = self.flushes_alone && request.op == Op::Flush;
        if stands_alone {
            self.controller_free = self.controller_free.max(self.done.latest());
        }
        self.controller_free = self.controller_free.max(now) + command_ns;
        let ready = self.controller_free + overhead_ns;
        let end = request.sector.saturating_add(u64::from(request.sectors));
        if let Some(slc) = &mut self.slc {
            if let Some(done) = slc.fold(&mut self.dies, self.busy_until, now) {
                self.activity.write(self.busy_until, done.min(now));
                self.busy_until = done;
            }
        }
        let moves_data = !matches!(request.op, Op::Flush);
        if moves_data && (request.sectors == 0 || end > self.capacity_sectors) {
            self.done.push(ready, seq, request.tag, Status::Failed(Fault::OutOfRange));
            return;
        }
        let time = match request.op {
            Op::Read => {
                let time = self.read(ready, &request);
                self.activity.read(now, time);
                time
            }
            Op::Write | Op::WriteZeroes => {
                let time = self.write(ready, &request);
                self.activity.write(now, time);
                time
            }
            Op::Flush if self.protected => ready,
            Op::Flush => {
                self.program(ready);
                ready.max(self.last_stable)
            }
            Op::Discard => {
                self.discard(&request);
                ready
            }
        };
        if stands_alone {
            self.controller_free = self.controller_free.max(time);
        }
        self.busy_until = self.busy_until.max(time);
        self.done.push(time, seq, request.tag, Status::Done);
    }

    #[inline]
    fn wake_ahead(&mut self, _now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        self.done.drain(until, out);
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        self.done.first()
    }

    fn in_flight(&self) -> usize {
        self.done.in_flight()
    }
}
