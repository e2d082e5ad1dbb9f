//! What a sender does after an acknowledgement and when its timer expires.

use super::sender::{Expired, Sender, State, DUPLICATES, NEVER, SHORTEST_TIMER_NS};
use super::spec::{Recovery, MAX_RTO_NS};
use crate::request::Nanos;

impl Sender {
    /// RFC 6675, 5: a loss reduces the window, once until all that was sent before is acknowledged.
    pub(super) fn recover(&mut self, now: Nanos, lost: bool) -> bool {
        if lost && self.state == State::Open {
            let under_way = self.window.packets.min((self.next - self.unacknowledged) as f64);
            self.window.reduce(under_way);
            self.state = State::Loss;
            self.recover = self.next;
            self.begins = true;
            return true;
        }
        if self.state != State::Loss {
            self.grow(now, 1.0);
        }
        false
    }

    /// RFC 6582: one packet is sent again per round trip.
    pub(super) fn new_reno(&mut self, now: Nanos, advance: u64) -> bool {
        if advance == 0 {
            return self.duplicate();
        }
        self.duplicates = 0;
        let done = self.unacknowledged >= self.recover;
        match self.state {
            State::Loss if !done => {
                self.lost.push_back(self.unacknowledged);
                self.window.packets = (self.window.packets - advance as f64 + 1.0).max(1.0);
            }
            State::Loss => {}
            // A cumulative acknowledgement counts as two packets at most (RFC 3465, 2.2).
            State::Open | State::Timeout => self.grow(now, advance.min(2) as f64),
        }
        false
    }

    fn duplicate(&mut self) -> bool {
        if self.state == State::Loss {
            self.window.packets += 1.0;
            return false;
        }
        self.duplicates += 1;
        // Duplicates of what was sent again after a timeout tell nothing (RFC 6582, 3.2).
        let outstanding = self.next > self.unacknowledged;
        if self.duplicates != DUPLICATES || self.state == State::Timeout || !outstanding {
            return false;
        }
        let under_way = (self.next - self.unacknowledged) as f64;
        self.window.reduce(under_way.min(self.window.packets));
        self.window.packets += f64::from(DUPLICATES);
        self.state = State::Loss;
        self.recover = self.next;
        self.lost.push_back(self.unacknowledged);
        true
    }

    /// The window grows while it is what holds the sender back (RFC 5681, 4.1; RFC 7661).
    fn grow(&mut self, now: Nanos, packets: f64) {
        if self.limited {
            self.window.grow(now, self.smoothed_ns * 1e-9, packets);
        }
    }

    /// Return the timeout without back-off: the smoothed round trip, and at least `min_rto_ns`
    /// (RFC 6298; Linux bounds the second term, not the sum).
    pub(super) fn timeout_ns(&self) -> Nanos {
        let margin = (4.0 * self.variation_ns).max(self.spec.min_rto_ns as f64);
        (self.smoothed_ns + margin) as Nanos
    }

    pub(super) fn set_timer(&mut self, now: Nanos) {
        if self.unacknowledged == self.next {
            self.sent.clear();
            self.lost.clear();
            self.deadline = NEVER;
            return;
        }
        let timeout = (self.timeout_ns() << self.backoff.min(20)).min(MAX_RTO_NS);
        self.deadline = now + if self.probes() { self.probe_ns().min(timeout) } else { timeout };
    }

    /// Return whether the next timer is that of a tail loss probe (RFC 8985, 7.2).
    fn probes(&self) -> bool {
        self.spec.recovery == Recovery::Rack
            && self.state == State::Open
            && self.lost.is_empty()
            && !self.probed
            && self.smoothed_ns > 0.0
    }

    /// Two round trips; a lone packet's acknowledgement may be delayed by the shortest timeout
    /// (`tcp_schedule_loss_probe` in `net/ipv4/tcp_output.c`).
    fn probe_ns(&self) -> Nanos {
        let least = if self.next - self.unacknowledged == 1 {
            self.spec.min_rto_ns as f64
        } else {
            SHORTEST_TIMER_NS
        };
        (2.0 * self.smoothed_ns + least) as Nanos
    }

    /// Handle the end of the timer. After a probe the caller sends the packet of `probe`.
    pub fn expire(&mut self, now: Nanos) -> Expired {
        if now < self.deadline {
            return Expired::Nothing;
        }
        if self.probes() {
            self.probed = true;
            self.set_timer(now);
            return Expired::Probe;
        }
        let under_way = (self.next - self.unacknowledged) as f64;
        // Further timeouts of the same packets do not lower the threshold (RFC 5681, 3.1).
        if self.backoff == 0 {
            self.window.time_out(under_way.min(self.window.packets));
        }
        self.window.packets = 1.0;
        self.recover = self.recover.max(self.next);
        self.state = State::Timeout;
        self.backoff += 1;
        self.duplicates = 0;
        match self.spec.recovery {
            Recovery::Rack | Recovery::Sack => {
                let missing = self.sent.drain(..).map(|sent| sent.packet);
                self.lost.extend(missing);
                self.lost.make_contiguous().sort_unstable();
                let mut last = None;
                self.lost.retain(|&packet| last.replace(packet) != Some(packet));
            }
            Recovery::NewReno => {
                self.sent.clear();
                self.lost.clear();
                self.next = self.unacknowledged;
            }
        }
        self.deadline = now + (self.timeout_ns() << self.backoff.min(20)).min(MAX_RTO_NS);
        Expired::Timeout
    }

    /// Return the packet of a tail loss probe: a new one, or the last one again.
    pub fn probe(&self) -> u64 {
        if self.next < self.end {
            self.next
        } else {
            self.next - 1
        }
    }
}
