//! The beginning and the ends of a process image, and facts that a reader of the profile should know.

use std::ffi::CStr;
use std::sync::atomic::{AtomicBool, Ordering};

use libc::{c_char, c_int, c_long, c_uint, c_void};

use crate::maps;
use crate::names::{self, Entry};
use crate::process;
use crate::real;
use crate::record::{begin, cpu_wait, end, process_cpu, Op};

extern "C" fn start() {
    process::start();
    // SAFETY: the handler stays where it is.
    unsafe {
        libc::pthread_atfork(None, None, Some(process_forked));
    }
}

extern "C" fn process_forked() {
    process::forked();
}

extern "C" fn finish() {
    if process::active() && !process::is_borrowed() {
        maps::write_down_all();
        note_rings();
        end(begin(), Op::End, 0, process_cpu(), cpu_wait(), 0, false);
    }
}

#[used]
#[link_section = ".init_array"]
static AT_START: extern "C" fn() = start;

#[used]
#[link_section = ".fini_array"]
static AT_END: extern "C" fn() = finish;

/// An io_uring is a descriptor; what goes through it is not seen.
fn note_rings() {
    let mut link = *b"/proc/self/fd/\0\0\0\0\0\0\0";
    for fd in 0..256u32 {
        let digits = [fd / 100, fd / 10 % 10, fd % 10].map(|digit| b'0' + digit as u8);
        let digits = &digits[if fd >= 100 {
            0
        } else if fd >= 10 {
            1
        } else {
            2
        }..];
        link[14..].fill(0);
        link[14..14 + digits.len()].copy_from_slice(digits);
        let mut buffer = [0u8; 4096];
        if names::link(&link, &mut buffer).is_some_and(|path| path == b"anon_inode:[io_uring]") {
            note_once(&RING_SEEN, "io_uring");
        }
    }
}

static RING_SEEN: AtomicBool = AtomicBool::new(false);
static AIO_SEEN: AtomicBool = AtomicBool::new(false);

fn note_once(seen: &AtomicBool, what: &str) {
    if process::active() && !seen.swap(true, Ordering::Relaxed) {
        names::note(what, &[]);
    }
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn _exit(code: c_int) -> ! {
    let real = real!("_exit" as unsafe extern "C" fn(c_int) -> !);
    finish();
    real(code)
}

/// # Safety
/// As the function of the C library that it stands for.
#[no_mangle]
pub unsafe extern "C" fn _Exit(code: c_int) -> ! {
    let real = real!("_Exit" as unsafe extern "C" fn(c_int) -> !);
    finish();
    real(code)
}

macro_rules! execs {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(path: *const c_char, $($arg: $kind),*) -> c_int {
            let real = real!($name as unsafe extern "C" fn(*const c_char, $($kind),*) -> c_int);
            if process::active() && !path.is_null() {
                // SAFETY: a system call without arguments.
                let pid = libc::syscall(libc::SYS_getpid) as u64;
                Entry::new(b'X').number(pid).text(CStr::from_ptr(path).to_bytes()).write();
                if !process::is_borrowed() {
                    end(begin(), Op::End, 0, process_cpu(), cpu_wait(), 0, false);
                }
            }
            real(path, $($arg),*)
        }
    )*};
}

execs! {
    "execv" execv (argv: *const *const c_char);
    "execvp" execvp (argv: *const *const c_char);
    "execve" execve (argv: *const *const c_char, envp: *const *const c_char);
    "execvpe" execvpe (argv: *const *const c_char, envp: *const *const c_char);
}

/// liburing's way in: where a program links it.
///
/// # Safety
/// As the function of that library.
#[no_mangle]
pub unsafe extern "C" fn io_uring_queue_init(entries: c_uint, ring: *mut c_void, flags: c_uint) -> c_int {
    let real = real!("io_uring_queue_init" as unsafe extern "C" fn(c_uint, *mut c_void, c_uint) -> c_int);
    note_once(&RING_SEEN, "io_uring");
    real(entries, ring, flags)
}

/// # Safety
/// As the function of that library.
#[no_mangle]
pub unsafe extern "C" fn io_uring_queue_init_params(
    entries: c_uint,
    ring: *mut c_void,
    parameters: *mut c_void,
) -> c_int {
    type Kind = unsafe extern "C" fn(c_uint, *mut c_void, *mut c_void) -> c_int;
    let real = real!("io_uring_queue_init_params" as Kind);
    note_once(&RING_SEEN, "io_uring");
    real(entries, ring, parameters)
}

/// libaio's way in.
///
/// # Safety
/// As the function of that library.
#[no_mangle]
pub unsafe extern "C" fn io_submit(context: *mut c_void, count: c_long, blocks: *mut *mut c_void) -> c_int {
    let real = real!("io_submit" as unsafe extern "C" fn(*mut c_void, c_long, *mut *mut c_void) -> c_int);
    note_once(&AIO_SEEN, "libaio");
    real(context, count, blocks)
}

macro_rules! posix_aio {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// As the function of the C library that it stands for.
        #[no_mangle]
        pub unsafe extern "C" fn $hook(block: *mut c_void) -> c_int {
            let real = real!($name as unsafe extern "C" fn(*mut c_void) -> c_int);
            note_once(&AIO_SEEN, "aio");
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
