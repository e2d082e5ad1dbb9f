//! Identity of the process: its numbers in the recording, and whether it is recorded. `process`
//! sets them.

use core::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use crate::kernel;

/// Whether calls are recorded.
pub static ACTIVE: AtomicBool = AtomicBool::new(false);
/// The process for which this state holds.
pub static PID: AtomicI32 = AtomicI32::new(0);
/// Number of forks between the image's first process and this one.
pub static GENERATION: AtomicU32 = AtomicU32::new(1);
/// Number of the program image.
pub static IMAGE: AtomicU32 = AtomicU32::new(0);
/// Number of the working directory.
pub static DIRECTORY: AtomicU32 = AtomicU32::new(0);

/// Stop the recording of this process.
pub fn stop() {
    ACTIVE.store(false, Ordering::Relaxed);
}

pub fn generation() -> u32 {
    GENERATION.load(Ordering::Relaxed)
}

pub fn image() -> u32 {
    IMAGE.load(Ordering::Relaxed)
}

/// Return the number of the working directory.
pub fn directory() -> u32 {
    DIRECTORY.load(Ordering::Relaxed)
}

/// Return whether this is a child of vfork. It shares our memory but is another process, so its
/// opens and closes must not change our tables.
pub fn is_borrowed() -> bool {
    kernel::process_id() != PID.load(Ordering::Relaxed)
}
