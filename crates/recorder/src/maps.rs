//! Maps of files. Page faults are not calls, so they cannot be recorded when they occur. When a map
//! is removed, the kernel reports which of its pages are in the process's page tables, and those
//! are recorded.

use core::ffi::c_void;
use core::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_char, c_int, off64_t, size_t};

use crate::arena::{self, Fact};
use crate::descriptors::known_file_of;
use crate::kernel;
use crate::process::{self, end};
use crate::real;
use crate::record::{begin, Call, Op};
use crate::writer;

const MOST: usize = 512;
const PAGE_BYTES: u64 = kernel::PAGE_BYTES as u64;
/// Pages per query of the kernel; limited because the stack can be small.
const PAGES_AT_ONCE: usize = 128;

struct Map {
    at: AtomicUsize,
    length: AtomicU64,
    offset: AtomicU64,
    file: AtomicU32,
    /// Shared and writable: touched pages are assumed to be written.
    written: AtomicBool,
}

static MAPS: [Map; MOST] = [const {
    Map {
        at: AtomicUsize::new(0),
        length: AtomicU64::new(0),
        offset: AtomicU64::new(0),
        file: AtomicU32::new(0),
        written: AtomicBool::new(false),
    }
}; MOST];

fn remember(at: usize, call: Call, written: bool) {
    for map in &MAPS {
        // The thread that changes `file` from 0 owns the entry.
        if map.file.compare_exchange(0, call.file, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            map.length.store(call.length, Ordering::Relaxed);
            map.offset.store(call.offset, Ordering::Relaxed);
            map.written.store(written, Ordering::Relaxed);
            map.at.store(at, Ordering::Release);
            return;
        }
    }
    arena::note(Fact::Maps);
}

/// How to query which pages are in the process's page tables.
enum Tables {
    /// With `move_pages`, which moves nothing without a target and needs no descriptor.
    Asked,
    /// With the thread's `pagemap` in /proc, which is open only during the query.
    Listed(isize),
    Unknown,
}

impl Tables {
    fn of(at: usize) -> Tables {
        if kernel::pages_present(&[at], &mut [0]) {
            return Tables::Asked;
        }
        // Another thread could replace our descriptor with its own file.
        if !is_single_threaded() {
            return Tables::Unknown;
        }
        // SAFETY: the path ends with NUL.
        match unsafe { kernel::open(b"/proc/thread-self/pagemap\0", libc::O_RDONLY) } {
            fd if fd >= 0 => Tables::Listed(fd),
            _ => Tables::Unknown,
        }
    }

    /// Return which of the pages from an address on are present, and for how many pages that is
    /// known.
    fn present(&self, at: usize, pages: usize) -> ([bool; PAGES_AT_ONCE], usize) {
        let (mut found, pages) = ([false; PAGES_AT_ONCE], pages.min(PAGES_AT_ONCE));
        let known = match self {
            Tables::Asked => {
                let (mut wanted, mut state) = ([0usize; PAGES_AT_ONCE], [-1i32; PAGES_AT_ONCE]);
                for (index, page) in wanted.iter_mut().enumerate() {
                    *page = at + index * kernel::PAGE_BYTES;
                }
                let known = kernel::pages_present(&wanted[..pages], &mut state[..pages]);
                for (present, state) in found.iter_mut().zip(state) {
                    *present = state >= 0;
                }
                if known {
                    pages
                } else {
                    0
                }
            }
            Tables::Listed(fd) => {
                let mut entries = [0u64; PAGES_AT_ONCE];
                let got = kernel::read_entries(
                    *fd,
                    &mut entries[..pages],
                    (at / kernel::PAGE_BYTES * 8) as u64,
                );
                writer::count_other(got.max(0) as i64, 0);
                for (present, entry) in found.iter_mut().zip(entries) {
                    *present = entry >> 63 == 1;
                }
                (got.max(0) / 8) as usize
            }
            Tables::Unknown => 0,
        };
        (found, known)
    }
}

impl Drop for Tables {
    fn drop(&mut self) {
        if let Tables::Listed(fd) = self {
            kernel::close(*fd);
        }
    }
}

fn is_single_threaded() -> bool {
    // SAFETY: reads a flag of the C library, if the library has it.
    unsafe {
        let flag =
            libc::dlsym(libc::RTLD_DEFAULT, c"__libc_single_threaded".as_ptr()).cast::<c_char>();
        !flag.is_null() && flag.read_volatile() != 0
    }
}

