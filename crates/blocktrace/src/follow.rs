//! Requests from start to end, independent of the events in the trace: from issue to the driver or,
//! if the trace has no issues, from the queueing of each piece of I/O. Plots and rows treat both
//! alike.

use crate::event::{Event, Op};
use crate::join::{Piece, Request, Watcher};

/// The start of a request.
#[derive(Clone, Copy, Debug)]
pub struct Begun {
    pub time_ns: u64,
    /// `None` if the queueing was not recorded.
    pub queue_ns: Option<u64>,
    pub sector: u64,
    pub sectors: u32,
    pub pid: u32,
    pub device: u32,
    pub op: Op,
    /// Numbered from 0 in order of start.
    pub number: u64,
}

/// The completion of a request.
#[derive(Clone, Copy, Debug)]
pub struct Ended {
    pub number: u64,
    pub op: Op,
    pub begin_ns: u64,
    pub complete_ns: u64,
}

/// Receives the start and end of each request.
pub trait Follower {
    fn begun(&mut self, begun: &Begun);
    /// Not a separate request: the driver returned it at this time and it starts again under
    /// another number; or, without a time, it was the second issue of another request.
    fn withdrawn(&mut self, number: u64, returned_ns: Option<u64>);
    /// The request will not complete.
    fn abandoned(&mut self, _number: u64) {}
    fn done(&mut self, ended: &Ended);
}

/// A watcher that notifies a follower.
pub struct Follow<F> {
    by_issue: bool,
    pub follower: F,
}

impl<F: Follower> Follow<F> {
    /// `by_issue`: the trace contains issue events ([`crate::walk::has_issues`]).
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
                queue_ns: Some(time_ns),
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
            let queue_ns = request.first.map(|piece| piece.queue_ns);
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

    fn requeued(&mut self, request: &Request, requeue_ns: u64) {
        if self.by_issue {
            self.follower.withdrawn(request.number, Some(requeue_ns));
        }
    }

    fn dropped(&mut self, request: &Request, again: bool) {
        if self.by_issue && again {
            self.follower.withdrawn(request.number, None);
        } else if self.by_issue {
            self.follower.abandoned(request.number);
        }
    }

    fn completed(&mut self, request: &Request, complete_ns: u64) {
        if self.by_issue {
            let Request { number, op, issue_ns: begin_ns, .. } = *request;
            self.follower.done(&Ended { number, op, begin_ns, complete_ns });
        }
    }

    fn piece_completed(&mut self, event: &Event, piece: &Piece) {
        if !self.by_issue {
            let Piece { number, op, queue_ns: begin_ns, .. } = *piece;
            self.follower.done(&Ended { number, op, begin_ns, complete_ns: event.time_ns });
        }
    }
}
