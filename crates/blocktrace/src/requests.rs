//! A trace as rows, one per request, in order of issue: for replay and conversion.

use std::collections::VecDeque;

use crate::event::Op;
use crate::follow::{Begun, Ended, Follower};

/// One request. `queue_ns` and `complete_ns` are `None` if the trace does not contain them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_ns: u64,
    pub queue_ns: Option<u64>,
    pub complete_ns: Option<u64>,
    pub sector: u64,
    pub sectors: u32,
    pub pid: u32,
    pub device: u32,
    pub op: Op,
}

struct Slot {
    row: Row,
    done: bool,
}

/// Rows are emitted once all requests issued before them are complete.
#[derive(Default)]
pub struct Requests {
    slots: VecDeque<Slot>,
    base: u64,
    pub ready: Vec<Row>,
}

/// Maximum number of rows that wait for a request that does not complete.
const HELD_AT_MOST: usize = 1 << 18;

impl Requests {
    fn slot(&mut self, number: u64) -> Option<&mut Slot> {
        self.slots.get_mut(number.checked_sub(self.base)? as usize)
    }

    fn let_go(&mut self) {
        while self.slots.front().is_some_and(|slot| slot.done) {
            if let Some(slot) = self.slots.pop_front() {
                if slot.row.sectors > 0 || slot.row.op == Op::Flush {
                    self.ready.push(slot.row);
                }
            }
            self.base += 1;
        }
    }

    /// End of the trace: emit the requests that never completed, too.
    pub fn finish(&mut self) {
        for slot in &mut self.slots {
            slot.done = true;
        }
        self.let_go();
    }
}

impl Follower for Requests {
    fn begun(&mut self, begun: &Begun) {
        let Begun { time_ns, queue_ns, sector, sectors, pid, device, op, .. } = *begun;
        let row = Row { time_ns, queue_ns, complete_ns: None, sector, sectors, pid, device, op };
        self.slots.push_back(Slot { row, done: false });
        if self.slots.len() > HELD_AT_MOST {
            self.slots[0].done = true;
            self.let_go();
        }
    }

    fn withdrawn(&mut self, number: u64, _: Option<u64>) {
        if let Some(slot) = self.slot(number) {
            // Emit no row now: the request gets one when it is issued again.
            slot.row.sectors = 0;
            slot.row.op = Op::Read;
            slot.done = true;
        }
        self.let_go();
    }

    fn abandoned(&mut self, number: u64) {
        if let Some(slot) = self.slot(number) {
            slot.done = true;
        }
        self.let_go();
    }

    fn done(&mut self, ended: &Ended) {
        if let Some(slot) = self.slot(ended.number) {
            slot.row.complete_ns = Some(ended.complete_ns);
            slot.done = true;
        }
        self.let_go();
    }
}
