//! The file that all recorded processes write into, and how they map it.
//!
//! `headrace record` creates an unnamed file (O_TMPFILE), sparse and far larger than needed, and
//! keeps it open. Each new program image opens it once, before `main`, through the /proc link in
//! HEADRACE_RECORD; it compares device, inode and a token, maps the first part, [`Arena`], and
//! closes the file.
//!
//! **After that the recorder has no descriptor.** The program could close and replace a descriptor
//! in its table at any time (`dup2`, `close_range`, a raw system call). Writes to it would then go
//! into the program's own file, and no check before a write is atomic with the write. Opening by
//! path does not help: it needs a descriptor for a short time, and fails after `chroot`, after a
//! change of user, or when the program has used up all descriptors. Therefore further segments are
//! mapped from the first mapping ([`kernel::map_again`]). Every forked child inherits that mapping,
//! however it was forked, and no call on descriptors affects it. Unique numbers (of files, threads,
//! images) are counted in the file itself.
//!
//! A page is written only after the kernel has allocated space for it ([`kernel::claim`]): a full
//! disk ends the recording, not the program.

use core::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

use crate::identity;
use crate::kernel;
use crate::segment::{self, Segment};

const MAGIC: u64 = u64::from_le_bytes(*b"HRREC\0\0\x02");
const FREE: usize = 4096;

/// Facts about the whole recording. The numbers are part of the file format.
#[repr(u32)]
pub enum Fact {
    /// No space left on the disk, or in the file.
    Full = 1,
    /// A segment could not be mapped: the program has limited its address space.
    Unmapped = 2,
    /// The program restricted its system calls (seccomp), so recording stopped.
    Sandbox = 4,
    /// Streams of the C library could not be observed.
    Streams = 8,
    IoUring = 16,
    LibAio = 32,
    PosixAio = 64,
    /// More simultaneous maps of files than the recorder can track.
    Maps = 128,
    /// The touched pages of maps are unknown.
    Pages = 256,
    /// Calls of `fallocate` that punch holes, zero ranges or move data.
    Holes = 512,
    /// Calls of `sync`, which is of no file.
    Syncs = 1024,
    /// Files with descriptors beyond the recorder's table.
    Descriptors = 2048,
}

/// The first part of the file.
#[repr(C)]
pub struct Arena {
    magic: u64,
    token: u64,
    /// Number of segments that fit into the file.
    limit: u64,
    /// The next unused segment.
    next: AtomicU64,
    files: AtomicU32,
    threads: AtomicU32,
    images: AtomicU32,
    directories: AtomicU32,
    facts: AtomicU32,
    /// Number of segments in the list below.
    freed: AtomicU32,
    spare: [u64; 9],
    /// Segments with space left whose thread has ended; 0: none.
    free: [AtomicU32; FREE],
}

const _: () = assert!(core::mem::size_of::<Arena>() <= segment::BYTES);

static ARENA: AtomicPtr<Arena> = AtomicPtr::new(core::ptr::null_mut());

fn arena() -> Option<&'static Arena> {
    // SAFETY: the mapping stays until the end of the image; all mutable fields are atomic.
    unsafe { ARENA.load(Ordering::Relaxed).as_ref() }
}

/// Fields of HEADRACE_RECORD: `DEVICE:INODE:TOKEN:PATH`.
fn parse(text: &[u8]) -> Option<([u64; 3], &[u8])> {
    let mut numbers = [0u64; 3];
    let mut rest = text;
    for number in &mut numbers {
        let end = rest.iter().position(|&byte| byte == b':')?;
        for &digit in rest.get(..end)? {
            *number = number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0')));
        }
        rest = rest.get(end + 1..)?;
    }
    Some((numbers, rest))
}

