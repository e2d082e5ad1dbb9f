//! Start and end of a process image, and the programs that it executes or spawns.

use core::ffi::{c_void, CStr};
use core::sync::atomic::{AtomicU64, Ordering};

use libc::{c_char, c_int, pid_t};

use crate::clocks::now;
use crate::finish::finish;
use crate::kernel;
use crate::names;
use crate::process;
use crate::real;
use crate::streams;
use crate::syscalls;
use crate::text::Digits;

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

/// Record that another program is about to replace this process. If true is returned and exec
/// fails, the caller must record the failure with [`remains`].
pub unsafe fn becomes(path: *const c_char) -> bool {
    // A pointer that the kernel cannot read must not be read here either.
    if path.is_null() || !process::active() || !kernel::is_readable(path) {
        return false;
    }
    becomes_named(CStr::from_ptr(path).to_bytes());
    true
}

/// The same for a program below an open directory, or for that of the descriptor itself.
pub unsafe fn becomes_at(at: c_int, path: *const c_char) -> bool {
    if path.is_null() || !process::active() || !kernel::is_readable(path) {
        return false;
    }
    let text = CStr::from_ptr(path).to_bytes();
    if at == libc::AT_FDCWD || text.starts_with(b"/") {
        becomes_named(text);
    } else {
        names::with_link(&names::descriptor_link(at), |folder| {
            let folder = folder.unwrap_or(b"");
            let mut joined = [0u8; libc::PATH_MAX as usize];
            let length = folder.len() + 1 + text.len();
            if text.is_empty() || length > joined.len() {
                return becomes_named(folder);
            }
            joined[..folder.len()].copy_from_slice(folder);
            joined[folder.len()] = b'/';
            joined[folder.len() + 1..length].copy_from_slice(text);
            becomes_named(&joined[..length]);
        });
    }
    true
}

fn becomes_named(path: &[u8]) {
    said(b'X', kernel::process_id(), path);
    if !process::is_borrowed() {
        finish(0);
    }
}

/// Record that this process remains the program that it was.
pub fn remains() {
    said(b'Y', kernel::process_id(), b"");
}

fn said(letter: u8, pid: pid_t, path: &[u8]) {
    let (pid, now, directory) =
        (Digits::of(pid as u64), Digits::of(now()), Digits::of(process::directory().into()));
    names::write(letter, process::image(), &[pid.text(), now.text(), directory.text(), path]);
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
