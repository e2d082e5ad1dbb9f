//! Hooks for calls that open, close, duplicate, stat, sync and delete files.

use core::ffi::CStr;

use libc::{c_char, c_int, c_uint};

use crate::arena::{self, Fact};
use crate::descriptors::{self, known_file_of};
use crate::kernel;
use crate::names;
use crate::process::{self, end};
use crate::real;
use crate::real::errno;
use crate::record::{begin, Begun, Call, Op};

/// Register an opened descriptor and record the open. Failed opens are ignored.
pub fn opened(begun: Begun, fd: c_int) {
    if fd < 0 || !process::active() || process::is_borrowed() {
        return;
    }
    if let Some(file) = descriptors::register(fd) {
        end(begun, Op::Open, Call { file, ..Call::default() });
    }
}

/// Hooks of the open family. The mode register is read and forwarded even if the caller passed no
/// mode.
macro_rules! opens {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook($($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C-unwind" fn($($kind),*) -> c_int);
            if !process::active() {
                return real($($arg),*);
            }
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
    "mkstemp" mkstemp (template: *mut c_char);
    "mkstemp64" mkstemp64 (template: *mut c_char);
    "mkostemp" mkostemp (template: *mut c_char, flags: c_int);
    "mkostemp64" mkostemp64 (template: *mut c_char, flags: c_int);
    "mkstemps" mkstemps (template: *mut c_char, ending: c_int);
    "mkstemps64" mkstemps64 (template: *mut c_char, ending: c_int);
    "mkostemps" mkostemps (template: *mut c_char, ending: c_int, flags: c_int);
    "mkostemps64" mkostemps64 (template: *mut c_char, ending: c_int, flags: c_int);
}

/// Forget a descriptor before it is closed, because another thread can get its number at once.
pub fn closing(fd: c_int) -> Option<(u32, Begun)> {
    let file = known_file_of(fd);
    if !process::active() || process::is_borrowed() {
        return None;
    }
    descriptors::forget(fd);
    file.map(|file| (file, begin()))
}

/// Record the close after it returned.
pub fn closed(before: Option<(u32, Begun)>, failed: bool) {
    if let Some((file, begun)) = before {
        end(begun, Op::Close, Call { file, failed, ..Call::default() });
    }
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C-unwind" fn close(fd: c_int) -> c_int {
    let real = real!("close" as unsafe extern "C-unwind" fn(c_int) -> c_int);
    let before = closing(fd);
    let done = real(fd);
    closed(before, done < 0);
    done
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn close_range(first: c_uint, last: c_uint, flags: c_int) -> c_int {
    let real = real!("close_range" as unsafe extern "C" fn(c_uint, c_uint, c_int) -> c_int);
    let done = real(first, last, flags);
    // CLOSE_RANGE_CLOEXEC (4) does not close yet. A child of vfork closes its own descriptors.
    if done == 0 && flags & 4 == 0 && process::active() && !process::is_borrowed() {
        descriptors::forget_range(first, last);
    }
    done
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn closefrom(first: c_int) {
    let real = real!("closefrom" as unsafe extern "C" fn(c_int));
    real(first);
    if process::active() && !process::is_borrowed() {
        descriptors::forget_range(first.max(0) as c_uint, c_uint::MAX);
    }
}

macro_rules! duplicates {
    ($($name:literal $hook:ident ($from:ident $(, $arg:ident: $kind:ty)*);)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
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
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(fd: c_int, command: c_int, argument: usize) -> c_int {
            let real = real!($name as unsafe extern "C-unwind" fn(c_int, c_int, usize) -> c_int);
            let done = real(fd, command, argument);
            if command == libc::F_SETFL && done == 0 && process::active() && !process::is_borrowed()
            {
                descriptors::flags_set(fd, argument);
            }
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

/// The C library redirects the standard streams to /dev/null internally.
///
/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn daemon(no_chdir: c_int, no_close: c_int) -> c_int {
    let real = real!("daemon" as unsafe extern "C" fn(c_int, c_int) -> c_int);
    let done = real(no_chdir, no_close);
    if done == 0 && process::active() {
        process::note_directory();
        descriptors::forget_range(0, 2);
    }
    done
}

macro_rules! directories {
    ($($name:literal $hook:ident ($arg:ident: $kind:ty);)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($arg: $kind) -> c_int {
            let real = real!($name as unsafe extern "C" fn($kind) -> c_int);
            let done = real($arg);
            if done == 0 && process::active() && !process::is_borrowed() {
                process::note_directory();
            }
            done
        }
    )*};
}

directories! {
    "chdir" chdir (path: *const c_char);
    "fchdir" fchdir (fd: c_int);
    "chroot" chroot (path: *const c_char);
}

/// Record a call that queries or changes a path without opening it.
unsafe fn named(begun: Begun, op: Op, at: c_int, path: *const c_char, failed: bool) {
    // A pointer that the kernel could not read must not be read here either.
    if path.is_null() || (failed && errno() == libc::EFAULT) || process::is_borrowed() {
        return;
    }
    let text = CStr::from_ptr(path).to_bytes();
    let hidden = [&b"/proc/"[..], b"/sys/"];
    if text.is_empty() || hidden.iter().any(|start| text.starts_with(start)) {
        return;
    }
    end(begun, op, Call { file: number_of(at, text), failed, ..Call::default() });
}

/// Return a new number for a path below an open directory.
pub fn number_of(at: c_int, path: &[u8]) -> u32 {
    names::with_path(at, path, names::path)
}

macro_rules! on_paths {
    ($(
        $name:literal $hook:ident $op:ident ($($arg:ident: $kind:ty),*)
            of $at:expr, $path:ident;
    )*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C" fn($($kind),*) -> c_int);
            if !process::active() {
                return real($($arg),*);
            }
            let begun = begin();
            let done = real($($arg),*);
            named(begun, Op::$op, $at, $path, done < 0);
            done
        }
    )*};
}

use libc::AT_FDCWD as HERE;

on_paths! {
    "stat" stat Stat (path: *const c_char, to: *mut libc::stat) of HERE, path;
    "stat64" stat64 Stat (path: *const c_char, to: *mut libc::stat64) of HERE, path;
    "lstat" lstat Stat (path: *const c_char, to: *mut libc::stat) of HERE, path;
    "lstat64" lstat64 Stat (path: *const c_char, to: *mut libc::stat64) of HERE, path;
    "__xstat" __xstat Stat (version: c_int, path: *const c_char, to: *mut libc::stat) of HERE, path;
    "__xstat64" __xstat64 Stat (version: c_int, path: *const c_char, to: *mut libc::stat64)
        of HERE, path;
    "__lxstat" __lxstat Stat (version: c_int, path: *const c_char, to: *mut libc::stat)
        of HERE, path;
    "__lxstat64" __lxstat64 Stat (version: c_int, path: *const c_char, to: *mut libc::stat64)
        of HERE, path;
    "access" access Stat (path: *const c_char, mode: c_int) of HERE, path;
    "unlink" unlink Unlink (path: *const c_char) of HERE, path;
    "remove" remove Unlink (path: *const c_char) of HERE, path;
}

macro_rules! on_paths_at {
    ($(
        $name:literal $hook:ident $op:ident ($at:ident, $path:ident $(, $arg:ident: $kind:ty)*);
    )*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(
            $at: c_int, $path: *const c_char $(, $arg: $kind)*
        ) -> c_int {
            let real =
                real!($name as unsafe extern "C" fn(c_int, *const c_char $(, $kind)*) -> c_int);
            if !process::active() {
                return real($at, $path $(, $arg)*);
            }
            let begun = begin();
            let done = real($at, $path $(, $arg)*);
            named(begun, Op::$op, $at, $path, done < 0);
            done
        }
    )*};
}

on_paths_at! {
    "fstatat" fstatat Stat (at, path, to: *mut libc::stat, flags: c_int);
    "fstatat64" fstatat64 Stat (at, path, to: *mut libc::stat64, flags: c_int);
    "statx" statx Stat (at, path, flags: c_int, mask: c_uint, to: *mut libc::statx);
    "faccessat" faccessat Stat (at, path, mode: c_int, flags: c_int);
    "unlinkat" unlinkat Unlink (at, path, flags: c_int);
}

/// Return the number of the directory that was synced, as a program does after it has made or removed
/// a file.
fn directory_of(fd: c_int, done: c_int) -> Option<u32> {
    let is_directory = |facts: libc::stat| facts.st_mode & libc::S_IFMT == libc::S_IFDIR;
    if done < 0 || process::is_borrowed() || !kernel::facts(fd as isize).is_some_and(is_directory) {
        return None;
    }
    names::with_link(&names::descriptor_link(fd), |path| path.map(names::path))
}

macro_rules! syncs {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(fd: c_int) -> c_int {
            let real = real!($name as unsafe extern "C-unwind" fn(c_int) -> c_int);
            if !process::active() {
                return real(fd);
            }
            let known = descriptors::file_of(fd);
            let begun = begin();
            let done = real(fd);
            if let Some(file) = known.or_else(|| directory_of(fd, done)) {
                end(begun, Op::Sync, Call { file, failed: done < 0, ..Call::default() });
            }
            done
        }
    )*};
}

syncs! {
    "fsync" fsync;
    "fdatasync" fdatasync;
    "syncfs" syncfs;
}

/// Record the calls that wait until the range is written.
///
/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C-unwind" fn sync_file_range(
    fd: c_int,
    offset: libc::off64_t,
    length: libc::off64_t,
    flags: c_uint,
) -> c_int {
    type Kind = unsafe extern "C-unwind" fn(c_int, libc::off64_t, libc::off64_t, c_uint) -> c_int;
    let real = real!("sync_file_range" as Kind);
    let waits = flags & libc::SYNC_FILE_RANGE_WAIT_AFTER != 0;
    let file = if waits && process::active() { descriptors::file_of(fd) } else { None };
    let Some(file) = file else { return real(fd, offset, length, flags) };
    let begun = begin();
    let done = real(fd, offset, length, flags);
    end(begun, Op::Sync, Call { file, failed: done < 0, ..Call::default() });
    done
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn sync() {
    let real = real!("sync" as unsafe extern "C" fn());
    if process::active() {
        arena::note(Fact::Syncs);
    }
    real();
}
