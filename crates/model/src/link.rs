//! The network: hosts with full-duplex ports into a switch that does not block, and flows that share the ports fairly.
//!
//! Rates are max-min fair (Bertsekas and Gallager, *Data Networks*, 6.5.2): no flow can get more without one that has
//! no more than it getting less. Flows between the same two hosts form a group. Each group has one bottleneck: the port
//! it shares, or its own limit. A bottleneck has a clock of bytes served to each of its flows, so that a flow is done
//! when the clock reaches its mark and a change of rate costs nothing per flow. A change that leaves all bottlenecks
//! where they are is done in O(log n); any other fills all ports anew.

use std::cmp::Ordering;
use std::collections::{BinaryHeap, HashMap};

use crate::request::Nanos;

/// A port's rates, and what bounds a single flow.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Port {
    pub send_bytes_per_s: f64,
    pub receive_bytes_per_s: f64,
    /// Limit of each flow from or to this host; infinite for none.
    pub flow_bytes_per_s: f64,
}

#[derive(Clone, Copy, Debug)]
struct Mark {
    bytes: f64,
    sequence: u64,
    flow: u32,
}

impl PartialEq for Mark {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}
impl Eq for Mark {}
impl PartialOrd for Mark {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for Mark {
    /// Reversed: the smallest mark is the greatest element of the heap.
    fn cmp(&self, other: &Self) -> Ordering {
        other.bytes.total_cmp(&self.bytes).then(other.sequence.cmp(&self.sequence))
    }
}

/// What limits flows: a port in one direction, or (beyond the ports) a group's own limit.
#[derive(Debug, Default)]
struct Bottleneck {
    /// Bytes served to each flow since its beginning, at `last`.
    clock: f64,
    last: Nanos,
    rate: f64,
    flows: BinaryHeap<Mark>,
    version: u32,
    /// The rate at which another port of one of its flows would fill up.
    headroom: f64,
    /// The rate below which flows on another port would get more.
    floor: f64,
}

#[derive(Clone, Copy, Debug)]
struct Group {
    send: u32,
    receive: u32,
    limit: f64,
    flows: u32,
    bottleneck: u32,
    /// Whether it is in the list of active groups.
    listed: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct PortSide {
    capacity: f64,
    /// Groups with flows that cross it, and their flows.
    groups: u32,
    flows: u32,
}

#[derive(Clone, Copy, Debug)]
struct Flow {
    tag: u64,
    group: u32,
}

/// The network and the flows in it.
#[derive(Debug)]
pub struct Network {
    sides: Vec<PortSide>,
    flow_limits: Vec<f64>,
    /// Bottlenecks: two a port (send, receive), then one a group.
    bottlenecks: Vec<Bottleneck>,
    groups: Vec<Group>,
    group_of: HashMap<(u32, u32), u32>,
    active: Vec<u32>,
    flows: Vec<Flow>,
    free: Vec<u32>,
    due: BinaryHeap<std::cmp::Reverse<(Nanos, u32, u32)>>,
    sequence: u64,
    refills: u64,
    levels: Vec<Level>,
}

/// A port while all are filled anew.
#[derive(Clone, Copy, Debug, Default)]
struct Level {
    /// What is left of its capacity, and the flows that share it.
    left: f64,
    flows: u32,
    /// The rate a flow would get of it.
    fair: f64,
    /// The lowest rate, or limit, that its groups meet anywhere.
    lowest: f64,
}

const UNLIMITED: f64 = f64::INFINITY;

impl Network {
    pub fn new(ports: &[Port]) -> Self {
        let side = |capacity| PortSide { capacity, groups: 0, flows: 0 };
        let sides: Vec<_> =
            ports.iter().flat_map(|p| [side(p.send_bytes_per_s), side(p.receive_bytes_per_s)]).collect();
        Network {
            bottlenecks: sides.iter().map(|_| Bottleneck::default()).collect(),
            levels: vec![Level::default(); sides.len()],
            sides,
            flow_limits: ports.iter().map(|p| p.flow_bytes_per_s).collect(),
            groups: Vec::new(),
            group_of: HashMap::new(),
            active: Vec::new(),
            flows: Vec::new(),
            free: Vec::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            refills: 0,
        }
    }

