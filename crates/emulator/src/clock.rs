//! The monotonic clock, and waiting for an instant of it.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::{AsRawFd, FromRawFd};

use headrace_model::Nanos;

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn monotonic_ns() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// A timer that any thread sets and one waits for: to set it anew wakes nobody.
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

    /// Goes off at the absolute time `at`, and not at what was set before.
    pub fn set(&self, at: Nanos) {
        // A time of 0 would switch it off.
        let at = at.max(1);
        let value = libc::timespec {
            tv_sec: (at / 1_000_000_000) as libc::time_t,
            tv_nsec: (at % 1_000_000_000) as libc::c_long,
        };
        let once =
            libc::itimerspec { it_interval: libc::timespec { tv_sec: 0, tv_nsec: 0 }, it_value: value };
        // SAFETY: `once` lives through the call; its fields are in range, so that it cannot fail.
        unsafe {
            libc::timerfd_settime(self.file.as_raw_fd(), libc::TFD_TIMER_ABSTIME, &once, std::ptr::null_mut())
        };
    }

    /// Waits until it has gone off. One that has gone off already and was not set anew since ends the wait at once.
    pub fn wait(&self) {
        // Interrupted: the caller looks at the time anyway.
        let _ = (&self.file).read(&mut [0; 8]);
    }
}
