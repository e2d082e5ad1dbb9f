//! One record of blktrace's binary files: detection, decoding and encoding.
//!
//! In version 7 (`struct blk_io_trace`), 48 bytes precede the payload: magic, sequence, time,
//! sector, bytes, action, pid, device, cpu, error, payload length. In version 8 (`struct
//! blk_io_trace2`, since Linux 6.19, for zoned drives) it is 64 bytes, with an action of 64 bits.
//! Both use the byte order of the traced machine (the kernel's include/uapi/linux/blktrace_api.h).

use crate::event::{Action, Event, Op};
use crate::gaps::Numbered;

const MAGIC: u32 = 0x6561_7400;
const SECTOR_BYTES: u32 = 512;

/// Supported versions, for messages.
pub const VERSIONS: &str = "7, 8";
/// The version written.
const WRITTEN: u32 = 7;
const WRITTEN_BYTES: usize = 48;
const WIDE_BYTES: usize = 64;

/// Categories: the bits above the lower 16 bits of `action`.
const READ: u64 = 1 << 16;
const WRITE: u64 = 1 << 17;
const FLUSH: u64 = 1 << 18;
const QUEUE: u64 = 1 << 20;
const REQUEUE: u64 = 1 << 21;
const ISSUE: u64 = 1 << 22;
const COMPLETE: u64 = 1 << 23;
const PASSED_THROUGH: u64 = 1 << 25;
const NOTIFY: u64 = 1 << 26;
const DISCARD: u64 = 1 << 29;
/// Version 8: reset, finish, open and close of zones. No data is transferred.
const ZONES: u64 = 0b1_1111 << 33;

const NOTE_PROCESS: u64 = 0;
const NOTE_TIME: u64 = 1;

/// Version and byte order of a file's records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    pub version: u32,
    pub swapped: bool,
}

/// Content of a record.
pub enum Said {
    Event(Event),
    /// The payload is the name of this process.
    Name(u32),
    /// Not an event of a request.
    Other,
}

impl Default for Form {
    fn default() -> Form {
        Form { version: WRITTEN, swapped: false }
    }
}

impl Form {
    /// Return the form of the record at the start of `bytes`, `None` if there is no record.
    pub fn of(bytes: &[u8]) -> Option<Form> {
        let value = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
        for (value, swapped) in [(value, false), (value.swap_bytes(), true)] {
            if value & 0xffff_ff00 == MAGIC {
                return Some(Form { version: value & 0xff, swapped });
            }
        }
        None
    }

    pub fn is_read(self) -> bool {
        matches!(self.version, 7 | 8)
    }

    #[inline(always)]
    pub fn is_wide(self) -> bool {
        self.version == 8
    }

    /// Return the first four bytes of each record.
    pub fn magic(self) -> [u8; 4] {
        let value = MAGIC | self.version;
        if self.swapped {
            value.to_be_bytes()
        } else {
            value.to_le_bytes()
        }
    }

    /// Return the length of a record without its payload.
    #[inline(always)]
    pub fn bytes(self) -> usize {
        if self.is_wide() {
            WIDE_BYTES
        } else {
            WRITTEN_BYTES
        }
    }

    #[inline(always)]
    fn u32_at(self, record: &[u8], at: usize) -> u32 {
        let bytes = [record[at], record[at + 1], record[at + 2], record[at + 3]];
        if self.swapped {
            u32::from_be_bytes(bytes)
        } else {
            u32::from_le_bytes(bytes)
        }
    }

    #[inline(always)]
    fn u64_at(self, record: &[u8], at: usize) -> u64 {
        let mut bytes = [0; 8];
        bytes.copy_from_slice(&record[at..at + 8]);
        if self.swapped {
            u64::from_be_bytes(bytes)
        } else {
            u64::from_le_bytes(bytes)
        }
    }

    /// Return the length of a record's payload.
    #[inline(always)]
    pub fn payload(self, record: &[u8]) -> usize {
        let at = if self.is_wide() { 50 } else { 46 };
        let value = [record[at], record[at + 1]];
        usize::from(if self.swapped {
            u16::from_be_bytes(value)
        } else {
            u16::from_le_bytes(value)
        })
    }

    /// Return the number of a record, and what numbered it.
    #[inline(always)]
    pub fn number(self, record: &[u8]) -> Numbered {
        let device = if self.is_wide() { 40 } else { 36 };
        let mut by = [0; 8];
        by.copy_from_slice(&record[device..device + 8]);
        Numbered { sequence: self.u32_at(record, 4), by: u64::from_ne_bytes(by) }
    }

