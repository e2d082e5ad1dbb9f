//! The receiver of a connection: which packets arrived, and which flows are complete.

use std::collections::VecDeque;

use crate::request::Nanos;

/// A flow that is complete when all packets before `mark` have arrived.
#[derive(Clone, Copy, Debug)]
struct Awaited {
    tag: u64,
    mark: u64,
    arrived: Option<Nanos>,
}

#[derive(Debug)]
pub struct Receiver {
    /// First packet that did not arrive, and whether those from it on did.
    next: u64,
    arrived: VecDeque<bool>,
    flows: Vec<Awaited>,
    /// The least mark of a flow that is not complete.
    next_mark: u64,
}

impl Default for Receiver {
    fn default() -> Self {
        Receiver { next: 0, arrived: VecDeque::new(), flows: Vec::new(), next_mark: u64::MAX }
    }
}

impl Receiver {
    /// Expect a flow. Packets of the connection's other flows may come before its own and count:
    /// how flows share a port is for the network to say.
    pub fn expect(&mut self, packets: u64, tag: u64) {
        let mark = self.next + packets;
        self.flows.push(Awaited { tag, mark, arrived: None });
        self.next_mark = self.next_mark.min(mark);
    }

    /// Return the first packet that did not arrive.
    pub fn next(&self) -> u64 {
        self.next
    }

    /// Return whether all packets that arrived are in one piece.
    pub fn in_order(&self) -> bool {
        self.arrived.is_empty()
    }

    /// Note that a packet arrives at `at`, and return the first one that did not.
    pub fn arrives(&mut self, at: Nanos, packet: u64) -> u64 {
        if packet < self.next {
            return self.next;
        }
        let place = (packet - self.next) as usize;
        if place >= self.arrived.len() {
            self.arrived.resize(place + 1, false);
        }
        self.arrived[place] = true;
        while self.arrived.front() == Some(&true) {
            self.arrived.pop_front();
            self.next += 1;
        }
        if self.next >= self.next_mark {
            self.complete(at);
        }
        self.next
    }

    fn complete(&mut self, at: Nanos) {
        self.next_mark = u64::MAX;
        for flow in self.flows.iter_mut().filter(|flow| flow.arrived.is_none()) {
            if flow.mark <= self.next {
                flow.arrived = Some(at);
            } else {
                self.next_mark = self.next_mark.min(flow.mark);
            }
        }
    }

    /// Return when the last packet of a flow arrived, and forget the flow if that is not after
    /// `now`.
    pub fn arrival(&mut self, now: Nanos, tag: u64) -> Option<Nanos> {
        let Some(place) = self.flows.iter().position(|flow| flow.tag == tag) else {
            return Some(now);
        };
        let arrived = self.flows[place].arrived?;
        if arrived <= now {
            self.flows.swap_remove(place);
        }
        Some(arrived)
    }
}
