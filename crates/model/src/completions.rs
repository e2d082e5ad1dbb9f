//! Completions that are known but not yet due, in completion order.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use crate::request::{Completion, Nanos, Status};

/// Completion time of a request without work: a refused or an empty one. Greater than 0, so that
/// time advances under a load that submits again at once.
pub const ANSWER_NS: Nanos = 10_000;

struct Due {
    /// Time in the upper half, submission number in the lower half: one comparison orders both.
    key: u128,
    tag: u64,
    status: Status,
}

impl PartialEq for Due {
    fn eq(&self, other: &Self) -> bool {
        self.key == other.key
    }
}
impl Eq for Due {}
impl PartialOrd for Due {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Due {
    fn cmp(&self, other: &Self) -> Ordering {
        other.key.cmp(&self.key)
    }
}

/// A queue of completions ordered by (time, submission) that also counts requests in flight.
#[derive(Default)]
pub struct Completions {
    due: BinaryHeap<Due>,
    submitted: u64,
    handed_back: u64,
}

impl Completions {
    pub fn new() -> Self {
        Self::default()
    }

    /// Count a new request and return its submission number.
    pub fn admit(&mut self) -> u64 {
        self.submitted += 1;
        self.submitted
    }

    /// Add the completion of the request with submission number `seq`.
    pub fn push(&mut self, time: Nanos, seq: u64, tag: u64, status: Status) {
        self.due.push(Due { key: (u128::from(time) << 64) | u128::from(seq), tag, status });
    }

    /// Return when the earliest completion is due.
    pub fn first(&self) -> Option<Nanos> {
        self.due.peek().map(|due| (due.key >> 64) as Nanos)
    }

    /// Move every completion due at or before `now` to `out`.
    pub fn drain(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(due) = self.due.peek() {
            let time = (due.key >> 64) as Nanos;
            if time > now {
                break;
            }
            out.push(Completion { tag: due.tag, time, status: due.status });
            self.due.pop();
            self.handed_back += 1;
        }
    }

    pub fn in_flight(&self) -> usize {
        (self.submitted - self.handed_back) as usize
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_times_come_back_in_the_order_of_submission() {
        let mut queue = Completions::new();
        let first = queue.admit();
        let second = queue.admit();
        let third = queue.admit();
        queue.push(5, third, 3, Status::Done);
        queue.push(5, first, 1, Status::Done);
        queue.push(4, second, 2, Status::Done);
        let mut out = Vec::new();
        queue.drain(4, &mut out);
        assert_eq!(out.iter().map(|c| c.tag).collect::<Vec<_>>(), [2]);
        assert_eq!(queue.in_flight(), 2);
        queue.drain(9, &mut out);
        assert_eq!(out.iter().map(|c| c.tag).collect::<Vec<_>>(), [2, 1, 3]);
        assert_eq!(queue.in_flight(), 0);
    }
}
