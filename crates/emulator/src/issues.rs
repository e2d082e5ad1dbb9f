//! When the kernel issued each request to the loop driver: from its tracepoint `block_rq_issue`,
//! read out of the ring buffers that perf_event_open(2) shares with this process.
//!
//! A request reaches the emulator later than a drive would get it, by as long as the loop driver's
//! worker waits for a CPU. With the time of issue that delay is known for each request: the model
//! starts the request then, and what cannot be caught up counts as completion delay.

use std::collections::HashMap;
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd};
use std::sync::atomic::{AtomicU64, Ordering};

use headrace_model::{Nanos, SECTOR_BYTES};
use serde::Deserialize;

/// How to find the tracepoint; its number and layout are in tracefs.
#[derive(Clone, Debug, Deserialize)]
pub struct IssueEvent {
    /// `events/block/block_rq_issue/id`.
    pub event: u64,
    /// Offset of the field `sector` in a record.
    pub sector_at: usize,
    /// The device's number as the kernel has it, `major << 20 | minor`.
    pub device: u32,
}

/// Data of one CPU's ring: 600 records. At most 128 requests are in flight, and each arrival empties
/// it.
const RING_BYTES: usize = 64 << 10;
const PAGE: usize = 4096;
/// Requests without an arrival (that the driver refused) may leave entries.
const MOST_KEPT: usize = 4096;
/// Stands for a flush in place of a sector. The kernel reports it as sector 0 of no sectors.
const FLUSH: u64 = u64::MAX;

/// perf_event_attr up to the version with a clock (linux/perf_event.h, PERF_ATTR_SIZE_VER5).
#[repr(C)]
#[derive(Default)]
struct Attributes {
    kind: u32,
    size: u32,
    config: u64,
    sample_period: u64,
    sample_type: u64,
    read_format: u64,
    flags: u64,
    wakeup_watermark: u32,
    breakpoint: u32,
    config1: u64,
    config2: u64,
    branch_sample_type: u64,
    sample_regs_user: u64,
    sample_stack_user: u32,
    clock: i32,
    sample_regs_intr: u64,
    aux_watermark: u32,
    sample_max_stack: u16,
    reserved: u16,
}

const TRACEPOINT: u32 = 2;
const SAMPLE_TIME: u64 = 1 << 2;
const SAMPLE_RAW: u64 = 1 << 10;
const FLAG_WATERMARK: u64 = 1 << 14;
const FLAG_USE_CLOCK: u64 = 1 << 25;
const RECORD_SAMPLE: u32 = 9;
/// _IOW('$', 6, char *)
const SET_FILTER: libc::c_ulong = 0x4008_2406;
/// Offsets in the first page (struct perf_event_mmap_page).
const DATA_HEAD: usize = 1024;
const DATA_TAIL: usize = 1032;

/// The ring of one CPU.
struct Ring {
    _file: File,
    page: *mut u8,
    tail: u64,
}

// SAFETY: the mapping belongs to this value alone, and lives as long.
unsafe impl Send for Ring {}

