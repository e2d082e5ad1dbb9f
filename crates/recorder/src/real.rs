//! The functions that are interposed, as the next library has them, and system calls that bypass every hook.

use std::ffi::c_void;
use std::sync::atomic::{AtomicPtr, Ordering};

/// A function of the next library, looked up once.
pub struct Real {
    name: &'static [u8],
    found: AtomicPtr<c_void>,
}

impl Real {
    /// `name` ends with NUL.
    pub const fn new(name: &'static [u8]) -> Self {
        Real { name, found: AtomicPtr::new(std::ptr::null_mut()) }
    }

    /// Its address. A program that calls what the C library does not have would not have been linked: the process is ended.
    pub fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr().cast()) };
        if found.is_null() {
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
        self.found.store(found, Ordering::Relaxed);
        found
    }
}

/// `real!(fn read(fd: c_int, …) -> ssize_t)`: the next library's function as a value that can be called.
#[macro_export]
macro_rules! real {
    ($name:literal as $kind:ty) => {{
        static REAL: $crate::real::Real = $crate::real::Real::new(concat!($name, "\0").as_bytes());
        // SAFETY: the C library's function of this name has this type.
        unsafe { std::mem::transmute::<*mut std::ffi::c_void, $kind>(REAL.get()) }
    }};
}

/// The calling thread's errno.
pub fn errno() -> i32 {
    // SAFETY: always a valid address.
    unsafe { *libc::__errno_location() }
}

/// Puts errno back, after work of our own.
pub fn set_errno(value: i32) {
    // SAFETY: always a valid address.
    unsafe { *libc::__errno_location() = value }
}

/// Where a descriptor stands, or a negative number; leaves errno alone.
pub fn position(fd: i32) -> i64 {
    let before = errno();
    // SAFETY: a system call without pointers.
    let found = unsafe { libc::syscall(libc::SYS_lseek, fd, 0i64, libc::SEEK_CUR) };
    set_errno(before);
    found
}
