//! Segments of the record file: each belongs to one thread, is mapped shared, and is whole up to its count at any moment.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, Ordering};

use crate::names;
use crate::process;
use crate::record::Record;

/// Of a segment, header included.
pub const BYTES: usize = 64 << 10;
const HEADER_BYTES: usize = std::mem::size_of::<Header>();
const CAPACITY: usize = (BYTES - HEADER_BYTES) / std::mem::size_of::<Record>();
const MAGIC: u64 = u64::from_le_bytes(*b"HRREC\0\0\x01");

#[repr(C)]
struct Header {
    magic: u64,
    pid: u32,
    tid: u32,
    /// Records that are whole.
    count: AtomicU64,
    spare: [u64; 5],
}

#[derive(Clone, Copy)]
struct Own {
    at: *mut u8,
    used: usize,
    /// Of the process when it was mapped: a forked child starts one of its own.
    generation: u32,
}

thread_local! {
    static OWN: Cell<Own> = const { Cell::new(Own { at: std::ptr::null_mut(), used: 0, generation: 0 }) };
}

static NEXT: AtomicU64 = AtomicU64::new(0);

/// A forked child writes into a file of its own, from its start.
pub fn start_anew() {
    NEXT.store(0, Ordering::Relaxed);
}

/// Appends a record of this thread.
pub fn push(record: &Record) {
    // A thread whose storage is gone (it is ending) has no more to say.
    let _ = OWN.try_with(|cell| {
        let mut own = cell.get();
        if own.at.is_null() || own.generation != process::generation() || own.used == CAPACITY {
            let Some(at) = new_segment(own) else { return };
            own = Own { at, used: 0, generation: process::generation() };
        }
        // SAFETY: the segment is mapped for this thread alone and has room.
        unsafe {
            let place = own.at.add(HEADER_BYTES).cast::<Record>().add(own.used);
            place.write(*record);
            own.used += 1;
            (*own.at.cast::<Header>()).count.store(own.used as u64, Ordering::Release);
        }
        cell.set(own);
    });
}

fn new_segment(old: Own) -> Option<*mut u8> {
    // SAFETY: system calls on our own descriptor and mapping.
    unsafe {
        if !old.at.is_null() {
            libc::syscall(libc::SYS_munmap, old.at, BYTES);
        }
        let fd = process::record_file();
        let at = NEXT.fetch_add(BYTES as u64, Ordering::Relaxed) as i64;
        // Space is taken before it is mapped: writing to a map without space behind it would kill the program.
        if libc::syscall(libc::SYS_fallocate, fd, 0, at, BYTES as i64) != 0 {
            let supported = crate::real::errno() != libc::EOPNOTSUPP;
            let zero = [0u8; 4096];
            let whole = !supported
                && (0..BYTES / zero.len()).all(|page| {
                    let place = at + (page * zero.len()) as i64;
                    libc::syscall(libc::SYS_pwrite64, fd, zero.as_ptr(), zero.len(), place)
                        == zero.len() as i64
                });
            if !whole {
                names::note("full", &[]);
                process::stop();
                return None;
            }
        }
        let mapped = libc::syscall(
            libc::SYS_mmap,
            0usize,
            BYTES,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED,
            fd,
            at,
        );
        if mapped < 0 {
            names::note("unmapped", &[]);
            process::stop();
            return None;
        }
        let segment = mapped as *mut u8;
        segment.cast::<Header>().write(Header {
            magic: MAGIC,
            pid: process::pid() as u32,
            tid: libc::syscall(libc::SYS_gettid) as u32,
            count: AtomicU64::new(0),
            spare: [0; 5],
        });
        Some(segment)
    }
}
