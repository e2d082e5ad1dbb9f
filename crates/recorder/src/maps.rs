//! Maps of files. Faults are no calls, so they can't be seen as they happen; when a map goes away, the kernel says which of its pages
//! the process had touched (/proc/self/pagemap), and those are written down.

use std::ffi::c_void;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, AtomicUsize, Ordering};

use libc::{c_int, off64_t, size_t};

use crate::descriptors::file_of;
use crate::names;
use crate::process;
use crate::real;
use crate::record::{begin, end, Op};

const MOST: usize = 512;
const PAGE_BYTES: u64 = 4096;
/// The kernel maps neighbours of a page that it has in the cache: untouched pages between touched ones are no reads of their own.
const PAGES_AT_ONCE: usize = 512;

struct Map {
    at: AtomicUsize,
    length: AtomicU64,
    offset: AtomicU64,
    file: AtomicU32,
}

static MAPS: [Map; MOST] = [const {
    Map {
        at: AtomicUsize::new(0),
        length: AtomicU64::new(0),
        offset: AtomicU64::new(0),
        file: AtomicU32::new(0),
    }
}; MOST];
static TOO_MANY: AtomicBool = AtomicBool::new(false);

fn remember(at: usize, length: u64, offset: u64, file: u32) {
    for map in &MAPS {
        // Taken by whoever changes its file from 0.
        if map.file.compare_exchange(0, file, Ordering::AcqRel, Ordering::Relaxed).is_ok() {
            map.length.store(length, Ordering::Relaxed);
            map.offset.store(offset, Ordering::Relaxed);
            map.at.store(at, Ordering::Release);
            return;
        }
    }
    if !TOO_MANY.swap(true, Ordering::Relaxed) {
        names::note("too-many-maps", &[]);
    }
}

/// Writes down which pages of a map were touched, as runs.
fn write_down(map: &Map) {
    let (at, length) = (map.at.load(Ordering::Acquire) as u64, map.length.load(Ordering::Relaxed));
    let (offset, file) = (map.offset.load(Ordering::Relaxed), map.file.load(Ordering::Relaxed));
    // SAFETY: system calls with valid buffers, on a descriptor of our own.
    unsafe {
        let path = b"/proc/self/pagemap\0";
        let fd =
            libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), libc::O_RDONLY | libc::O_CLOEXEC);
        if fd < 0 {
            return;
        }
        let pages = length.div_ceil(PAGE_BYTES);
        let mut entries = [0u64; PAGES_AT_ONCE];
        let mut run: Option<u64> = None;
        let mut page = 0;
        let tell = |from: u64, to: u64| {
            let bytes = ((to - from) * PAGE_BYTES).min(length - from * PAGE_BYTES);
            end(begin(), Op::Mapped, file, offset + from * PAGE_BYTES, bytes, bytes, false);
        };
        while page < pages {
            let wanted = (pages - page).min(PAGES_AT_ONCE as u64) as usize;
            let place = (at / PAGE_BYTES + page) * 8;
            let got = libc::syscall(libc::SYS_pread64, fd, entries.as_mut_ptr(), wanted * 8, place as i64);
            if got < 8 {
                break;
            }
            for entry in &entries[..got as usize / 8] {
                // Bit 63: the page is in the process's tables.
                match (entry >> 63 == 1, run) {
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
        libc::syscall(libc::SYS_close, fd);
    }
}

fn forget(map: &Map) {
    map.at.store(0, Ordering::Relaxed);
    map.file.store(0, Ordering::Release);
}

/// At the end of the process: maps that are still there.
pub fn write_down_all() {
    for map in MAPS.iter().filter(|map| map.at.load(Ordering::Acquire) != 0) {
        write_down(map);
        forget(map);
    }
}

macro_rules! maps {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(
            at: *mut c_void,
            length: size_t,
            protection: c_int,
            flags: c_int,
            fd: c_int,
            offset: off64_t,
        ) -> *mut c_void {
            type Kind = unsafe extern "C" fn(*mut c_void, size_t, c_int, c_int, c_int, off64_t) -> *mut c_void;
            let real = real!($name as Kind);
            let file = if flags & libc::MAP_ANONYMOUS == 0 { file_of(fd) } else { None };
            let Some(file) = file else { return real(at, length, protection, flags, fd, offset) };
            let begun = begin();
            let mapped = real(at, length, protection, flags, fd, offset);
            let failed = mapped == libc::MAP_FAILED;
            end(begun, Op::Map, file, offset as u64, length as u64, length as u64, failed);
            if !failed && process::active() {
                remember(mapped as usize, length as u64, offset as u64, file);
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
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn munmap(at: *mut c_void, length: size_t) -> c_int {
    let real = real!("munmap" as unsafe extern "C" fn(*mut c_void, size_t) -> c_int);
    if process::active() {
        if let Some(map) = MAPS.iter().find(|map| map.at.load(Ordering::Acquire) == at as usize) {
            if !at.is_null() {
                write_down(map);
                forget(map);
            }
        }
    }
    real(at, length)
}
