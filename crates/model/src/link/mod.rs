//! The network: hosts with full-duplex ports, switches, and flows that share the ports fairly.
//!
//! Hosts are at a non-blocking core switch, or at leaf switches whose uplinks to the core their
//! hosts share (oversubscription: the ports of a leaf's hosts may be faster together than its
//! uplink). Flows between hosts of one leaf do not use its uplink.
//!
//! Rates are max-min fair (Bertsekas and Gallager, *Data Networks*, 6.5.2): no flow can get a
//! higher rate without lowering that of a flow with an equal or lower rate.
//!
//! Flows between the same two hosts form a group. Each group has one bottleneck: a port that it
//! shares, or its own limit. A bottleneck has a clock of the bytes served to each of its flows. A
//! flow is done when the clock reaches its mark, so a change of rate costs nothing per flow. A
//! change that keeps all bottlenecks takes O(log n); any other change recomputes all ports.
//!
//! This module starts and finishes flows, `max_min` computes their rates with the buffers of
//! `refill`, and `due` their completion times. `tcp` says how much later a flow starts or ends
//! because of its connection's window.

mod bottleneck;
mod due;
mod max_min;
mod refill;
mod sides;
pub mod tcp;

use std::collections::BinaryHeap;

use rustc_hash::FxHashMap;

use crate::request::Nanos;
use bottleneck::{Bottleneck, Mark, UNLIMITED};
use refill::Refill;
use sides::Sides;

/// Rates of a port and the limit of a single flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    pub send_bytes_per_s: f64,
    pub receive_bytes_per_s: f64,
    /// Limit of each flow from or to this host; infinite for no limit.
    pub flow_bytes_per_s: f64,
    /// Bytes of a flow from or to this host that may be in flight (its socket buffer); infinite for
    /// no limit.
    pub flow_window_bytes: f64,
    /// Latency of this host's side of the network, one way.
    pub latency_s: f64,
}

impl Port {
    /// Return the limit of a flow between this host and another one: what their ports allow, and
    /// the smaller window per round trip between them.
    fn flow_limit(&self, other: &Port) -> f64 {
        let rate = self.flow_bytes_per_s.min(other.flow_bytes_per_s);
        let window = self.flow_window_bytes.min(other.flow_window_bytes);
        let round_trip_s = 2.0 * (self.latency_s + other.latency_s);
        if round_trip_s > 0.0 {
            rate.min(window / round_trip_s)
        } else {
            rate
        }
    }
}

/// Uplinks of leaf switches, which the hosts of a leaf share, in both directions alike.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Leaves {
    /// The leaf of each host; none for a host at the core switch, or beyond the end of the list.
    pub of_host: Vec<Option<u32>>,
    /// Of each leaf.
    pub uplink_bytes_per_s: Vec<f64>,
}

impl Leaves {
    fn of(&self, host: u32) -> Option<u32> {
        self.of_host.get(host as usize).copied().flatten()
    }
}

#[derive(Clone, Copy, Debug)]
struct Group {
    sides: Sides,
    limit: f64,
    flows: u32,
    bottleneck: u32,
    /// The group is in the list of active groups.
    listed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PortSide {
    capacity: f64,
    /// Groups with flows through this port direction, and the number of those flows.
    groups: u32,
    flows: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    tag: u64,
    group: u32,
}

/// The network and its flows.
#[derive(Debug)]
pub struct Network {
    /// Two per port (send, receive), then two per leaf's uplink (up, down).
    sides: Vec<PortSide>,
    ports: Vec<Port>,
    leaves: Leaves,
    /// Bottlenecks: one per side, followed by one per group.
    bottlenecks: Vec<Bottleneck>,
    groups: Vec<Group>,
    group_of: FxHashMap<(u32, u32), u32>,
    active: Vec<u32>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    due: BinaryHeap<std::cmp::Reverse<(Nanos, u32, u32)>>,
    sequence: u64,
    refills: u64,
    refill: Refill,
}

impl Network {
    pub fn new(ports: &[Port]) -> Self {
        Network::with_leaves(ports, Leaves::default())
    }

