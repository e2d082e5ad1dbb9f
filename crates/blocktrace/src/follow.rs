//! Requests from beginning to end, whatever a trace has of them: from their issue to the driver, or, where a trace has no issues,
//! each queued piece of I/O from its queueing. For pictures and rows, which show the two alike.

use crate::event::{Event, Op};
use crate::join::{Piece, Request, Watcher};

/// A time that the trace does not have.
pub const UNSEEN_NS: u64 = u64::MAX;

/// A request that begins.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    pub time_ns: u64,
    /// [`UNSEEN_NS`] when its queueing was not seen.
    pub queue_ns: u64,
    pub sector: u64,
    pub sectors: u32,
    pub pid: u32,
    pub device: u32,
    pub op: Op,
    /// Counted from 0 in the order of beginning.
    pub number: u64,
}

/// Is told of each request.
pub trait Follower {
    fn begun(&mut self, begun: &Begun);
    /// The driver gave it back: it begins again under another number.
    fn withdrawn(&mut self, number: u64);
    fn done(&mut self, number: u64, begin_ns: u64, complete_ns: u64);
}

/// A watcher that tells a follower.
pub struct Follow<F> {
    by_issue: bool,
    pub follower: F,
}

impl<F: Follower> Follow<F> {
    /// `by_issue`: the trace has issues ([`crate::walk::has_issues`]).
    pub fn new(by_issue: bool, follower: F) -> Follow<F> {
        Follow { by_issue, follower }
    }
}

impl<F: Follower> Watcher for Follow<F> {
    fn queued(&mut self, event: &Event, piece: &Piece) {
        if !self.by_issue {
            let Event { time_ns, sector, sectors, pid, device, op, .. } = *event;
            let number = piece.number;
            self.follower.begun(&Begun {
                time_ns,
                queue_ns: time_ns,
                sector,
                sectors,
                pid,
                device,
                op,
                number,
            });
        }
    }

    fn issued(&mut self, request: &Request) {
        if self.by_issue {
            let Request { issue_ns, sector, sectors, pid, device, op, number, .. } = *request;
            let queue_ns = request.first.map_or(UNSEEN_NS, |piece| piece.queue_ns);
            self.follower.begun(&Begun {
                time_ns: issue_ns,
                queue_ns,
                sector,
                sectors,
                pid,
                device,
                op,
                number,
            });
        }
    }

    fn requeued(&mut self, request: &Request) {
        if self.by_issue {
            self.follower.withdrawn(request.number);
        }
    }

    fn completed(&mut self, request: &Request, complete_ns: u64) {
        if self.by_issue {
            self.follower.done(request.number, request.issue_ns, complete_ns);
        }
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        if !self.by_issue {
            self.follower.done(piece.number, piece.queue_ns, event.time_ns);
        }
    }
}
