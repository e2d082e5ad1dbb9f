//! Registration of a process: at the start of an image, and of every forked child at its first call.

use core::sync::atomic::{AtomicPtr, AtomicU32, Ordering};

use crate::arena;
use crate::identity::{ACTIVE, DIRECTORY, GENERATION, IMAGE, PID};
use crate::kernel;
use crate::names;
use crate::record::{self, Begun, Call, Op};
use crate::text::Digits;
use crate::writer;

pub use crate::identity::{directory, image, is_borrowed, stop};

/// A page that the kernel zeroes in every forked child, including forks that bypass the C library.
/// If it does not hold `KNOWN`, this process is new and not yet registered. Null: the kernel does
/// not support this.
static MARK: AtomicPtr<AtomicU32> = AtomicPtr::new(core::ptr::null_mut());
const NEW: u32 = 0;
const BECOMING: u32 = 1;
const KNOWN: u32 = 2;

/// Return whether calls of this process are recorded. Registers a forked child at its first call.
pub fn active() -> bool {
    if !ACTIVE.load(Ordering::Relaxed) {
        return false;
    }
    // SAFETY: mapped once and never unmapped.
    match unsafe { MARK.load(Ordering::Relaxed).as_ref() } {
        Some(mark) if mark.load(Ordering::Relaxed) == KNOWN => true,
        Some(mark) => {
            // A signal handler that interrupts the registration is not recorded.
            let first =
                mark.compare_exchange(NEW, BECOMING, Ordering::Relaxed, Ordering::Relaxed).is_ok();
            if first {
                forked();
                mark.store(KNOWN, Ordering::Relaxed);
            }
            first && ACTIVE.load(Ordering::Relaxed)
        }
        None => {
            if kernel::process_id() != PID.load(Ordering::Relaxed) {
                forked();
            }
            ACTIVE.load(Ordering::Relaxed)
        }
    }
}

/// Record a change of the working directory.
pub fn note_directory() {
    let number = arena::new_directory();
    names::with_link(b"/proc/thread-self/cwd\0", |path| {
        if let Some(path) = path {
            names::write(b'C', number, &[path]);
            DIRECTORY.store(number, Ordering::Relaxed);
        }
    });
}

fn introduce(parent: u32) {
    let pid = kernel::process_id();
    PID.store(pid, Ordering::Relaxed);
    let image = arena::new_image();
    IMAGE.store(image, Ordering::Relaxed);
    let (pid, parent) = (Digits::of(pid as u64), Digits::of(parent.into()));
    names::with_link(b"/proc/self/exe\0", |path| {
        names::write(b'I', image, &[pid.text(), parent.text(), path.unwrap_or(b"")]);
    });
}

/// Start to record a new image if the environment names an arena.
pub fn start() {
    // SAFETY: the name ends with NUL; no thread changes the environment yet.
    let text = unsafe { libc::getenv(c"HEADRACE_RECORD".as_ptr()) };
    if text.is_null() {
        return;
    }
    // SAFETY: a string of the environment.
    if !arena::open(unsafe { core::ffi::CStr::from_ptr(text) }.to_bytes_with_nul()) {
        return;
    }
    if let Some(page) = kernel::map_private(kernel::PAGE_BYTES) {
        // SAFETY: the page belongs to the recorder.
        unsafe {
            if kernel::wipe_on_fork(page) {
                (*page.cast::<AtomicU32>()).store(KNOWN, Ordering::Relaxed);
                MARK.store(page.cast(), Ordering::Relaxed);
            } else {
                kernel::unmap(page, kernel::PAGE_BYTES);
            }
        }
    }
    writer::start();
    let begun = record::begin();
    ACTIVE.store(true, Ordering::Relaxed);
    introduce(0);
    note_directory();
    let (offset, _) = record::bytes_read();
    record::push(begun, Op::Start, Call { offset, length: record::cpu_wait(), ..Call::default() });
}

/// Register a forked child before its first record. Inherited numbers stay valid, because numbers
/// are unique in the whole recording.
fn forked() {
    let begun = record::begin();
    let parent = image();
    GENERATION.fetch_add(1, Ordering::Relaxed);
    introduce(parent);
    record::push(begun, Op::Start, Call { file: 1, length: record::cpu_wait(), ..Call::default() });
}

/// Write the record of a call after it returned, if the process is recorded.
pub fn end(begun: Begun, op: Op, call: Call) {
    if active() {
        record::push(begun, op, call);
    }
}

/// Called in the child after a fork by the C library.
pub extern "C" fn after_fork() {
    active();
}
