//! Interfaces for reads and writes that bypass every hook. Their use is recorded as a fact.

use core::ffi::c_void;

use libc::{c_int, c_long, c_uint};

use crate::arena::{note, Fact};
use crate::real;

/// Entry point of liburing, if the program links it.
///
/// # Safety
/// Same contract as the library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn io_uring_queue_init(
    entries: c_uint,
    ring: *mut c_void,
    flags: c_uint,
) -> c_int {
    let real =
        real!("io_uring_queue_init" as unsafe extern "C" fn(c_uint, *mut c_void, c_uint) -> c_int);
    note(Fact::IoUring);
    real(entries, ring, flags)
}

/// # Safety
/// Same contract as the library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    type Kind = unsafe extern "C" fn(c_uint, *mut c_void, *mut c_void) -> c_int;
    let real = real!("io_uring_queue_init_params" as Kind);
    note(Fact::IoUring);
    real(entries, ring, parameters)
}

/// Entry point of libaio.
///
/// # Safety
/// Same contract as the library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn io_submit(
    context: *mut c_void,
    count: c_long,
    blocks: *mut *mut c_void,
) -> c_int {
    let real =
        real!("io_submit" as unsafe extern "C" fn(*mut c_void, c_long, *mut *mut c_void) -> c_int);
    note(Fact::LibAio);
    real(context, count, blocks)
}

macro_rules! posix_aio {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(block: *mut c_void) -> c_int {
            let real = real!($name as unsafe extern "C" fn(*mut c_void) -> c_int);
            note(Fact::PosixAio);
            real(block)
        }
    )*};
}

posix_aio! {
    "aio_read" aio_read;
    "aio_read64" aio_read64;
    "aio_write" aio_write;
    "aio_write64" aio_write64;
}
