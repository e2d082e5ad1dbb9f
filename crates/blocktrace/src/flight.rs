//! Number of requests in flight over time, counting only requests with a known end.
//!
//! Whether a request ever ends is unknown when it starts, so a start counts only once that is
//! decided. Changes are reported in the order in which they happened, but delayed until all earlier
//! starts are decided.

use std::collections::VecDeque;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Open,
    Ended,
    Dropped,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    time_ns: u64,
    order: u64,
    tag: u32,
    state: State,
}

#[derive(Clone, Copy, Debug)]
struct End {
    time_ns: u64,
    order: u64,
    tag: u32,
}

/// A change of the number of requests in flight.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Change {
    pub time_ns: u64,
    /// The value given at the start; identifies the process of the request.
    pub tag: u32,
    pub by: i32,
}

/// Undecided starts, and the ends that wait for them. Requests are numbered from 0.
#[derive(Debug, Default)]
pub struct Flight {
    starts: VecDeque<Start>,
    ends: VecDeque<End>,
    /// Number of the first element of `starts`.
    base: u64,
    order: u64,
}

/// Maximum number of requests that wait for a request that does not end; beyond it, that request
/// counts as never ending.
const HELD_AT_MOST: usize = 1 << 18;

impl Flight {
    /// Record the start of the next request. `counts`: false if it must not be counted.
    #[inline]
    pub fn begin(&mut self, time_ns: u64, tag: u32, counts: bool, each: impl FnMut(Change)) {
        self.order += 1;
        if !counts && self.starts.is_empty() {
            self.base += 1;
            return;
        }
        let state = if counts { State::Open } else { State::Dropped };
        self.starts.push_back(Start { time_ns, order: self.order, tag, state });
        if self.starts.len() > HELD_AT_MOST {
            self.give_up_first(each);
        }
    }

    #[cold]
    fn give_up_first(&mut self, each: impl FnMut(Change)) {
        if let Some(first) = self.starts.front_mut() {
            if first.state == State::Open {
                first.state = State::Dropped;
            }
        }
        self.settle(each);
    }

    /// Record the end of a request; `each` receives the changes that are now decided.
    #[inline]
    pub fn end(&mut self, number: u64, time_ns: u64, each: impl FnMut(Change)) {
        self.order += 1;
        let Some(at) = number.checked_sub(self.base) else { return };
        let Some(start) = self.starts.get_mut(at as usize) else { return };
        if start.state != State::Open {
            return;
        }
        start.state = State::Ended;
        self.ends.push_back(End { time_ns, order: self.order, tag: start.tag });
        if at == 0 {
            self.settle(each);
        }
    }

    /// Exclude a request that never ends or is not a separate request.
    pub fn drop(&mut self, number: u64, each: impl FnMut(Change)) {
        let Some(at) = number.checked_sub(self.base) else { return };
        let Some(start) = self.starts.get_mut(at as usize) else { return };
        if start.state == State::Open {
            start.state = State::Dropped;
        }
        if at == 0 {
            self.settle(each);
        }
    }

    /// End of the trace: undecided requests never end.
    pub fn finish(&mut self, each: impl FnMut(Change)) {
        for start in &mut self.starts {
            if start.state == State::Open {
                start.state = State::Dropped;
            }
        }
        self.settle(each);
    }

    #[inline]
    fn settle(&mut self, mut each: impl FnMut(Change)) {
        loop {
            let until = self.starts.front().map_or(u64::MAX, |start| start.order);
            while let Some(&End { time_ns, order, tag }) = self.ends.front() {
                if order > until {
                    break;
                }
                each(Change { time_ns, tag, by: -1 });
                self.ends.pop_front();
            }
            match self.starts.front() {
                Some(start) if start.state != State::Open => {
                    if start.state == State::Ended {
                        each(Change { time_ns: start.time_ns, tag: start.tag, by: 1 });
                    }
                    self.starts.pop_front();
                    self.base += 1;
                }
                _ => return,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(steps: &[(char, u64, u64)]) -> Vec<(u64, i32)> {
        let (mut flight, mut found) = (Flight::default(), Vec::new());
        for &(what, number, time_ns) in steps {
            let each = |change: Change| found.push((change.time_ns, change.by));
            match what {
                'b' => flight.begin(time_ns, 0, true, each),
                'n' => flight.begin(time_ns, 0, false, each),
                'e' => flight.end(number, time_ns, each),
                _ => flight.drop(number, each),
            }
        }
        flight.finish(|change| found.push((change.time_ns, change.by)));
        found
    }

    #[test]
    fn what_never_ends_was_never_in_flight() {
        let steps = [('b', 0, 10), ('b', 1, 20), ('e', 1, 30), ('b', 2, 40), ('e', 2, 50)];
        assert_eq!(told(&steps), [(20, 1), (30, -1), (40, 1), (50, -1)]);
        assert_eq!(
            told(&[('b', 0, 10), ('n', 1, 11), ('b', 2, 12), ('d', 0, 0), ('e', 2, 20)]),
            [(12, 1), (20, -1)]
        );
    }

    #[test]
    fn changes_come_in_their_order_also_within_one_moment() {
        let steps = [('b', 0, 5), ('b', 1, 5), ('e', 1, 5), ('e', 0, 5), ('b', 2, 5), ('e', 2, 5)];
        assert_eq!(told(&steps), [(5, 1), (5, 1), (5, -1), (5, -1), (5, 1), (5, -1)]);
    }

    #[test]
    fn one_without_an_end_holds_back_a_bounded_number() {
        let (mut flight, mut changes) = (Flight::default(), 0);
        for number in 0..1_000_000 {
            flight.begin(number, 0, true, |_| changes += 1);
            if number > 0 {
                flight.end(number, number, |_| changes += 1);
            }
            assert!(flight.starts.len() <= HELD_AT_MOST + 1);
        }
        flight.finish(|_| changes += 1);
        assert_eq!(changes, 2 * 999_999);
    }
}
