//! Hooks for reads, writes and seeks on descriptors.

use core::ffi::c_void;

use libc::{c_int, c_uint, iovec, off64_t, size_t, ssize_t};

use crate::descriptors::{self, target, Target};
use crate::kernel;
use crate::process::end;
use crate::real;
use crate::record::{begin, Begun, Call, Op};
use crate::writer::count_other;

/// Count bytes transferred through descriptors that are not files.
pub fn other(op: Op, count: ssize_t) {
    if count > 0 {
        match op {
            Op::Write => count_other(0, count as i64),
            _ => count_other(count as i64, 0),
        }
    }
}

/// Record a transfer at the descriptor's own offset after it returned.
pub fn moved(begun: Begun, op: Op, fd: c_int, file: u32, count: ssize_t, asked: u64) {
    let length = count.max(0) as u64;
    let at = kernel::position(fd);
    if at == -i64::from(libc::ESPIPE) {
        // A raw system call has replaced the file of this descriptor.
        descriptors::forget(fd);
        return other(op, count);
    }
    let offset = (at.max(0) as u64).saturating_sub(length);
    end(begun, op, Call { file, offset, length, asked, failed: count < 0, ..Call::default() });
}

pub fn moved_at(begun: Begun, op: Op, file: u32, at: off64_t, count: ssize_t, asked: u64) {
    let (offset, length) = (at.max(0) as u64, count.max(0) as u64);
    end(begun, op, Call { file, offset, length, asked, failed: count < 0, ..Call::default() });
}

/// Return the bytes requested by an I/O vector; 0 after a failed call, whose vector may be invalid.
unsafe fn total(vector: *const iovec, count: c_int, done: ssize_t) -> u64 {
    if done < 0 {
        return 0;
    }
    (0..count.clamp(0, 1024) as usize).map(|index| (*vector.add(index)).iov_len as u64).sum()
}

/// Hooks of transfers at the descriptor's offset: arguments and bytes requested.
macro_rules! at_position {
    ($(
        $name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*)
            asks |$done:ident| $asked:expr;
    )*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(fd: c_int, $($arg: $kind),*) -> ssize_t {
            let real = real!($name as unsafe extern "C-unwind" fn(c_int, $($kind),*) -> ssize_t);
            match target(fd) {
                Target::Unseen => real(fd, $($arg),*),
                Target::Other => {
                    let $done = real(fd, $($arg),*);
                    other(Op::$op, $done);
                    $done
                }
                Target::File(file) => {
                    let begun = begin();
                    let $done = real(fd, $($arg),*);
                    moved(begun, Op::$op, fd, file, $done, $asked);
                    $done
                }
            }
        }
    )*};
}

at_position! {
    "read" read Read (buffer: *mut c_void, size: size_t) asks |done| size as u64;
    "__read_chk" __read_chk Read (buffer: *mut c_void, size: size_t, room: size_t)
        asks |done| size as u64;
    "readv" readv Read (vector: *const iovec, count: c_int) asks |done| total(vector, count, done);
    "write" write Write (buffer: *const c_void, size: size_t) asks |done| size as u64;
    "writev" writev Write (vector: *const iovec, count: c_int)
        asks |done| total(vector, count, done);
}

/// Hooks of transfers at a given offset.
macro_rules! at_offset {
    ($(
        $name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*)
            at $offset:ident asks |$done:ident| $asked:expr;
    )*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(fd: c_int, $($arg: $kind),*) -> ssize_t {
            let real = real!($name as unsafe extern "C-unwind" fn(c_int, $($kind),*) -> ssize_t);
            match target(fd) {
                Target::Unseen => real(fd, $($arg),*),
                Target::Other => {
                    let $done = real(fd, $($arg),*);
                    other(Op::$op, $done);
                    $done
                }
                Target::File(file) => {
                    let begun = begin();
                    let $done = real(fd, $($arg),*);
                    moved_at(begun, Op::$op, file, $offset, $done, $asked);
                    $done
                }
            }
        }
    )*};
}

at_offset! {
    "pread" pread Read (buffer: *mut c_void, size: size_t, at: off64_t)
        at at asks |done| size as u64;
    "pread64" pread64 Read (buffer: *mut c_void, size: size_t, at: off64_t)
        at at asks |done| size as u64;
    "__pread_chk" __pread_chk Read (buffer: *mut c_void, size: size_t, at: off64_t, room: size_t)
        at at asks |done| size as u64;
    "__pread64_chk" __pread64_chk Read (
        buffer: *mut c_void, size: size_t, at: off64_t, room: size_t
    )
        at at asks |done| size as u64;
    "preadv" preadv Read (vector: *const iovec, count: c_int, at: off64_t)
        at at asks |done| total(vector, count, done);
    "preadv64" preadv64 Read (vector: *const iovec, count: c_int, at: off64_t)
        at at asks |done| total(vector, count, done);
    "pwrite" pwrite Write (buffer: *const c_void, size: size_t, at: off64_t)
        at at asks |done| size as u64;
    "pwrite64" pwrite64 Write (buffer: *const c_void, size: size_t, at: off64_t)
        at at asks |done| size as u64;
    "pwritev" pwritev Write (vector: *const iovec, count: c_int, at: off64_t)
        at at asks |done| total(vector, count, done);
    "pwritev64" pwritev64 Write (vector: *const iovec, count: c_int, at: off64_t)
        at at asks |done| total(vector, count, done);
}

