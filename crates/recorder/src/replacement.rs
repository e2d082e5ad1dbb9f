//! What is written down of a program that is about to replace this one.

use core::ffi::CStr;

use libc::{c_char, c_int, pid_t};

use crate::clocks::now;
use crate::finish::finish;
use crate::kernel;
use crate::names;
use crate::process;
use crate::text::Digits;

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
    names::with_path(at, CStr::from_ptr(path).to_bytes(), becomes_named);
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

/// Write the text of a letter about a process and a program.
pub fn said(letter: u8, pid: pid_t, path: &[u8]) {
    let (pid, now, directory) =
        (Digits::of(pid as u64), Digits::of(now()), Digits::of(process::directory().into()));
    names::write(letter, process::image(), &[pid.text(), now.text(), directory.text(), path]);
}
