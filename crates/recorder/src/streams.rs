//! Buffered streams of the C library: it reads and writes for them inside itself, which no hook sees. Where the kernel stands at the
//! descriptor before and after a call tells which bytes those were, exactly; several reads of one call become one record.

use std::ffi::c_void;

use libc::{c_char, c_int, c_long, off64_t, size_t, ssize_t, FILE};

use crate::descriptors::{self, file_of, set_stream_position, stream_position};
use crate::files::opened;
use crate::process;
use crate::real;
use crate::real::position;
use crate::record::{begin, end, Begun, Op};

/// The kernel's buffers of a stream begin at whole blocks after a seek.
const BLOCK_BYTES: i64 = 4096;

fn descriptor(stream: *mut FILE) -> c_int {
    if stream.is_null() {
        return -1;
    }
    // SAFETY: the caller's stream.
    unsafe { libc::fileno(stream) }
}

/// Writes down what the kernel moved for a stream since it was last seen.
fn catch_up(begun: Begun, op: Op, fd: c_int) {
    let (Some(file), Some(last)) = (file_of(fd), stream_position(fd)) else { return };
    let at = position(fd);
    if at > last {
        let length = (at - last) as u64;
        end(begun, op, file, last as u64, length, length, false);
    }
    if at >= 0 {
        set_stream_position(fd, at);
    }
}

macro_rules! stream_opens {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($arg: $kind),*) -> *mut FILE {
            let real = real!($name as unsafe extern "C" fn($($kind),*) -> *mut FILE);
            let begun = begin();
            let stream = real($($arg),*);
            let fd = descriptor(stream);
            if fd >= 0 && process::active() {
                opened(begun, fd);
                set_stream_position(fd, position(fd));
            }
            stream
        }
    )*};
}

stream_opens! {
    "fopen" fopen (path: *const c_char, mode: *const c_char);
    "fopen64" fopen64 (path: *const c_char, mode: *const c_char);
    "freopen" freopen (path: *const c_char, mode: *const c_char, stream: *mut FILE);
    "freopen64" freopen64 (path: *const c_char, mode: *const c_char, stream: *mut FILE);
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn fdopen(fd: c_int, mode: *const c_char) -> *mut FILE {
    let real = real!("fdopen" as unsafe extern "C" fn(c_int, *const c_char) -> *mut FILE);
    let stream = real(fd, mode);
    if !stream.is_null() && file_of(fd).is_some() {
        set_stream_position(fd, position(fd));
    }
    stream
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn fclose(stream: *mut FILE) -> c_int {
    let real = real!("fclose" as unsafe extern "C" fn(*mut FILE) -> c_int);
    let fd = descriptor(stream);
    let Some(file) = file_of(fd) else { return real(stream) };
    let begun = begin();
    // What was read by functions without a hook (getc, fscanf) first, then what is still to be written.
    catch_up(begun, Op::Read, fd);
    libc::fflush(stream);
    let written = begin();
    catch_up(written, Op::Write, fd);
    let closing = begin();
    descriptors::forget(fd);
    let done = real(stream);
    end(closing, Op::Close, file, 0, 0, 0, done != 0);
    done
}

macro_rules! on_streams {
    ($($name:literal $hook:ident $op:ident ($($before:ident: $first:ty),*; $stream:ident $(; $after:ident: $last:ty)*) -> $gives:ty;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook($($before: $first,)* $stream: *mut FILE $(, $after: $last)*) -> $gives {
            let real = real!($name as unsafe extern "C" fn($($first,)* *mut FILE $(, $last)*) -> $gives);
            let fd = descriptor($stream);
            if stream_position(fd).is_none() {
                return real($($before,)* $stream $(, $after)*);
            }
            let begun = begin();
            let done = real($($before,)* $stream $(, $after)*);
            catch_up(begun, Op::$op, fd);
            done
        }
    )*};
}

on_streams! {
    "fread" fread Read (to: *mut c_void, size: size_t, count: size_t; stream) -> size_t;
    "fread_unlocked" fread_unlocked Read (to: *mut c_void, size: size_t, count: size_t; stream) -> size_t;
    "__fread_chk" __fread_chk Read (to: *mut c_void, room: size_t, size: size_t, count: size_t; stream) -> size_t;
    "fgets" fgets Read (to: *mut c_char, size: c_int; stream) -> *mut c_char;
    "__fgets_chk" __fgets_chk Read (to: *mut c_char, room: size_t, size: c_int; stream) -> *mut c_char;
    "getline" getline Read (to: *mut *mut c_char, size: *mut size_t; stream) -> ssize_t;
    "getdelim" getdelim Read (to: *mut *mut c_char, size: *mut size_t, ends: c_int; stream) -> ssize_t;
    "__getdelim" __getdelim Read (to: *mut *mut c_char, size: *mut size_t, ends: c_int; stream) -> ssize_t;
    "fwrite" fwrite Write (from: *const c_void, size: size_t, count: size_t; stream) -> size_t;
    "fwrite_unlocked" fwrite_unlocked Write (from: *const c_void, size: size_t, count: size_t; stream) -> size_t;
    "fputs" fputs Write (from: *const c_char; stream) -> c_int;
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn fflush(stream: *mut FILE) -> c_int {
    let real = real!("fflush" as unsafe extern "C" fn(*mut FILE) -> c_int);
    let fd = descriptor(stream);
    if stream_position(fd).is_none() {
        return real(stream);
    }
    let begun = begin();
    let done = real(stream);
    catch_up(begun, Op::Write, fd);
    done
}

/// After a seek of a stream: it may have read the rest of a block, when the place was not in its buffer.
unsafe fn sought(begun: Begun, stream: *mut FILE, fd: c_int, failed: bool) {
    let (Some(file), Some(last)) = (file_of(fd), stream_position(fd)) else { return };
    let at = position(fd);
    let wanted = libc::ftello(stream);
    if at != last {
        end(begun, Op::Seek, file, wanted.max(0) as u64, 0, 0, failed);
        if at > wanted && wanted >= 0 {
            let from = wanted & !(BLOCK_BYTES - 1);
            let length = (at - from) as u64;
            end(begin(), Op::Read, file, from as u64, length, length, false);
        }
        set_stream_position(fd, at);
    }
}

macro_rules! stream_seeks {
    ($($name:literal $hook:ident ($offset:ty);)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(stream: *mut FILE, offset: $offset, whence: c_int) -> c_int {
            let real = real!($name as unsafe extern "C" fn(*mut FILE, $offset, c_int) -> c_int);
            let fd = descriptor(stream);
            if stream_position(fd).is_none() {
                return real(stream, offset, whence);
            }
            let begun = begin();
            libc::fflush(stream);
            catch_up(begun, Op::Write, fd);
            let begun = begin();
            let done = real(stream, offset, whence);
            sought(begun, stream, fd, done != 0);
            done
        }
    )*};
}

stream_seeks! {
    "fseek" fseek (c_long);
    "fseeko" fseeko (off64_t);
    "fseeko64" fseeko64 (off64_t);
}
