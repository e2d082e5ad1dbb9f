//! A switch's port and the connections that send through it, packet by packet.
//!
//! Packets wait in one queue in the order of their arrival, and are dropped when it is full. Each
//! packet that leaves is acknowledged a round trip later, or its acknowledgement is kept until that
//! of the next packet. A sender's own port sends one packet at a time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use super::receiver::Receiver;
use super::sender::{Expired, Sender, NEVER};
use super::spec::{Path, TcpCounters, TcpSpec};
use crate::request::Nanos;
use crate::stream::Stream;

/// What a receiver says of a packet: all before `cumulative` arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Acknowledgement {
    transmission: u64,
    cumulative: u64,
}

/// An acknowledgement that a receiver keeps.
#[derive(Clone, Copy, Debug)]
struct Kept {
    until: Nanos,
    /// From the receiver to the sender.
    back_ns: Nanos,
    acknowledgement: Acknowledgement,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Event {
    Acknowledgement(Acknowledgement),
    /// The acknowledgement of this transmission arrives, if it was kept until now.
    Kept(u64),
    /// The sender's own port is free.
    Free,
    Timer,
}

/// A sender and what the port knows of it.
#[derive(Debug)]
struct Connection {
    sender: Sender,
    receiver: Receiver,
    round_trip_ns: f64,
    byte_ns: f64,
    free_at: Nanos,
    waits_for_port: bool,
    timer: Nanos,
    /// The last acknowledgement, and how many are on their way.
    last_acknowledgement: Nanos,
    acknowledgements: u32,
    kept: Option<Kept>,
}

/// A port.
#[derive(Debug)]
pub struct SwitchPort {
    spec: TcpSpec,
    byte_ns: f64,
    /// When all that waits has left.
    empty_at_ns: f64,
    connections: Vec<Connection>,
    index: FxHashMap<u32, u32>,
    events: BinaryHeap<Reverse<(Nanos, u64, u32, Event)>>,
    order: u64,
    random: Stream,
    pub counters: TcpCounters,
}

impl SwitchPort {
    pub fn new(spec: TcpSpec, random: Stream) -> Self {
        SwitchPort {
            spec,
            byte_ns: 0.0,
            empty_at_ns: 0.0,
            connections: Vec::new(),
            index: FxHashMap::default(),
            events: BinaryHeap::new(),
            order: 0,
            random,
            counters: TcpCounters::default(),
        }
    }

    /// Begin to send a flow.
    pub fn send(&mut self, now: Nanos, path: &Path, bytes: u64, tag: u64) {
        self.advance(now);
        if path.port_bytes_per_s > 0.0 {
            self.byte_ns = 1e9 / path.port_bytes_per_s;
        }
        let place = *self.index.entry(path.from).or_insert_with(|| {
            self.connections.push(Connection {
                sender: Sender::new(self.spec),
                receiver: Receiver::default(),
                round_trip_ns: 0.0,
                byte_ns: 0.0,
                free_at: 0,
                waits_for_port: false,
                timer: NEVER,
                last_acknowledgement: 0,
                acknowledgements: 0,
                kept: None,
            });
            (self.connections.len() - 1) as u32
        });
        let connection = &mut self.connections[place as usize];
        connection.round_trip_ns = path.round_trip_ns as f64;
        if path.line_bytes_per_s > 0.0 {
            connection.byte_ns = 1e9 / path.line_bytes_per_s;
        }
        let packets = connection.sender.append(now, bytes);
        connection.receiver.expect(packets, tag);
        self.transmit(now, place);
    }

    /// Return when to ask again whether a flow has arrived; none if it has.
    pub fn unfinished(&mut self, now: Nanos, from: u32, tag: u64) -> Option<Nanos> {
        self.advance(now);
        let connection = &mut self.connections[*self.index.get(&from)? as usize];
        match connection.receiver.arrival(now, tag) {
            Some(arrived) => (arrived > now).then_some(arrived),
            None if connection.acknowledgements == 0 && !connection.waits_for_port => {
                Some(connection.sender.deadline.max(now + 1))
            }
            None => {
                // A missing packet is sent with the next event at the earliest, and leaves after
                // all that wait.
                let next = self.events.peek().map_or(now, |Reverse(event)| event.0);
                Some(next.max(self.empty_at_ns as Nanos).max(now + 1))
            }
        }
    }

    fn schedule(&mut self, time: Nanos, place: u32, event: Event) {
        self.order += 1;
        self.events.push(Reverse((time, self.order, place, event)));
    }

    /// Handle all events until `now`.
    fn advance(&mut self, now: Nanos) {
        while self.events.peek().is_some_and(|Reverse(event)| event.0 <= now) {
            let Some(Reverse((time, _, place, event))) = self.events.pop() else { return };
            let connection = &mut self.connections[place as usize];
            match event {
                Event::Acknowledgement(this) => self.acknowledged(time, place, this),
                Event::Kept(transmission) => {
                    let this = |kept: &mut Kept| kept.acknowledgement.transmission == transmission;
                    if let Some(kept) = connection.kept.take_if(this) {
                        self.acknowledged(time, place, kept.acknowledgement);
                    }
                }
                Event::Free => connection.waits_for_port = false,
                Event::Timer if time == connection.timer => self.expired(time, place),
                Event::Timer => {}
            }
            self.transmit(time, place);
        }
    }