    /// As `new`, with hosts at leaf switches.
    pub fn with_leaves(ports: &[Port], leaves: Leaves) -> Self {
        let side = |capacity| PortSide { capacity, groups: 0, flows: 0 };
        let uplinks = leaves.uplink_bytes_per_s.iter().flat_map(|&rate| [side(rate), side(rate)]);
        let sides: Vec<_> = ports
            .iter()
            .flat_map(|p| [side(p.send_bytes_per_s), side(p.receive_bytes_per_s)])
            .chain(uplinks)
            .collect();
        Network {
            bottlenecks: sides.iter().map(|_| Bottleneck::default()).collect(),
            refill: Refill::new(sides.len()),
            sides,
            leaves,
            ports: ports.to_vec(),
            groups: Vec::new(),
            group_of: FxHashMap::default(),
            active: Vec::new(),
            flows: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            refills: 0,
        }
    }

    /// Return how often all ports were recomputed (the expensive case).
    pub fn refills(&self) -> u64 {
        self.refills
    }

    /// Return the number of active flows.
    pub fn in_flight(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Change the rates of a host's port.
    pub fn set_rate(
        &mut self,
        now: Nanos,
        host: u32,
        send_bytes_per_s: f64,
        receive_bytes_per_s: f64,
    ) {
        self.sides[2 * host as usize].capacity = send_bytes_per_s;
        self.sides[2 * host as usize + 1].capacity = receive_bytes_per_s;
        self.refill(now);
    }

    /// Return the current rate of each flow between two hosts in bytes per second.
    pub fn rate(&self, from: u32, to: u32) -> f64 {
        self.group_of.get(&(from, to)).map_or(0.0, |&g| {
            let group = &self.groups[g as usize];
            if group.flows == 0 {
                0.0
            } else {
                self.bottlenecks[group.bottleneck as usize].rate
            }
        })
    }

    /// Return the rate that one more flow between two hosts would get, at most.
    pub fn share(&self, from: u32, to: u32) -> f64 {
        let limit = self.ports[from as usize].flow_limit(&self.ports[to as usize]);
        let sides = self.sides_between(from, to);
        sides
            .iter()
            .map(|side| &self.sides[side as usize])
            .fold(limit, |least, side| least.min(side.capacity / f64::from(side.flows + 1)))
    }

    /// Return the ports and uplinks between two hosts.
    fn sides_between(&self, from: u32, to: u32) -> Sides {
        let mut sides = Sides { all: [2 * from, 2 * to + 1, 0, 0], count: 2 };
        let (leaf, other) = (self.leaves.of(from), self.leaves.of(to));
        if leaf != other {
            let first = 2 * self.ports.len() as u32;
            let up = leaf.map(|leaf| first + 2 * leaf);
            let down = other.map(|leaf| first + 2 * leaf + 1);
            for side in [up, down].into_iter().flatten() {
                sides.all[sides.count as usize] = side;
                sides.count += 1;
            }
        }
        sides
    }

    /// Return the rate at which a sender's packets to a host leave at most, whatever else it sends.
    pub fn line_rate(&self, from: u32, to: u32) -> f64 {
        let limit = self.ports[from as usize].flow_limit(&self.ports[to as usize]);
        let own = self.group_of.get(&(from, to)).map_or(0, |&g| self.groups[g as usize].flows);
        let limit = limit * f64::from(own + 1);
        let sides = self.sides_between(from, to);
        let passed = sides.iter().filter(|&side| side != 2 * to + 1);
        passed.fold(limit, |least, side| least.min(self.sides[side as usize].capacity))
    }

    /// Return the rate at which a host receives at most.
    pub fn receive_rate(&self, host: u32) -> f64 {
        self.sides[2 * host as usize + 1].capacity
    }

    fn group(&mut self, from: u32, to: u32) -> u32 {
        if let Some(&group) = self.group_of.get(&(from, to)) {
            return group;
        }
        let limit = self.ports[from as usize].flow_limit(&self.ports[to as usize]);
        let sides = self.sides_between(from, to);
        let own = self.bottlenecks.len() as u32;
        self.bottlenecks.push(Bottleneck::default());
        self.groups.push(Group { sides, limit, flows: 0, bottleneck: own, listed: false });
        let group = (self.groups.len() - 1) as u32;
        self.group_of.insert((from, to), group);
        group
    }

    /// Start a flow of `bytes` from one host to another host. `finish` returns `tag` once the last
    /// byte is sent.
    pub fn start(&mut self, now: Nanos, from: u32, to: u32, bytes: u64, tag: u64) {
        let group = self.group(from, to);
        let flow = Flow { tag, group };
        let index = match self.free.pop() {
            Some(index) => {
                self.flows[index as usize] = flow;
                index
            }
            None => {
                self.flows.push(flow);
                (self.flows.len() - 1) as u32
            }
        };
        self.sequence += 1;
        let g = self.groups[group as usize];
        let first = g.flows == 0;
        if !g.listed {
            self.active.push(group);
            self.groups[group as usize].listed = true;
        }
        for side in g.sides.iter() {
            let side = &mut self.sides[side as usize];
            side.flows += 1;
            side.groups += u32::from(first);
        }
        self.groups[group as usize].flows += 1;
        if first {
            self.groups[group as usize].bottleneck = self.probable_bottleneck(group);
        }
        let bottleneck = self.groups[group as usize].bottleneck;
        self.tick(bottleneck, now);
        let b = &mut self.bottlenecks[bottleneck as usize];
        if b.flows.is_empty() {
            b.clock = 0.0;
            b.headroom = UNLIMITED;
            b.floor = 0.0;
        }
        b.flows.push(Mark { bytes: b.clock + bytes as f64, sequence: self.sequence, flow: index });
        if !self.adjust(group) {
            self.refill(now);
        } else {
            self.set_due(bottleneck);
        }
    }

    /// Remove the flow that is done at `now` (which equals `next_done`) and return its tag.
    pub fn finish(&mut self, now: Nanos) -> Option<u64> {
        self.next_done()?;
        let std::cmp::Reverse((_, bottleneck, _)) = self.due.pop()?;
        self.tick(bottleneck, now);
        let b = &mut self.bottlenecks[bottleneck as usize];
        b.due = None;
        let mark = b.flows.pop()?;
        b.clock = b.clock.max(mark.bytes);
        let Flow { tag, group } = self.flows[mark.flow as usize];
        self.free.push(mark.flow);
        let g = &mut self.groups[group as usize];
        g.flows -= 1;
        let gone = g.flows == 0;
        let g = *g;
        for side in g.sides.iter() {
            let side = &mut self.sides[side as usize];
            side.flows -= 1;
            side.groups -= u32::from(gone);
        }
        let hub = self.sides[bottleneck.min(self.sides.len() as u32 - 1) as usize];
        let alone = (bottleneck as usize) < self.sides.len() && hub.flows == 0;
        if alone && g.sides.iter().all(|side| self.sides[side as usize].flows == 0) {
            // No other flow shares a port or uplink, so no other rate changes.
            self.set_due(bottleneck);
        } else if !self.adjust(group) {
            self.refill(now);
        } else {
            self.set_due(bottleneck);
        }
        if self.active.len() > 4096 && self.active.len() > 4 * self.in_flight() {
            self.drop_idle_groups();
        }
        Some(tag)
    }

    fn drop_idle_groups(&mut self) {
        let groups = &mut self.groups;
        self.active.retain(|&g| {
            let group = &mut groups[g as usize];
            group.listed = group.flows > 0;
            group.listed
        });
    }
}

#[cfg(test)]
mod tests;