impl Ring {
    fn open(event: &IssueEvent, cpu: i32) -> io::Result<Self> {
        let attributes = Attributes {
            kind: TRACEPOINT,
            size: size_of::<Attributes>() as u32,
            config: event.event,
            sample_period: 1,
            sample_type: SAMPLE_TIME | SAMPLE_RAW,
            flags: FLAG_WATERMARK | FLAG_USE_CLOCK,
            // Nobody waits for the ring.
            wakeup_watermark: u32::MAX,
            clock: libc::CLOCK_MONOTONIC,
            ..Attributes::default()
        };
        let cloexec: libc::c_ulong = 1 << 3;
        // SAFETY: `attributes` outlives the call; all processes on this CPU, no group.
        let descriptor = unsafe {
            libc::syscall(libc::SYS_perf_event_open, &raw const attributes, -1, cpu, -1, cloexec)
        };
        if descriptor < 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new descriptor, ours alone.
        let file = unsafe { File::from_raw_fd(descriptor as i32) };
        let filter = format!("dev == {}\0", event.device);
        // SAFETY: a string that ends with a zero and outlives the call.
        if unsafe { libc::ioctl(file.as_raw_fd(), SET_FILTER, filter.as_ptr()) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: a new mapping, unmapped on drop.
        let page = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                PAGE + RING_BYTES,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_SHARED,
                file.as_raw_fd(),
                0,
            )
        };
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Ring { _file: file, page: page.cast(), tail: 0 })
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        // SAFETY: an aligned word of the mapping, which the kernel changes, too.
        unsafe { &*self.page.add(offset).cast::<AtomicU64>() }
    }

    /// Copy bytes at a position of the stream, which may wrap.
    fn copy(&self, at: u64, into: &mut [u8]) {
        let start = at as usize % RING_BYTES;
        let first = into.len().min(RING_BYTES - start);
        // SAFETY: both parts lie within the ring's data.
        unsafe {
            let data = self.page.add(PAGE);
            std::ptr::copy_nonoverlapping(data.add(start), into.as_mut_ptr(), first);
            std::ptr::copy_nonoverlapping(data, into[first..].as_mut_ptr(), into.len() - first);
        }
    }

    /// Call `found` with time and sector of each new record; the sector of a flush is `FLUSH`.
    fn drain(&mut self, sector_at: usize, mut found: impl FnMut(Nanos, u64)) {
        let head = self.word(DATA_HEAD).load(Ordering::Acquire);
        if head == self.tail {
            return;
        }
        while self.tail < head {
            let mut record = [0; 128];
            self.copy(self.tail, &mut record[..8]);
            let length = u64::from(u16::from_ne_bytes([record[6], record[7]]));
            if length < 8 {
                // Never: a record has its header.
                self.tail = head;
                break;
            }
            let taken = record.len().min(length as usize);
            self.copy(self.tail, &mut record[..taken]);
            // After the header: the time, the size of the raw data (4 bytes), the data.
            let sector = 20 + sector_at;
            if word32(&record, 0) == RECORD_SAMPLE && sector + 12 <= taken {
                // The number of sectors follows.
                let flush = word32(&record, sector + 8) == 0;
                found(word64(&record, 8), if flush { FLUSH } else { word64(&record, sector) });
            }
            self.tail += length;
        }
        self.word(DATA_TAIL).store(self.tail, Ordering::Release);
    }
}

impl Drop for Ring {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.page.cast(), PAGE + RING_BYTES) };
    }
}

fn word32(bytes: &[u8], at: usize) -> u32 {
    bytes[at..at + 4].try_into().map_or(0, u32::from_ne_bytes)
}

fn word64(bytes: &[u8], at: usize) -> u64 {
    bytes[at..at + 8].try_into().map_or(0, u64::from_ne_bytes)
}

/// The requests that were issued and have not arrived.
pub struct Issues {
    rings: Vec<Ring>,
    sector_at: usize,
    issued: HashMap<u64, Nanos>,
}

impl Issues {
    /// Begin to record; needs the right to use perf events of the kernel.
    pub fn open(event: &IssueEvent) -> io::Result<Self> {
        // SAFETY: no pointers.
        let cpus = unsafe { libc::sysconf(libc::_SC_NPROCESSORS_CONF) }.max(1);
        let mut rings = Vec::new();
        for cpu in 0..cpus {
            match Ring::open(event, cpu as i32) {
                Ok(ring) => rings.push(ring),
                // The CPU is switched off.
                Err(error) if error.raw_os_error() == Some(libc::ENODEV) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(Issues {
            rings,
            sector_at: event.sector_at,
            issued: HashMap::with_capacity(2 * MOST_KEPT),
        })
    }

    /// Return when the request at `offset` was issued, on CLOCK_MONOTONIC; forget it. `None` is a
    /// flush.
    pub fn take(&mut self, offset: Option<u64>) -> Option<Nanos> {
        if self.issued.len() > MOST_KEPT {
            self.issued.clear();
        }
        let issued = &mut self.issued;
        for ring in &mut self.rings {
            ring.drain(self.sector_at, |time, sector| note(issued, sector, time));
        }
        self.issued.remove(&offset.map_or(FLUSH, |offset| offset / SECTOR_BYTES))
    }
}

/// Keep the last issue at a sector. The rings of CPUs are read one after the other, and a request
/// may have left an entry: an old one must not become the time of a later request.
fn note(issued: &mut HashMap<u64, Nanos>, sector: u64, time: Nanos) {
    issued.entry(sector).and_modify(|last| *last = time.max(*last)).or_insert(time);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_issue_at_a_sector_counts_in_whichever_order_rings_are_read() {
        for times in [[3, 8], [8, 3]] {
            let mut issued = HashMap::new();
            times.into_iter().for_each(|time| note(&mut issued, 0, time));
            assert_eq!(issued.remove(&0), Some(8));
        }
    }
}
