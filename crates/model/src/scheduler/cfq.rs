//! cfq as Linux 2.6.39 to 4.20 had it. After `block/cfq-iosched.c`, without cgroups, I/O priorities
//! and queues merged because their processes read near each other.
//!
//! Each process has a queue for synchronous requests; asynchronous ones share a queue. The queues
//! are in three service trees: those that the drive idles for, those that it does not idle for
//! (processes that seek or think long), and the asynchronous one. A tree is served for a share of
//! the target latency. The drive idles for the last queue of the second tree as well, so that a
//! lone process that seeks keeps its share; it never idles on an SSD with a command queue.

use std::collections::VecDeque;

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Fifo, Queued, Requests, Sorted};
use super::thinking::{DriveQueue, Processes, SeekHistory, ThinkTime};
use crate::request::Nanos;

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct CfqTunables {
    pub slice_sync_ns: u64,
    pub slice_async_ns: u64,
    /// Requests of the asynchronous queue per slice: 8 times this (`cfq_prio_to_maxrq`).
    pub slice_async_rq: u32,
    pub slice_idle_ns: u64,
    pub fifo_expire_sync_ns: u64,
    pub fifo_expire_async_ns: u64,
    pub back_seek_max_sectors: u64,
    pub back_seek_penalty: u64,
    /// Maximum number of requests of one queue in the drive.
    pub quantum: u32,
    /// Time in which every queue gets a slice, if possible.
    pub target_latency_ns: u64,
}

impl Default for CfqTunables {
    fn default() -> Self {
        CfqTunables {
            slice_sync_ns: 100_000_000,
            slice_async_ns: 40_000_000,
            slice_async_rq: 2,
            slice_idle_ns: 8_000_000,
            fifo_expire_sync_ns: 125_000_000,
            fifo_expire_async_ns: 250_000_000,
            back_seek_max_sectors: 32_768,
            back_seek_penalty: 2,
            quantum: 8,
            target_latency_ns: 300_000_000,
        }
    }
}

/// Distance from which a request is a seek (`CFQQ_SEEK_THR`); on an SSD, the size below which it
/// counts as one (`CFQQ_SECT_THR_NONROT`).
const SEEK_SECTORS: u64 = 800;
const SMALL_SECTORS: u64 = 64;

/// A queue is seeky with more seeks than this among its last 32 requests (`CFQQ_SEEKY`).
const SEEKS_OF_32: u32 = 4;

/// Requests that wait in one queue from which it is worth idling for although it seeks.
const DEEP: usize = 4;

/// Distance from the head within which a request need not wait for the awaited process
/// (`CFQQ_CLOSE_THR`).
const CLOSE_SECTORS: u64 = 8192;

/// Requests in the drive from which it has a command queue (`CFQ_HW_QUEUE_MIN`).
const DRIVE_QUEUE_MIN: u32 = 5;

/// Service trees.
const IDLING: usize = 0;
const NO_IDLING: usize = 1;
const ASYNC: usize = 2;

#[derive(Debug)]
struct ProcessQueue {
    sorted: Sorted,
    fifo: Fifo,
    in_drive: u32,
    seeks: SeekHistory,
    /// It had several requests waiting at once.
    deep: bool,
    /// The drive idles for it (`idle_window`).
    awaited: bool,
    /// When it entered its tree, while it waits there.
    listed: Option<u64>,
    tree: usize,
}

impl ProcessQueue {
    fn new(sync: bool) -> Self {
        ProcessQueue {
            sorted: Sorted::default(),
            fifo: Fifo::default(),
            in_drive: 0,
            seeks: SeekHistory::default(),
            deep: false,
            awaited: sync,
            listed: None,
            tree: ASYNC,
        }
    }
}

/// The queue that is served.
#[derive(Debug)]
struct Active {
    queue: u32,
    since: Nanos,
    /// `None` until its first completion, so that the initial seek is not charged.
    ends: Option<Nanos>,
    idle_until: Option<Nanos>,
    sent: u32,
}

#[derive(Debug)]
pub(super) struct Cfq {
    tunables: CfqTunables,
    rotational: bool,
    /// Queue 0 is asynchronous; process p has queue p + 1.
    queues: Vec<ProcessQueue>,
    trees: [VecDeque<u32>; 3],
    tree_think: [ThinkTime; 3],
    serving: usize,
    tree_ends: Nanos,
    active: Option<Active>,
    listings: u64,
    sync_in_drive: u32,
    async_in_drive: u32,
    queued: u32,
    drive_queue: DriveQueue,
    /// When a synchronous request last took longer than its expiry time.
    delayed_sync: Nanos,
    position: u64,
    processes: Processes,
}

