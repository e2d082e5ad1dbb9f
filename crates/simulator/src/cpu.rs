//! The cores of a host, shared fairly among the runnable tasks.
//!
//! A fair scheduler with short time slices is processor sharing: with r runnable tasks on c cores,
//! each runs at min(1, c/r) of a core. Two clocks describe it in closed form: work done per task
//! and CPU time per task. A task is done when the work clock reaches its mark, independent of which
//! other tasks started or finished meanwhile.

use headrace_model::{rounding, Nanos};
use serde::{Deserialize, Serialize};

/// Overheads of sharing a core.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SharingSpec {
    /// Time slice of the scheduler if tasks wait (CFS: about 6 ms on 8 cores).
    pub timeslice_ns: u64,
    /// Time lost per context switch, whatever ran before.
    pub switch_ns: u64,
    /// Time in which a task loads again what it had in the core's caches, if all of it was
    /// displaced while it waited for its turn or for storage; at most the time of the next work.
    pub reload_ns: u64,
    /// Fraction of a core's speed lost when all cores are busy (memory bandwidth, shared caches,
    /// turbo); linear in the number of busy cores.
    pub busy_core_slowdown: f64,
}

impl Default for SharingSpec {
    fn default() -> Self {
        SharingSpec {
            timeslice_ns: 6_000_000,
            switch_ns: 5_000,
            reload_ns: 0,
            busy_core_slowdown: 0.0,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Running<W> {
    work_mark: f64,
    sequence: u64,
    task: W,
    cpu_mark: f64,
}

/// Share of what a task has in a core's caches that one time slice of another task displaces.
///
/// What is left of a footprint shrinks by the same share with each task that runs in between (D.
/// Thiebaut and H. S. Stone, "Footprints in the cache", ACM TOCS 5, 1987). The value is an
/// assumption (docs/models.md).
const DISPLACED: f64 = 0.25;

/// Time constant in which a core's caches lose what a waiting task had in them: to other tasks, to
/// the system, and to sleep states that flush them. What is left shrinks by the same share with
/// each line that others load (Thiebaut and Stone). 1 MB of a second level that others fill at
/// 1 GB/s; an assumption (docs/models.md).
const CACHE_LIFE_NS: f64 = 1e6;

/// Return the share of its time that a core works with this many tasks for each core.
fn working(sharing: SharingSpec, tasks_per_core: f64) -> f64 {
    let slice = sharing.timeslice_ns as f64;
    let displaced = 1.0 - (1.0 - DISPLACED).powf((tasks_per_core - 1.0).max(0.0));
    let lost = sharing.switch_ns as f64 + sharing.reload_ns as f64 * displaced;
    slice / (slice + lost)
}

/// Return the speed of a core while this many are busy.
fn slowed(busy_core_slowdown: f64, busy: f64, cores: f64) -> f64 {
    1.0 - busy_core_slowdown * (busy - 1.0).max(0.0) / (cores - 1.0)
}

/// The cores of one host, with work for a `W` each.
#[derive(Debug)]
pub struct Cpu<W> {
    cores: u32,
    speed: f64,
    sharing: SharingSpec,
    /// The share of its time that a core works while any number of tasks wait; None if it depends
    /// on their number.
    switching: Option<f64>,
    /// The speed of each core while all are busy.
    all_busy: f64,
    /// Binary heap by (work mark, sequence).
    heap: Vec<Running<W>>,
    work_clock: f64,
    cpu_clock: f64,
    /// Progress of the two clocks per nanosecond.
    work_rate: f64,
    cpu_rate: f64,
    last: Nanos,
    sequence: u64,
    busy_core_ns: f64,
    awake_ns: u64,
}

impl<W: Copy> Cpu<W> {
    pub fn new(cores: u32, speed: f64, sharing: SharingSpec) -> Self {
        let cores = cores.max(1);
        Cpu {
            cores,
            speed,
            sharing,
            switching: (sharing.reload_ns == 0).then(|| working(sharing, 2.0)),
            all_busy: slowed(sharing.busy_core_slowdown, f64::from(cores), f64::from(cores)),
            heap: Vec::new(),
            work_clock: 0.0,
            cpu_clock: 0.0,
            work_rate: speed,
            cpu_rate: 1.0,
            last: 0,
            sequence: 0,
            busy_core_ns: 0.0,
            awake_ns: 0,
        }
    }

    /// Return the time in which a task loads again what it lost of a core's caches while it waited
    /// for storage, before work of `work_ns`.
    pub fn cold_start_ns(&self, waited_ns: u64, work_ns: u64) -> u64 {
        if self.sharing.reload_ns == 0 || waited_ns == 0 {
            return 0;
        }
        let lost = 1.0 - (-(waited_ns as f64) / CACHE_LIFE_NS).exp();
        ((self.sharing.reload_ns as f64 * lost) as u64).min(work_ns)
    }

    pub fn runnable(&self) -> usize {
        self.heap.len()
    }

    /// Return the number of busy cores, integrated over time up to the last change.
    pub fn busy_core_ns(&self) -> u64 {
        self.busy_core_ns as u64
    }

    /// Return the time with at least one busy core.
    pub fn awake_ns(&self) -> u64 {
        self.awake_ns
    }

    fn advance(&mut self, now: Nanos) {
        let span = now - self.last;
        if span > 0 {
            self.last = now;
            if !self.heap.is_empty() {
                let span_f = span as f64;
                self.work_clock += span_f * self.work_rate;
                self.cpu_clock += span_f * self.cpu_rate;
                self.busy_core_ns += span_f * (self.heap.len() as f64).min(f64::from(self.cores));
                self.awake_ns += span;
            }
        }
    }

    fn set_rates(&mut self) {
        let runnable = self.heap.len() as f64;
        let cores = f64::from(self.cores);
        self.cpu_rate = if runnable > cores { cores / runnable } else { 1.0 };
        let mut rate = self.cpu_rate * self.speed;
        if runnable > cores {
            rate *= self.switching.unwrap_or_else(|| working(self.sharing, runnable / cores));
        }
        if self.cores > 1 && self.sharing.busy_core_slowdown > 0.0 {
            rate *= if runnable < cores {
                slowed(self.sharing.busy_core_slowdown, runnable, cores)
            } else {
                self.all_busy
            };
        }
        self.work_rate = rate;
    }

    /// Start work of `cpu_ns` for a task (nanoseconds on an idle core of speed 1).
    pub fn start(&mut self, now: Nanos, task: W, cpu_ns: u64) {
        self.advance(now);
        if self.heap.is_empty() {
            // No task is running: restart the clocks, which preserves their floating-point
            // precision.
            self.work_clock = 0.0;
            self.cpu_clock = 0.0;
        }
        self.sequence += 1;
        let entry = Running {
            work_mark: self.work_clock + cpu_ns as f64,
            sequence: self.sequence,
            task,
            cpu_mark: self.cpu_clock,
        };
        self.heap.push(entry);
        self.up(self.heap.len() - 1);
        self.set_rates();
    }

    /// Return when the next task is done if no other task starts or finishes.
    pub fn next_done(&self) -> Option<Nanos> {
        let first = self.heap.first()?;
        let left = (first.work_mark - self.work_clock).max(0.0) / self.work_rate;
        Some(self.last + rounding::up(left))
    }

    /// Remove the task that is done at `now` (which is `next_done`); return it and the CPU time it
    /// used.
    pub fn finish(&mut self, now: Nanos) -> (W, u64) {
        self.advance(now);
        let first = self.heap[0];
        // The clock may be below the mark because of rounding.
        self.work_clock = self.work_clock.max(first.work_mark);
        let last = self.heap.len() - 1;
        self.heap.swap(0, last);
        self.heap.pop();
        if !self.heap.is_empty() {
            self.down();
        }
        self.set_rates();
        (first.task, rounding::nearest(self.cpu_clock - first.cpu_mark))
    }

    /// Advance the integrals to `now`.
    pub fn settle(&mut self, now: Nanos) {
        self.advance(now);
    }

    fn before(a: &Running<W>, b: &Running<W>) -> bool {
        (a.work_mark, a.sequence) < (b.work_mark, b.sequence)
    }

    fn up(&mut self, mut position: usize) {
        while position > 0 {
            let parent = (position - 1) / 2;
            if !Self::before(&self.heap[position], &self.heap[parent]) {
                break;
            }
            self.heap.swap(position, parent);
            position = parent;
        }
    }

    fn down(&mut self) {
        let mut position = 0;
        loop {
            let mut least = position;
            for child in [2 * position + 1, 2 * position + 2] {
                if child < self.heap.len() && Self::before(&self.heap[child], &self.heap[least]) {
                    least = child;
                }
            }
            if least == position {
                break;
            }
            self.heap.swap(position, least);
            position = least;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn run(cpu: &mut Cpu<u32>) -> Vec<(Nanos, u32, u64)> {
        let mut done = Vec::new();
        while let Some(time) = cpu.next_done() {
            let (task, cpu_ns) = cpu.finish(time);
            done.push((time, task, cpu_ns));
        }
        done
    }

    const FREE: SharingSpec = SharingSpec {
        timeslice_ns: 6_000_000,
        switch_ns: 0,
        reload_ns: 0,
        busy_core_slowdown: 0.0,
    };

    #[test]
    fn tasks_share_cores_fairly() {
        let mut cpu = Cpu::new(2, 1.0, FREE);
        for task in 0..4 {
            cpu.start(0, task, 1_000_000 * u64::from(task + 1));
        }
        // 4 tasks on 2 cores run at half speed until the first is done at 2 ms, then 3 on 2: 1.5 ms
        // for the next 1 ms of work …
        let done = run(&mut cpu);
        let times: Vec<_> = done.iter().map(|d| d.0).collect();
        assert_eq!(times, vec![2_000_000, 3_500_000, 4_500_000, 5_500_000]);
        assert_eq!(
            done.iter().map(|d| d.2).collect::<Vec<_>>(),
            vec![1_000_000, 2_000_000, 3_000_000, 4_000_000]
        );
        assert_eq!(cpu.busy_core_ns(), 10_000_000);
    }

    #[test]
    fn switching_costs_only_when_tasks_wait() {
        let sharing = SharingSpec { timeslice_ns: 1_000_000, switch_ns: 10_000, ..FREE };
        let mut alone = Cpu::new(1, 1.0, sharing);
        alone.start(0, 0, 1_000_000);
        assert_eq!(run(&mut alone)[0].0, 1_000_000);
        let mut shared = Cpu::new(1, 1.0, sharing);
        shared.start(0, 0, 1_000_000);
        shared.start(0, 1, 1_000_000);
        assert_eq!(run(&mut shared)[1].0, 2_020_000);
    }

    #[test]
    fn caches_are_loaded_again_the_more_tasks_take_turns() {
        let sharing = SharingSpec { timeslice_ns: 1_000_000, reload_ns: 400_000, ..FREE };
        let per_task = |tasks: u32| {
            let mut cpu = Cpu::new(1, 1.0, sharing);
            for task in 0..tasks {
                cpu.start(0, task, 1_000_000);
            }
            run(&mut cpu).last().map_or(0.0, |done| done.0 as f64 / f64::from(tasks))
        };
        assert!((per_task(1) - 1e6).abs() < 1.0);
        // A quarter is displaced by one other task: 0.1 ms in each slice of 1 ms.
        assert!((per_task(2) - 1.1e6).abs() < 1.0);
        // 1 - 0.75^3 = 0.578 by three.
        assert!((per_task(4) - 1.231_25e6).abs() < 1.0);
    }

    #[test]
    fn the_longer_a_wait_the_more_is_loaded_again() {
        let sharing = SharingSpec { reload_ns: 400_000, ..FREE };
        let cpu: Cpu<u32> = Cpu::new(1, 1.0, sharing);
        let after = |waited_ns| cpu.cold_start_ns(waited_ns, 10_000_000);
        assert_eq!(after(0), 0);
        // 1 - 1/e after one time constant.
        assert!((after(1_000_000) as f64 / 252_848.0 - 1.0).abs() < 1e-4, "{}", after(1_000_000));
        assert!(after(100_000) < after(1_000_000) && after(50_000_000) <= 400_000);
        assert_eq!(cpu.cold_start_ns(50_000_000, 10_000), 10_000, "work of 10 us loads no more");
        assert_eq!(Cpu::<u32>::new(1, 1.0, FREE).cold_start_ns(50_000_000, 10_000_000), 0);
    }

    #[test]
    fn a_faster_core_and_busy_neighbours_change_the_time_of_work() {
        let sharing = SharingSpec { busy_core_slowdown: 0.2, ..FREE };
        let mut cpu = Cpu::new(2, 2.0, sharing);
        cpu.start(0, 0, 1_000_000);
        cpu.start(0, 1, 1_000_000);
        // Both cores busy: 2.0 x 0.8.
        assert_eq!(run(&mut cpu)[0].0, 625_000);
    }
}
