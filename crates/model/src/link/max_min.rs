//! Max-min fair rates: the bottleneck of each group and the rate of its flows, after a flow starts
//! or ends.

use std::collections::{BinaryHeap, HashMap};

use super::bottleneck::{Mark, UNLIMITED};
use super::Network;
use crate::request::Nanos;

/// A group whose rate is fixed by its bottleneck.
#[derive(Clone, Copy)]
struct Settled {
    group: u32,
    bottleneck: u32,
    rate: f64,
}

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
        for i in 0..self.active.len() {
            let g = self.groups[self.active[i] as usize];
            for side in [g.send, g.receive] {
                self.levels[side as usize].left = self.sides[side as usize].capacity;
            }
            self.tick(g.bottleneck, now);
        }
        let mut open: Vec<u32> = self.active.clone();
        let mut settled: Vec<Settled> = Vec::with_capacity(open.len());
        while !open.is_empty() {
            self.compare_levels(&open);
            let before = open.len();
            let first = settled.len();
            open.retain(|&group| match self.bottleneck_of(group) {
                Some(found) => {
                    settled.push(found);
                    false
                }
                None => true,
            });
            debug_assert!(open.len() < before, "the lowest port of all is always a bottleneck");
            for &Settled { group, rate, .. } in &settled[first..] {
                let g = self.groups[group as usize];
                let sum = rate * f64::from(g.flows);
                self.levels[g.send as usize].left -= sum;
                self.levels[g.receive as usize].left -= sum;
            }
        }
        self.move_groups(now, &settled);
    }

    /// Compute the fair rate of each port of the groups, and the lowest rate that any port or limit
    /// gives one of its flows.
    fn compare_levels(&mut self, groups: &[u32]) {
        for &group in groups {
            let g = &self.groups[group as usize];
            for side in [g.send, g.receive] {
                let level = &mut self.levels[side as usize];
                (level.flows, level.lowest) = (0, UNLIMITED);
            }
        }
        for &group in groups {
            let g = &self.groups[group as usize];
            self.levels[g.send as usize].flows += g.flows;
            self.levels[g.receive as usize].flows += g.flows;
        }
        for &group in groups {
            let g = &self.groups[group as usize];
            for side in [g.send, g.receive] {
                let level = &mut self.levels[side as usize];
                level.fair = level.left.max(0.0) / f64::from(level.flows);
            }
        }
        for &group in groups {
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
    }

    /// Return the bottleneck of a group and its rate; `None` if another port has a lower rate.
    #[inline]
    fn bottleneck_of(&self, group: u32) -> Option<Settled> {
        let ports = self.sides.len() as u32;
        let g = &self.groups[group as usize];
        let (send, receive) = (self.levels[g.send as usize], self.levels[g.receive as usize]);
        let (bottleneck, rate) = if g.limit <= send.fair.min(receive.fair)
            && g.limit <= send.lowest.min(receive.lowest)
        {
            (ports + group, g.limit)
        } else if send.fair <= send.lowest && send.fair <= receive.fair {
            (g.send, send.fair)
        } else if receive.fair <= receive.lowest && receive.fair <= send.fair {
            (g.receive, receive.fair)
        } else {
            return None;
        };
        Some(Settled { group, bottleneck, rate })
    }

    fn move_groups(&mut self, now: Nanos, settled: &[Settled]) {
        let mut moving = self.leave_bottlenecks(settled);
        moving.sort_unstable_by_key(|(_, mark)| mark.sequence);
        for (to, mark) in moving {
            let b = &mut self.bottlenecks[to as usize];
            if b.flows.is_empty() {
                b.clock = 0.0;
                b.last = now;
            }
            b.flows.push(Mark { bytes: b.clock + mark.bytes, ..mark });
        }
        for &Settled { bottleneck, rate, .. } in settled {
            let b = &mut self.bottlenecks[bottleneck as usize];
            b.last = now;
            b.rate = rate;
            b.headroom = UNLIMITED;
            b.floor = 0.0;
        }
        // How far each bottleneck's rate can rise before another port of its flows is saturated.
        for &Settled { group, bottleneck, rate } in settled {
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
        for same in settled.chunk_by(|a, b| a.bottleneck == b.bottleneck) {
            self.set_due(same[0].bottleneck);
        }
    }

    /// Take the flows that change their bottleneck out of the old one, and return each with the new
    /// bottleneck and its remaining bytes.
    fn leave_bottlenecks(&mut self, settled: &[Settled]) -> Vec<(u32, Mark)> {
        let mut moving: Vec<(u32, Mark)> = Vec::new();
        let mut sources: Vec<u32> = Vec::new();
        let mut target: HashMap<u32, u32> = HashMap::new();
        for &Settled { group, bottleneck, .. } in settled {
            let old = self.groups[group as usize].bottleneck;
            if old != bottleneck {
                target.insert(group, bottleneck);
                if !sources.contains(&old) {
                    sources.push(old);
                }
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
            b.forget_due();
        }
        for (&group, &bottleneck) in &target {
            self.groups[group as usize].bottleneck = bottleneck;
        }
        moving
    }
}
