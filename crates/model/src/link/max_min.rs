//! Max-min fair rates: the bottleneck of each group and the rate of its flows, after a flow starts
//! or ends.

use std::collections::{BinaryHeap, HashMap};

use super::bottleneck::{Mark, UNLIMITED};
use super::Network;
use crate::request::Nanos;

impl Network {
    /// Return the most likely bottleneck of a group that starts to send.
    pub(super) fn probable_bottleneck(&self, group: u32) -> u32 {
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

    /// Update the one rate that changes when a flow of `group` starts or ends, and return true if
    /// all bottlenecks stay the same. Conservative: returns false if unsure.
    pub(super) fn adjust(&mut self, group: u32) -> bool {
        let g = self.groups[group as usize];
        let ports = self.sides.len() as u32;
        if g.bottleneck >= ports {
            return false;
        }
        let other = if g.bottleneck == g.send { g.receive } else { g.send };
        let hub = self.sides[g.bottleneck as usize];
        let far = self.sides[other as usize];
        let held = self.bottlenecks[g.bottleneck as usize].flows.len() as u32;
        // This port limits all of its flows, and the group's other port carries no other group.
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

    /// Recompute all max-min rates: each port with the lowest fair rate among the ports of its
    /// flows is a bottleneck; its flows are fixed and removed from the other ports; repeat.
    pub(super) fn refill(&mut self, now: Nanos) {
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
                let meets = self.levels[g.send as usize]
                    .fair
                    .min(self.levels[g.receive as usize].fair)
                    .min(g.limit);
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
                let (send, receive) =
                    (self.levels[g.send as usize], self.levels[g.receive as usize]);
                if g.limit <= send.fair.min(receive.fair)
                    && g.limit <= send.lowest.min(receive.lowest)
                {
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
        // Flows that change their bottleneck leave the old one with their remaining bytes.
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
        // How far each bottleneck's rate can rise before another port of its flows is saturated.
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
}
