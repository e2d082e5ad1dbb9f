//! Hooks for calls that set a file's size or allocate its space without a write. A program needs
//! them before it can use a map of a new file.

use core::ffi::CStr;

use libc::{c_char, c_int, off64_t};

use crate::arena::{self, Fact};
use crate::descriptors::file_of;
use crate::names;
use crate::process::{self, end};
use crate::real;
use crate::record::{begin, Begun, Call, Op};

macro_rules! by_descriptor {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(fd: c_int, length: off64_t) -> c_int {
            let real = real!($name as unsafe extern "C" fn(c_int, off64_t) -> c_int);
            let Some(file) = file_of(fd) else { return real(fd, length) };
            let begun = begin();
            let done = real(fd, length);
            let offset = length.max(0) as u64;
            end(begun, Op::Truncate, Call { file, offset, failed: done < 0, ..Call::default() });
            done
        }
    )*};
}

by_descriptor! {
    "ftruncate" ftruncate;
    "ftruncate64" ftruncate64;
}

macro_rules! by_path {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(path: *const c_char, length: off64_t) -> c_int {
            let real = real!($name as unsafe extern "C" fn(*const c_char, off64_t) -> c_int);
            let begun = begin();
            let done = real(path, length);
            // After a failed call the path pointer may be invalid.
            if done == 0 && process::active() && !process::is_borrowed() {
                let file = names::path(CStr::from_ptr(path).to_bytes());
                end(
                    begun,
                    Op::Truncate,
                    Call { file, offset: length.max(0) as u64, ..Call::default() },
                );
            }
            done
        }
    )*};
}

by_path! {
    "truncate" truncate;
    "truncate64" truncate64;
}

/// Record an allocation; `mode` as in `fallocate`.
fn allocated(begun: Begun, file: u32, mode: c_int, offset: off64_t, length: off64_t, failed: bool) {
    let op = match mode {
        0 => Op::Allocate,
        libc::FALLOC_FL_KEEP_SIZE => Op::Reserve,
        _ => {
            if !failed {
                arena::note(Fact::Holes);
            }
            return;
        }
    };
    let (offset, length) = (offset.max(0) as u64, length.max(0) as u64);
    end(begun, op, Call { file, offset, length, asked: length, failed, ..Call::default() });
}

macro_rules! fallocates {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            fd: c_int, mode: c_int, offset: off64_t, length: off64_t
        ) -> c_int {
            let real = real!(
                $name as unsafe extern "C-unwind" fn(c_int, c_int, off64_t, off64_t) -> c_int
            );
            let Some(file) = file_of(fd) else { return real(fd, mode, offset, length) };
            let begun = begin();
            let done = real(fd, mode, offset, length);
            allocated(begun, file, mode, offset, length, done != 0);
            done
        }
    )*};
}

fallocates! {
    "fallocate" fallocate;
    "fallocate64" fallocate64;
}

macro_rules! posix_fallocates {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            fd: c_int, offset: off64_t, length: off64_t
        ) -> c_int {
            let real =
                real!($name as unsafe extern "C-unwind" fn(c_int, off64_t, off64_t) -> c_int);
            let Some(file) = file_of(fd) else { return real(fd, offset, length) };
            let begun = begin();
            let done = real(fd, offset, length);
            allocated(begun, file, 0, offset, length, done != 0);
            done
        }
    )*};
}

posix_fallocates! {
    "posix_fallocate" posix_fallocate;
    "posix_fallocate64" posix_fallocate64;
}
