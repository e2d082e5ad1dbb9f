//! deadline and mq-deadline: batches in sector order, an expiry time per request, and reads before
//! writes with a limit on write starvation. After `block/deadline-iosched.c` (2.6 to 4.x) and
//! `block/mq-deadline.c`.

use serde::{Deserialize, Serialize};

use super::elevator::{Choice, Elevator};
use super::requests::{Fifo, Requests, Sorted};
use crate::request::Nanos;

/// Tunables with their sysfs names, in nanoseconds.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct DeadlineTunables {
    pub read_expire_ns: u64,
    pub write_expire_ns: u64,
    /// How many times reads can be preferred while writes wait.
    pub writes_starved: u32,
    /// Requests dispatched in sector order between checks of the expiry times.
    pub fifo_batch: u32,
}

impl Default for DeadlineTunables {
    fn default() -> Self {
        DeadlineTunables {
            read_expire_ns: 500_000_000,
            write_expire_ns: 5_000_000_000,
            writes_starved: 2,
            fifo_batch: 16,
        }
    }
}

#[derive(Debug)]
pub(super) struct Deadline {
    tunables: DeadlineTunables,
    sorted: [Sorted; 2],
    /// (expiry, request) in order of arrival; a request dispatched by sector order is skipped.
    fifo: [Fifo; 2],
    /// Position where the batch continues.
    next_sector: [Option<u64>; 2],
    direction: usize,
    batching: u32,
    starved: u32,
}

impl Deadline {
    pub(super) fn new(tunables: DeadlineTunables) -> Self {
        Deadline {
            tunables,
            sorted: Default::default(),
            fifo: Default::default(),
            next_sector: [None; 2],
            direction: 0,
            batching: 0,
            starved: 0,
        }
    }

    fn continued(&self, direction: usize) -> Option<u32> {
        self.next_sector[direction].and_then(|sector| self.sorted[direction].at_or_after(sector))
    }

    fn take(&mut self, direction: usize, index: u32, table: &Requests) -> Choice {
        let request = table.get(index);
        self.sorted[direction].remove(request.sector, index);
        self.next_sector = [None; 2];
        self.next_sector[direction] = Some(request.end());
        self.batching += 1;
        Choice::Dispatch(index)
    }
}

impl Elevator for Deadline {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests) {
        let request = table.get(index);
        let direction = request.direction();
        let expire = [self.tunables.read_expire_ns, self.tunables.write_expire_ns][direction];
        self.sorted[direction].insert(request.sector, index);
        self.fifo[direction].push(now + expire, index, table);
    }

    fn moved(&mut self, index: u32, old_sector: u64, table: &Requests) {
        let request = table.get(index);
        let sorted = &mut self.sorted[request.direction()];
        sorted.remove(old_sector, index);
        sorted.insert(request.sector, index);
    }

    fn next(&mut self, now: Nanos, _in_drive: u32, table: &Requests) -> Choice {
        if self.batching < self.tunables.fifo_batch {
            if let Some(index) = self.continued(self.direction) {
                let direction = self.direction;
                return self.take(direction, index, table);
            }
        }
        let (reads, writes) = (!self.sorted[0].is_empty(), !self.sorted[1].is_empty());
        let direction = match (reads, writes) {
            (false, false) => return Choice::Empty,
            (true, true) => {
                let turn = self.starved >= self.tunables.writes_starved;
                if turn {
                    self.starved = 0;
                } else {
                    self.starved += 1;
                }
                usize::from(turn)
            }
            (true, false) => 0,
            (false, true) => {
                self.starved = 0;
                1
            }
        };
        let (expiry, oldest) =
            self.fifo[direction].oldest(table).expect("the direction holds requests");
        let index = match self.continued(direction) {
            Some(index) if expiry > now => index,
            _ => oldest,
        };
        self.direction = direction;
        self.batching = 0;
        self.take(direction, index, table)
    }
}
