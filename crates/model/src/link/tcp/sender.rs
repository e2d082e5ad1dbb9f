//! The sender of a connection: which packets it sends, and which it takes for lost (RFC 5681, 6298,
//! 6582, 6675, 8985).
//!
//! Packets are numbered from 0 in the order of the stream. `Port` carries them, and tells a sender
//! of each acknowledgement and each timer.

use std::collections::VecDeque;

use super::spec::{Recovery, Restart, TcpSpec};
use super::window::Window;
use crate::request::Nanos;

/// Duplicate acknowledgements that tell of a loss (RFC 5681, 3.2).
pub(super) const DUPLICATES: u32 = 3;
/// The kernel's shortest timer (Linux: `TCP_TIMEOUT_MIN_US`).
pub(super) const SHORTEST_TIMER_NS: f64 = 2e6;
pub const NEVER: Nanos = Nanos::MAX;

/// What a connection recovers from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    Open,
    Loss,
    Timeout,
}

/// A packet on its way, or dropped and not yet missed.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sent {
    transmission: u64,
    pub(super) packet: u64,
    at: Nanos,
    again: bool,
    /// Packets sent later that arrived.
    later: u32,
}

impl Sent {
    /// Return whether the sender takes it for lost, or in any case if it does not know.
    fn missed(&self, recovery: Recovery) -> bool {
        match recovery {
            Recovery::Rack | Recovery::NewReno => true,
            Recovery::Sack => self.later >= DUPLICATES && !self.again,
        }
    }
}

/// A part of the stream, in packets of one size.
#[derive(Clone, Copy, Debug)]
struct Segment {
    end: u64,
    packet_bytes: f64,
}

/// What a timer found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Expired {
    Nothing,
    Probe,
    Timeout,
}

#[derive(Debug)]
pub struct Sender {
    pub(super) spec: TcpSpec,
    pub(super) window: Window,
    pub(super) state: State,
    /// First packet that is not acknowledged, next new packet, and the end of the stream so far.
    pub(super) unacknowledged: u64,
    pub(super) next: u64,
    pub(super) end: u64,
    segments: VecDeque<Segment>,
    pub(super) sent: VecDeque<Sent>,
    transmissions: u64,
    /// Packets to be sent again, in order.
    pub(super) lost: VecDeque<u64>,
    /// Recovery lasts until this packet is acknowledged.
    pub(super) recover: u64,
    /// Recovery begins with the next packet.
    pub(super) begins: bool,
    pub(super) duplicates: u32,
    /// The window, not the stream or the own port, ended the last burst.
    pub(super) limited: bool,
    pub(super) probed: bool,
    pub(super) backoff: u32,
    pub(super) smoothed_ns: f64,
    pub(super) variation_ns: f64,
    last_sent: Nanos,
    /// When its timer expires.
    pub deadline: Nanos,
}

impl Sender {
    pub fn new(spec: TcpSpec) -> Self {
        let first = f64::from(spec.initial_window_packets.max(1));
        Sender {
            spec,
            window: Window::new(spec.congestion, first),
            state: State::Open,
            unacknowledged: 0,
            next: 0,
            end: 0,
            segments: VecDeque::new(),
            sent: VecDeque::new(),
            transmissions: 0,
            lost: VecDeque::new(),
            recover: 0,
            begins: false,
            duplicates: 0,
            limited: false,
            probed: false,
            backoff: 0,
            smoothed_ns: 0.0,
            variation_ns: 0.0,
            last_sent: 0,
            deadline: NEVER,
        }
    }

    /// Return whether acknowledgements say which packets arrived.
    pub(super) fn selective(&self) -> bool {
        self.spec.recovery != Recovery::NewReno
    }

    /// Append a flow to the stream, and return the number of its packets.
    pub fn append(&mut self, now: Nanos, bytes: u64) -> u64 {
        if self.unacknowledged == self.end {
            let silent = now.saturating_sub(self.last_sent);
            let first = f64::from(self.spec.initial_window_packets.max(1));
            match self.spec.restart {
                Restart::Timeout => self.window.rest(silent / self.timeout_ns().max(1), first),
                Restart::Request => self.window.rest(u64::MAX, first),
            }
        }
        let packets = ((bytes as f64 / self.spec.packet_bytes()).ceil() as u64).max(1);
        self.end += packets;
        let packet_bytes = bytes as f64 / packets as f64;
        self.segments.push_back(Segment { end: self.end, packet_bytes });
        packets
    }

