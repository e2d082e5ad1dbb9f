//! Start and end of a process image, and the programs that it executes or spawns.

use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{c_char, c_int, pid_t};

use crate::finish::finish;
use crate::process;
use crate::real;
use crate::replacement::{becomes, becomes_at, remains, said};
use crate::streams;
use crate::syscalls;

extern "C" fn start() {
    process::start();
    if !process::active() {
        return;
    }
    real::find_all();
    syscalls::start();
    streams::start();
    LOADED.store(objects_loaded(), Ordering::Relaxed);
    // SAFETY: the handler stays loaded.
    unsafe {
        libc::pthread_atfork(None, None, Some(process::after_fork));
    }
}

/// Objects that the dynamic loader had loaded when the image started.
static LOADED: AtomicU64 = AtomicU64::new(0);

/// Return how many objects the dynamic loader has loaded so far. Each load reads from its file.
fn objects_loaded() -> u64 {
    unsafe extern "C" fn look(object: *mut libc::dl_phdr_info, _: usize, to: *mut c_void) -> c_int {
        *to.cast::<u64>() = (*object).dlpi_adds;
        1
    }
    let mut found = 0u64;
    // SAFETY: the callback writes only to the given pointer.
    unsafe { libc::dl_iterate_phdr(Some(look), core::ptr::from_mut(&mut found).cast()) };
    found
}

extern "C" fn at_end() {
    if process::active() {
        // The dynamic loader calls this function, so no thread can hold the loader's lock forever.
        finish(objects_loaded().saturating_sub(LOADED.load(Ordering::Relaxed)));
    }
}

#[used]
#[link_section = ".init_array"]
static AT_START: extern "C" fn() = start;

#[used]
#[link_section = ".fini_array"]
static AT_END: extern "C" fn() = at_end;

macro_rules! exits {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(code: c_int) -> ! {
            let real = real!($name as unsafe extern "C-unwind" fn(c_int) -> !);
            finish(0);
            real(code)
        }
    )*};
}

exits! {
    "_exit" _exit;
    "_Exit" _Exit;
    "quick_exit" quick_exit;
}

macro_rules! execs {
    ($($name:literal $hook:ident ($($arg:ident: $kind:ty),*);)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(path: *const c_char, $($arg: $kind),*) -> c_int {
            let real =
                real!($name as unsafe extern "C-unwind" fn(*const c_char, $($kind),*) -> c_int);
            let was_said = becomes(path);
            let done = real(path, $($arg),*);
            if was_said {
                remains();
            }
            done
        }
    )*};
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C-unwind" fn fexecve(
    fd: c_int,
    argv: *const *const c_char,
    envp: *const *const c_char,
) -> c_int {
    type Kind =
        unsafe extern "C-unwind" fn(c_int, *const *const c_char, *const *const c_char) -> c_int;
    let real = real!("fexecve" as Kind);
    let was_said = becomes_at(fd, c"".as_ptr());
    let done = real(fd, argv, envp);
    if was_said {
        remains();
    }
    done
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C-unwind" fn execveat(
    at: c_int,
    path: *const c_char,
    argv: *const *const c_char,
    envp: *const *const c_char,
    flags: c_int,
) -> c_int {
    type Kind = unsafe extern "C-unwind" fn(
        c_int,
        *const c_char,
        *const *const c_char,
        *const *const c_char,
        c_int,
    ) -> c_int;
    let real = real!("execveat" as Kind);
    let was_said = becomes_at(at, path);
    let done = real(at, path, argv, envp, flags);
    if was_said {
        remains();
    }
    done
}

execs! {
    "execv" execv (argv: *const *const c_char);
    "execvp" execvp (argv: *const *const c_char);
    "execve" execve (argv: *const *const c_char, envp: *const *const c_char);
    "execvpe" execvpe (argv: *const *const c_char, envp: *const *const c_char);
}

macro_rules! spawns {
    ($($name:literal $hook:ident;)*) => {$(
        /// # Safety
        /// Same contract as the C library function that it replaces.
        #[no_mangle]
        pub unsafe extern "C-unwind" fn $hook(
            pid: *mut pid_t,
            path: *const c_char,
            actions: *const c_void,
            attributes: *const c_void,
            argv: *const *mut c_char,
            envp: *const *mut c_char,
        ) -> c_int {
            type Kind = unsafe extern "C-unwind" fn(
                *mut pid_t, *const c_char, *const c_void, *const c_void,
                *const *mut c_char, *const *mut c_char,
            ) -> c_int;
            let real = real!($name as Kind);
            let done = real(pid, path, actions, attributes, argv, envp);
            if done == 0 && !pid.is_null() && process::active() {
                said(b'S', *pid, CStr::from_ptr(path).to_bytes());
            }
            done
        }
    )*};
}

spawns! {
    "posix_spawn" posix_spawn;
    "posix_spawnp" posix_spawnp;
}
