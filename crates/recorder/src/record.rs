//! Records: what was requested, when, and the thread's CPU time until then.

use crate::clocks::{self, Clocks};
use crate::kernel;
use crate::segment::{self, Slot};
use crate::writer;

/// Kind of a record. The numbers are part of the file format.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Op {
    /// Start of the process image. `file`: 1 after fork, 0 after exec; `length`: see [`cpu_wait`];
    /// `offset`: bytes that the process has read so far, see [`bytes_read`].
    Start = 1,
    /// End of the process image (exit or exec). `offset`: CPU time of the whole process; `length`:
    /// see [`cpu_wait`]; `asked`: see [`bytes_read`]; `file`: objects loaded by the dynamic loader
    /// since the start.
    End = 2,
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    Stat = 7,
    Seek = 8,
    Sync = 9,
    Map = 10,
    /// Pages of a map that the process had touched by the time of its removal. `flags`: 1 for a
    /// shared, writable map.
    Mapped = 11,
    Unlink = 12,
    /// `offset`: the new size of the file.
    Truncate = 13,
    /// Allocate space for a range, and extend the file if it is shorter (`fallocate`).
    Allocate = 14,
    /// Allocate space for a range and keep the file size (FALLOC_FL_KEEP_SIZE).
    Reserve = 15,
}

/// Layout of a record in a segment.
#[repr(C)]
pub struct Record {
    /// Value of `Op`; written last.
    op: u8,
    failed: u8,
    flags: u16,
    file: u32,
    /// CLOCK_MONOTONIC, in nanoseconds.
    start_ns: u64,
    end_ns: u64,
    /// CPU time of the thread at the start.
    cpu_start_ns: u64,
    /// CPU time during the call, at most 4.29 s.
    cpu_within_ns: u32,
    thread: u32,
    offset: u64,
    /// Bytes transferred.
    length: u64,
    /// Bytes requested.
    asked: u64,
}

const _: () = assert!(core::mem::size_of::<Record>() == core::mem::size_of::<Slot>());

/// Data of a call besides its times.
#[derive(Clone, Copy, Default)]
pub struct Call {
    pub file: u32,
    pub offset: u64,
    pub length: u64,
    pub asked: u64,
    pub flags: u16,
    pub failed: bool,
}

/// Read a file in /proc. This opens a descriptor for a short time, so it is only used when no other
/// thread of the program can open files (start of an image) or when the process ends.
fn proc_text<'a>(path: &[u8], to: &'a mut [u8]) -> &'a [u8] {
    // SAFETY: the path ends with NUL.
    let fd = unsafe { kernel::open(path, libc::O_RDONLY) };
    if fd < 0 {
        return &[];
    }
    let got = kernel::read(fd, to).max(0);
    kernel::close(fd);
    writer::count_other(got as i64, 0);
    to.get(..got as usize).unwrap_or(&[])
}

fn number(text: &[u8]) -> u64 {
    text.iter()
        .take_while(|byte| byte.is_ascii_digit())
        .fold(0, |value: u64, &digit| value.wrapping_mul(10).wrapping_add(u64::from(digit - b'0')))
}

/// Return how long the thread has waited for a CPU since it started: the second field of
/// /proc/thread-self/schedstat, or 0 if that does not exist.
pub fn cpu_wait() -> u64 {
    let mut buffer = [0u8; 96];
    let text = proc_text(b"/proc/thread-self/schedstat\0", &mut buffer);
    number(text.split(|&byte| byte == b' ').nth(1).unwrap_or(&[]))
}

/// Return the bytes that read calls of this process and of its reaped children have returned
/// (`rchar` of /proc/self/io), excluding and including this read itself; 0 if the kernel does not
/// count them.
pub fn bytes_read() -> (u64, u64) {
    let mut buffer = [0u8; 256];
    let text = proc_text(b"/proc/self/io\0", &mut buffer);
    text.strip_prefix(b"rchar: ")
        .map_or((0, 0), |rest| (number(rest), number(rest) + text.len() as u64))
}

/// Clocks at the start of a call.
pub type Begun = Clocks;

/// Read the clocks before a call is forwarded.
pub fn begin() -> Begun {
    clocks::before()
}

/// Write the record of a call after it returned. Calls of the program use [`crate::process::end`].
pub fn push(begun: Begun, op: Op, call: Call) {
    let ended = clocks::after();
    // Less only where the time that the thread waited was taken for CPU time.
    let cpu_ns = ended.cpu_ns.saturating_sub(begun.cpu_ns);
    writer::with_slots(1, |slot, thread| {
        // SAFETY: the slot belongs to this thread; its kind is written last.
        unsafe {
            slot.cast::<Record>().write(Record {
                op: 0,
                failed: u8::from(call.failed),
                flags: call.flags,
                file: call.file,
                start_ns: begun.now_ns,
                end_ns: ended.now_ns,
                cpu_start_ns: begun.cpu_ns,
                cpu_within_ns: cpu_ns.min(u64::from(u32::MAX)) as u32,
                thread,
                offset: call.offset,
                length: call.length,
                asked: call.asked,
            });
            segment::complete(slot, op as u8);
        }
    });
}