    /// Return whether a record is a notification, such as the name of a process.
    pub fn is_note(self, record: &[u8]) -> bool {
        let action = if self.is_wide() {
            self.u64_at(record, 32)
        } else {
            u64::from(self.u32_at(record, 28))
        };
        action & NOTIFY != 0
    }

    /// Decode a complete record (of `bytes()` bytes).
    #[inline(always)]
    pub fn said(self, record: &[u8]) -> Said {
        let (action, pid, device) = if self.is_wide() {
            (self.u64_at(record, 32), self.u32_at(record, 28), self.u32_at(record, 40))
        } else {
            (u64::from(self.u32_at(record, 28)), self.u32_at(record, 32), self.u32_at(record, 36))
        };
        if action & NOTIFY != 0 {
            return if action & 0xff == NOTE_PROCESS { Said::Name(pid) } else { Said::Other };
        }
        let kind = match action & 0xff {
            1 => Action::Queue,
            2 | 3 => Action::Merge,
            6 => Action::Requeue,
            7 => Action::Issue,
            8 => Action::Complete,
            _ => return Said::Other,
        };
        let sectors = self.u32_at(record, 24) / SECTOR_BYTES;
        let op = if action & DISCARD != 0 {
            Op::Discard
        } else if sectors == 0 && action & FLUSH != 0 {
            Op::Flush
        } else if action & WRITE != 0 {
            Op::Write
        } else {
            Op::Read
        };
        if action & (PASSED_THROUGH | ZONES) != 0 || (sectors == 0 && op != Op::Flush) {
            return Said::Other;
        }
        Said::Event(Event {
            time_ns: self.u64_at(record, 8),
            sector: self.u64_at(record, 16) & ((1 << 55) - 1),
            sectors,
            pid,
            device,
            action: kind,
            op,
        })
    }
}

/// A record without its payload.
#[derive(Clone, Copy)]
pub struct Head {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u64,
    pid: u32,
    device: u32,
}

impl Head {
    pub fn event(event: &Event) -> Head {
        let kind = match event.action {
            Action::Queue => 1 | QUEUE,
            Action::Merge => 2 | QUEUE,
            Action::Requeue => 6 | REQUEUE,
            Action::Issue => 7 | ISSUE,
            Action::Complete => 8 | COMPLETE,
        };
        let op = match event.op {
            Op::Read => READ,
            Op::Write => WRITE,
            Op::Flush => WRITE | FLUSH,
            Op::Discard => WRITE | DISCARD,
        };
        Head {
            time_ns: event.time_ns,
            sector: event.sector,
            bytes: event.sectors.saturating_mul(SECTOR_BYTES),
            action: kind | op,
            pid: event.pid,
            device: event.device,
        }
    }

    /// Return the record that announces the process's name, at the time of the event.
    pub fn name(self) -> Head {
        Head { sector: 0, bytes: 0, action: NOTIFY | NOTE_PROCESS, ..self }
    }

    /// Return the record that announces the wall-clock time.
    pub fn wall(device: u32, time_ns: u64) -> Head {
        Head { time_ns, sector: 0, bytes: 0, action: NOTIFY | NOTE_TIME, pid: 0, device }
    }

    /// Encode the record in this machine's byte order.
    pub fn encoded(self, sequence: u32, cpu: u32, payload: usize) -> [u8; WRITTEN_BYTES] {
        let mut bytes = [0u8; WRITTEN_BYTES];
        bytes[0..4].copy_from_slice(&(MAGIC | WRITTEN).to_ne_bytes());
        bytes[4..8].copy_from_slice(&sequence.to_ne_bytes());
        bytes[8..16].copy_from_slice(&self.time_ns.to_ne_bytes());
        bytes[16..24].copy_from_slice(&self.sector.to_ne_bytes());
        bytes[24..28].copy_from_slice(&self.bytes.to_ne_bytes());
        bytes[28..32].copy_from_slice(&(self.action as u32).to_ne_bytes());
        bytes[32..36].copy_from_slice(&self.pid.to_ne_bytes());
        bytes[36..40].copy_from_slice(&self.device.to_ne_bytes());
        bytes[40..44].copy_from_slice(&cpu.to_ne_bytes());
        bytes[46..48].copy_from_slice(&(payload as u16).to_ne_bytes());
        bytes
    }
}