    fn acknowledged(&mut self, now: Nanos, place: u32, this: Acknowledgement) {
        let connection = &mut self.connections[place as usize];
        connection.acknowledgements -= 1;
        let began = connection.sender.acknowledged(now, this.transmission, this.cumulative);
        self.counters.fast_retransmits += u64::from(began);
    }

    fn expired(&mut self, now: Nanos, place: u32) {
        let connection = &mut self.connections[place as usize];
        connection.timer = NEVER;
        match connection.sender.expire(now) {
            Expired::Nothing => {}
            Expired::Timeout => self.counters.timeouts += 1,
            Expired::Probe => {
                let packet = connection.sender.probe();
                self.counters.probes += 1;
                self.carry(now, place, packet);
            }
        }
    }

    /// Send what the window of a connection and its own port allow.
    fn transmit(&mut self, now: Nanos, place: u32) {
        while let Some(packet) = self.connections[place as usize].sender.due() {
            let connection = &mut self.connections[place as usize];
            if connection.free_at > now {
                if !connection.waits_for_port {
                    connection.waits_for_port = true;
                    let free_at = connection.free_at;
                    self.schedule(free_at, place, Event::Free);
                }
                break;
            }
            self.carry(now, place, packet);
        }
        let connection = &mut self.connections[place as usize];
        let deadline = connection.sender.deadline;
        // A timer that was put off is looked at when it was due, and set again.
        if deadline < connection.timer {
            connection.timer = deadline;
            self.schedule(deadline, place, Event::Timer);
        }
    }

    /// Bring a packet to the port: it waits, or is dropped.
    fn carry(&mut self, now: Nanos, place: u32, packet: u64) {
        let connection = &mut self.connections[place as usize];
        let bytes = connection.sender.packet_bytes(packet);
        let transmission = connection.sender.leaves(now, packet);
        connection.free_at = now + (bytes * connection.byte_ns) as Nanos;
        let waits_ns = (self.empty_at_ns - now as f64).max(0.0);
        let (wire_bytes, packet_bytes) = (self.spec.wire_bytes(), self.spec.packet_bytes());
        let waiting = waits_ns / self.byte_ns * wire_bytes / packet_bytes;
        let room = self.spec.port_buffer_bytes as f64 - waiting;
        if waits_ns > 0.0 && room < bytes + wire_bytes - packet_bytes {
            return;
        }
        self.empty_at_ns = now as f64 + waits_ns + bytes * self.byte_ns;
        let leaves = self.empty_at_ns.ceil() as Nanos;
        let before = connection.receiver.next();
        let cumulative = connection.receiver.arrives(leaves, packet);
        // Hosts take an uncertain time for a packet. Without it, who finds the queue full would
        // depend on phases (Floyd and Jacobson 1991: up to a packet's time at the port).
        let random_ns = self.random.unit() * bytes * self.byte_ns;
        let back_ns = (connection.round_trip_ns + random_ns) as Nanos;
        let this = Acknowledgement { transmission, cumulative };
        let in_order = cumulative == before + 1 && connection.receiver.in_order();
        self.acknowledge(place, leaves, back_ns, this, in_order);
    }

    /// Acknowledge a packet that arrived, or keep its acknowledgement until a second one arrives
    /// or its time is over (RFC 5681, 4.2). A packet out of order is acknowledged at once.
    fn acknowledge(
        &mut self,
        place: u32,
        arrived: Nanos,
        back_ns: Nanos,
        this: Acknowledgement,
        in_order: bool,
    ) {
        let connection = &mut self.connections[place as usize];
        connection.acknowledgements += 1;
        let selective = connection.sender.selective();
        let first = connection.kept.take();
        let pair = first.is_some_and(|first| first.until > arrived);
        if self.spec.delayed_ack_ns > 0 && in_order && !pair {
            let until = arrived + self.spec.delayed_ack_ns;
            connection.kept = Some(Kept { until, back_ns, acknowledgement: this });
            self.schedule(until + back_ns, place, Event::Kept(this.transmission));
        }
        match first {
            // Without selective acknowledgements one tells of both.
            Some(_) if pair && !selective => {
                self.connections[place as usize].acknowledgements -= 1;
            }
            Some(first) if pair => self.answer(place, arrived + back_ns, first.acknowledgement),
            Some(first) => self.answer(place, first.until + first.back_ns, first.acknowledgement),
            None => {}
        }
        if self.connections[place as usize].kept.is_none() {
            self.answer(place, arrived + back_ns, this);
        }
    }

    /// Send an acknowledgement that reaches the sender at `time`, and not before an earlier one.
    fn answer(&mut self, place: u32, time: Nanos, acknowledgement: Acknowledgement) {
        let connection = &mut self.connections[place as usize];
        let time = time.max(connection.last_acknowledgement);
        connection.last_acknowledgement = time;
        self.schedule(time, place, Event::Acknowledgement(acknowledgement));
    }
}
