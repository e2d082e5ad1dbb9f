//! Process statistics of anticipatory, cfq and bfq: think time between requests and seek distance.
//! Decaying means as in `block/as-iosched.c` and `block/cfq-iosched.c`: new = 7/8 old + 1/8 sample.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::request::Nanos;

/// Request statistics of one process.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Habits {
    samples: f64,
    think_total_ns: f64,
    seek_samples: f64,
    seek_total: f64,
    last_end: u64,
    last_completion: Option<Nanos>,
    pub(super) in_drive: u32,
    pub(super) queued: u32,
}

impl Habits {
    /// Record an arrived synchronous request. `cap_ns` bounds a sample (the kernel: twice the idle
    /// time), so that one long pause does not distort the mean.
    pub(super) fn arrived(&mut self, now: Nanos, sector: u64, end: u64, cap_ns: u64) {
        if let Some(completed) = self.last_completion {
            if self.in_drive == 0 && self.queued == 0 {
                let think = (now - completed.min(now)).min(cap_ns) as f64;
                self.samples = (7.0 * self.samples + 1.0) / 8.0;
                self.think_total_ns = (7.0 * self.think_total_ns + think) / 8.0;
            }
            // Bound the distance so that one outlier does not distort the mean
            // (`as_update_seekdist`, `cfq_update_io_seektime`).
            let slack = if self.seek_samples <= 60.0 / 256.0 { 2 << 20 } else { 128 << 10 };
            let distance = (sector.abs_diff(self.last_end) as f64)
                .min(4.0 * self.seek_sectors() + slack as f64);
            self.seek_samples = (7.0 * self.seek_samples + 1.0) / 8.0;
            self.seek_total = (7.0 * self.seek_total + distance) / 8.0;
        }
        self.last_end = end;
        self.queued += 1;
    }

    pub(super) fn dispatched(&mut self) {
        self.queued = self.queued.saturating_sub(1);
        self.in_drive += 1;
    }

    pub(super) fn completed(&mut self, now: Nanos) {
        self.in_drive = self.in_drive.saturating_sub(1);
        self.last_completion = Some(now);
    }

    /// Return the mean time from a completion to the next request; `None` with too few samples.
    pub(super) fn think_ns(&self) -> Option<f64> {
        (self.samples > 0.3).then(|| self.think_total_ns / self.samples)
    }

    /// Return the mean distance between requests in sectors; 0 without samples.
    pub(super) fn seek_sectors(&self) -> f64 {
        if self.seek_samples > 0.0 {
            self.seek_total / self.seek_samples
        } else {
            0.0
        }
    }
}

/// Process statistics shared by the queues of several drives. The anticipatory scheduler keeps one
/// record per process for all drives (`as_io_context`); cfq keeps one per process and queue
/// (`cfq_io_context`).
#[derive(Clone, Debug, Default)]
pub struct SharedHabits(Arc<Mutex<Processes>>);

impl SharedHabits {
    pub(super) fn processes(&self) -> MutexGuard<'_, Processes> {
        // A simulation has a single thread, so the lock is never contended.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Statistics of each process, by a dense process number.
#[derive(Debug, Default)]
pub(super) struct Processes {
    habits: Vec<Habits>,
}

impl Processes {
    pub(super) fn of(&mut self, process: u32) -> &mut Habits {
        let index = process as usize;
        if index >= self.habits.len() {
            self.habits.resize(index + 1, Habits::default());
        }
        &mut self.habits[index]
    }
}

/// Mean think time of a group of processes, whatever else they have in the drive.
#[derive(Debug, Default)]
pub(super) struct ThinkTime {
    samples: f64,
    total_ns: f64,
    last_completion: Option<Nanos>,
}

impl ThinkTime {
    pub(super) fn arrived(&mut self, now: Nanos, cap_ns: u64) {
        let Some(completed) = self.last_completion else { return };
        self.samples = (7.0 * self.samples + 1.0) / 8.0;
        let think = now.saturating_sub(completed).min(cap_ns) as f64;
        self.total_ns = (7.0 * self.total_ns + think) / 8.0;
    }

    pub(super) fn completed(&mut self, now: Nanos) {
        self.last_completion = Some(now);
    }

    /// Return the mean; `None` with too few samples.
    pub(super) fn mean_ns(&self) -> Option<f64> {
        (self.samples > 0.3).then(|| self.total_ns / self.samples)
    }
}

/// Which of the last 32 requests of a process were seeks (`seek_history` of cfq and bfq).
#[derive(Debug, Default)]
pub(super) struct SeekHistory {
    seeks: u32,
    last_end: Option<u64>,
}

impl SeekHistory {
    /// Record a request that is a seek if `far` says so of its distance from the one before.
    pub(super) fn note(&mut self, sector: u64, end: u64, far: impl Fn(u64) -> bool) {
        let distance = self.last_end.map_or(0, |last| sector.abs_diff(last));
        self.seeks = self.seeks << 1 | u32::from(far(distance));
        self.last_end = Some(end);
    }

    pub(super) fn count(&self) -> u32 {
        self.seeks.count_ones()
    }
}

/// Whether a drive has a command queue, as cfq and bfq find out (`hw_tag`): by the most requests in
/// it at once, and yes until enough was seen.
#[derive(Debug)]
pub(super) struct DriveQueue {
    least: u32,
    most: u32,
    samples: u32,
    seen: bool,
}

/// Completions between two decisions (`HW_QUEUE_SAMPLES` is 32 in bfq, 50 in cfq).
const DRIVE_QUEUE_SAMPLES: u32 = 50;

impl DriveQueue {
    /// `least`: requests in a drive that has a command queue.
    pub(super) fn new(least: u32) -> Self {
        DriveQueue { least, most: 0, samples: 0, seen: true }
    }

    pub(super) fn seen(&self) -> bool {
        self.seen
    }

    /// Record a completion with `in_drive` requests in the drive and `queued` waiting. Nothing is
    /// known when there are `few` of the active process, which may be why the drive has no more.
    pub(super) fn note(&mut self, in_drive: u32, queued: u32, few: bool) {
        self.most = self.most.max(in_drive);
        let little = queued <= self.least && in_drive <= self.least;
        if little || (few && in_drive < self.least) {
            return;
        }
        self.samples += 1;
        if self.samples > DRIVE_QUEUE_SAMPLES {
            self.seen = self.most >= self.least;
        }
    }
}
