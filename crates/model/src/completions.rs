//! Completions that are known but not yet due, in completion order.

use crate::request::{Completion, Fault, Nanos, Status};

/// Completion time of a request without work: a refused or an empty one. Greater than 0, so that
/// time advances under a load that submits again at once.
pub const ANSWER_NS: Nanos = 10_000;

#[derive(Clone, Copy)]
struct Due {
    /// Time in the upper half, submission number in the lower half: one comparison orders both.
    key: u128,
    tag: u64,
    /// The status, as wide as the other fields: 0 is done, else its place in `FAILURES` plus one.
    failure: u64,
}

const FAILURES: [Fault; 4] = [Fault::OutOfRange, Fault::Medium, Fault::Gone, Fault::Unpowered];

impl Due {
    #[inline]
    fn failure(status: Status) -> u64 {
        match status {
            Status::Done => 0,
            Status::Failed(Fault::OutOfRange) => 1,
            Status::Failed(Fault::Medium) => 2,
            Status::Failed(Fault::Gone) => 3,
            Status::Failed(Fault::Unpowered) => 4,
        }
    }

    #[inline]
    fn completion(&self) -> Completion {
        let failure = (self.failure as usize).checked_sub(1).map(|number| FAILURES[number]);
        let status = failure.map_or(Status::Done, Status::Failed);
        Completion { tag: self.tag, time: (self.key >> 64) as Nanos, status }
    }
}

/// A queue of completions ordered by (time, submission) that also counts requests in flight.
#[derive(Default)]
pub struct Completions {
    /// A binary heap: the children of `n` are `2n + 1` and `2n + 2`, and none is due before it.
    ///
    /// Entries are moved field by field and stored once they have their place. The standard heap
    /// stores a new entry and reads it again at once, in other widths, and so waits for all stores
    /// before it: those of a request to the tables of an SSD are seldom in a cache.
    due: Vec<Due>,
    /// The latest time of any completion so far.
    latest: Nanos,
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
        self.latest = self.latest.max(time);
        let key = (u128::from(time) << 64) | u128::from(seq);
        let mut place = self.due.len();
        let failure = Due::failure(status);
        self.due.push(Due { key, tag, failure });
        while place > 0 {
            let parent = (place - 1) / 2;
            if self.due[parent].key <= key {
                break;
            }
            self.due[place] = self.due[parent];
            place = parent;
        }
        self.due[place] = Due { key, tag, failure };
    }

    /// Remove the earliest completion.
    fn pop(&mut self) {
        let Some(&Due { key, tag, failure }) = self.due.last() else { return };
        let length = self.due.len() - 1;
        self.due.truncate(length);
        let mut place = 0;
        loop {
            let left = 2 * place + 1;
            if left >= length {
                break;
            }
            let right = left + 1;
            let second = right < length && self.due[right].key < self.due[left].key;
            let child = left + usize::from(second);
            if key <= self.due[child].key {
                break;
            }
            self.due[place] = self.due[child];
            place = child;
        }
        if let Some(free) = self.due.get_mut(place) {
            *free = Due { key, tag, failure };
        }
    }

    /// Return when the earliest completion is due.
    pub fn first(&self) -> Option<Nanos> {
        self.due.first().map(|due| (due.key >> 64) as Nanos)
    }

    /// Return when the last of the completions added so far is due, or was.
    pub fn latest(&self) -> Nanos {
        self.latest
    }

    /// Move every completion due at or before `now` to `out`.
    pub fn drain(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        while let Some(due) = self.due.first() {
            let completion = due.completion();
            if completion.time > now {
                break;
            }
            out.push(completion);
            self.pop();
            self.handed_back += 1;
        }
    }

    pub fn in_flight(&self) -> usize {
        (self.submitted - self.handed_back) as usize
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_failure_comes_back_as_it_was() {
        for (number, &fault) in FAILURES.iter().enumerate() {
            let mut queue = Completions::new();
            queue.push(7, queue.submitted, 3, Status::Failed(fault));
            let mut out = Vec::new();
            queue.drain(7, &mut out);
            assert_eq!(out[0].status, Status::Failed(fault), "{number}");
        }
    }

    proptest! {
        #[test]
        fn completions_come_in_the_order_of_time_and_submission(
            steps in prop::collection::vec((0..50u64, any::<bool>()), 1..200),
        ) {
            let mut queue = Completions::new();
            let (mut waiting, mut now) = (Vec::new(), 0);
            for (after, drains) in steps {
                let seq = queue.admit();
                queue.push(now + after, seq, 1000 + seq, Status::Done);
                waiting.push((now + after, 1000 + seq));
                if drains {
                    now += after / 2;
                    let mut out = Vec::new();
                    queue.drain(now, &mut out);
                    waiting.sort_unstable();
                    let due = waiting.partition_point(|&(time, _)| time <= now);
                    let expected: Vec<_> = waiting.drain(..due).collect();
                    let out: Vec<_> = out.iter().map(|done| (done.time, done.tag)).collect();
                    prop_assert_eq!(out, expected);
                }
                prop_assert_eq!(queue.first(), waiting.iter().min().map(|&(time, _)| time));
                prop_assert_eq!(queue.in_flight(), waiting.len());
            }
        }
    }

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