    pub fn packet_bytes(&self, packet: u64) -> f64 {
        let segment = self.segments.iter().find(|s| packet < s.end);
        segment.map_or_else(|| self.spec.packet_bytes(), |s| s.packet_bytes)
    }

    /// Return the packet to send now, if the window allows one: what is lost goes first.
    pub fn due(&mut self) -> Option<u64> {
        let under_way = match self.spec.recovery {
            Recovery::Rack | Recovery::Sack => self.sent.len(),
            Recovery::NewReno => {
                // The first two duplicates release a new packet each (RFC 3042).
                let extra = if self.state == State::Open { self.duplicates.min(2) } else { 0 };
                (self.next - self.unacknowledged).saturating_sub(u64::from(extra)) as usize
            }
        };
        let missing = self.lost.front().copied();
        if missing.is_none() && self.next >= self.end {
            self.limited = false;
            return None;
        }
        // The first lost packet is sent whatever the window (RFC 6675, 5, step 4.3); with NewReno
        // each that is known to be lost (RFC 6582, 3.2).
        let at_once = missing.is_some() && (self.begins || !self.selective());
        if under_way >= self.window.whole() && !at_once {
            self.limited = true;
            return None;
        }
        missing.or(Some(self.next))
    }

    /// Note that a packet leaves the sender's port, and return the number of the transmission.
    pub fn leaves(&mut self, now: Nanos, packet: u64) -> u64 {
        let transmission = self.transmissions;
        self.transmissions += 1;
        if self.lost.front() == Some(&packet) {
            self.lost.pop_front();
        }
        let again = packet < self.next || packet < self.recover;
        self.next = self.next.max(packet + 1);
        self.sent.push_back(Sent { transmission, packet, at: now, again, later: 0 });
        self.last_sent = now;
        (self.limited, self.begins) = (false, false);
        if self.deadline == NEVER {
            self.set_timer(now);
        }
        transmission
    }

    /// Handle an acknowledgement of all packets before `cumulative`, which a transmission caused.
    /// Return whether it began a fast retransmit.
    pub fn acknowledged(&mut self, now: Nanos, transmission: u64, cumulative: u64) -> bool {
        let lost = self.account(now, transmission);
        let advance = cumulative.saturating_sub(self.unacknowledged);
        self.unacknowledged = self.unacknowledged.max(cumulative);
        self.next = self.next.max(self.unacknowledged);
        while self.segments.front().is_some_and(|s| s.end <= self.unacknowledged) {
            self.segments.pop_front();
        }
        while self.lost.front().is_some_and(|&packet| packet < self.unacknowledged) {
            self.lost.pop_front();
        }
        let began = match self.spec.recovery {
            Recovery::Rack | Recovery::Sack => self.recover(now, lost),
            Recovery::NewReno => self.new_reno(now, advance),
        };
        if self.state != State::Open && self.unacknowledged >= self.recover {
            if self.state == State::Loss {
                self.window.packets = self.window.threshold;
            }
            self.state = State::Open;
        }
        if advance > 0 {
            self.backoff = 0;
            self.probed = false;
        }
        if advance > 0 || began || self.selective() {
            self.set_timer(now);
        }
        began
    }

    /// Take what was acknowledged, and what was sent before it and must be lost, from the packets
    /// on the way. Return whether anything was lost.
    fn account(&mut self, now: Nanos, transmission: u64) -> bool {
        let found = self.sent.iter().position(|s| s.transmission == transmission);
        let Some(found) = found else { return false };
        let this = self.sent[found];
        if !this.again {
            self.sample((now - this.at) as f64);
        }
        self.sent.remove(found);
        let mut lost = false;
        let mut place = 0;
        for _ in 0..found {
            let earlier = &mut self.sent[place];
            earlier.later += 1;
            if !earlier.missed(self.spec.recovery) {
                place += 1;
                continue;
            }
            let packet = earlier.packet;
            self.sent.remove(place);
            lost |= self.selective();
            // A probe that arrives replaces what was lost.
            if self.selective() && packet != this.packet {
                let place = self.lost.partition_point(|&other| other < packet);
                self.lost.insert(place, packet);
            }
        }
        lost
    }

    /// RFC 6298, 2.
    fn sample(&mut self, round_trip_ns: f64) {
        if self.smoothed_ns == 0.0 {
            (self.smoothed_ns, self.variation_ns) = (round_trip_ns, round_trip_ns / 2.0);
            return;
        }
        let error = (self.smoothed_ns - round_trip_ns).abs();
        self.variation_ns += (error - self.variation_ns) / 4.0;
        self.smoothed_ns += (round_trip_ns - self.smoothed_ns) / 8.0;
    }
}
