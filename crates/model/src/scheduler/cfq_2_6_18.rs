//! cfq as Linux 2.6.18 to 2.6.20 had it: one queue per process for synchronous requests, one for
//! asynchronous requests, time slices in turn, and idling at the end of a slice in case the process
//! has more. After `block/cfq-iosched.c`.
//!
//! These kernels restart the idle time of the active process when a request of another process
//! arrives, no request waits, and the drive is kept for the active process although it has no
//! requests. Every switch between processes then costs an idle period, no matter how long ago the
//! last request was: `cfq_select_queue` restarts the timer, and `cfq_idle_slice_timer` ends a slice
//! only if another process waits.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Fifo, Queued, Requests, Sorted};
use super::thinking::Processes;
use crate::request::Nanos;

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct EarlyCfqTunables {
    pub slice_sync_ns: u64,
    pub slice_async_ns: u64,
    /// Requests of the asynchronous queue per slice.
    pub slice_async_rq: u32,
    pub slice_idle_ns: u64,
    /// Idle time for a seeking process.
    pub slice_idle_seeky_ns: u64,
    pub fifo_expire_sync_ns: u64,
    pub fifo_expire_async_ns: u64,
    pub back_seek_max_sectors: u64,
    pub back_seek_penalty: u64,
    /// Maximum number of requests of one queue in the drive.
    pub quantum: u32,
    /// Mean distance beyond which a process counts as seeking (`CIC_SEEKY`: 64 MiB to 2.6.28, 4 MiB
    /// to 2.6.32).
    pub seeky_sectors: u64,
    /// A drive that held more requests than this at once has a command queue: from then on there is
    /// no idling for a seeking process (`hw_tag`).
    pub queues_beyond: u32,
}

impl Default for EarlyCfqTunables {
    fn default() -> Self {
        EarlyCfqTunables {
            slice_sync_ns: 100_000_000,
            slice_async_ns: 40_000_000,
            slice_async_rq: 2,
            slice_idle_ns: 8_000_000,
            slice_idle_seeky_ns: 2_000_000,
            fifo_expire_sync_ns: 125_000_000,
            fifo_expire_async_ns: 250_000_000,
            back_seek_max_sectors: 32_768,
            back_seek_penalty: 2,
            quantum: 8,
            seeky_sectors: 128 * 1024,
            queues_beyond: 4,
        }
    }
}

#[derive(Debug, Default)]
struct ProcessQueue {
    sorted: Sorted,
    fifo: Fifo,
    in_drive: u32,
    listed: bool,
}

#[derive(Debug)]
pub(super) struct EarlyCfq {
    tunables: EarlyCfqTunables,
    /// Queue 0 is asynchronous; process p has queue p + 1.
    queues: Vec<ProcessQueue>,
    /// Queues with requests, in round-robin order.
    turn: VecDeque<u32>,
    active: Option<u32>,
    slice_ends: Option<Nanos>,
    idle_until: Option<Nanos>,
    sent_in_slice: u32,
    sync_in_drive: u32,
    in_drive: u32,
    drive_queues: bool,
    position: u64,
    processes: Processes,
}

impl EarlyCfq {
    pub(super) fn new(tunables: EarlyCfqTunables) -> Self {
        EarlyCfq {
            tunables,
            queues: vec![ProcessQueue::default()],
            turn: VecDeque::new(),
            active: None,
            slice_ends: None,
            idle_until: None,
            sent_in_slice: 0,
            sync_in_drive: 0,
            in_drive: 0,
            drive_queues: false,
            position: 0,
            processes: Processes::default(),
        }
    }

    fn queue_of(request: &Queued) -> u32 {
        if request.sync {
            request.process + 1
        } else {
            0
        }
    }

    fn list(&mut self, queue: u32, front: bool) {
        let entry = &mut self.queues[queue as usize];
        if entry.listed {
            return;
        }
        entry.listed = true;
        if front {
            self.turn.push_front(queue);
        } else {
            self.turn.push_back(queue);
        }
    }