    /// How often all ports were filled anew (the dear way).
    pub fn refills(&self) -> u64 {
        self.refills
    }

    /// Flows under way.
    pub fn in_flight(&self) -> usize {
        self.flows.len() - self.free.len()
    }

    /// Changes the rates of a host's port.
    pub fn set_rate(&mut self, now: Nanos, host: u32, send_bytes_per_s: f64, receive_bytes_per_s: f64) {
        self.sides[2 * host as usize].capacity = send_bytes_per_s;
        self.sides[2 * host as usize + 1].capacity = receive_bytes_per_s;
        self.refill(now);
    }

    /// The rate of each flow between two hosts at present, bytes a second.
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

    fn group(&mut self, from: u32, to: u32) -> u32 {
        if let Some(&group) = self.group_of.get(&(from, to)) {
            return group;
        }
        let limit = self.flow_limits[from as usize].min(self.flow_limits[to as usize]);
        let own = self.bottlenecks.len() as u32;
        self.bottlenecks.push(Bottleneck::default());
        self.groups.push(Group {
            send: 2 * from,
            receive: 2 * to + 1,
            limit,
            flows: 0,
            bottleneck: own,
            listed: false,
        });
        let group = (self.groups.len() - 1) as u32;
        self.group_of.insert((from, to), group);
        group
    }

    fn tick(&mut self, bottleneck: u32, now: Nanos) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        if now > b.last {
            if !b.flows.is_empty() {
                b.clock += (now - b.last) as f64 * 1e-9 * b.rate;
            }
            b.last = now;
        }
    }

    fn set_due(&mut self, bottleneck: u32) {
        let b = &mut self.bottlenecks[bottleneck as usize];
        b.version = b.version.wrapping_add(1);
        if let Some(first) = b.flows.peek() {
            let left = ((first.bytes - b.clock).max(0.0) / b.rate * 1e9).ceil();
            self.due.push(std::cmp::Reverse((b.last + left as u64, bottleneck, b.version)));
        }
    }

