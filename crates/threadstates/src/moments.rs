//! When to sample, and how to be on time.

use std::fs;
use std::time::Duration;

/// Share of a CPU that sampling may use.
const SHARE: f64 = 0.007;
const SHORTEST_NS: f64 = 1e6;
const LONGEST_NS: f64 = 1e9;
/// Assumed before the first sample, and cost of waking up that is not in the thread's CPU time.
const FIRST_COST_NS: f64 = 20e3;
const WAKE_UP_NS: f64 = 4e3;

/// Random moments with exponential gaps.
pub struct Moments {
    samples: u32,
    mean_ns: f64,
    random: u64,
}

impl Moments {
    pub fn new() -> Self {
        let seed = clock_ns(libc::CLOCK_MONOTONIC) ^ (u64::from(std::process::id()) << 32);
        Moments { samples: 0, mean_ns: mean_for(FIRST_COST_NS), random: seed | 1 }
    }

    /// Return the gap to the next moment, and the time that its sample stands for, in ns.
    pub fn next(&mut self) -> (Duration, f64) {
        // xorshift64 of Marsaglia, 2003; the upper 53 bits.
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        #[allow(clippy::cast_precision_loss)] // 53 bits
        let uniform = ((self.random >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        let gap_ns = -uniform.ln() * self.mean_ns;
        (Duration::from_secs_f64(gap_ns / 1e9), self.mean_ns)
    }

    /// Adapt the mean gap to what samples cost.
    pub fn sampled(&mut self) {
        self.samples += 1;
        #[allow(clippy::cast_precision_loss)] // 53 bits
        let used_ns = thread_cpu_ns() as f64;
        self.mean_ns = mean_for(used_ns / f64::from(self.samples) + WAKE_UP_NS);
    }
}

fn mean_for(cost_ns: f64) -> f64 {
    (cost_ns / SHARE).clamp(SHORTEST_NS, LONGEST_NS)
}

/// Return the CPU time of this thread.
pub fn thread_cpu_ns() -> u64 {
    clock_ns(libc::CLOCK_THREAD_CPUTIME_ID)
}

/// Time for which this thread could run and had no CPU; 0 where the kernel does not count it.
pub fn thread_waited_ns() -> u64 {
    // "time on CPUs, time on run queues, number of time slices"
    fs::read_to_string("/proc/thread-self/schedstat")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse().ok())
        .unwrap_or(0)
}

pub fn clock_ns(clock: libc::clockid_t) -> u64 {
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: `now` is valid for writes.
    unsafe { libc::clock_gettime(clock, &raw mut now) };
    now.tv_sec.cast_unsigned() * 1_000_000_000 + now.tv_nsec.cast_unsigned()
}

/// Let this thread run as soon as its time has come.
///
/// One that waits until a CPU is free runs when another thread has just begun to sleep: it would see
/// sleeps by their number and not by their time. With the right to it the thread gets the lowest
/// real-time priority, otherwise the shortest time slice (Linux 6.12), which pre-empts longer ones.
pub fn run_at_once() {
    let lowest = libc::sched_param { sched_priority: 1 };
    let policy = libc::SCHED_FIFO | libc::SCHED_RESET_ON_FORK;
    // SAFETY: `lowest` and `attributes` are valid for reads; both calls affect this thread alone.
    unsafe {
        if libc::sched_setscheduler(0, policy, &raw const lowest) == 0 {
            return;
        }
        let attributes = SchedAttr {
            size: 48,
            runtime_ns: 100_000,
            nice: libc::getpriority(libc::PRIO_PROCESS, 0),
            ..SchedAttr::default()
        };
        libc::syscall(libc::SYS_sched_setattr, 0, &raw const attributes, 0);
    }
}

/// `struct sched_attr` of `sched_setattr(2)`, first version.
#[repr(C)]
#[derive(Default)]
struct SchedAttr {
    size: u32,
    policy: u32,
    flags: u64,
    nice: i32,
    priority: u32,
    runtime_ns: u64,
    deadline_ns: u64,
    period_ns: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_have_the_mean_that_a_sample_stands_for() {
        let mut moments = Moments::new();
        let (mut gaps_ns, mut weights_ns) = (0.0, 0.0);
        for _ in 0..100_000 {
            let (gap, weight_ns) = moments.next();
            gaps_ns += gap.as_secs_f64() * 1e9;
            weights_ns += weight_ns;
        }
        // Its standard deviation is 0.3 %.
        assert!((gaps_ns / weights_ns - 1.0).abs() < 0.02, "{gaps_ns} {weights_ns}");
    }

    #[test]
    fn dear_samples_are_rare() {
        assert!((mean_for(70e3) - 10e6).abs() < 1.0);
        assert!((mean_for(1e3) - SHORTEST_NS).abs() < 1.0);
        assert!((mean_for(1e9) - LONGEST_NS).abs() < 1.0);
    }
}
