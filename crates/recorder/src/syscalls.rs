//! Hooks for system calls by number, through the C library's `syscall`, and for calls that restrict
//! system calls.
//!
//! A seccomp filter kills a program for a system call that it does not allow. It cannot know the
//! calls of the recorder, so recording stops when a program installs a filter.

use core::ffi::c_void;
use core::sync::atomic::{AtomicPtr, Ordering};

use libc::{c_char, c_int, c_long};

use crate::arena::{note, Fact};
use crate::descriptors::{target, Target};
use crate::files::{closed, closing, opened};
use crate::finish::finish;
use crate::process;
use crate::real;
use crate::record::{begin, Op};
use crate::replacement::{becomes, becomes_at, remains};
use crate::transfers::{moved, moved_at, other};

type Call = unsafe extern "C-unwind" fn(c_long, usize, usize, usize, usize, usize, usize) -> c_long;

/// The C library's `syscall`; before the image is initialised, a function that looks it up.
static REAL: AtomicPtr<c_void> = AtomicPtr::new(first as *mut c_void);

unsafe extern "C-unwind" fn first(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    start();
    real()(number, a, b, c, d, e, f)
}

fn real() -> Call {
    // SAFETY: the C library's function of this name has this type.
    unsafe { core::mem::transmute::<*mut c_void, Call>(REAL.load(Ordering::Relaxed)) }
}

pub fn start() {
    REAL.store(real!("syscall" as Call) as *mut c_void, Ordering::Relaxed);
}

/// `syscall`: recorded numbers go to [`observed`]; all others jump to the C library without a stack
/// frame of the recorder (a call that forks onto another stack could not return through one).
///
/// # Safety
/// Same contract as the C library function that it replaces.
#[cfg(target_arch = "x86_64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C-unwind" fn syscall() {
    core::arch::naked_asm!(
        "cmp rdi, {read}", "je 2f",
        "cmp rdi, {write}", "je 2f",
        "cmp rdi, {pread}", "je 2f",
        "cmp rdi, {pwrite}", "je 2f",
        "cmp rdi, {openat}", "je 2f",
        "cmp rdi, {openat2}", "je 2f",
        "cmp rdi, {close}", "je 2f",
        "cmp rdi, {seccomp}", "je 2f",
        "cmp rdi, {exit_group}", "je 2f",
        "cmp rdi, {execve}", "je 2f",
        "cmp rdi, {execveat}", "je 2f",
        "cmp rdi, {io_uring_setup}", "je 2f",
        "jmp qword ptr [rip + {real}]",
        "2: jmp {observed}",
        read = const libc::SYS_read,
        write = const libc::SYS_write,
        pread = const libc::SYS_pread64,
        pwrite = const libc::SYS_pwrite64,
        openat = const libc::SYS_openat,
        openat2 = const libc::SYS_openat2,
        close = const libc::SYS_close,
        seccomp = const libc::SYS_seccomp,
        exit_group = const libc::SYS_exit_group,
        execve = const libc::SYS_execve,
        execveat = const libc::SYS_execveat,
        io_uring_setup = const libc::SYS_io_uring_setup,
        real = sym REAL,
        observed = sym observed,
    )
}

