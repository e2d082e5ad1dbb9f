//! Counters of processes (`process`), and samples of threads:
//!
//! Samples of what the threads of a process and of its descendants do, taken at random moments from
//! /proc (proc(5)) by a thread of its own.
//!
//! Moments are those of a Poisson process, so that each state is seen in proportion to its time. The
//! mean interval follows from the cost of a sample, so that sampling uses a fixed share of a CPU.

mod counters;
mod family;
mod kept;
mod moments;
mod moved;
mod numbers;
mod process;
mod sums;
mod threads;

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use family::Family;
use moments::Moments;
pub use moved::Moved;
pub use process::{now_ns, Process, Reading};
pub use sums::Sums;
pub use threads::ThreadFile;

/// The stop flag, and what wakes the sampling thread up when it is set.
type Stop = Arc<(Mutex<bool>, Condvar)>;

/// Samples until it is stopped.
pub struct Sampler {
    stop: Stop,
    thread: JoinHandle<Sums>,
}

impl Sampler {
    /// Begin to sample a process and its descendants. Fails when no thread can be started.
    pub fn start(process: u32) -> io::Result<Self> {
        let stop = Stop::default();
        let seen = Arc::clone(&stop);
        let thread = std::thread::Builder::new()
            .name("headrace-states".into())
            .stack_size(128 << 10)
            .spawn(move || sample(process, &seen))?;
        Ok(Sampler { stop, thread })
    }

    /// End it and return what was seen.
    pub fn stop(self) -> Sums {
        let (flag, changed) = &*self.stop;
        *flag.lock().unwrap_or_else(PoisonError::into_inner) = true;
        changed.notify_all();
        self.thread.join().unwrap_or_default()
    }
}

fn sample(process: u32, stop: &Stop) -> Sums {
    moments::run_at_once();
    let mut family = Family::new(process);
    let mut moments = Moments::new();
    let mut sums = Sums::default();
    loop {
        let (gap, weight_ns) = moments.next();
        if stopped_within(stop, gap) {
            break;
        }
        sums.begin_sample(weight_ns);
        family.look(|letter, function| sums.add(letter, function, weight_ns));
        moments.sampled();
    }
    sums.cost_ns = moments::thread_cpu_ns();
    sums.waited_ns = moments::thread_waited_ns();
    sums
}

/// Wait for a time; return true at once when the end is wanted.
fn stopped_within(stop: &Stop, time: Duration) -> bool {
    let (flag, changed) = &**stop;
    let until = Instant::now() + time;
    let mut wanted = flag.lock().unwrap_or_else(PoisonError::into_inner);
    while !*wanted {
        let left = until.saturating_duration_since(Instant::now());
        if left.is_zero() {
            return false;
        }
        wanted = changed.wait_timeout(wanted, left).unwrap_or_else(PoisonError::into_inner).0;
    }
    true
}
