//! One record: what was asked, when, and what the thread had worked until then.

use crate::process;
use crate::real::{errno, set_errno};
use crate::segment;

/// What a record is of. The numbers are part of the file format.
#[derive(Clone, Copy)]
#[repr(u8)]
pub enum Op {
    /// The process image began. `file`: 1 after fork, 0 after exec; `length`: see [`cpu_wait`].
    Start = 1,
    /// It ended (or exec replaced it). `offset`: CPU time of the whole process; `length`: see [`cpu_wait`].
    End = 2,
    Open = 3,
    Close = 4,
    Read = 5,
    Write = 6,
    Stat = 7,
    Seek = 8,
    Sync = 9,
    Map = 10,
    /// Pages of a map that the process had touched when it was unmapped.
    Mapped = 11,
    Unlink = 12,
}

/// As it lies in a segment.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct Record {
    /// CLOCK_MONOTONIC, nanoseconds.
    pub start_ns: u64,
    pub end_ns: u64,
    /// CPU time of the thread at the start.
    pub cpu_start_ns: u64,
    /// CPU time within the call, at most 4.29 s.
    pub cpu_within_ns: u32,
    pub op: u8,
    pub failed: u8,
    pub spare: u16,
    /// Number of the file in the names of this process image.
    pub file: u32,
    pub spare_too: u32,
    pub offset: u64,
    /// Bytes that were transferred.
    pub length: u64,
    /// Bytes that were asked for.
    pub asked: u64,
}

const _: () = assert!(std::mem::size_of::<Record>() == 64);

/// The beginning of a call.
#[derive(Clone, Copy)]
pub struct Begun {
    start_ns: u64,
    cpu_ns: u64,
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is valid.
    unsafe { libc::clock_gettime(which, &mut at) };
    at.tv_sec as u64 * 1_000_000_000 + at.tv_nsec as u64
}

/// Now, by the monotonic clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// CPU time of the whole process.
pub fn process_cpu() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

/// How long the thread has waited for a CPU since it began: the second field of /proc/thread-self/schedstat; 0 where there is none.
pub fn cpu_wait() -> u64 {
    let path = c"/proc/thread-self/schedstat";
    let mut text = [0u8; 96];
    // SAFETY: system calls with valid buffers, on a descriptor of our own.
    let got = unsafe {
        let fd =
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return 0;
        }
        let got = libc::syscall(libc::SYS_read, fd, text.as_mut_ptr(), text.len());
        libc::syscall(libc::SYS_close, fd);
        got
    };
    let fields = text[..got.max(0) as usize].split(|&byte| byte == b' ');
    fields
        .skip(1)
        .take(1)
        .flatten()
        .fold(0, |value, &digit| value * 10 + u64::from(digit.wrapping_sub(b'0') % 10))
}

/// Takes the clocks before a call is passed on.
pub fn begin() -> Begun {
    Begun { cpu_ns: clock(libc::CLOCK_THREAD_CPUTIME_ID), start_ns: now() }
}

/// Writes the record of a call that has come back; errno stays.
pub fn end(begun: Begun, op: Op, file: u32, offset: u64, length: u64, asked: u64, failed: bool) {
    if !process::active() {
        return;
    }
    let before = errno();
    let end_ns = now();
    let cpu_ns = clock(libc::CLOCK_THREAD_CPUTIME_ID) - begun.cpu_ns;
    segment::push(&Record {
        start_ns: begun.start_ns,
        end_ns,
        cpu_start_ns: begun.cpu_ns,
        cpu_within_ns: cpu_ns.min(u64::from(u32::MAX)) as u32,
        op: op as u8,
        failed: u8::from(failed),
        spare: 0,
        file,
        spare_too: 0,
        offset,
        length,
        asked,
    });
    set_errno(before);
}