    /// End the active slice. A queue with remaining requests goes to the end of the list.
    fn expire(&mut self) {
        if let Some(queue) = self.active.take() {
            if !self.queues[queue as usize].sorted.is_empty() {
                self.list(queue, false);
            }
        }
        self.slice_ends = None;
        self.idle_until = None;
        self.sent_in_slice = 0;
    }

    /// Restart the idle time of the active process if it has no requests. Called when another
    /// process submits while no request waits.
    fn pause_anew(&mut self, now: Nanos) {
        let Some(active) = self.active.filter(|&active| active > 0) else { return };
        let entry = &self.queues[active as usize];
        if entry.sorted.is_empty() && entry.in_drive == 0 {
            let pause = self.pause_ns(active);
            self.idle_until = (pause > 0).then(|| now + pause);
        }
    }

    /// Return how long to keep the drive idle for the active process; 0: not at all.
    fn pause_ns(&mut self, queue: u32) -> u64 {
        if queue == 0 || self.tunables.slice_idle_ns == 0 {
            return 0;
        }
        let idle = self.tunables.slice_idle_ns;
        let habits = self.processes.of(queue - 1);
        if habits.think_ns().is_some_and(|think| think > idle as f64) {
            return 0;
        }
        if habits.seek_sectors() > self.tunables.seeky_sectors as f64 {
            return if self.drive_queues { 0 } else { idle.min(self.tunables.slice_idle_seeky_ns) };
        }
        idle
    }

    fn nearest(&self, queue: u32, table: &Requests) -> Option<u32> {
        let (back, penalty) =
            (self.tunables.back_seek_max_sectors, self.tunables.back_seek_penalty);
        self.queues[queue as usize].sorted.nearest(self.position, back, penalty, table)
    }

    fn start_slice(&mut self, now: Nanos, queue: u32) {
        let slice =
            if queue > 0 { self.tunables.slice_sync_ns } else { self.tunables.slice_async_ns };
        self.slice_ends.get_or_insert(now + slice);
    }

    fn take(&mut self, now: Nanos, queue: u32, table: &Requests) -> Choice {
        self.start_slice(now, queue);
        let entry = &mut self.queues[queue as usize];
        let (expiry, oldest) = entry.fifo.oldest(table).expect("the queue holds requests");
        // Expiry times are checked once per slice.
        let index = if self.sent_in_slice == 0 && expiry <= now {
            oldest
        } else {
            self.nearest(queue, table).expect("the queue holds requests")
        };
        let request = table.get(index);
        let entry = &mut self.queues[queue as usize];
        entry.sorted.remove(request.sector, index);
        entry.in_drive += 1;
        self.in_drive += 1;
        self.drive_queues |= self.in_drive > self.tunables.queues_beyond;
        self.position = request.end();
        self.sent_in_slice += 1;
        self.idle_until = None;
        if queue > 0 {
            self.sync_in_drive += 1;
            self.processes.of(queue - 1).dispatched();
        }
        Choice::Dispatch(index)
    }
}