/// Hooks with an offset where -1 means the descriptor's own offset.
macro_rules! at_either {
    ($($name:literal $hook:ident $op:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            fd: c_int, vector: *const iovec, count: c_int, at: off64_t, flags: c_int,
        ) -> ssize_t {
            type Kind =
                unsafe extern "C-unwind" fn(c_int, *const iovec, c_int, off64_t, c_int) -> ssize_t;
            let real = real!($name as Kind);
            match target(fd) {
                Target::Unseen => real(fd, vector, count, at, flags),
                Target::Other => {
                    let done = real(fd, vector, count, at, flags);
                    other(Op::$op, done);
                    done
                }
                Target::File(file) => {
                    let begun = begin();
                    let done = real(fd, vector, count, at, flags);
                    let asked = total(vector, count, done);
                    if at < 0 {
                        moved(begun, Op::$op, fd, file, done, asked);
                    } else {
                        moved_at(begun, Op::$op, file, at, done, asked);
                    }
                    done
                }
            }
        }
    )*};
}

at_either! {
    "preadv2" preadv2 Read;
    "preadv64v2" preadv64v2 Read;
    "pwritev2" pwritev2 Write;
    "pwritev64v2" pwritev64v2 Write;
}

/// Record a seek after it returned. A query of the current offset is not recorded.
pub fn sought(begun: Begun, file: u32, offset: off64_t, whence: c_int, at: off64_t) {
    if !(whence == libc::SEEK_CUR && offset == 0) {
        end(
            begun,
            Op::Seek,
            Call { file, offset: at.max(0) as u64, failed: at < 0, ..Call::default() },
        );
    }
}

macro_rules! seeks {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, offset: off64_t, whence: c_int) -> off64_t {
            let real = real!($name as unsafe extern "C" fn(c_int, off64_t, c_int) -> off64_t);
            let Some(file) = descriptors::file_of(fd) else { return real(fd, offset, whence) };
            let begun = begin();
            let at = real(fd, offset, whence);
            sought(begun, file, offset, whence, at);
            at
        }
    )*};
}

seeks! {
    "lseek" lseek;
    "lseek64" lseek64;
}

/// One side of a copy in the kernel: the descriptor, and the pointer to the caller's offset or
/// null.
type End = (c_int, *mut off64_t);

/// Record a copy between two descriptors in the kernel: a read of the source and a write of the
/// target, if they are files. `counted`: the kernel counts its bytes as read and written (`splice`:
/// no).
unsafe fn copied(
    begun: Begun,
    from: (End, Target),
    to: (End, Target),
    count: ssize_t,
    asked: u64,
    counted: bool,
) {
    for (op, ((fd, at), target)) in [(Op::Read, from), (Op::Write, to)] {
        match target {
            // Only after a successful call is the caller's offset known to be readable.
            Target::File(file) if !at.is_null() && count >= 0 => {
                moved_at(begun, op, file, *at - count as off64_t, count, asked);
            }
            Target::File(file) if at.is_null() => moved(begun, op, fd, file, count, asked),
            Target::Other if counted => other(op, count),
            _ => {}
        }
        if let (Target::File(_), false) = (target, counted) {
            // The profile has this step, but the kernel's counters do not include it.
            match op {
                Op::Write => count_other(0, -(count.max(0) as i64)),
                _ => count_other(-(count.max(0) as i64), 0),
            }
        }
    }
}

macro_rules! sendfiles {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            to: c_int, from: c_int, at: *mut off64_t, size: size_t
        ) -> ssize_t {
            type Kind = unsafe extern "C-unwind" fn(c_int, c_int, *mut off64_t, size_t) -> ssize_t;
            let real = real!($name as Kind);
            let (source, sink) = (target(from), target(to));
            if source.is_unseen() {
                return real(to, from, at, size);
            }
            let begun = begin();
            let count = real(to, from, at, size);
            let (source, sink) = (((from, at), source), ((to, core::ptr::null_mut()), sink));
            copied(begun, source, sink, count, size as u64, true);
            count
        }
    )*};
}

sendfiles! {
    "sendfile" sendfile;
    "sendfile64" sendfile64;
}

macro_rules! copies {
    ($($name:literal $hook:ident counted $counted:literal;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            from: c_int, from_at: *mut off64_t, to: c_int, to_at: *mut off64_t,
            size: size_t, flags: c_uint,
        ) -> ssize_t {
            type Kind = unsafe extern "C-unwind" fn(
                c_int, *mut off64_t, c_int, *mut off64_t, size_t, c_uint
            ) -> ssize_t;
            let real = real!($name as Kind);
            let (source, sink) = (target(from), target(to));
            if source.is_unseen() {
                return real(from, from_at, to, to_at, size, flags);
            }
            let begun = begin();
            let count = real(from, from_at, to, to_at, size, flags);
            copied(
                begun, ((from, from_at), source), ((to, to_at), sink), count, size as u64, $counted
            );
            count
        }
    )*};
}

copies! {
    "copy_file_range" copy_file_range counted true;
    "splice" splice counted false;
}
