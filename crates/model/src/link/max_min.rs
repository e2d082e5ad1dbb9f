//! Max-min fair rates: the bottleneck of each group and the rate of its flows, after a flow starts
//! or ends.

use super::bottleneck::{Mark, UNLIMITED};
use super::refill::{bottleneck_of, lesser, Level, Open, Refill, Settled};
use super::{Group, Network, PortSide};
use crate::request::Nanos;

impl Network {
    /// Return the most likely bottleneck of a group that starts to send.
    pub(super) fn probable_bottleneck(&self, group: u32) -> u32 {
        let g = &self.groups[group as usize];
        let mut least = (g.limit, self.sides.len() as u32 + group);
        for number in g.sides.iter() {
            let side = &self.sides[number as usize];
            let share = side.capacity / f64::from(side.flows.max(1));
            if share < least.0 || (share == least.0 && least.1 >= self.sides.len() as u32) {
                least = (share, number);
            }
        }
        least.1
    }

    /// Update the one rate that changes when a flow of `group` starts or ends, and return true if
    /// all bottlenecks stay the same. Conservative: returns false if unsure.
    pub(super) fn adjust(&mut self, group: u32) -> bool {
        let g = self.groups[group as usize];
        let ports = self.sides.len() as u32;
        if g.bottleneck >= ports {
            return false;
        }
        let hub = self.sides[g.bottleneck as usize];
        let mut others = g.sides.iter().filter(|&side| side != g.bottleneck);
        let held = self.bottlenecks[g.bottleneck as usize].flows.len() as u32;
        // This port limits all of its flows, and the group's others carry no other group.
        if held != hub.flows
            || hub.flows == 0
            || others.any(|side| self.sides[side as usize].groups > 1)
        {
            return false;
        }
        let others = g.sides.iter().filter(|&side| side != g.bottleneck);
        let far = others.map(|side| self.sides[side as usize].capacity).fold(UNLIMITED, f64::min);
        let rate = hub.capacity / f64::from(hub.flows);
        let b = &mut self.bottlenecks[g.bottleneck as usize];
        let own_headroom =
            if g.flows > 0 { (far / f64::from(g.flows)).min(g.limit) } else { UNLIMITED };
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
        let mut refill = std::mem::take(&mut self.refill);
        self.open_groups(&mut refill, now);
        refill.settled.clear();
        while !refill.open.is_empty() {
            refill.compare_levels();
            let before = refill.open.len();
            let first = refill.settled.len();
            let ports = self.sides.len() as u32;
            let Refill { open, settled, levels, .. } = &mut refill;
            open.retain(|open| match bottleneck_of(open, levels, ports) {
                Some((bottleneck, rate)) => {
                    settled.push(Settled { open: *open, bottleneck, rate });
                    false
                }
                None => true,
            });
            debug_assert!(open.len() < before, "the lowest port of all is always a bottleneck");
            for Settled { open, rate, .. } in &settled[first..] {
                let sum = rate * f64::from(open.flows);
                open.sides.for_each(|side| {
                    let level = &mut levels[side as usize];
                    level.left -= sum;
                    level.flows -= open.flows;
                });
            }
        }
        self.move_groups(now, &refill.settled);
        self.refill = refill;
    }

    /// Open all active groups and the level of each port that they use, and let the clocks of their
    /// bottlenecks run up to `now`.
    fn open_groups(&mut self, refill: &mut Refill, now: Nanos) {
        self.drop_idle_groups();
        let Refill { open, levels, sides, .. } = refill;
        open.clear();
        sides.clear();
        for index in 0..self.active.len() {
            let group = self.active[index];
            let Group { sides: own, limit, flows, bottleneck, .. } = self.groups[group as usize];
            self.tick(bottleneck, now);
            own.for_each(|side| {
                let level = &mut levels[side as usize];
                if level.flows == 0 {
                    sides.push(side);
                    let PortSide { capacity, flows, .. } = self.sides[side as usize];
                    *level = Level { left: capacity, flows, fair: 0.0, lowest: UNLIMITED };
                }
            });
            open.push(Open { sides: own, limit, flows, group });
        }
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
        // How far each bottleneck's rate can rise before another port of its flows is saturated.
        for &Settled { open, bottleneck, rate } in settled {
            let b = &mut self.bottlenecks[bottleneck as usize];
            if b.refill != self.refills {
                b.refill = self.refills;
                b.last = now;
                b.rate = rate;
                b.headroom = UNLIMITED;
                b.floor = 0.0;
            }
            let mut headroom = lesser(b.headroom, open.limit);
            open.sides.for_each(|other| {
                if other == bottleneck {
                    return;
                }
                let far = self.sides[other as usize];
                if far.groups > 1 {
                    headroom = lesser(headroom, rate);
                    b.floor = rate;
                } else {
                    headroom = lesser(headroom, far.capacity / f64::from(open.flows));
                }
            });
            b.headroom = headroom;
        }
        for &Settled { bottleneck, .. } in settled {
            let b = &mut self.bottlenecks[bottleneck as usize];
            // Once for each of them, not for each of its groups.
            if b.refill == self.refills {
                b.refill = 0;
                self.set_due(bottleneck);
            }
        }
    }

    /// Take the flows that change their bottleneck out of the old one, and return each with the new
    /// bottleneck and its remaining bytes.
    fn leave_bottlenecks(&mut self, settled: &[Settled]) -> Vec<(u32, Mark)> {
        let mut moving: Vec<(u32, Mark)> = Vec::new();
        let mut sources: Vec<u32> = Vec::new();
        for Settled { open, bottleneck, .. } in settled {
            let (g, bottleneck) = (&mut self.groups[open.group as usize], *bottleneck);
            if g.bottleneck != bottleneck {
                if !sources.contains(&g.bottleneck) {
                    sources.push(g.bottleneck);
                }
                g.bottleneck = bottleneck;
            }
        }
        for source in sources {
            let b = &mut self.bottlenecks[source as usize];
            let (clock, marks) = (b.clock, b.flows.take());
            for mark in marks {
                let group = self.flows[mark.flow as usize].group;
                let to = self.groups[group as usize].bottleneck;
                if to == source {
                    b.flows.push(mark);
                } else {
                    moving.push((to, Mark { bytes: mark.bytes - clock, ..mark }));
                }
            }
            b.forget_due();
        }
        moving
    }
}
