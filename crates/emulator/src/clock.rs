//! The monotonic clock, and waiting for an instant of it.

use std::sync::atomic::{AtomicU32, Ordering};

use headrace_model::Nanos;

/// Nanoseconds of CLOCK_MONOTONIC.
#[inline]
pub fn monotonic_ns() -> Nanos {
    let mut time = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: writes one timespec; the clock always exists.
    unsafe { libc::clock_gettime(libc::CLOCK_MONOTONIC, &mut time) };
    time.tv_sec as Nanos * 1_000_000_000 + time.tv_nsec as Nanos
}

/// A bell that ends a wait before its time.
#[derive(Default)]
pub struct Bell {
    rung: AtomicU32,
}

impl Bell {
    /// What to hand to `wait`: a ring after this call ends that wait at once.
    #[inline]
    pub fn listen(&self) -> u32 {
        self.rung.load(Ordering::Acquire)
    }

    pub fn ring(&self) {
        self.rung.fetch_add(1, Ordering::Release);
        // SAFETY: wakes whoever waits on our own word.
        unsafe {
            libc::syscall(libc::SYS_futex, self.rung.as_ptr(), libc::FUTEX_WAKE | libc::FUTEX_PRIVATE_FLAG, 1)
        };
    }

    /// Waits until the absolute time `until` or until it rings.
    pub fn wait(&self, heard: u32, until: Nanos) {
        let timeout = libc::timespec {
            tv_sec: (until / 1_000_000_000) as libc::time_t,
            tv_nsec: (until % 1_000_000_000) as libc::c_long,
        };
        // FUTEX_WAIT_BITSET takes an absolute time of CLOCK_MONOTONIC (futex(2)).
        // SAFETY: the word and the timespec live through the call.
        unsafe {
            libc::syscall(
                libc::SYS_futex,
                self.rung.as_ptr(),
                libc::FUTEX_WAIT_BITSET | libc::FUTEX_PRIVATE_FLAG,
                heard,
                &timeout as *const libc::timespec,
                std::ptr::null::<u32>(),
                libc::FUTEX_BITSET_MATCH_ANY,
            )
        };
    }
}
