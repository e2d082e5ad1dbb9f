//! The anticipatory scheduler: after a read it keeps the drive idle for a short time if the process
//! is likely to issue a nearby read. After `block/as-iosched.c` (Iyer and Druschel, SOSP 2001;
//! removed in 2.6.33).

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Fifo, Queued, Requests, Sorted};
use super::thinking::SharedHabits;
use crate::request::{Nanos, Op};

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct AnticipatoryTunables {
    /// Maximum wait for the next read of a process.
    pub antic_expire_ns: u64,
    pub read_expire_ns: u64,
    pub write_expire_ns: u64,
    pub read_batch_expire_ns: u64,
    pub write_batch_expire_ns: u64,
}

impl Default for AnticipatoryTunables {
    fn default() -> Self {
        AnticipatoryTunables {
            antic_expire_ns: 6_000_000,
            read_expire_ns: 125_000_000,
            write_expire_ns: 250_000_000,
            read_batch_expire_ns: 500_000_000,
            write_batch_expire_ns: 125_000_000,
        }
    }
}

/// Maximum backward distance of the elevator in sectors (`MAXBACK`, 512 MiB), at twice the cost of
/// a forward distance.
const MAX_BACK_SECTORS: u64 = 1024 * 1024;
const BACK_PENALTY: u64 = 2;

/// Maximum think time of a sample (`MAX_THINKTIME`, HZ/50).
const MAX_THINK_NS: u64 = 20_000_000;

/// Distance that counts as near at the start of a wait (4 MiB); it doubles every millisecond.
const CLOSE_SECTORS: u64 = 8192;

#[derive(Debug)]
pub(super) struct Anticipatory {
    tunables: AnticipatoryTunables,
    sorted: [Sorted; 2],
    fifo: [Fifo; 2],
    position: [u64; 2],
    direction: usize,
    /// When the expiry times of a direction were last checked.
    checked: [Nanos; 2],
    batch_ends: Nanos,
    habits: SharedHabits,
    /// The process whose next read is awaited, and the end of the wait (`None`: its last read is
    /// still in the drive).
    awaited: Option<(u32, Option<Nanos>)>,
}

impl Anticipatory {
    pub(super) fn new(tunables: AnticipatoryTunables) -> Self {
        Anticipatory {
            tunables,
            sorted: Default::default(),
            fifo: Default::default(),
            position: [0; 2],
            direction: 0,
            checked: [0; 2],
            batch_ends: 0,
            habits: SharedHabits::default(),
            awaited: None,
        }
    }

    /// Share process statistics with other queues.
    pub(super) fn share(&mut self, habits: &SharedHabits) {
        self.habits = habits.clone();
    }

    /// Return the nearest request of a direction.
    fn nearest(&self, direction: usize, table: &Requests) -> Option<u32> {
        let position = self.position[direction];
        self.sorted[direction].nearest(position, MAX_BACK_SECTORS, BACK_PENALTY, table)
    }

    /// Return whether the oldest request of a direction must be served first. Expiry times are
    /// checked once per expiry interval: served whenever they have passed, a long queue would be
    /// served in order of arrival (`as_fifo_expired`).
    fn expired(&mut self, now: Nanos, direction: usize, expiry: Nanos) -> bool {
        let every = [self.tunables.read_expire_ns, self.tunables.write_expire_ns][direction];
        if now.saturating_sub(self.checked[direction]) < every {
            return false;
        }
        self.checked[direction] = now;
        expiry < now
    }

