//! The clocks of a record: time, and CPU time of the thread.
//!
//! The monotonic clock is read without a system call. The CPU time of a thread needs one, which
//! takes as long as a small read or write. So it is asked for only when the thread can have waited
//! since the clocks were last read, and otherwise goes on with the time. An error is corrected by
//! the next reading that asks, at most [`FRESH_NS`] after the one before: the sum is right.

use core::sync::atomic::{AtomicU32, AtomicU64, Ordering};

use crate::identity;

/// A call that is shorter has not waited: to sleep and to be woken takes longer.
const CALL_NS: u64 = 4_000;
/// A thread that calls again so soon has run since its last call. If it has waited instead, that
/// counts as work, and its next work as less.
const BETWEEN_NS: u64 = 20_000;
/// How long the CPU time goes on from one that the kernel gave.
const FRESH_NS: u64 = 100_000;

/// Both clocks at one moment.
#[derive(Clone, Copy)]
pub struct Clocks {
    pub now_ns: u64,
    /// CPU time of the thread.
    pub cpu_ns: u64,
}

/// What a thread knows about its CPU time. A signal handler that interrupts a reading can leave
/// values of two moments: for `FRESH_NS`, the time that it waited counts as CPU time.
struct Known {
    /// CPU time less the monotonic clock, while the thread runs.
    ahead_ns: AtomicU64,
    /// The last reading.
    seen_ns: AtomicU64,
    /// The last reading of the kernel's CPU time.
    asked_ns: AtomicU64,
    /// Generation of the process: a forked child has a CPU clock of its own.
    generation: AtomicU32,
}

thread_local! {
    static KNOWN: Known = const {
        Known {
            ahead_ns: AtomicU64::new(0),
            seen_ns: AtomicU64::new(0),
            asked_ns: AtomicU64::new(0),
            generation: AtomicU32::new(0),
        }
    };
}

fn clock(which: libc::clockid_t) -> u64 {
    let mut at = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `at` is valid; these clocks always exist, so `errno` is unchanged.
    unsafe { libc::clock_gettime(which, &mut at) };
    (at.tv_sec as u64).wrapping_mul(1_000_000_000).wrapping_add(at.tv_nsec as u64)
}

/// Return the time of the monotonic clock.
pub fn now() -> u64 {
    clock(libc::CLOCK_MONOTONIC)
}

/// Return the CPU time of the whole process.
pub fn process_cpu() -> u64 {
    clock(libc::CLOCK_PROCESS_CPUTIME_ID)
}

fn thread_cpu() -> u64 {
    clock(libc::CLOCK_THREAD_CPUTIME_ID)
}

impl Known {
    /// Return whether the thread has run since it was seen, which must be less than `most_ns` ago.
    fn has_run(&self, now_ns: u64, most_ns: u64) -> bool {
        let since = |place: &AtomicU64| now_ns.wrapping_sub(place.load(Ordering::Relaxed));
        since(&self.seen_ns) <= most_ns
            && since(&self.asked_ns) <= FRESH_NS
            && self.generation.load(Ordering::Relaxed) == identity::generation()
    }

    fn ask(&self) -> Clocks {
        let cpu_ns = thread_cpu();
        let now_ns = now();
        self.ahead_ns.store(cpu_ns.wrapping_sub(now_ns), Ordering::Relaxed);
        self.asked_ns.store(now_ns, Ordering::Relaxed);
        self.generation.store(identity::generation(), Ordering::Relaxed);
        Clocks { now_ns, cpu_ns }
    }

    fn cpu_at(&self, now_ns: u64) -> u64 {
        now_ns.wrapping_add(self.ahead_ns.load(Ordering::Relaxed))
    }

    fn see(&self, clocks: Clocks) -> Clocks {
        self.seen_ns.store(clocks.now_ns, Ordering::Relaxed);
        clocks
    }
}

/// Read the clocks before a call. What the reading takes counts before the returned moment.
pub fn before() -> Clocks {
    KNOWN
        .try_with(|known| {
            let now_ns = now();
            if known.has_run(now_ns, BETWEEN_NS) {
                return known.see(Clocks { now_ns, cpu_ns: known.cpu_at(now_ns) });
            }
            known.see(known.ask())
        })
        .unwrap_or(Clocks { now_ns: 0, cpu_ns: 0 })
}

/// Read the clocks after a call. What the reading takes counts after the returned moment.
pub fn after() -> Clocks {
    KNOWN
        .try_with(|known| {
            let now_ns = now();
            if known.has_run(now_ns, CALL_NS) {
                return known.see(Clocks { now_ns, cpu_ns: known.cpu_at(now_ns) });
            }
            let asked = known.see(known.ask());
            if asked.now_ns.wrapping_sub(now_ns) > CALL_NS {
                return Clocks { now_ns, ..asked }; // it may have waited while the clocks were read
            }
            Clocks { now_ns, cpu_ns: known.cpu_at(now_ns) }
        })
        .unwrap_or(Clocks { now_ns: 0, cpu_ns: 0 })
}
