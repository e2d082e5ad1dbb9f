//! Gives the kernel threads that pass requests to the emulator real-time priority.
//!
//! The loop driver submits a request to the file from a worker of its work queue
//! (drivers/block/loop.c: `loop_queue_work`), a thread of ordinary priority. Where other threads of
//! ordinary priority want the CPUs, it waits for them for milliseconds before the emulator hears of
//! the request; a real drive starts at once. Each FUSE request names the thread that submitted it
//! (`fuse_in_header.pid`), which is that worker, so that exactly the workers in use are found. They
//! get their priority back when the emulator ends, from its guard if it was killed. (If both were,
//! the kernel ends workers that have been idle for five minutes, IDLE_WORKER_TIMEOUT.)

use std::io;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering};

/// Below the emulator's own threads, which the worker would otherwise keep from the CPU.
pub const WORKER_PRIORITY: i32 = 8;
/// How many requests of a known worker are taken between two looks at its policy: another emulator
/// that ends gives a worker that both use its priority back.
const LOOK_EVERY: u32 = 64;
const MOST_WORKERS: usize = 64;

/// The workers that were given priority, in memory shared with the guard.
pub struct Raised {
    processes: [AtomicI32; MOST_WORKERS],
}

impl Raised {
    /// Remember a worker; return false if there is no room.
    fn note(&self, process: i32) -> bool {
        for place in &self.processes {
            let found = place.compare_exchange(0, process, Ordering::AcqRel, Ordering::Acquire);
            if found.is_ok() || found == Err(process) {
                return true;
            }
        }
        false
    }

    /// Give the workers the ordinary policy again.
    pub fn lower(&self) {
        for place in &self.processes {
            let process = place.swap(0, Ordering::AcqRel);
            if process != 0 && is_worker(process) && is_raised(process) {
                let _ = set_policy(process, libc::SCHED_OTHER, 0);
            }
        }
    }
}

/// Whether a process is a worker of the kernel's work queues. No program of a user must ever get
/// real-time priority.
fn is_worker(process: i32) -> bool {
    std::fs::read(format!("/proc/{process}/comm")).is_ok_and(|comm| comm.starts_with(b"kworker/"))
        // Kernel threads have no program.
        && std::fs::read_link(format!("/proc/{process}/exe")).is_err()
}

/// Whether a thread has the policy and priority that are given here.
fn is_raised(process: i32) -> bool {
    let mut parameters = libc::sched_param { sched_priority: 0 };
    // SAFETY: `parameters` outlives the calls.
    let known = unsafe {
        libc::sched_getscheduler(process) == libc::SCHED_FIFO
            && libc::sched_getparam(process, &raw mut parameters) == 0
    };
    known && parameters.sched_priority == WORKER_PRIORITY
}

fn set_policy(process: i32, policy: libc::c_int, priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` outlives the call.
    match unsafe { libc::sched_setscheduler(process, policy, &parameters) } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}

/// Raises the workers whose requests arrive.
pub struct Workers {
    raised: &'static Raised,
    any: AtomicBool,
    refused: AtomicBool,
    last: AtomicI32,
    until_look: AtomicI32,
}

impl Workers {
    pub fn new(raised: &'static Raised) -> Self {
        Workers {
            raised,
            any: AtomicBool::new(false),
            refused: AtomicBool::new(false),
            last: AtomicI32::new(0),
            until_look: AtomicI32::new(0),
        }
    }

    /// Whether a worker has real-time priority.
    pub fn any(&self) -> bool {
        self.any.load(Ordering::Relaxed)
    }

    /// Whether the kernel, or this process's rights, did not allow it.
    pub fn refused(&self) -> bool {
        self.refused.load(Ordering::Relaxed)
    }

    /// Make sure that the thread that submitted a request has real-time priority.
    pub fn submitted_by(&self, process: i32) {
        let left = self.until_look.load(Ordering::Relaxed);
        if process == self.last.load(Ordering::Relaxed) && left > 0 {
            self.until_look.store(left - 1, Ordering::Relaxed);
            return;
        }
        self.last.store(process, Ordering::Relaxed);
        self.until_look.store(LOOK_EVERY as i32, Ordering::Relaxed);
        // 0: a thread outside this process's namespace.
        if process > 0 {
            self.raise(process);
        }
    }

    #[cold]
    fn raise(&self, process: i32) {
        // Another emulator may have raised it, whose guard lowers it when that one ends.
        let before = is_raised(process);
        if before && self.raised.note(process) {
            self.any.store(true, Ordering::Relaxed);
        }
        // A priority that somebody else has given it stays.
        // SAFETY: no pointers.
        let ordinary = unsafe { libc::sched_getscheduler(process) } == libc::SCHED_OTHER;
        if before || !ordinary || !is_worker(process) || !self.raised.note(process) {
            return;
        }
        match set_policy(process, libc::SCHED_FIFO, WORKER_PRIORITY) {
            Ok(()) => self.any.store(true, Ordering::Relaxed),
            Err(_) => self.refused.store(true, Ordering::Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_of_a_user_is_no_worker() {
        assert!(!is_worker(std::process::id() as i32));
    }

    #[test]
    fn a_worker_is_noted_once() {
        let raised = Raised { processes: [const { AtomicI32::new(0) }; MOST_WORKERS] };
        assert!((0..1000).all(|_| raised.note(7)));
        assert!((100..163).all(|process| raised.note(process)));
        assert!(!raised.note(5));
    }
}