/// Same as for x86-64.
///
/// # Safety
/// Same contract as the C library function that it replaces.
#[cfg(target_arch = "aarch64")]
#[unsafe(naked)]
#[no_mangle]
pub unsafe extern "C-unwind" fn syscall() {
    core::arch::naked_asm!(
        "cmp x0, {read}", "b.eq 2f",
        "cmp x0, {write}", "b.eq 2f",
        "cmp x0, {pread}", "b.eq 2f",
        "cmp x0, {pwrite}", "b.eq 2f",
        "cmp x0, {openat}", "b.eq 2f",
        "cmp x0, {openat2}", "b.eq 2f",
        "cmp x0, {close}", "b.eq 2f",
        "cmp x0, {seccomp}", "b.eq 2f",
        "cmp x0, {exit_group}", "b.eq 2f",
        "cmp x0, {execve}", "b.eq 2f",
        "cmp x0, {execveat}", "b.eq 2f",
        "cmp x0, {io_uring_setup}", "b.eq 2f",
        "adrp x16, {real}",
        "ldr x16, [x16, :lo12:{real}]",
        "br x16",
        "2: b {observed}",
        read = const libc::SYS_read,
        write = const libc::SYS_write,
        pread = const libc::SYS_pread64,
        pwrite = const libc::SYS_pwrite64,
        openat = const libc::SYS_openat,
        openat2 = const libc::SYS_openat2,
        close = const libc::SYS_close,
        seccomp = const libc::SYS_seccomp,
        exit_group = const libc::SYS_exit_group,
        execve = const libc::SYS_execve,
        execveat = const libc::SYS_execveat,
        io_uring_setup = const libc::SYS_io_uring_setup,
        real = sym REAL,
        observed = sym observed,
    )
}

unsafe extern "C-unwind" fn observed(
    number: c_long,
    a: usize,
    b: usize,
    c: usize,
    d: usize,
    e: usize,
    f: usize,
) -> c_long {
    let call = || real()(number, a, b, c, d, e, f);
    let fd = a as c_int;
    match number {
        libc::SYS_openat | libc::SYS_openat2 if process::active() => {
            let begun = begin();
            let done = call();
            opened(begun, done as c_int);
            done
        }
        libc::SYS_close => {
            let before = closing(fd);
            let done = call();
            closed(before, done < 0);
            done
        }
        libc::SYS_exit_group => {
            finish(0);
            call()
        }
        libc::SYS_execve => executed(becomes(a as *const c_char), call),
        libc::SYS_execveat => executed(becomes_at(fd, b as *const c_char), call),
        libc::SYS_io_uring_setup => {
            let done = call();
            // The ring may be closed again before the process ends.
            if done >= 0 && process::active() {
                note(Fact::IoUring);
            }
            done
        }
        libc::SYS_seccomp => {
            let done = call();
            // Operations 0 and 1 install a filter; the others only query.
            if done >= 0 && a <= 1 {
                sandboxed();
            }
            done
        }
        libc::SYS_read | libc::SYS_write | libc::SYS_pread64 | libc::SYS_pwrite64 => {
            transferred(number, fd, c as u64, d as i64, call)
        }
        _ => call(),
    }
}

/// Execute a program, or go on; `was_said`: that another program replaces this one.
fn executed(was_said: bool, call: impl FnOnce() -> c_long) -> c_long {
    let done = call();
    if was_said {
        remains();
    }
    done
}

/// Read or write, at the descriptor's offset or at the one given.
fn transferred(
    number: c_long,
    fd: c_int,
    asked: u64,
    offset: i64,
    call: impl FnOnce() -> c_long,
) -> c_long {
    let reads = number == libc::SYS_read || number == libc::SYS_pread64;
    let op = if reads { Op::Read } else { Op::Write };
    match target(fd) {
        Target::Unseen => call(),
        Target::Other => {
            let done = call();
            other(op, done as isize);
            done
        }
        Target::File(file) => {
            let begun = begin();
            let done = call();
            if number == libc::SYS_read || number == libc::SYS_write {
                moved(begun, op, fd, file, done as isize, asked);
            } else {
                moved_at(begun, op, file, offset, done as isize, asked);
            }
            done
        }
    }
}

fn sandboxed() {
    if process::active() {
        note(Fact::Sandbox);
        process::stop();
    }
}

/// # Safety
/// Same contract as the C library function that it replaces.
#[no_mangle]
pub unsafe extern "C" fn prctl(option: c_int, a: usize, b: usize, c: usize, d: usize) -> c_int {
    let real = real!("prctl" as unsafe extern "C" fn(c_int, usize, usize, usize, usize) -> c_int);
    let done = real(option, a, b, c, d);
    if done == 0 && option == libc::PR_SET_SECCOMP {
        sandboxed();
    }
    done
}
