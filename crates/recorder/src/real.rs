//! The original functions behind the hooks, found in the next library.

use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicPtr, Ordering};

/// An original function.
pub struct Real {
    name: &'static CStr,
    found: AtomicPtr<c_void>,
}

extern "C" {
    /// Start of the linker section `headrace_real`, which holds an entry per `real!`.
    #[link_name = "__start_headrace_real"]
    static FIRST: u8;
    #[link_name = "__stop_headrace_real"]
    static BEHIND: u8;
}

/// Look up every original function at the start: `dlsym` takes locks and memory, which a hook in a
/// signal handler or in an allocator must not do.
pub fn find_all() {
    let (mut at, behind) =
        ((&raw const FIRST).cast::<&Real>(), (&raw const BEHIND).cast::<&Real>());
    while at < behind {
        // SAFETY: the section contains references, one per `real!`.
        unsafe {
            (*at).find();
            at = at.add(1);
        }
    }
}

impl Real {
    pub const fn new(name: &'static CStr) -> Self {
        Real { name, found: AtomicPtr::new(core::ptr::null_mut()) }
    }

    fn find(&self) -> *mut c_void {
        // SAFETY: the name ends with NUL.
        let found = unsafe { libc::dlsym(libc::RTLD_NEXT, self.name.as_ptr()) };
        self.found.store(found, Ordering::Relaxed);
        found
    }

    /// Return its address. Abort if it does not exist; a program that calls a function missing from
    /// the C library could not have been linked.
    pub fn get(&self) -> *mut c_void {
        let known = self.found.load(Ordering::Relaxed);
        if !known.is_null() {
            return known;
        }
        // Called by another library before our own initialisation.
        let found = self.find();
        if found.is_null() {
            // SAFETY: ends the process.
            unsafe { libc::abort() };
        }
        found
    }
}

/// `real!("read" as fn(fd: c_int, …) -> ssize_t)`: return the original function as a callable
/// value.
#[macro_export]
macro_rules! real {
    ($name:literal as $kind:ty) => {{
        static REAL: $crate::real::Real = $crate::real::Real::new(
            match core::ffi::CStr::from_bytes_with_nul(concat!($name, "\0").as_bytes()) {
                Ok(name) => name,
                Err(_) => panic!("a name with NUL"),
            },
        );
        #[used]
        #[link_section = "headrace_real"]
        static ENTRY: &$crate::real::Real = &REAL;
        // SAFETY: the C library's function of this name has this type.
        unsafe { core::mem::transmute::<*mut core::ffi::c_void, $kind>(ENTRY.get()) }
    }};
}

/// Return the calling thread's errno.
pub fn errno() -> i32 {
    // SAFETY: the address is always valid.
    unsafe { *libc::__errno_location() }
}