impl Cfq {
    pub(super) fn new(tunables: CfqTunables, rotational: bool) -> Self {
        Cfq {
            tunables,
            rotational,
            queues: vec![ProcessQueue::new(false)],
            trees: Default::default(),
            tree_think: Default::default(),
            serving: IDLING,
            tree_ends: 0,
            active: None,
            listings: 0,
            sync_in_drive: 0,
            async_in_drive: 0,
            queued: 0,
            drive_queue: DriveQueue::new(DRIVE_QUEUE_MIN),
            delayed_sync: 0,
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

    /// Return whether idling never pays off: the drive does not seek, and keeps a queue itself.
    fn never_idles(&self) -> bool {
        self.tunables.slice_idle_ns == 0 || (!self.rotational && self.drive_queue.seen())
    }

    fn thinks_long(&self, think_ns: Option<f64>) -> bool {
        think_ns.is_some_and(|think| think > self.tunables.slice_idle_ns as f64)
    }

    fn waiting_queues(&self) -> usize {
        self.trees.iter().map(VecDeque::len).sum()
    }

    fn list(&mut self, queue: u32, front: bool) {
        let entry = &mut self.queues[queue as usize];
        if entry.listed.is_some() {
            return;
        }
        self.listings += 1;
        entry.listed = Some(if front { 0 } else { self.listings });
        entry.tree = match (queue, entry.awaited) {
            (0, _) => ASYNC,
            (_, true) => IDLING,
            (_, false) => NO_IDLING,
        };
        let tree = &mut self.trees[entry.tree];
        if front {
            tree.push_front(queue);
        } else {
            tree.push_back(queue);
        }
    }

    /// End the active slice. A queue with remaining requests goes to the end of its tree.
    fn expire(&mut self) {
        if let Some(active) = self.active.take() {
            if !self.queues[active.queue as usize].sorted.is_empty() {
                self.list(active.queue, false);
            }
        }
    }

    /// Let a queue take the drive from the active one.
    fn preempt(&mut self, queue: u32) {
        self.expire();
        let entry = &mut self.queues[queue as usize];
        if entry.listed.take().is_some() {
            let tree = entry.tree;
            self.trees[tree].retain(|&listed| listed != queue);
        }
        self.list(queue, true);
        self.serving = self.queues[queue as usize].tree;
    }

    /// Return whether to keep the drive for a queue without requests: it is marked for that, or the
    /// last one in its tree (`cfq_should_idle`).
    fn should_idle(&self, queue: u32) -> bool {
        if queue == 0 || self.tunables.slice_idle_ns == 0 {
            return false;
        }
        let entry = &self.queues[queue as usize];
        if entry.awaited && !self.never_idles() {
            return true;
        }
        self.trees[entry.tree].is_empty()
            && !self.thinks_long(self.tree_think[entry.tree].mean_ns())
    }

    /// Decide whether the drive idles for a queue (`cfq_update_idle_window`).
    fn update_awaited(&mut self, queue: u32) {
        let think_ns = self.processes.of(queue - 1).think_ns();
        let long = self.thinks_long(think_ns);
        let entry = &mut self.queues[queue as usize];
        entry.deep |= entry.sorted.len() >= DEEP;
        let seeky = entry.seeks.count() > SEEKS_OF_32;
        if self.tunables.slice_idle_ns == 0 || (seeky && !entry.deep) {
            entry.awaited = false;
        } else if think_ns.is_some() {
            entry.awaited = !long;
        }
    }

    /// Return the slice of a queue: `slice_sync_ns`, or less so that all get one within the target
    /// latency, but at least twice the idle time (`cfq_scaled_cfqq_slice`).
    fn slice_ns(&self, queue: u32) -> u64 {
        let tunables = &self.tunables;
        if queue == 0 {
            return tunables.slice_async_ns;
        }
        let sync = (self.trees[IDLING].len() + self.trees[NO_IDLING].len() + 1) as u64;
        let expected = tunables.slice_sync_ns * sync;
        if expected <= tunables.target_latency_ns {
            return tunables.slice_sync_ns;
        }
        let least = tunables.slice_sync_ns.min(2 * tunables.slice_idle_ns);
        (tunables.target_latency_ns / sync).max(least)
    }

    /// Return the time of a tree: its share of the target latency by its queues
    /// (`choose_wl_class_and_type`).
    fn tree_ns(&self, tree: usize) -> u64 {
        let tunables = &self.tunables;
        let count = self.trees[tree].len() as u64;
        let all = (self.waiting_queues() as u64).max(1);
        let share = tunables.target_latency_ns * count / all;
        if tree == ASYNC {
            (share * tunables.slice_async_ns / tunables.slice_sync_ns).max(1)
        } else {
            share.max(2 * tunables.slice_idle_ns)
        }
    }

    /// Make the next queue the active one: of the tree that is served, else of the tree whose first
    /// queue has waited longest.
    fn activate(&mut self, now: Nanos) -> Option<u32> {
        if self.trees[self.serving].is_empty() || now > self.tree_ends {
            let first = |tree: &usize| {
                self.trees[*tree].front().and_then(|&queue| self.queues[queue as usize].listed)
            };
            let tree = (0..3).filter(|tree| first(tree).is_some()).min_by_key(first)?;
            self.serving = tree;
            self.tree_ends = now + self.tree_ns(tree);
        }
        let queue = self.trees[self.serving].pop_front()?;
        self.queues[queue as usize].listed = None;
        self.active = Some(Active { queue, since: now, ends: None, idle_until: None, sent: 0 });
        Some(queue)
    }

    /// Return whether a queue may have one more request in the drive (`cfq_may_dispatch`).
    fn may_dispatch(&self, now: Nanos, queue: u32) -> bool {
        let in_drive = self.queues[queue as usize].in_drive;
        let others = self.waiting_queues() > 0;
        if queue == 0 {
            let depth =
                (now.saturating_sub(self.delayed_sync) / self.tunables.slice_sync_ns) as u32;
            let most = if others { self.tunables.quantum } else { u32::MAX };
            return self.sync_in_drive == 0 && in_drive < depth.max(1).min(most);
        }
        if self.async_in_drive > 0 && self.should_idle(queue) {
            return false;
        }
        let alone = self.trees[IDLING].is_empty() && self.trees[NO_IDLING].is_empty();
        alone || in_drive < self.tunables.quantum
    }

    fn take(&mut self, queue: u32, oldest: Option<u32>, table: &Requests) -> Choice {
        let entry = &mut self.queues[queue as usize];
        let (back, penalty) =
            (self.tunables.back_seek_max_sectors, self.tunables.back_seek_penalty);
        let nearest = || entry.sorted.nearest(self.position, back, penalty, table);
        let Some(index) = oldest.or_else(nearest) else { return Choice::Empty };
        let request = table.get(index);
        entry.sorted.remove(request.sector, index);
        entry.in_drive += 1;
        self.queued -= 1;
        self.position = request.end();
        if queue > 0 {
            self.sync_in_drive += 1;
            self.processes.of(queue - 1).dispatched();
        } else {
            self.async_in_drive += 1;
        }
        let spent = queue == 0 && self.waiting_queues() > 0;
        if let Some(active) = &mut self.active {
            active.sent += 1;
            active.idle_until = None;
            if spent && active.sent >= 8 * self.tunables.slice_async_rq {
                self.expire();
            }
        }
        Choice::Dispatch(index)
    }

    /// Dispatch a request of the active queue. Expiry times are checked once per slice.
    fn dispatch(&mut self, now: Nanos, queue: u32, table: &Requests) -> Choice {
        if !self.may_dispatch(now, queue) {
            return Choice::Empty;
        }
        let first = self.active.as_ref().is_some_and(|active| active.sent == 0);
        let oldest = self.queues[queue as usize].fifo.oldest(table);
        let expired = oldest.filter(|&(expiry, _)| first && expiry <= now);
        self.take(queue, expired.map(|(_, index)| index), table)
    }

    /// Return what to do about the active queue; `None` if its slice has ended.
    fn keep(&mut self, now: Nanos, table: &Requests) -> Option<Choice> {
        let active = self.active.as_ref()?;
        let (queue, idle_until) = (active.queue, active.idle_until);
        let entry = &self.queues[queue as usize];
        let (empty, in_drive) = (entry.sorted.is_empty(), entry.in_drive);
        if active.ends.is_some_and(|ends| now >= ends) {
            let alone = self.waiting_queues() == 0;
            let kept = alone && empty && in_drive > 0 && self.should_idle(queue);
            return kept.then_some(Choice::Empty);
        }
        if !empty {
            return Some(self.dispatch(now, queue, table));
        }
        if let Some(until) = idle_until.filter(|&until| now < until) {
            return Some(Choice::Idle(until));
        }
        // The drive is faster than a deep queue that seeks.
        let early = active.ends.is_none_or(|ends| ends - now > now - active.since);
        let entry = &mut self.queues[queue as usize];
        if early && entry.awaited && entry.seeks.count() > SEEKS_OF_32 {
            (entry.deep, entry.awaited) = (false, false);
        }
        (in_drive > 0 && idle_until.is_none() && self.should_idle(queue)).then_some(Choice::Empty)
    }

    /// Return whether a request of `queue` takes the drive from the active queue
    /// (`cfq_should_preempt`).
    fn preempts(&self, now: Nanos, queue: u32, request: &Queued) -> bool {
        let Some(active) = self.active.as_ref().filter(|active| active.queue != queue) else {
            return false;
        };
        if queue == 0 {
            return false;
        }
        if active.queue == 0 || active.ends.is_some_and(|ends| now >= ends) {
            return true;
        }
        if !self.queues[active.queue as usize].sorted.is_empty() {
            return false;
        }
        let both_seek = self.serving == NO_IDLING && !self.queues[queue as usize].awaited;
        let close = request.sector.abs_diff(self.position) <= CLOSE_SECTORS;
        both_seek || !self.should_idle(active.queue) || (close && active.idle_until.is_some())
    }
}

impl Elevator for Cfq {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests) {
        let request = table.get(index);
        let queue = Self::queue_of(request);
        if queue as usize >= self.queues.len() {
            self.queues.resize_with(queue as usize + 1, || ProcessQueue::new(true));
        }
        let expire = if request.sync {
            self.tunables.fifo_expire_sync_ns
        } else {
            self.tunables.fifo_expire_async_ns
        };
        let entry = &mut self.queues[queue as usize];
        entry.sorted.insert(request.sector, index);
        entry.fifo.push(now + expire, index, table);
        self.queued += 1;
        if queue > 0 {
            let far = |distance| {
                if self.rotational {
                    distance > SEEK_SECTORS
                } else {
                    request.sectors < SMALL_SECTORS
                }
            };
            entry.seeks.note(request.sector, request.end(), far);
            let cap = 2 * self.tunables.slice_idle_ns.max(1);
            self.tree_think[entry.tree].arrived(now, cap);
            self.processes.of(queue - 1).arrived(now, request.sector, request.end(), cap);
            self.update_awaited(queue);
        }
        if self.preempts(now, queue, request) {
            self.preempt(queue);
        } else if self.active.as_ref().is_none_or(|active| active.queue != queue) {
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
        if self.queued == 0 {
            return Choice::Empty;
        }
        if let Some(choice) = self.keep(now, table) {
            return choice;
        }
        self.expire();
        match self.activate(now) {
            Some(queue) => self.dispatch(now, queue, table),
            None => Choice::Empty,
        }
    }

    fn completed(&mut self, now: Nanos, request: &Queued) {
        let queue = Self::queue_of(request);
        if queue as usize >= self.queues.len() {
            return;
        }
        let in_drive = self.sync_in_drive + self.async_in_drive;
        let entry = &mut self.queues[queue as usize];
        let few = entry.awaited && entry.in_drive + (entry.sorted.len() as u32) < DRIVE_QUEUE_MIN;
        self.drive_queue.note(in_drive, self.queued, few);
        entry.in_drive = entry.in_drive.saturating_sub(1);
        let (empty, rest, tree) = (entry.sorted.is_empty(), entry.in_drive, entry.tree);
        if queue > 0 {
            self.sync_in_drive = self.sync_in_drive.saturating_sub(1);
            self.processes.of(queue - 1).completed(now);
            self.tree_think[tree].completed(now);
            if now <= request.entered + self.tunables.fifo_expire_sync_ns {
                self.delayed_sync = now;
            }
        } else {
            self.async_in_drive = self.async_in_drive.saturating_sub(1);
        }
        let slice = self.slice_ns(queue);
        let Some(active) = self.active.as_mut().filter(|active| active.queue == queue) else {
            return;
        };
        let ends = *active.ends.get_or_insert(now + slice);
        if now >= ends {
            self.expire();
        } else if queue > 0 && empty && rest == 0 && !self.never_idles() && self.should_idle(queue)
        {
            let think = self.processes.of(queue - 1).think_ns().unwrap_or(0.0);
            if (ends - now) as f64 >= think {
                if let Some(active) = &mut self.active {
                    active.idle_until = Some(now + self.tunables.slice_idle_ns);
                }
            }
        }
    }

    fn may_merge(&self, request: &Queued, process: u32, sync: bool) -> bool {
        request.sync == sync && (!sync || request.process == process)
    }
}