/// Record the touched pages of a map from one of its pages on, as contiguous ranges.
fn write_down(map: &Map, begin_page: u64) {
    let (at, length) = (map.at.load(Ordering::Acquire), map.length.load(Ordering::Relaxed));
    let (first, file) = (map.offset.load(Ordering::Relaxed), map.file.load(Ordering::Relaxed));
    let flags = u16::from(map.written.load(Ordering::Relaxed));
    let pages = length.div_ceil(PAGE_BYTES);
    let tell = |from: u64, to: u64| {
        let length = ((to - from) * PAGE_BYTES).min(length - from * PAGE_BYTES);
        let offset = first + from * PAGE_BYTES;
        end(
            begin(),
            Op::Mapped,
            Call { file, offset, length, asked: length, flags, failed: false },
        );
    };
    let tables = Tables::of(at);
    let (mut run, mut page) = (None, begin_page);
    while page < pages {
        let (found, known) =
            tables.present(at + (page * PAGE_BYTES) as usize, (pages - page).min(1 << 20) as usize);
        if known == 0 {
            arena::note(Fact::Pages);
            break;
        }
        for &present in found.iter().take(known) {
            match (present, run) {
                (true, None) => run = Some(page),
                (false, Some(from)) => {
                    tell(from, page);
                    run = None;
                }
                _ => {}
            }
            page += 1;
        }
    }
    if let Some(from) = run {
        tell(from, page);
    }
}

fn forget(map: &Map) {
    map.at.store(0, Ordering::Relaxed);
    map.file.store(0, Ordering::Release);
}

/// Record the maps that still exist at the end of the process.
pub fn write_down_all() {
    for map in MAPS.iter().filter(|map| map.at.load(Ordering::Acquire) != 0) {
        write_down(map, 0);
        forget(map);
    }
}

macro_rules! maps {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(
            at: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off64_t,
        ) -> *mut c_void {
            type Kind = unsafe extern "C" fn(
                *mut c_void, size_t, c_int, c_int, c_int, off64_t
            ) -> *mut c_void;
            let real = real!($name as Kind);
            let file = if flags & libc::MAP_ANONYMOUS == 0 { known_file_of(fd) } else { None };
            let Some(file) = file else { return real(at, length, protection, flags, fd, offset) };
            let begun = begin();
            let mapped = real(at, length, protection, flags, fd, offset);
            let failed = mapped == libc::MAP_FAILED;
            let (offset, length) = (offset as u64, length as u64);
            let call = Call { file, offset, length, asked: length, failed, flags: 0 };
            end(begun, Op::Map, call);
            if !failed && process::active() {
                let shared = flags & libc::MAP_SHARED != 0;
                remember(mapped as usize, call, shared && protection & libc::PROT_WRITE != 0);
            }
            mapped
        }
    )*};
}

maps! {
    "mmap" mmap;
    "mmap64" mmap64;
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn munmap(at: *mut c_void, length: size_t) -> c_int {
    let real = real!("munmap" as unsafe extern "C" fn(*mut c_void, size_t) -> c_int);
    if !at.is_null() && process::active() {
        if let Some(map) = MAPS.iter().find(|map| map.at.load(Ordering::Acquire) == at as usize) {
            write_down(map, 0);
            forget(map);
        }
    }
    real(at, length)
}

/// Of a map that the kernel moves or resizes, the pages are recorded where it is in the end.
///
/// # Safety
/// Same contract as the C library function that it replaces, whose last argument may be missing.
#[no_mangle]
pub unsafe extern "C" fn mremap(
    at: *mut c_void,
    length: size_t,
    wanted: size_t,
    flags: c_int,
    to: *mut c_void,
) -> *mut c_void {
    type Kind =
        unsafe extern "C" fn(*mut c_void, size_t, size_t, c_int, *mut c_void) -> *mut c_void;
    let real = real!("mremap" as Kind);
    let pages = |bytes: u64| bytes.div_ceil(PAGE_BYTES);
    // Of a part, or of a copy (a length of 0), nothing is known.
    let is_it = |map: &&Map| {
        map.at.load(Ordering::Acquire) == at as usize
            && pages(map.length.load(Ordering::Relaxed)) == pages(length as u64)
    };
    let known = if process::active() { MAPS.iter().find(is_it) } else { None };
    if let Some(map) = known.filter(|_| wanted < length) {
        write_down(map, pages(wanted as u64)); // these pages are lost
    }
    let moved = real(at, length, wanted, flags, to);
    if let Some(map) = known.filter(|_| moved != libc::MAP_FAILED) {
        map.length.store(wanted as u64, Ordering::Relaxed);
        map.at.store(moved as usize, Ordering::Release);
    }
    moved
}

/// Return the file that is mapped at an address.
fn mapped_at(address: usize) -> Option<u32> {
    let holds = |map: &&Map| {
        let at = map.at.load(Ordering::Acquire);
        at != 0 && (at..at + map.length.load(Ordering::Relaxed) as usize).contains(&address)
    };
    MAPS.iter().find(holds).map(|map| map.file.load(Ordering::Relaxed)).filter(|&file| file != 0)
}

/// Record the calls that wait until the pages are written.
///
/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C-unwind" fn msync(at: *mut c_void, length: size_t, flags: c_int) -> c_int {
    let real = real!("msync" as unsafe extern "C-unwind" fn(*mut c_void, size_t, c_int) -> c_int);
    let waits = flags & libc::MS_SYNC != 0 && process::active();
    let file = if waits { mapped_at(at as usize) } else { None };
    let Some(file) = file else { return real(at, length, flags) };
    let begun = begin();
    let done = real(at, length, flags);
    end(begun, Op::Sync, Call { file, failed: done < 0, ..Call::default() });
    done
}
