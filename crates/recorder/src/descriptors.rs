//! The table of descriptors: which of them are regular files to record.
//!
//! A descriptor is examined when it is opened. One that no hook saw (inherited, received from
//! another process, opened inside the C library) is examined at its first use.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::arena::{self, Fact};
use crate::kernel;
use crate::names;
use crate::process;
use crate::text::Digits;

/// The kernel's limit unless `fs.nr_open` was raised. Pages of the table take memory once used.
const MOST: usize = 1 << 20;
const UNKNOWN: u32 = 0;
const NO_FILE: u32 = u32::MAX;

/// Number of the file behind each descriptor.
static FILES: [AtomicU32; MOST] = [const { AtomicU32::new(UNKNOWN) }; MOST];
static HIGHEST: AtomicI32 = AtomicI32::new(-1);
/// Whether a file was used past the page cache so far.
static DIRECT: AtomicBool = AtomicBool::new(false);

/// How calls on a descriptor are recorded.
#[derive(Clone, Copy)]
pub enum Target {
    /// Nothing is recorded.
    Unseen,
    /// A pipe, a terminal, a socket, a file in /proc: only bytes are counted.
    Other,
    File(u32),
}

impl Target {
    pub fn is_unseen(self) -> bool {
        matches!(self, Target::Unseen)
    }
}

fn place(fd: i32) -> Option<&'static AtomicU32> {
    FILES.get(usize::try_from(fd).ok()?)
}

/// Return how to record calls on a descriptor.
pub fn target(fd: i32) -> Target {
    if !process::active() {
        return Target::Unseen;
    }
    let Some(place) = place(fd) else {
        note_beyond(fd);
        return Target::Other;
    };
    match place.load(Ordering::Relaxed) {
        UNKNOWN => match register(fd) {
            Some(file) => Target::File(file),
            None => Target::Other,
        },
        NO_FILE => Target::Other,
        file => Target::File(file),
    }
}

/// Record that a file is used through a descriptor beyond the table.
#[cold]
fn note_beyond(fd: i32) {
    let is_file = |facts: libc::stat| facts.st_mode & libc::S_IFMT == libc::S_IFREG;
    if fd >= 0 && kernel::facts(fd as isize).is_some_and(is_file) {
        arena::note(Fact::Descriptors);
    }
}

/// Return the number of the descriptor's file, if it has one.
pub fn file_of(fd: i32) -> Option<u32> {
    match target(fd) {
        Target::File(file) => Some(file),
        _ => None,
    }
}

/// Return the number of the descriptor's file if it is already known, without a system call.
pub fn known_file_of(fd: i32) -> Option<u32> {
    let number = place(fd)?.load(Ordering::Relaxed);
    (number != UNKNOWN && number != NO_FILE && process::active()).then_some(number)
}

fn is_recorded(path: &[u8]) -> bool {
    let hidden = [&b"/proc/"[..], b"/sys/", b"/dev/pts", b"/memfd:"];
    !hidden.iter().any(|start| path.starts_with(start))
}

/// Examine a descriptor and return its file's number. Only regular files outside /proc and /sys are
/// recorded.
pub fn register(fd: i32) -> Option<u32> {
    let place = place(fd)?;
    let facts = kernel::facts(fd as isize)?;
    let mut number = NO_FILE;
    if facts.st_mode & libc::S_IFMT == libc::S_IFREG {
        names::with_link(&names::descriptor_link(fd), |path| {
            // Without /proc (after chroot) the file has no name, but is recorded.
            if path.is_none_or(is_recorded) {
                number = arena::new_file();
                let flags = kernel::flags(fd);
                if flags & libc::O_DIRECT as u64 != 0 {
                    DIRECT.store(true, Ordering::Relaxed);
                }
                let (flags, size) = (Digits::of(flags), Digits::of(facts.st_size as u64));
                match path {
                    Some(path) => names::write(b'F', number, &[flags.text(), size.text(), path]),
                    None => {
                        let (device, inode) = (Digits::of(facts.st_dev), Digits::of(facts.st_ino));
                        let parts = [b"/(no name)/", device.text(), b"-", inode.text()];
                        let mut name = [0u8; 64];
                        let mut used = 0;
                        for &byte in parts.iter().copied().flatten() {
                            if let Some(to) = name.get_mut(used) {
                                *to = byte;
                                used += 1;
                            }
                        }
                        names::write(
                            b'F',
                            number,
                            &[flags.text(), size.text(), &name[..used.min(64)]],
                        );
                    }
                }
            }
        });
    }
    place.store(number, Ordering::Relaxed);
    HIGHEST.fetch_max(fd, Ordering::Relaxed);
    (number != NO_FILE).then_some(number)
}

/// Record that a descriptor duplicates another one.
pub fn duplicate(from: i32, to: i32) {
    if let Some(place_of_to) = place(to) {
        let number = place(from).map_or(UNKNOWN, |place| place.load(Ordering::Relaxed));
        place_of_to.store(number, Ordering::Relaxed);
        HIGHEST.fetch_max(to, Ordering::Relaxed);
    }
}

/// Forget a closed or replaced descriptor; it is examined again at its next use.
pub fn forget(fd: i32) {
    if let Some(place) = place(fd) {
        place.store(UNKNOWN, Ordering::Relaxed);
    }
}

/// Forget a descriptor whose new flags may take it past the page cache, or back to it. Where no file
/// was direct and none becomes so, nothing changes.
pub fn flags_set(fd: i32, flags: usize) {
    let direct = flags & libc::O_DIRECT as usize != 0;
    if direct || DIRECT.load(Ordering::Relaxed) {
        forget(fd);
    }
}

/// Forget all descriptors of a range.
pub fn forget_range(first: u32, last: u32) {
    let highest = HIGHEST.load(Ordering::Relaxed).max(-1);
    for fd in i64::from(first)..=i64::from(last).min(i64::from(highest)) {
        forget(fd as i32);
    }
}

/// Return the highest descriptor seen.
pub fn highest() -> i32 {
    HIGHEST.load(Ordering::Relaxed)
}
