//! A watchdog process that kills a hung daemon, so that waiting processes get errors in bounded
//! time. The kernel's request timeout is a second, slower safeguard.

use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use crate::process::fork;
use crate::workers::Raised;

const TICK: Duration = Duration::from_millis(500);
/// Ticks without a heartbeat after which the daemon is killed. The guard counts its own ticks, so
/// the count also stops while the whole machine is suspended.
const PATIENCE: u32 = 12;

/// What the daemon shares with its guard. All zeroes at the start.
struct Shared {
    beats: AtomicU64,
    raised: Raised,
}

/// The daemon's heartbeat counter, in memory shared with the guard.
pub struct Pulse {
    shared: &'static Shared,
}

impl Pulse {
    pub fn beat(&self) {
        self.shared.beats.fetch_add(1, Ordering::Relaxed);
    }

    /// Return the workers that the guard gives their priority back.
    pub fn raised(&self) -> &'static Raised {
        &self.shared.raised
    }
}

/// Start the guard. Call this while the process has one thread and no open files that must close
/// with it.
pub fn start() -> io::Result<Pulse> {
    // SAFETY: a new shared mapping, zeroed by the kernel, never unmapped.
    let shared = unsafe {
        let page = libc::mmap(
            std::ptr::null_mut(),
            size_of::<Shared>(),
            libc::PROT_READ | libc::PROT_WRITE,
            libc::MAP_SHARED | libc::MAP_ANONYMOUS,
            -1,
            0,
        );
        if page == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        &*page.cast::<Shared>()
    };
    // SAFETY: no arguments.
    let daemon = unsafe { libc::getpid() };
    fork(|| {
        watch(&shared.beats, daemon);
        shared.raised.lower();
    })?;
    Ok(Pulse { shared })
}

/// Return when the daemon has ended, or was killed for its silence.
fn watch(beats: &AtomicU64, daemon: libc::pid_t) {
    // Close standard streams: readers of the daemon's output must see its end.
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
        // Before its first heartbeat the daemon is still starting, which its parent monitors.
        missed = if now == last && now > 0 { missed + 1 } else { 0 };
        last = now;
        if missed >= PATIENCE {
            // SAFETY: the daemon is still our parent, so its process ID was not reused.
            unsafe { libc::kill(daemon, libc::SIGKILL) };
            return;
        }
    }
}
