//! The monotonic clock and timers.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use headrace_model::Nanos;

/// Return CLOCK_MONOTONIC in nanoseconds.
#[inline]
pub fn monotonic_ns() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// A timer that any thread sets and one thread waits for. Setting it does not wake the waiting
/// thread.
pub struct Alarm {
    file: File,
}

impl Alarm {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor is ours alone.
        unsafe {
            let descriptor = libc::timerfd_create(libc::CLOCK_MONOTONIC, libc::TFD_CLOEXEC);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Alarm { file: File::from_raw_fd(descriptor) })
        }
    }

    /// Set the timer to the absolute time `at`, replacing the previous setting.
    pub fn set(&self, at: Nanos) {
        // A time of 0 would disarm the timer.
        let at = at.max(1);
        let value = libc::timespec {
            tv_sec: (at / 1_000_000_000) as libc::time_t,
            tv_nsec: (at % 1_000_000_000) as libc::c_long,
        };
        let once = libc::itimerspec {
            it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 },
            it_value: value,
        };
        // SAFETY: `once` outlives the call; its fields are in range, so the call cannot fail.
        unsafe {
            libc::timerfd_settime(
                self.file.as_raw_fd(),
                libc::TFD_TIMER_ABSTIME,
                &once,
                std::ptr::null_mut(),
            )
        };
    }

    /// Wait until the timer expires. Return at once if it has expired and was not set again since.
    pub fn wait(&self) {
        // If interrupted: the caller checks the time anyway.
        let _ = (&self.file).read(&mut [0; 8]);
    }
}
