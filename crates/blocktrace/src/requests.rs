//! A trace as rows, one a request, in the order of issue: for replaying and for converting. A watcher of [`crate::join::Join`].

use std::collections::VecDeque;

use crate::event::{Event, Op};
use crate::join::{Piece, Request, Watcher};

/// A time that the trace does not have.
pub const UNSEEN_NS: u64 = u64::MAX;

/// One request. `queue_ns` and `complete_ns` are [`UNSEEN_NS`] when the trace does not have them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Row {
    pub time_ns: u64,
    pub queue_ns: u64,
    pub complete_ns: u64,
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

/// Rows come out when all that were issued before them are done.
pub struct Requests {
    /// False: the trace has no issues, what was queued is taken instead.
    by_issue: bool,
    slots: VecDeque<Slot>,
    base: u64,
    pub ready: Vec<Row>,
    now_ns: u64,
}

/// A request that does not complete holds back those behind it at most so many rows.
const HELD_AT_MOST: usize = 1 << 18;

impl Requests {
    pub fn new(by_issue: bool) -> Requests {
        Requests { by_issue, slots: VecDeque::new(), base: 0, ready: Vec::new(), now_ns: 0 }
    }

    fn add(&mut self, row: Row) {
        self.now_ns = row.time_ns;
        self.slots.push_back(Slot { row, done: false });
        if self.slots.len() > HELD_AT_MOST {
            self.slots[0].done = true;
            self.let_go();
        }
    }

    fn done(&mut self, number: u64, complete_ns: u64) {
        let Some(at) = number.checked_sub(self.base) else { return };
        if let Some(slot) = self.slots.get_mut(at as usize) {
            slot.row.complete_ns = complete_ns;
            slot.done = true;
        }
        self.let_go();
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

    /// At the end of the trace: what never completed comes out too.
    pub fn finish(&mut self) {
        for slot in &mut self.slots {
            slot.done = true;
        }
        self.let_go();
    }
}

impl Watcher for Requests {
    fn queued(&mut self, event: &Event, _: &Piece) {
        if !self.by_issue {
            let Event { time_ns, sector, sectors, pid, device, op, .. } = *event;
            self.add(Row {
                time_ns,
                queue_ns: time_ns,
                complete_ns: UNSEEN_NS,
                sector,
                sectors,
                pid,
                device,
                op,
            });
        }
    }

    fn issued(&mut self, request: &Request) {
        if self.by_issue {
            self.add(Row {
                time_ns: request.issue_ns,
                queue_ns: request.first.map_or(UNSEEN_NS, |piece| piece.queue_ns),
                complete_ns: UNSEEN_NS,
                sector: request.sector,
                sectors: request.sectors,
                pid: request.pid,
                device: request.device,
                op: request.op,
            });
        }
    }

    fn requeued(&mut self, request: &Request) {
        if self.by_issue {
            // It is issued again and has its row then.
            if let Some(slot) =
                request.number.checked_sub(self.base).and_then(|at| self.slots.get_mut(at as usize))
            {
                slot.row.sectors = 0;
                slot.row.op = Op::Read;
                slot.done = true;
            }
            self.let_go();
        }
    }

    fn completed(&mut self, request: &Request, complete_ns: u64) {
        if self.by_issue {
            self.done(request.number, complete_ns);
        }
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        if !self.by_issue {
            self.done(piece.number, event.time_ns);
        }
    }
}
