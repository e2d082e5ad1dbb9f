//! Which descriptors are regular files worth recording, by number.

use std::sync::atomic::{AtomicI32, AtomicI64, AtomicU32, Ordering};

use crate::names::{self, Entry};
use crate::process;

const MOST: usize = 65_536;

/// Number of the file behind each descriptor; 0: not recorded.
static FILES: [AtomicU32; MOST] = [const { AtomicU32::new(0) }; MOST];
/// For descriptors with a C stream: where the kernel stood when last seen; negative: no stream.
static STREAMS: [AtomicI64; MOST] = [const { AtomicI64::new(-1) }; MOST];
static HIGHEST: AtomicI32 = AtomicI32::new(-1);

/// The file's number, if the descriptor is recorded.
pub fn file_of(fd: i32) -> Option<u32> {
    let number = FILES.get(usize::try_from(fd).ok()?)?.load(Ordering::Relaxed);
    (number != 0).then_some(number)
}

/// Where the kernel stood at this descriptor's stream; `None` without one.
pub fn stream_position(fd: i32) -> Option<i64> {
    let at = STREAMS.get(usize::try_from(fd).ok()?)?.load(Ordering::Relaxed);
    (at >= 0).then_some(at)
}

/// Notes where the kernel stands; a negative number ends the stream.
pub fn set_stream_position(fd: i32, at: i64) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| STREAMS.get(fd)) {
        place.store(at, Ordering::Relaxed);
    }
}

/// A descriptor has come to be: recorded when it is a regular file outside /proc, /sys and /dev. Returns its file's number.
pub fn register(fd: i32) -> Option<u32> {
    let place = FILES.get(usize::try_from(fd).ok()?)?;
    // SAFETY: a zeroed stat is a valid one.
    let mut facts: libc::stat = unsafe { std::mem::zeroed() };
    // SAFETY: `facts` is valid; x86-64 and arm64 have the same layout for the call and the C library.
    let asked = unsafe { libc::syscall(libc::SYS_fstat, fd, &mut facts) };
    let mut number = 0;
    if asked == 0 && facts.st_mode & libc::S_IFMT == libc::S_IFREG {
        let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0";
        let mut at = 14;
        for shift in [10_000, 1_000, 100, 10, 1] {
            if fd >= shift || shift == 1 {
                link[at] = b'0' + ((fd / shift) % 10) as u8;
                at += 1;
            }
        }
        let mut buffer = [0u8; 4096];
        if let Some(path) = names::link(&link, &mut buffer) {
            let hidden = [&b"/proc/"[..], b"/sys/", b"/dev/pts", b"/memfd:"];
            if !hidden.iter().any(|start| path.starts_with(start)) && !process::is_ours(path) {
                // SAFETY: a system call without pointers.
                let flags = unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFL) };
                number = names::new_number();
                Entry::new(b'F')
                    .number(u64::from(number))
                    .number(flags as u64)
                    .number(facts.st_size as u64)
                    .text(path)
                    .write();
            }
        }
    }
    place.store(number, Ordering::Relaxed);
    set_stream_position(fd, -1);
    HIGHEST.fetch_max(fd, Ordering::Relaxed);
    (number != 0).then_some(number)
}

/// The same file under another descriptor.
pub fn duplicate(from: i32, to: i32) {
    let number = file_of(from).unwrap_or(0);
    if let Some(place) = usize::try_from(to).ok().and_then(|to| FILES.get(to)) {
        place.store(number, Ordering::Relaxed);
        set_stream_position(to, -1);
        HIGHEST.fetch_max(to, Ordering::Relaxed);
    }
}

/// A descriptor is gone.
pub fn forget(fd: i32) {
    if let Some(place) = usize::try_from(fd).ok().and_then(|fd| FILES.get(fd)) {
        place.store(0, Ordering::Relaxed);
        set_stream_position(fd, -1);
    }
}

/// In a forked child: what was inherited gets numbers in the child's own names.
pub fn register_inherited() {
    for fd in 0..=HIGHEST.load(Ordering::Relaxed) {
        if file_of(fd).is_some() {
            let stream = stream_position(fd);
            register(fd);
            set_stream_position(fd, stream.unwrap_or(-1));
        }
    }
}

/// In a new image: whatever is open already.
pub fn register_all() {
    for fd in 0..256 {
        // SAFETY: a system call without pointers.
        if unsafe { libc::syscall(libc::SYS_fcntl, fd, libc::F_GETFD) } >= 0 {
            register(fd);
        }
    }
}
