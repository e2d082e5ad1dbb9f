//! bfq: each process gets a budget of sectors in turn, ordered by B-WF2Q+ on sectors served, with
//! idling at the end of a budget. After `block/bfq-iosched.c` (Valente and Checconi 2010), without
//! cgroups and weight raising.

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Fifo, Queued, Requests, Sorted};
use super::thinking::{DriveQueue, Processes, SeekHistory};
use crate::request::Nanos;

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct BfqTunables {
    pub slice_idle_ns: u64,
    pub slice_idle_seeky_ns: u64,
    /// Maximum time of a budget.
    pub timeout_sync_ns: u64,
    pub timeout_async_ns: u64,
    pub fifo_expire_sync_ns: u64,
    pub fifo_expire_async_ns: u64,
    pub max_budget_sectors: u64,
    /// Cost factor of a sector of an asynchronous request.
    pub async_charge_factor: u64,
}

impl Default for BfqTunables {
    fn default() -> Self {
        BfqTunables {
            slice_idle_ns: 8_000_000,
            slice_idle_seeky_ns: 2_000_000,
            timeout_sync_ns: 125_000_000,
            timeout_async_ns: 40_000_000,
            fifo_expire_sync_ns: 125_000_000,
            fifo_expire_async_ns: 250_000_000,
            max_budget_sectors: 16 * 1024,
            async_charge_factor: 3,
        }
    }
}

/// Distance from which a request is a seek (`BFQQ_SEEK_THR`); on an SSD, a small one only
/// (`BFQQ_SECT_THR_NONROT`).
const SEEK_SECTORS: u64 = 800;
const SMALL_SECTORS: u64 = 64;

/// A queue is seeky with more seeks than this among its last 32 requests (`BFQQ_SEEKY`).
const SEEKS_OF_32: u32 = 19;

/// Requests in the drive from which it has a command queue (`BFQ_HW_QUEUE_THRESHOLD` and more).
const DRIVE_QUEUE_MIN: u32 = 4;

#[derive(Debug, Default)]
struct ProcessQueue {
    sorted: Sorted,
    fifo: Fifo,
    in_drive: u32,
    seeks: SeekHistory,
    budget: u64,
    /// Virtual start and finish (sectors served per unit of weight).
    start: u64,
    finish: u64,
}

#[derive(Debug)]
pub(super) struct Bfq {
    tunables: BfqTunables,
    rotational: bool,
    drive_queue: DriveQueue,
    queued: u32,
    in_drive: u32,
    /// Queue 0 is asynchronous; process p has queue p + 1.
    queues: Vec<ProcessQueue>,
    busy: Vec<u32>,
    virtual_time: u64,
    active: Option<u32>,
    served: u64,
    budget_ends: Nanos,
    idle_until: Option<Nanos>,
    position: u64,
    processes: Processes,
}

