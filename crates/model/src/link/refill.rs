//! What recomputing the rates of all ports works with: the groups whose rate is not fixed yet, and
//! the levels of the ports. It is apart from the groups, because one pass reads all of it.

use super::bottleneck::UNLIMITED;
use super::sides::Sides;

/// State of a port while all ports are recomputed.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Level {
    /// Remaining capacity and the flows that share it.
    pub(super) left: f64,
    pub(super) flows: u32,
    /// The rate that each flow would get.
    pub(super) fair: f64,
    /// The lowest fair rate or limit of its groups at any port.
    pub(super) lowest: f64,
}

/// A group whose rate is not fixed yet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Open {
    pub(super) sides: Sides,
    pub(super) limit: f64,
    pub(super) flows: u32,
    pub(super) group: u32,
}

/// A group whose rate is fixed by its bottleneck.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settled {
    pub(super) open: Open,
    pub(super) bottleneck: u32,
    pub(super) rate: f64,
}

/// Kept from one time to the next to avoid allocations.
#[derive(Debug, Default)]
pub(super) struct Refill {
    pub(super) open: Vec<Open>,
    pub(super) settled: Vec<Settled>,
    /// Of each port and uplink, in its direction; without flows if no open group uses it.
    pub(super) levels: Vec<Level>,
    /// Those that open groups use.
    pub(super) sides: Vec<u32>,
}

/// Return the lesser of two numbers; unlike `f64::min`, in one instruction.
#[inline]
pub(super) fn lesser(a: f64, b: f64) -> f64 {
    if b < a {
        b
    } else {
        a
    }
}

impl Refill {
    pub(super) fn new(sides: usize) -> Self {
        Refill { levels: vec![Level::default(); sides], ..Refill::default() }
    }

    /// Compute the fair rate of each port of the open groups, and the lowest rate that any port or
    /// limit gives one of its flows.
    pub(super) fn compare_levels(&mut self) {
        let Refill { open, levels, sides, .. } = self;
        sides.retain(|&side| {
            let level = &mut levels[side as usize];
            if level.flows > 0 {
                level.fair = level.left.max(0.0) / f64::from(level.flows);
                level.lowest = UNLIMITED;
            }
            level.flows > 0
        });
        for Open { sides, limit, .. } in open {
            let mut meets = *limit;
            sides.for_each(|side| meets = lesser(meets, levels[side as usize].fair));
            sides.for_each(|side| {
                let level = &mut levels[side as usize];
                level.lowest = lesser(level.lowest, meets);
            });
        }
    }
}

/// Return the bottleneck of a group, of which there are `ports` besides the groups' own limits, and
/// its rate; `None` if another port has a lower rate.
#[inline]
pub(super) fn bottleneck_of(open: &Open, levels: &[Level], ports: u32) -> Option<(u32, f64)> {
    // No port's lowest rate is above the group's limit or above the fair rate at any of its ports.
    let (mut limited, mut found) = (true, None);
    open.sides.for_each(|side| {
        let Level { fair, lowest, .. } = levels[side as usize];
        limited &= open.limit <= lowest;
        if found.is_none() && fair <= lowest {
            found = Some((side, fair));
        }
    });
    if limited {
        Some((ports + open.group, open.limit))
    } else {
        found
    }
}