    /// A flow of `bytes` starts from one host to another (not itself). `tag` comes back when its last byte is sent.
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
        for side in [g.send, g.receive] {
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

    /// Where a group that starts to send is most likely held up.
    fn probable_bottleneck(&self, group: u32) -> u32 {
        let g = &self.groups[group as usize];
        let share = |side: u32| {
            let side = &self.sides[side as usize];
            side.capacity / f64::from(side.flows.max(1))
        };
        let (send, receive) = (share(g.send), share(g.receive));
        if g.limit < send.min(receive) {
            self.sides.len() as u32 + group
        } else if send <= receive {
            g.send
        } else {
            g.receive
        }
    }

    /// After a flow of `group` came or went: if all bottlenecks stay what they are, sets the one rate that changes and
    /// says true. Conservative: false where it is not sure.
    fn adjust(&mut self, group: u32) -> bool {
        let g = self.groups[group as usize];
        let ports = self.sides.len() as u32;
        if g.bottleneck >= ports {
            return false;
        }
        let other = if g.bottleneck == g.send { g.receive } else { g.send };
        let hub = self.sides[g.bottleneck as usize];
        let far = self.sides[other as usize];
        let held = self.bottlenecks[g.bottleneck as usize].flows.len() as u32;
        // All flows through the port are held up there, and the group's other port carries no other group.
        if held != hub.flows || far.groups > 1 || hub.flows == 0 {
            return false;
        }
        let rate = hub.capacity / f64::from(hub.flows);
        let b = &mut self.bottlenecks[g.bottleneck as usize];
        let own_headroom =
            if g.flows > 0 { (far.capacity / f64::from(g.flows)).min(g.limit) } else { UNLIMITED };
        b.headroom = b.headroom.min(own_headroom);
        if rate > b.headroom || rate < b.floor {
            return false;
        }
        b.rate = rate;
        true
    }

    /// Max-min rates from scratch: every port whose fair level is the lowest among the ports of its flows is a
    /// bottleneck; its flows are fixed, taken off the other ports, and so on.
    fn refill(&mut self, now: Nanos) {
        self.refills += 1;
        self.drop_idle_groups();
        let ports = self.sides.len() as u32;
        for i in 0..self.active.len() {
            let g = self.groups[self.active[i] as usize];
            for side in [g.send, g.receive] {
                self.levels[side as usize].left = self.sides[side as usize].capacity;
            }
            self.tick(g.bottleneck, now);
        }
        let mut open: Vec<u32> = self.active.clone();
        let mut settled: Vec<(u32, u32, f64)> = Vec::with_capacity(open.len());
        while !open.is_empty() {
            for &group in &open {
                let g = &self.groups[group as usize];
                for side in [g.send, g.receive] {
                    let level = &mut self.levels[side as usize];
                    (level.flows, level.lowest) = (0, UNLIMITED);
                }
            }
            for &group in &open {
                let g = &self.groups[group as usize];
                self.levels[g.send as usize].flows += g.flows;
                self.levels[g.receive as usize].flows += g.flows;
            }
            for &group in &open {
                let g = &self.groups[group as usize];
                for side in [g.send, g.receive] {
                    let level = &mut self.levels[side as usize];
                    level.fair = level.left.max(0.0) / f64::from(level.flows);
                }
            }
            for &group in &open {
                let g = &self.groups[group as usize];
                let meets =
                    self.levels[g.send as usize].fair.min(self.levels[g.receive as usize].fair).min(g.limit);
                for side in [g.send, g.receive] {
                    let level = &mut self.levels[side as usize];
                    level.lowest = level.lowest.min(meets);
                }
            }
            let mut left = Vec::new();
            let before = open.len();
            let mut taken: Vec<(u32, u32, f64)> = Vec::new();
            for &group in &open {
                let g = &self.groups[group as usize];
                let (send, receive) = (self.levels[g.send as usize], self.levels[g.receive as usize]);
                if g.limit <= send.fair.min(receive.fair) && g.limit <= send.lowest.min(receive.lowest) {
                    taken.push((group, ports + group, g.limit));
                } else if send.fair <= send.lowest && send.fair <= receive.fair {
                    taken.push((group, g.send, send.fair));
                } else if receive.fair <= receive.lowest && receive.fair <= send.fair {
                    taken.push((group, g.receive, receive.fair));
                } else {
                    left.push(group);
                }
            }
            debug_assert!(left.len() < before, "the lowest port of all is always a bottleneck");
            for &(group, _, rate) in &taken {
                let g = self.groups[group as usize];
                let sum = rate * f64::from(g.flows);
                self.levels[g.send as usize].left -= sum;
                self.levels[g.receive as usize].left -= sum;
            }
            settled.extend(taken);
            open = left;
        }
        self.move_groups(now, &settled);
    }

    fn move_groups(&mut self, now: Nanos, settled: &[(u32, u32, f64)]) {
        // Flows whose bottleneck changes leave the old one with what they have left.
        let mut moving: Vec<(u32, Mark)> = Vec::new();
        let mut sources: Vec<u32> = Vec::new();
        for &(group, bottleneck, _) in settled {
            let old = self.groups[group as usize].bottleneck;
            if old != bottleneck && !sources.contains(&old) {
                sources.push(old);
            }
        }
        let mut target: HashMap<u32, u32> = HashMap::new();
        for &(group, bottleneck, _) in settled {
            if self.groups[group as usize].bottleneck != bottleneck {
                target.insert(group, bottleneck);
            }
        }
        for source in sources {
            let b = &mut self.bottlenecks[source as usize];
            let (clock, marks) = (b.clock, std::mem::take(&mut b.flows).into_vec());
            let mut kept = Vec::with_capacity(marks.len());
            for mark in marks {
                let group = self.flows[mark.flow as usize].group;
                match target.get(&group) {
                    Some(&to) => moving.push((to, Mark { bytes: mark.bytes - clock, ..mark })),
                    None => kept.push(mark),
                }
            }
            b.flows = BinaryHeap::from(kept);
            b.version = b.version.wrapping_add(1);
        }
        for (&group, &bottleneck) in &target {
            self.groups[group as usize].bottleneck = bottleneck;
        }
        moving.sort_unstable_by_key(|(_, mark)| mark.sequence);
        for (to, mark) in moving {
            let b = &mut self.bottlenecks[to as usize];
            if b.flows.is_empty() {
                b.clock = 0.0;
                b.last = now;
            }
            b.flows.push(Mark { bytes: b.clock + mark.bytes, ..mark });
        }
        for &(_, bottleneck, rate) in settled {
            let b = &mut self.bottlenecks[bottleneck as usize];
            b.last = now;
            b.rate = rate;
            b.headroom = UNLIMITED;
            b.floor = 0.0;
        }
        // How far each bottleneck's rate may rise before another port of its flows is full.
        for &(group, bottleneck, rate) in settled {
            let g = self.groups[group as usize];
            let other = if bottleneck == g.send { g.receive } else { g.send };
            let far = self.sides[other as usize];
            let room = if far.groups > 1 { rate } else { far.capacity / f64::from(g.flows) };
            let b = &mut self.bottlenecks[bottleneck as usize];
            b.headroom = b.headroom.min(room).min(g.limit);
            if far.groups > 1 {
                b.floor = rate;
            }
        }
        let mut last = u32::MAX;
        for &(_, bottleneck, _) in settled {
            if bottleneck != last {
                self.set_due(bottleneck);
            }
            last = bottleneck;
        }
    }

    /// When the next flow is done.
    pub fn next_done(&mut self) -> Option<Nanos> {
        while let Some(&std::cmp::Reverse((time, bottleneck, version))) = self.due.peek() {
            if self.bottlenecks[bottleneck as usize].version == version {
                return Some(time);
            }
            self.due.pop();
        }
        None
    }

    /// Takes the flow that is done at `now` (which is `next_done`): its tag.
    pub fn finish(&mut self, now: Nanos) -> Option<u64> {
        self.next_done()?;
        let std::cmp::Reverse((_, bottleneck, _)) = self.due.pop()?;
        self.tick(bottleneck, now);
        let b = &mut self.bottlenecks[bottleneck as usize];
        let mark = b.flows.pop()?;
        b.clock = b.clock.max(mark.bytes);
        let Flow { tag, group } = self.flows[mark.flow as usize];
        self.free.push(mark.flow);
        let g = &mut self.groups[group as usize];
        g.flows -= 1;
        let gone = g.flows == 0;
        let g = *g;
        for side in [g.send, g.receive] {
            let side = &mut self.sides[side as usize];
            side.flows -= 1;
            side.groups -= u32::from(gone);
        }
        let hub = self.sides[bottleneck.min(self.sides.len() as u32 - 1) as usize];
        let alone = (bottleneck as usize) < self.sides.len() && hub.flows == 0;
        let far = if bottleneck == g.send { g.receive } else { g.send };
        if alone && self.sides[far as usize].flows == 0 {
            // Nobody shared either port: nothing changes for anyone.
            self.set_due(bottleneck);
        } else if !self.adjust(group) {
            self.set_due(bottleneck);
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
#[path = "link_tests.rs"]
mod tests;