impl Bfq {
    pub(super) fn new(tunables: BfqTunables, rotational: bool) -> Self {
        Bfq {
            tunables,
            rotational,
            drive_queue: DriveQueue::new(DRIVE_QUEUE_MIN),
            queued: 0,
            in_drive: 0,
            queues: vec![ProcessQueue::default()],
            busy: Vec::new(),
            virtual_time: 0,
            active: None,
            served: 0,
            budget_ends: 0,
            idle_until: None,
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

    fn activate(&mut self, queue: u32) {
        let max = self.tunables.max_budget_sectors;
        let entry = &mut self.queues[queue as usize];
        if entry.budget == 0 {
            entry.budget = max / 2;
        }
        entry.start = self.virtual_time.max(entry.finish);
        entry.finish = entry.start + entry.budget;
        self.busy.push(queue);
    }

    /// End the active budget. A queue that used it up gets a larger one, a queue that became idle a
    /// smaller one.
    fn expire(&mut self, used_up: bool) {
        let Some(queue) = self.active.take() else { return };
        let max = self.tunables.max_budget_sectors;
        let served = self.served;
        let entry = &mut self.queues[queue as usize];
        // Charge the service received, not the budget granted.
        entry.finish = entry.start + served.max(1);
        entry.budget =
            if used_up { (entry.budget * 2).min(max) } else { served.clamp(max / 32, max) };
        self.virtual_time += served / (self.busy.len() as u64 + 1);
        if !self.queues[queue as usize].sorted.is_empty() {
            self.activate(queue);
        }
        self.idle_until = None;
        self.served = 0;
    }

    /// Return how long to idle for a queue without requests; 0: not at all. Idling raises the
    /// throughput of a disk without a command queue, and that of any drive but an SSD with a
    /// command queue if the process reads in sequence (`idling_boosts_thr_without_issues`).
    fn pause_ns(&mut self, queue: u32) -> u64 {
        if queue == 0 {
            return 0;
        }
        let seeky = self.queues[queue as usize].seeks.count() > SEEKS_OF_32;
        let queues = self.drive_queue.seen();
        if queues && (seeky || !self.rotational) || seeky && !self.rotational {
            return 0;
        }
        let idle = self.tunables.slice_idle_ns;
        let habits = self.processes.of(queue - 1);
        if habits.think_ns().is_some_and(|think| think > idle as f64) {
            return 0;
        }
        if seeky {
            return idle.min(self.tunables.slice_idle_seeky_ns);
        }
        idle
    }

    fn take(&mut self, now: Nanos, queue: u32, table: &Requests) -> Choice {
        let entry = &mut self.queues[queue as usize];
        let (expiry, oldest) = entry.fifo.oldest(table).expect("the queue holds requests");
        let index = if expiry <= now {
            oldest
        } else {
            let sorted = &entry.sorted;
            sorted
                .at_or_after(self.position)
                .or_else(|| sorted.first())
                .expect("the queue holds requests")
        };
        let request = table.get(index);
        let entry = &mut self.queues[queue as usize];
        entry.sorted.remove(request.sector, index);
        entry.in_drive += 1;
        self.queued -= 1;
        self.in_drive += 1;
        self.position = request.end();
        self.served +=
            request.sectors * if queue == 0 { self.tunables.async_charge_factor } else { 1 };
        self.idle_until = None;
        if queue > 0 {
            self.processes.of(queue - 1).dispatched();
        }
        Choice::Dispatch(index)
    }

    /// B-WF2Q+: return the queue with the earliest finish among those that have started in virtual
    /// time.
    fn choose(&mut self) -> Option<u32> {
        let first_start = self.busy.iter().map(|&q| self.queues[q as usize].start).min()?;
        self.virtual_time = self.virtual_time.max(first_start);
        let eligible = |&&q: &&u32| self.queues[q as usize].start <= self.virtual_time;
        let queue = *self
            .busy
            .iter()
            .filter(eligible)
            .min_by_key(|&&q| (self.queues[q as usize].finish, q))?;
        self.busy.retain(|&q| q != queue);
        Some(queue)
    }
}

impl Elevator for Bfq {
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
        self.queued += 1;
        let (rotational, small) = (self.rotational, request.sectors < SMALL_SECTORS);
        let entry = &mut self.queues[queue as usize];
        let far = |distance| distance > SEEK_SECTORS && (rotational || small);
        entry.seeks.note(request.sector, request.end(), far);
        let idle = entry.sorted.is_empty();
        entry.sorted.insert(request.sector, index);
        entry.fifo.push(now + expire, index, table);
        if idle && self.active != Some(queue) {
            self.activate(queue);
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
            let (empty, in_drive) = (entry.sorted.is_empty(), entry.in_drive);
            let used_up = self.served >= entry.budget;
            if used_up || now >= self.budget_ends {
                self.expire(used_up);
            } else if !empty {
                return self.take(now, queue, table);
            } else if let Some(until) = self.idle_until.filter(|&until| now < until) {
                return Choice::Idle(until);
            } else if in_drive > 0 && self.idle_until.is_none() && self.pause_ns(queue) > 0 {
                return Choice::Empty;
            } else {
                self.expire(false);
            }
        }
        let Some(queue) = self.choose() else { return Choice::Empty };
        self.active = Some(queue);
        self.served = 0;
        let timeout =
            if queue > 0 { self.tunables.timeout_sync_ns } else { self.tunables.timeout_async_ns };
        self.budget_ends = now + timeout;
        self.take(now, queue, table)
    }

    fn completed(&mut self, now: Nanos, request: &Queued) {
        let queue = Self::queue_of(request);
        if queue as usize >= self.queues.len() {
            return;
        }
        let entry = &mut self.queues[queue as usize];
        let few = entry.in_drive + (entry.sorted.len() as u32) < DRIVE_QUEUE_MIN;
        self.drive_queue.note(self.in_drive, self.queued, few);
        self.in_drive = self.in_drive.saturating_sub(1);
        entry.in_drive = entry.in_drive.saturating_sub(1);
        let quiet = entry.sorted.is_empty() && entry.in_drive == 0;
        if queue > 0 {
            self.processes.of(queue - 1).completed(now);
        }
        if self.active == Some(queue) && quiet {
            let pause = self.pause_ns(queue);
            if pause > 0 {
                self.idle_until = Some(now + pause);
            } else {
                self.expire(false);
            }
        }
    }

    fn may_merge(&self, request: &Queued, process: u32, sync: bool) -> bool {
        request.sync == sync && (!sync || request.process == process)
    }
}
