//! The bits of a write-intent bitmap, and the writes that wait for them (`bitmap`).

use super::layout::{Layout, Level};
use super::state::Parent;
use crate::request::{Nanos, Request, SECTOR_BYTES};
use crate::slots::Id;
use crate::spec::{refuse, SpecError};

/// Sectors of a member before its data: 1 MiB, as `mdadm` leaves at least with metadata 1.2.
pub(super) const RESERVED_SECTORS: u64 = 2048;
/// The bitmap begins 4 KiB after the superblock, which is at 4 KiB.
pub(super) const FIRST_SECTOR: u64 = 16;
pub(super) const PAGE_SECTORS: u64 = 8;
const BITS_PER_PAGE: u64 = 4096 * 8;
/// As many bits as there are pages before the data.
const MOST_BITS: u64 = (RESERVED_SECTORS - FIRST_SECTOR) / PAGE_SECTORS * BITS_PER_PAGE;
/// `daemon_sleep`: the bitmap's daemon examines the bits this often.
const DAEMON_NS: Nanos = 5_000_000_000;

#[derive(Clone, Copy, Default, PartialEq)]
enum Stored {
    #[default]
    Clear,
    /// The page is being written.
    Setting,
    Set,
}

#[derive(Clone, Copy, Default)]
pub(super) struct Bit {
    stored: Stored,
    /// Writes to its chunk that have begun.
    pub(super) writes: u32,
    /// When the last of them ended.
    pub(super) ended: Nanos,
}

/// A bitmap and the writes that wait for it.
pub(super) struct Bitmap {
    /// Sectors per bit.
    chunk: u64,
    bits: Vec<Bit>,
    pub(super) waiting: Vec<Waiting>,
    pub(super) ready: Vec<Waiting>,
    pub(super) pages: Vec<u64>,
    /// Pages are being written.
    pub(super) writing: bool,
}

/// A write whose bits are not all set.
#[derive(Clone, Copy)]
pub(super) struct Waiting {
    pub(super) parent: Id<Parent>,
    pub(super) request: Request,
    pub(super) bits: (u64, u64),
}

impl Bitmap {
    pub(super) fn new(layout: &Layout, chunk_bytes: u64) -> Result<Self, SpecError> {
        let covered = match layout.level {
            Level::Parity(_) => layout.member_sectors,
            _ => layout.capacity_sectors(),
        };
        let chunk = chunk_bytes / SECTOR_BYTES;
        let bits = covered.div_ceil(chunk);
        if bits > MOST_BITS {
            let least = (covered.div_ceil(MOST_BITS) * SECTOR_BYTES).next_power_of_two();
            return refuse("raid.bitmap_chunk_bytes", chunk_bytes, &format!("at least {least}"));
        }
        Ok(Bitmap {
            chunk,
            bits: vec![Bit::default(); bits as usize],
            waiting: Vec::new(),
            ready: Vec::new(),
            pages: Vec::new(),
            writing: false,
        })
    }

    /// Return the bits of a request: the first, and past the last.
    pub(super) fn bits_of(&self, layout: &Layout, request: &Request) -> (u64, u64) {
        let (mut from, mut to) = (request.sector, request.sector + u64::from(request.sectors));
        if let Level::Parity(_) = layout.level {
            let row = layout.chunk * layout.data_chunks() as u64;
            (from, to) = (from / row * layout.chunk, to.div_ceil(row) * layout.chunk);
        }
        (from / self.chunk, to.div_ceil(self.chunk))
    }

    pub(super) fn slice(&mut self, bits: (u64, u64)) -> &mut [Bit] {
        &mut self.bits[bits.0 as usize..bits.1 as usize]
    }

    /// Count a write to its chunks; return whether all their bits are set.
    pub(super) fn begin(&mut self, bits: (u64, u64), now: Nanos) -> bool {
        let mut set = true;
        for bit in self.slice(bits) {
            let cleared = bit.writes == 0 && now >= (bit.ended / DAEMON_NS + 2) * DAEMON_NS;
            if bit.stored == Stored::Set && cleared {
                bit.stored = Stored::Clear;
            }
            bit.writes += 1;
            set &= bit.stored == Stored::Set;
        }
        set
    }

    /// Collect the pages that the waiting writes need, and mark their bits as being set.
    pub(super) fn collect_pages(&mut self) {
        self.pages.clear();
        for waiting in &self.waiting {
            for number in waiting.bits.0..waiting.bits.1 {
                let bit = &mut self.bits[number as usize];
                if bit.stored == Stored::Clear {
                    bit.stored = Stored::Setting;
                    let page = number / BITS_PER_PAGE;
                    if !self.pages.contains(&page) {
                        self.pages.push(page);
                    }
                }
            }
        }
    }

    /// Move the writes whose bits are now all set to `ready`.
    pub(super) fn written(&mut self) {
        let bits = &mut self.bits;
        self.writing = false;
        for waiting in &self.waiting {
            for bit in &mut bits[waiting.bits.0 as usize..waiting.bits.1 as usize] {
                if bit.stored == Stored::Setting {
                    bit.stored = Stored::Set;
                }
            }
        }
        let ready = &mut self.ready;
        self.waiting.retain(|waiting| {
            let own = &bits[waiting.bits.0 as usize..waiting.bits.1 as usize];
            let all = own.iter().all(|bit| bit.stored == Stored::Set);
            if all {
                ready.push(*waiting);
            }
            !all
        });
    }
}
