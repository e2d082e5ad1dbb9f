//! Files opened, closed, duplicated, asked about, flushed and deleted.

use std::ffi::CStr;

use libc::{c_char, c_int, c_uint};

use crate::descriptors::{self, file_of};
use crate::names;
use crate::process;
use crate::real;
use crate::real::{errno, set_errno};
use crate::record::{begin, end, Begun, Op};

/// A descriptor has been opened (or not): it gets a number and a record.
pub fn opened(begun: Begun, fd: c_int) {
    if fd < 0 || !process::active() || process::is_borrowed() {
        return;
    }
    let before = errno();
    if let Some(file) = descriptors::register(fd) {
        end(begun, Op::Open, file, 0, 0, 0, false);
    }
    set_errno(before);
}

/// Hooks of the open family. The mode is read from its register whether or not it was given, and passed on unlooked at.
macro_rules! opens {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C" fn($($kind),*) -> c_int);
            let begun = begin();
            let fd = real($($arg),*);
            opened(begun, fd);
            fd
        }
    )*};
}

opens! {
    "open" open (path: *const c_char, flags: c_int, mode: c_uint);
    "open64" open64 (path: *const c_char, flags: c_int, mode: c_uint);
    "openat" openat (at: c_int, path: *const c_char, flags: c_int, mode: c_uint);
    "openat64" openat64 (at: c_int, path: *const c_char, flags: c_int, mode: c_uint);
    "__open_2" __open_2 (path: *const c_char, flags: c_int);
    "__open64_2" __open64_2 (path: *const c_char, flags: c_int);
    "__openat_2" __openat_2 (at: c_int, path: *const c_char, flags: c_int);
    "__openat64_2" __openat64_2 (at: c_int, path: *const c_char, flags: c_int);
    "creat" creat (path: *const c_char, mode: c_uint);
    "creat64" creat64 (path: *const c_char, mode: c_uint);
    "mkostemp" mkostemp (template: *mut c_char, flags: c_int);
    "mkstemp" mkstemp (template: *mut c_char);
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn close(fd: c_int) -> c_int {
    let real = real!("close" as unsafe extern "C" fn(c_int) -> c_int);
    if process::is_our_descriptor(fd) {
        // Programs that close all they don't know: it looks closed. (exec closes it.)
        return 0;
    }
    let Some(file) = file_of(fd) else { return real(fd) };
    if process::is_borrowed() {
        return real(fd);
    }
    let begun = begin();
    descriptors::forget(fd);
    let done = real(fd);
    end(begun, Op::Close, file, 0, 0, 0, done < 0);
    done
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    type Kind = unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int;
    let real = real!("close_range" as Kind);
    if !process::active() {
        return real(first, last, flags);
    }
    // A child of vfork closes its own descriptors: the table that we share with it is not of those.
    if !process::is_borrowed() {
        for fd in first..=last.min(65_535) {
            if file_of(fd as c_int).is_some() {
                descriptors::forget(fd as c_int);
            }
        }
    }
    // Ours stay: the range around them.
    let (low, high) = {
        let (a, b) = (process::record_file() as c_uint, process::names_file() as c_uint);
        (a.min(b), a.max(b))
    };
    let mut from = first;
    for own in [low, high] {
        if own >= from && own <= last {
            if own > from {
                real(from, own - 1, flags);
            }
            from = own + 1;
        }
    }
    if from <= last {
        real(from, last, flags)
    } else {
        0
    }
}

macro_rules! duplicates {
    ($($name:literal $hook:ident ($from:ident $(, $arg:ident: $kind:ty)*);)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($from: c_int $(, $arg: $kind)*) -> c_int {
            let real = real!($name as unsafe extern "C" fn(c_int $(, $kind)*) -> c_int);
            let fd = real($from $(, $arg)*);
            if fd >= 0 && process::active() && !process::is_borrowed() {
                descriptors::duplicate($from, fd);
            }
            fd
        }
    )*};
}

duplicates! {
    "dup" dup (from);
    "dup2" dup2 (from, to: c_int);
    "dup3" dup3 (from, to: c_int, flags: c_int);
}

macro_rules! controls {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, command: c_int, argument: usize) -> c_int {
            let real = real!($name as unsafe extern "C" fn(c_int, c_int, usize) -> c_int);
            let done = real(fd, command, argument);
            let duplicates = command == libc::F_DUPFD || command == libc::F_DUPFD_CLOEXEC;
            if duplicates && done >= 0 && process::active() && !process::is_borrowed() {
                descriptors::duplicate(fd, done);
            }
            done
        }
    )*};
}

controls! {
    "fcntl" fcntl;
    "fcntl64" fcntl64;
}

/// A path was asked for or changed, without being opened.
unsafe fn named(begun: Begun, op: Op, path: *const c_char, failed: bool) {
    if path.is_null() || !process::active() || process::is_borrowed() {
        return;
    }
    let before = errno();
    let text = CStr::from_ptr(path).to_bytes();
    let hidden = [&b"/proc/"[..], b"/sys/"];
    if !text.is_empty() && !hidden.iter().any(|start| text.starts_with(start)) {
        let number = names::path(text);
        end(begun, op, number, 0, 0, 0, failed);
    }
    set_errno(before);
}

macro_rules! on_paths {
    ($($name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*) of $path:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C" fn($($kind),*) -> c_int);
            let begun = begin();
            let done = real($($arg),*);
            named(begun, Op::$op, $path, done < 0);
            done
        }
    )*};
}

on_paths! {
    "stat" stat Stat (path: *const c_char, to: *mut libc::stat) of path;
    "stat64" stat64 Stat (path: *const c_char, to: *mut libc::stat64) of path;
    "lstat" lstat Stat (path: *const c_char, to: *mut libc::stat) of path;
    "lstat64" lstat64 Stat (path: *const c_char, to: *mut libc::stat64) of path;
    "fstatat" fstatat Stat (at: c_int, path: *const c_char, to: *mut libc::stat, flags: c_int) of path;
    "fstatat64" fstatat64 Stat (at: c_int, path: *const c_char, to: *mut libc::stat64, flags: c_int) of path;
    "__xstat" __xstat Stat (version: c_int, path: *const c_char, to: *mut libc::stat) of path;
    "__xstat64" __xstat64 Stat (version: c_int, path: *const c_char, to: *mut libc::stat64) of path;
    "__lxstat" __lxstat Stat (version: c_int, path: *const c_char, to: *mut libc::stat) of path;
    "__lxstat64" __lxstat64 Stat (version: c_int, path: *const c_char, to: *mut libc::stat64) of path;
    "statx" statx Stat (at: c_int, path: *const c_char, flags: c_int, mask: c_uint, to: *mut libc::statx) of path;
    "access" access Stat (path: *const c_char, mode: c_int) of path;
    "unlink" unlink Unlink (path: *const c_char) of path;
    "unlinkat" unlinkat Unlink (at: c_int, path: *const c_char, flags: c_int) of path;
}

macro_rules! syncs {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int) -> c_int {
            let real = real!($name as unsafe extern "C" fn(c_int) -> c_int);
            let Some(file) = file_of(fd) else { return real(fd) };
            let begun = begin();
            let done = real(fd);
            end(begun, Op::Sync, file, 0, 0, 0, done < 0);
            done
        }
    )*};
}

syncs! {
    "fsync" fsync;
    "fdatasync" fdatasync;
}
