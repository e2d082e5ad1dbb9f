//! The process: whether it records, and into which files.

use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, AtomicU8, AtomicUsize, Ordering};

use crate::descriptors;
use crate::names::Entry;
use crate::record::{self, Op};
use crate::segment;

static ACTIVE: AtomicBool = AtomicBool::new(false);
static PID: AtomicI32 = AtomicI32::new(0);
static GENERATION: AtomicU32 = AtomicU32::new(1);
static RECORD_FILE: AtomicI32 = AtomicI32::new(-1);
static NAMES_FILE: AtomicI32 = AtomicI32::new(-1);
/// The directory's name, copied: programs write over their environment.
static DIRECTORY: [AtomicU8; 4096] = [const { AtomicU8::new(0) }; 4096];
static DIRECTORY_LENGTH: AtomicUsize = AtomicUsize::new(0);

/// Our descriptors are moved here and above, out of the way of programs that count on low numbers.
const DESCRIPTORS_FROM: i32 = 700;

pub fn active() -> bool {
    ACTIVE.load(Ordering::Relaxed)
}

pub fn stop() {
    ACTIVE.store(false, Ordering::Relaxed);
}

pub fn pid() -> i32 {
    PID.load(Ordering::Relaxed)
}

pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

pub fn record_file() -> i32 {
    RECORD_FILE.load(Ordering::Relaxed)
}

pub fn names_file() -> i32 {
    NAMES_FILE.load(Ordering::Relaxed)
}

/// True for our own two descriptors.
pub fn is_our_descriptor(fd: i32) -> bool {
    fd >= 0 && (fd == record_file() || fd == names_file())
}

/// A child of vfork shares our memory and is another process: its opens and closes are not ours.
pub fn is_borrowed() -> bool {
    // SAFETY: a system call without arguments.
    unsafe { libc::syscall(libc::SYS_getpid) as i32 != pid() }
}

fn directory() -> Option<&'static [u8]> {
    let length = DIRECTORY_LENGTH.load(Ordering::Relaxed);
    // SAFETY: written once, before anything reads it; an AtomicU8 lies in memory as a byte.
    (length > 0).then(|| unsafe { std::slice::from_raw_parts(DIRECTORY.as_ptr().cast::<u8>(), length) })
}

/// True for paths of the recording itself.
pub fn is_ours(path: &[u8]) -> bool {
    directory().is_some_and(|directory| path.starts_with(directory))
}

fn create(kind: &[u8], at_ns: u64) -> i32 {
    let Some(directory) = directory() else { return -1 };
    let mut path = [0u8; 4200];
    let mut used = 0;
    let mut push = |bytes: &[u8]| {
        if used + bytes.len() < path.len() {
            path[used..used + bytes.len()].copy_from_slice(bytes);
            used += bytes.len();
        }
    };
    let digits = |value: u64, push: &mut dyn FnMut(&[u8])| {
        let mut scale = 1u64;
        while value / scale >= 10 {
            scale *= 10;
        }
        while scale > 0 {
            push(&[b'0' + (value / scale % 10) as u8]);
            scale /= 10;
        }
    };
    push(directory);
    push(b"/");
    digits(pid() as u64, &mut push);
    push(b"-");
    digits(at_ns, &mut push);
    push(kind);
    let flags = libc::O_RDWR | libc::O_CREAT | libc::O_EXCL | libc::O_CLOEXEC | libc::O_APPEND;
    let flags = if kind == b".rec" { flags & !libc::O_APPEND } else { flags };
    // SAFETY: the path ends with NUL.
    unsafe {
        let fd = libc::syscall(libc::SYS_openat, libc::AT_FDCWD, path.as_ptr(), flags, 0o600) as i32;
        if fd < 0 {
            return fd;
        }
        let moved = libc::syscall(libc::SYS_fcntl, fd, libc::F_DUPFD_CLOEXEC, DESCRIPTORS_FROM) as i32;
        if moved < 0 {
            return fd;
        }
        libc::syscall(libc::SYS_close, fd);
        moved
    }
}

fn open_files() -> bool {
    // SAFETY: a system call without arguments.
    PID.store(unsafe { libc::syscall(libc::SYS_getpid) } as i32, Ordering::Relaxed);
    let at_ns = record::now();
    RECORD_FILE.store(create(b".rec", at_ns), Ordering::Relaxed);
    NAMES_FILE.store(create(b".names", at_ns), Ordering::Relaxed);
    record_file() >= 0 && names_file() >= 0
}

fn say_who() {
    let mut buffer = [0u8; 4096];
    if let Some(path) = crate::names::link(b"/proc/self/exe\0", &mut buffer) {
        Entry::new(b'I').text(path).write();
    }
    let mut buffer = [0u8; 4096];
    if let Some(path) = crate::names::link(b"/proc/self/cwd\0", &mut buffer) {
        Entry::new(b'C').text(path).write();
    }
}

/// A new image: begins to record when the environment asks for it.
pub fn start() {
    // SAFETY: the name ends with NUL; the environment is not changed yet.
    let directory = unsafe { libc::getenv(c"HEADRACE_RECORD_DIR".as_ptr()) };
    if directory.is_null() {
        return;
    }
    // SAFETY: a string of the environment.
    let directory = unsafe { std::ffi::CStr::from_ptr(directory) }.to_bytes();
    if directory.len() >= DIRECTORY.len() {
        return;
    }
    for (place, &byte) in DIRECTORY.iter().zip(directory) {
        place.store(byte, Ordering::Relaxed);
    }
    DIRECTORY_LENGTH.store(directory.len(), Ordering::Relaxed);
    if !open_files() {
        return;
    }
    ACTIVE.store(true, Ordering::Relaxed);
    say_who();
    descriptors::register_all();
    record::end(record::begin(), Op::Start, 0, 0, record::cpu_wait(), 0, false);
}

/// A forked child: records into files of its own.
pub extern "C" fn forked() {
    if !active() {
        return;
    }
    GENERATION.fetch_add(1, Ordering::Relaxed);
    segment::start_anew();
    // SAFETY: descriptors of our own, inherited.
    unsafe {
        libc::syscall(libc::SYS_close, record_file());
        libc::syscall(libc::SYS_close, names_file());
    }
    if !open_files() {
        stop();
        return;
    }
    say_who();
    descriptors::register_inherited();
    record::end(record::begin(), Op::Start, 1, 0, record::cpu_wait(), 0, false);
}