/// Map the arena that the text names (terminated by NUL). Return false if it is missing or is
/// another file.
pub fn open(text: &[u8]) -> bool {
    let Some(([device, inode, token], path)) = parse(text) else { return false };
    let is_it = |found: Option<libc::stat>| {
        found.is_some_and(|facts| (facts.st_dev, facts.st_ino) == (device, inode))
    };
    // SAFETY: the path ends with NUL. The process number in the path can be reused and then lead to
    // any file: only the arena is ever opened.
    unsafe {
        if !is_it(kernel::facts_of(path)) {
            return false;
        }
        let fd = kernel::open(path, libc::O_RDWR);
        if fd < 0 {
            return false;
        }
        let mapped =
            if is_it(kernel::facts(fd)) { kernel::map_shared(fd, segment::BYTES) } else { None };
        kernel::close(fd);
        let Some(mapped) = mapped else { return false };
        let found = &*mapped.cast::<Arena>();
        if found.magic != MAGIC || found.token != token {
            kernel::unmap(mapped, segment::BYTES);
            return false;
        }
        ARENA.store(mapped.cast(), Ordering::Relaxed);
    }
    true
}

/// Return a number not used by any other file or path.
pub fn new_file() -> u32 {
    arena().map_or(0, |arena| arena.files.fetch_add(1, Ordering::Relaxed) + 1)
}

pub fn new_thread() -> u32 {
    arena().map_or(0, |arena| arena.threads.fetch_add(1, Ordering::Relaxed) + 1)
}

pub fn new_image() -> u32 {
    arena().map_or(0, |arena| arena.images.fetch_add(1, Ordering::Relaxed) + 1)
}

pub fn new_directory() -> u32 {
    arena().map_or(0, |arena| arena.directories.fetch_add(1, Ordering::Relaxed) + 1)
}

/// Record a fact, without system call or allocation.
pub fn note(fact: Fact) {
    if let Some(arena) = arena() {
        let bit = fact as u32;
        // Write only once, so that a clean page is not made dirty again.
        if arena.facts.load(Ordering::Relaxed) & bit == 0 {
            arena.facts.fetch_or(bit, Ordering::Relaxed);
        }
    }
}

/// Map a segment with space left and return it with its number. Without one, record the reason,
/// stop the recording in this process and return `None`. The caller must block signals.
pub fn take_segment() -> Option<(*mut Segment, u32)> {
    let arena = arena()?;
    if arena.freed.load(Ordering::Relaxed) > 0 {
        for place in &arena.free {
            let number = if place.load(Ordering::Relaxed) == 0 {
                0
            } else {
                place.swap(0, Ordering::AcqRel)
            };
            if number == 0 {
                continue;
            }
            arena.freed.fetch_sub(1, Ordering::Relaxed);
            return Some((map(arena, number)?, number));
        }
    }
    let number = arena.next.fetch_add(1, Ordering::Relaxed);
    if number >= arena.limit {
        return end(Fact::Full);
    }
    let segment = map(arena, number as u32)?;
    // SAFETY: no other thread uses this segment.
    unsafe {
        for at in (0..segment::BYTES).step_by(kernel::PAGE_BYTES) {
            if !kernel::claim(segment.cast::<u8>().add(at)) {
                kernel::unmap(segment.cast(), segment::BYTES);
                return end(Fact::Full);
            }
        }
        (*segment).begin();
    }
    Some((segment, number as u32))
}

fn end<T>(why: Fact) -> Option<T> {
    note(why);
    identity::stop();
    None
}

fn map(arena: &Arena, number: u32) -> Option<*mut Segment> {
    let before = number as usize * segment::BYTES;
    let first = core::ptr::from_ref(arena).cast_mut().cast::<u8>();
    // SAFETY: the arena is a shared mapping; the part before the segment is not needed.
    unsafe {
        let Some(found) = kernel::map_again(first, before + segment::BYTES) else {
            return end(Fact::Unmapped);
        };
        kernel::unmap(found, before);
        Some(found.add(before).cast())
    }
}

/// Let another thread or process continue the segment. Its owner may also write until it unmaps it.
pub fn give_back(number: u32) {
    let Some(arena) = arena() else { return };
    for place in &arena.free {
        if place.load(Ordering::Relaxed) == 0
            && place.compare_exchange(0, number, Ordering::AcqRel, Ordering::Relaxed).is_ok()
        {
            arena.freed.fetch_add(1, Ordering::Relaxed);
            return;
        }
    }
}
