//! Reads, writes and seeks on descriptors.

use std::ffi::c_void;

use libc::{c_int, iovec, off64_t, size_t, ssize_t};

use crate::descriptors::{file_of, set_stream_position, stream_position};
use crate::real;
use crate::real::position;
use crate::record::{begin, end, Begun, Op};

/// A transfer at the descriptor's own position has come back.
fn moved(begun: Begun, op: Op, fd: c_int, file: u32, count: ssize_t, asked: u64) {
    let length = count.max(0) as u64;
    let at = position(fd);
    if stream_position(fd).is_some() {
        set_stream_position(fd, at);
    }
    end(begun, op, file, (at.max(0) as u64).saturating_sub(length), length, asked, count < 0);
}

fn moved_at(begun: Begun, op: Op, file: u32, at: off64_t, count: ssize_t, asked: u64) {
    end(begun, op, file, at.max(0) as u64, count.max(0) as u64, asked, count < 0);
}

fn total(vector: *const iovec, count: c_int) -> u64 {
    // SAFETY: the caller's vector, as it gave it to the C library.
    (0..count.clamp(0, 1024)).map(|index| unsafe { (*vector.add(index as usize)).iov_len as u64 }).sum()
}

/// Hooks that move bytes at the descriptor's position: arguments, and what was asked of them.
macro_rules! at_position {
    ($($name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*) asks $asked:expr;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, $($arg: $kind),*) -> ssize_t {
            let real = real!($name as unsafe extern "C" fn(c_int, $($kind),*) -> ssize_t);
            let Some(file) = file_of(fd) else { return real(fd, $($arg),*) };
            let begun = begin();
            let count = real(fd, $($arg),*);
            moved(begun, Op::$op, fd, file, count, $asked);
            count
        }
    )*};
}

at_position! {
    "read" read Read (buffer: *mut c_void, size: size_t) asks size as u64;
    "__read_chk" __read_chk Read (buffer: *mut c_void, size: size_t, room: size_t) asks size as u64;
    "readv" readv Read (vector: *const iovec, count: c_int) asks total(vector, count);
    "write" write Write (buffer: *const c_void, size: size_t) asks size as u64;
    "writev" writev Write (vector: *const iovec, count: c_int) asks total(vector, count);
}

/// Hooks that move bytes at a given offset.
macro_rules! at_offset {
    ($($name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*) at $offset:ident asks $asked:expr;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, $($arg: $kind),*) -> ssize_t {
            let real = real!($name as unsafe extern "C" fn(c_int, $($kind),*) -> ssize_t);
            let Some(file) = file_of(fd) else { return real(fd, $($arg),*) };
            let begun = begin();
            let count = real(fd, $($arg),*);
            moved_at(begun, Op::$op, file, $offset, count, $asked);
            count
        }
    )*};
}

at_offset! {
    "pread" pread Read (buffer: *mut c_void, size: size_t, at: off64_t) at at asks size as u64;
    "pread64" pread64 Read (buffer: *mut c_void, size: size_t, at: off64_t) at at asks size as u64;
    "__pread_chk" __pread_chk Read (buffer: *mut c_void, size: size_t, at: off64_t, room: size_t) at at asks size as u64;
    "__pread64_chk" __pread64_chk Read (buffer: *mut c_void, size: size_t, at: off64_t, room: size_t) at at asks size as u64;
    "preadv" preadv Read (vector: *const iovec, count: c_int, at: off64_t) at at asks total(vector, count);
    "preadv64" preadv64 Read (vector: *const iovec, count: c_int, at: off64_t) at at asks total(vector, count);
    "pwrite" pwrite Write (buffer: *const c_void, size: size_t, at: off64_t) at at asks size as u64;
    "pwrite64" pwrite64 Write (buffer: *const c_void, size: size_t, at: off64_t) at at asks size as u64;
    "pwritev" pwritev Write (vector: *const iovec, count: c_int, at: off64_t) at at asks total(vector, count);
    "pwritev64" pwritev64 Write (vector: *const iovec, count: c_int, at: off64_t) at at asks total(vector, count);
}