    /// Return whether to stop waiting for the awaited process and serve `candidate`.
    fn breaks(&mut self, now: Nanos, candidate: &Queued) -> bool {
        let Some((process, until)) = self.awaited else { return true };
        if candidate.process == process || until.is_some_and(|until| now >= until) {
            return true;
        }
        let expire = self.tunables.antic_expire_ns;
        let mut processes = self.habits.processes();
        let habits = processes.of(process);
        if habits.queued > 0 {
            return true;
        }
        let Some(think_ns) = habits.think_ns() else {
            // No statistics yet: the kernel waits for a new process.
            return false;
        };
        if think_ns > expire as f64 {
            return true;
        }
        // Stop waiting if the candidate is near (the limit grows with the wait) or nearer than the
        // process's mean seek distance (`as_close_req`).
        let seeks = habits.seek_sectors();
        let waited_ms = until.map_or(0, |until| (now + expire).saturating_sub(until) / 1_000_000);
        let close = CLOSE_SECTORS << waited_ms.min(20);
        let (last, next) = (self.position[0], candidate.sector);
        (last <= next + close / 2 && next <= last + close) || (next.abs_diff(last) as f64) < seeks
    }

    fn take(&mut self, now: Nanos, direction: usize, index: u32, table: &Requests) -> Choice {
        let request = table.get(index);
        self.sorted[direction].remove(request.sector, index);
        self.position[direction] = request.end();
        if direction != self.direction || now >= self.batch_ends {
            let length = [self.tunables.read_batch_expire_ns, self.tunables.write_batch_expire_ns]
                [direction];
            self.direction = direction;
            self.batch_ends = now + length;
        }
        self.awaited = None;
        if request.sync {
            self.habits.processes().of(request.process).dispatched();
            if request.op == Op::Read {
                self.awaited = Some((request.process, None));
            }
        }
        Choice::Dispatch(index)
    }
}

impl Elevator for Anticipatory {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests) {
        let request = table.get(index);
        let direction = request.direction();
        let expire = [self.tunables.read_expire_ns, self.tunables.write_expire_ns][direction];
        self.sorted[direction].insert(request.sector, index);
        self.fifo[direction].push(now + expire, index, table);
        if request.sync {
            self.habits.processes().of(request.process).arrived(
                now,
                request.sector,
                request.end(),
                MAX_THINK_NS,
            );
        }
    }

    fn moved(&mut self, index: u32, old_sector: u64, table: &Requests) {
        let request = table.get(index);
        let sorted = &mut self.sorted[request.direction()];
        sorted.remove(old_sector, index);
        sorted.insert(request.sector, index);
    }

    fn next(&mut self, now: Nanos, in_drive: u32, table: &Requests) -> Choice {
        let has = [!self.sorted[0].is_empty(), !self.sorted[1].is_empty()];
        if !has[0] && !has[1] {
            return Choice::Empty;
        }
        // A batch ends when its time is over or it is empty; then the other direction is served.
        let other = 1 - self.direction;
        let expired = now >= self.batch_ends;
        let direction =
            if has[self.direction] && !(expired && has[other]) { self.direction } else { other };
        let direction = if has[direction] { direction } else { 1 - direction };
        if direction != self.direction && in_drive > 0 {
            return Choice::Empty;
        }
        let (expiry, oldest) =
            self.fifo[direction].oldest(table).expect("the direction holds requests");
        let Some(nearest) = self.nearest(direction, table) else { return Choice::Empty };
        if self.expired(now, direction, expiry) {
            return self.take(now, direction, oldest, table);
        }
        let mut index = nearest;
        if let Some((process, until)) = self.awaited {
            let own = self.fifo[0].find(table, |request| request.process == process);
            if let (0, Some(own)) = (direction, own) {
                let near = table.get(nearest).sector.abs_diff(self.position[0]);
                let mine = table.get(own).sector.abs_diff(self.position[0]);
                if mine <= near {
                    index = own;
                }
            } else {
                let candidate = *table.get(nearest);
                if !self.breaks(now, &candidate) {
                    // While the process's read is in the drive, its completion triggers the next
                    // decision.
                    return until.map_or(Choice::Empty, Choice::Idle);
                }
            }
        }
        self.take(now, direction, index, table)
    }

    fn completed(&mut self, now: Nanos, request: &Queued) {
        if !request.sync {
            return;
        }
        self.habits.processes().of(request.process).completed(now);
        if let Some((process, until @ None)) = &mut self.awaited {
            if *process == request.process {
                *until = Some(now + self.tunables.antic_expire_ns);
            }
        }
    }
}
