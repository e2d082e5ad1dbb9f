//! The clock of each bottleneck, and the time of the next completion.

use super::Network;
use crate::request::Nanos;
use crate::rounding;

impl Network {
    pub(super) fn tick(&mut self, bottleneck: u32, now: Nanos) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        if now > b.last {
            if !b.flows.is_empty() {
                b.clock += (now - b.last) as f64 * 1e-9 * b.rate;
            }
            b.last = now;
        }
    }

    pub(super) fn set_due(&mut self, bottleneck: u32) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        let due = b.flows.peek().map(|first| {
            let left_ns = (first.bytes - b.clock).max(0.0) / b.rate * 1e9;
            b.last.saturating_add(rounding::up(left_ns))
        });
        if due == b.due {
            // The entry that is queued holds: refills come to most bottlenecks whose flows they do
            // not change.
            return;
        }
        b.forget_due();
        b.due = due;
        if let Some(time) = due {
            self.due.push(std::cmp::Reverse((time, bottleneck, b.version)));
        }
    }

    /// Return when the next flow is done.
    pub fn next_done(&mut self) -> Option<Nanos> {
        while let Some(&std::cmp::Reverse((time, bottleneck, version))) = self.due.peek() {
            if self.bottlenecks[bottleneck as usize].version == version {
                return Some(time);
            }
            self.due.pop();
        }
        None
    }
}