impl Elevator for EarlyCfq {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests) {
        let request = table.get(index);
        let queue = Self::queue_of(request);
        if queue as usize >= self.queues.len() {
            self.queues.resize_with(queue as usize + 1, ProcessQueue::default);
        }
        if queue > 0 {
            let cap = 2 * self.tunables.slice_idle_ns.max(1);
            self.processes.of(queue - 1).arrived(now, request.sector, request.end(), cap);
        }
        let expire = if request.sync {
            self.tunables.fifo_expire_sync_ns
        } else {
            self.tunables.fifo_expire_async_ns
        };
        let nobody_waits = self.active != Some(queue) && self.turn.is_empty();
        let entry = &mut self.queues[queue as usize];
        entry.sorted.insert(request.sector, index);
        entry.fifo.push(now + expire, index, table);
        if nobody_waits {
            self.pause_anew(now);
        }
        if self.active == Some(0) && queue > 0 {
            // Synchronous requests preempt the asynchronous queue.
            self.expire();
            self.list(queue, true);
        } else if self.active != Some(queue) {
            self.list(queue, false);
        }
    }

    fn moved(&mut self, index: u32, old_sector: u64, table: &Requests) {
        let request = table.get(index);
        let sorted = &mut self.queues[Self::queue_of(request) as usize].sorted;
        sorted.remove(old_sector, index);
        sorted.insert(request.sector, index);
    }

    fn next(&mut self, now: Nanos, _in_drive: u32, table: &Requests) -> Choice {
        if let Some(queue) = self.active {
            let entry = &self.queues[queue as usize];
            let ended = self.slice_ends.is_some_and(|end| now >= end);
            // An awaited process keeps the drive beyond its slice (`must_dispatch`).
            let over = ended && self.idle_until.is_none();
            let spent = queue == 0 && self.sent_in_slice >= self.tunables.slice_async_rq.max(1) * 4;
            if over || spent {
                self.expire();
            } else if !entry.sorted.is_empty() {
                if entry.in_drive >= self.tunables.quantum && self.turn.is_empty() {
                    return self.take(now, queue, table);
                }
                if entry.in_drive >= self.tunables.quantum {
                    return Choice::Empty;
                }
                return self.take(now, queue, table);
            } else if let Some(until) = self.idle_until.filter(|&until| now < until) {
                return Choice::Idle(until);
            } else if entry.in_drive > 0 && queue > 0 && self.idle_until.is_none() {
                // Its completion decides whether to idle.
                return if self.pause_ns(queue) > 0 {
                    Choice::Empty
                } else {
                    self.after_expiry(now, table)
                };
            } else if queue > 0 && self.turn.is_empty() && !ended {
                // No other process has requests: the process keeps the drive.
                return Choice::Empty;
            } else {
                self.expire();
            }
        }
        self.after_expiry(now, table)
    }

    fn completed(&mut self, now: Nanos, request: &Queued) {
        let queue = Self::queue_of(request);
        if queue as usize >= self.queues.len() {
            return;
        }
        let entry = &mut self.queues[queue as usize];
        entry.in_drive = entry.in_drive.saturating_sub(1);
        self.in_drive = self.in_drive.saturating_sub(1);
        let (empty, rest) = (entry.sorted.is_empty(), entry.in_drive);
        if queue > 0 {
            self.sync_in_drive = self.sync_in_drive.saturating_sub(1);
            self.processes.of(queue - 1).completed(now);
        }
        if self.active != Some(queue) {
            return;
        }
        if empty && rest == 0 {
            let pause = self.pause_ns(queue);
            let end = self.slice_ends.unwrap_or(now);
            if pause > 0 && now < end {
                self.idle_until = Some(now + pause);
            } else {
                self.expire();
            }
        }
    }

    fn may_merge(&self, request: &Queued, process: u32, sync: bool) -> bool {
        request.sync == sync && (!sync || request.process == process)
    }
}

impl EarlyCfq {
    /// Start the slice of the next queue in the list.
    fn after_expiry(&mut self, now: Nanos, table: &Requests) -> Choice {
        self.expire();
        for _ in 0..self.turn.len() {
            let Some(queue) = self.turn.pop_front() else { break };
            let entry = &mut self.queues[queue as usize];
            entry.listed = false;
            if entry.sorted.is_empty() {
                continue;
            }
            if queue == 0 && self.sync_in_drive > 0 {
                // Asynchronous writes are not mixed with synchronous requests in the drive.
                self.list(queue, false);
                continue;
            }
            self.active = Some(queue);
            return self.take(now, queue, table);
        }
        Choice::Empty
    }
}