/// Offset -1 means the descriptor's own position.
macro_rules! at_either {
    ($($name:literal $hook:ident $op:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, vector: *const iovec, count: c_int, at: off64_t, flags: c_int) -> ssize_t {
            let real = real!($name as unsafe extern "C" fn(c_int, *const iovec, c_int, off64_t, c_int) -> ssize_t);
            let Some(file) = file_of(fd) else { return real(fd, vector, count, at, flags) };
            let begun = begin();
            let done = real(fd, vector, count, at, flags);
            if at < 0 {
                moved(begun, Op::$op, fd, file, done, total(vector, count));
            } else {
                moved_at(begun, Op::$op, file, at, done, total(vector, count));
            }
            done
        }
    )*};
}

at_either! {
    "preadv2" preadv2 Read;
    "preadv64v2" preadv64v2 Read;
    "pwritev2" pwritev2 Write;
    "pwritev64v2" pwritev64v2 Write;
}

macro_rules! seeks {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
            let real = real!($name as unsafe extern "C" fn(c_int, off64_t, c_int) -> off64_t);
            let Some(file) = file_of(fd) else { return real(fd, offset, whence) };
            let begun = begin();
            let at = real(fd, offset, whence);
            if stream_position(fd).is_some() {
                set_stream_position(fd, at);
            }
            // To ask where one is, is no seek.
            if !(whence == libc::SEEK_CUR && offset == 0) {
                end(begun, Op::Seek, file, at.max(0) as u64, 0, 0, at < 0);
            }
            at
        }
    )*};
}

seeks! {
    "lseek" lseek;
    "lseek64" lseek64;
}

/// From one descriptor to another within the kernel: a read of the one and a write of the other, where they are files.
fn copied(begun: Begun, from: (c_int, Option<u64>), to: (c_int, Option<u64>), count: ssize_t, asked: u64) {
    for (op, (fd, at)) in [(Op::Read, from), (Op::Write, to)] {
        match (file_of(fd), at) {
            (Some(file), None) => moved(begun, op, fd, file, count, asked),
            (Some(file), Some(at)) => moved_at(begun, op, file, at as off64_t, count, asked),
            (None, _) => {}
        }
    }
}

macro_rules! sendfiles {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(to: c_int, from: c_int, at: *mut off64_t, size: size_t) -> ssize_t {
            let real = real!($name as unsafe extern "C" fn(c_int, c_int, *mut off64_t, size_t) -> ssize_t);
            if file_of(from).is_none() && file_of(to).is_none() {
                return real(to, from, at, size);
            }
            let offset = (!at.is_null()).then(|| *at as u64);
            let begun = begin();
            let count = real(to, from, at, size);
            copied(begun, (from, offset), (to, None), count, size as u64);
            count
        }
    )*};
}

sendfiles! {
    "sendfile" sendfile;
    "sendfile64" sendfile64;
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn copy_file_range(
    from: c_int,
    from_at: *mut off64_t,
    to: c_int,
    to_at: *mut off64_t,
    size: size_t,
    flags: libc::c_uint,
) -> ssize_t {
    type Kind =
        unsafe extern "C" fn(c_int, *mut off64_t, c_int, *mut off64_t, size_t, libc::c_uint) -> ssize_t;
    let real = real!("copy_file_range" as Kind);
    if file_of(from).is_none() && file_of(to).is_none() {
        return real(from, from_at, to, to_at, size, flags);
    }
    let offset = |at: *mut off64_t| (!at.is_null()).then(|| *at as u64);
    let (read_at, write_at) = (offset(from_at), offset(to_at));
    let begun = begin();
    let count = real(from, from_at, to, to_at, size, flags);
    copied(begun, (from, read_at), (to, write_at), count, size as u64);
    count
}
