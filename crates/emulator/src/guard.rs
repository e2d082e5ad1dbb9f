//! A process beside the daemon that kills it when it no longer does anything, so that those who wait for it get
//! errors in bounded time. The kernel's own request timeout stands behind it, and is slower.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::process::fork;

const TICK: Duration = Duration::from_millis(500);
/// Ticks without a beat after which the daemon is given up. Counted in the guard's own ticks: when the whole
/// machine stands still, so does the count.
const PATIENCE: u32 = 12;

/// The daemon's pulse, in memory that it shares with the guard.
pub struct Pulse {
    beats: &'static AtomicU64,
}

impl Pulse {
    pub fn beat(&self) {
        self.beats.fetch_add(1, Ordering::Relaxed);
    }
}

/// Starts the guard. To be called while the process has one thread and nothing open that must close with it.
pub fn start() -> io::Result<Pulse> {
    // SAFETY: a new shared mapping, zeroed by the kernel, never unmapped.
    let beats = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            4096,
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        &*page.cast::<AtomicU64>()
    };
    // SAFETY: no arguments.
    let daemon = unsafe { libc::getpid() };
    fork(|| watch(beats, daemon))?;
    Ok(Pulse { beats })
}

fn watch(beats: &AtomicU64, daemon: libc::pid_t) {
    // Whoever reads what the daemon says must see its end.
    for descriptor in 0..3 {
        // SAFETY: closing our own copies.
        unsafe { libc::close(descriptor) };
    }
    let (mut last, mut missed) = (0, 0);
    loop {
        std::thread::sleep(TICK);
        // SAFETY: no arguments.
        if unsafe { libc::getppid() } != daemon {
            return;
        }
        let now = beats.load(Ordering::Relaxed);
        // Before its first beat the daemon is still being set up; whoever started it watches that.
        missed = if now == last && now > 0 { missed + 1 } else { 0 };
        last = now;
        if missed >= PATIENCE {
            // SAFETY: it is still our parent, so the number is still its.
            unsafe { libc::kill(daemon, libc::SIGKILL) };
            return;
        }
    }
}
