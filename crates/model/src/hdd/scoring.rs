//! Costs of the places that the arm could go to next: seek plus rotational delay.
//!
//! Costs are computed for blocks of places, so that a block takes few vector instructions.

use std::ops::RangeInclusive;

use super::seek::{SeekCurve, TwoPiece};
use crate::request::Nanos;

/// Places per block.
const BLOCK: usize = 8;

/// Angles this close ahead of the head count as reached, so that rounding does not cost a
/// revolution.
const GRACE_TURNS: f32 = 1e-5;

/// Where the arm and the platter are.
pub struct Head {
    pub phase_turns: f32,
    pub cylinder: u32,
    pub turn_ns: Nanos,
}

/// How the arm reaches another cylinder: a seek, and the time to settle after it.
#[derive(Clone, Copy)]
pub struct Reach<'a> {
    pub seek: &'a SeekCurve,
    pub settle_ns: Nanos,
}

impl Reach<'_> {
    fn turns(&self, distance: f32, per_turn: f32) -> f32 {
        if distance < 0.5 {
            return 0.0;
        }
        (self.seek.time_ns(distance as u32) + self.settle_ns) as f32 * per_turn
    }
}

/// A seek curve of two pieces with the time to settle, in revolutions.
struct Curve {
    short_base: f32,
    short_root: f32,
    boundary: f32,
    long_base: f32,
    long_slope: f32,
}

impl Curve {
    fn new(curve: &TwoPiece, settle_ns: Nanos, per_turn: f32) -> Self {
        let settle = settle_ns as f32 * per_turn;
        Curve {
            short_base: curve.short_base_ns as f32 * per_turn + settle,
            short_root: curve.short_root_ns as f32 * per_turn,
            boundary: curve.boundary as f32,
            long_base: curve.long_base_ns as f32 * per_turn + settle,
            long_slope: curve.long_slope_ns as f32 * per_turn,
        }
    }

    #[inline]
    fn turns(&self, distance: f32) -> f32 {
        let short = self.short_base + self.short_root * distance.sqrt();
        let long = self.long_base + self.long_slope * distance;
        let moving = if distance < self.boundary { short } else { long };
        if distance < 0.5 {
            0.0
        } else {
            moving
        }
    }
}

/// What the costs of places depend on. The order of the places is that of their ages.
pub struct Spots {
    len: usize,
    /// As many as fill whole blocks; those from `len` on have no meaning.
    cylinders: Vec<f32>,
    /// In revolutions.
    angles: Vec<f32>,
    costs: Vec<f32>,
    /// The processor has AVX2.
    #[cfg(target_arch = "x86_64")]
    wide: bool,
}

impl Spots {
    pub fn new() -> Self {
        Spots {
            len: 0,
            cylinders: Vec::new(),
            angles: Vec::new(),
            costs: Vec::new(),
            #[cfg(target_arch = "x86_64")]
            wide: std::arch::is_x86_feature_detected!("avx2"),
        }
    }

    /// Make room for twice as many places.
    #[cold]
    fn grow(&mut self) {
        let places = (2 * self.len).max(BLOCK);
        for numbers in [&mut self.cylinders, &mut self.angles, &mut self.costs] {
            numbers.resize(places, 0.0);
        }
    }

    #[inline]
    pub fn push(&mut self, cylinder: u32, angle_turns: f32) {
        if self.len == self.cylinders.len() {
            self.grow();
        }
        self.cylinders[self.len] = cylinder as f32;
        self.angles[self.len] = angle_turns;
        self.len += 1;
    }

    #[inline]
    pub fn remove(&mut self, index: usize) {
        self.cylinders.copy_within(index + 1..self.len, index);
        self.angles.copy_within(index + 1..self.len, index);
        self.len -= 1;
    }

    /// Return whether one of the `seen` oldest places is in one of the cylinders.
    #[inline]
    pub fn any_within(&self, seen: usize, cylinders: RangeInclusive<u32>) -> bool {
        let (first, last) = (*cylinders.start() as f32, *cylinders.end() as f32);
        let within = |any: bool, &at: &f32| any | ((first <= at) & (at <= last));
        self.cylinders[..seen].iter().fold(false, within)
    }

    /// Return the oldest of the `seen` oldest places with the least cost, if all are reached in the
    /// same manner.
    #[inline]
    pub fn cheapest(&mut self, seen: usize, head: &Head, reach: Reach) -> usize {
        match reach.seek {
            SeekCurve::TwoPiece(curve) if seen > BLOCK / 2 => {
                let curve = Curve::new(curve, reach.settle_ns, 1.0 / head.turn_ns as f32);
                self.cheapest_by_blocks(seen, head, &curve)
            }
            _ => self.cheapest_one_by_one(seen, head, reach, reach, |_| false),
        }
    }

    /// Return the oldest place with the least cost, computed in blocks.
    #[inline]
    fn cheapest_by_blocks(&mut self, seen: usize, head: &Head, curve: &Curve) -> usize {
        #[cfg(target_arch = "x86_64")]
        if self.wide {
            // SAFETY: `wide` says that the processor has these instructions.
            return unsafe { self.cheapest_with_avx2(seen, head, curve) };
        }
        self.cheapest_of_blocks(seen, head, curve)
    }

    /// The same numbers, bit for bit: only the vectors are wider.
    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx2")]
    fn cheapest_with_avx2(&mut self, seen: usize, head: &Head, curve: &Curve) -> usize {
        self.cheapest_of_blocks(seen, head, curve)
    }

    /// Compute the costs of all places up to the end of a block, then find the least.
    #[inline(always)]
    fn cheapest_of_blocks(&mut self, seen: usize, head: &Head, curve: &Curve) -> usize {
        let padded = seen.next_multiple_of(BLOCK);
        let at = head.cylinder as f32;
        let phase = head.phase_turns;
        let places = self.cylinders[..padded].iter().zip(&self.angles[..padded]);
        for ((to, angle), cost) in places.zip(&mut self.costs[..padded]) {
            *cost = with_wait(curve.turns((to - at).abs()), angle - phase);
        }
        self.costs[seen..padded].fill(f32::INFINITY);
        let blocks = self.costs[..padded].as_chunks::<BLOCK>().0;
        let mut lanes = [f32::INFINITY; BLOCK];
        for block in blocks {
            for (least, &cost) in lanes.iter_mut().zip(block) {
                *least = if cost < *least { cost } else { *least };
            }
        }
        let least = lanes.iter().fold(f32::INFINITY, |a, &b| if b < a { b } else { a });
        let holds =
            |block: &[f32; BLOCK]| block.iter().fold(false, |any, &cost| any | (cost == least));
        let block = blocks.iter().position(holds).unwrap_or(0);
        let lane = blocks[block].iter().position(|&cost| cost == least).unwrap_or(0);
        block * BLOCK + lane
    }

    /// As `cheapest`, for places of which some are writes.
    pub fn cheapest_one_by_one(
        &self,
        seen: usize,
        head: &Head,
        read: Reach,
        write: Reach,
        is_write: impl Fn(usize) -> bool,
    ) -> usize {
        let per_turn = 1.0 / head.turn_ns as f32;
        let curve = match read.seek {
            SeekCurve::TwoPiece(curve) => Some(Curve::new(curve, read.settle_ns, per_turn)),
            SeekCurve::Table(_) => None,
        };
        let (mut best, mut least) = (0, f32::INFINITY);
        for index in 0..seen {
            let d = (self.cylinders[index] - head.cylinder as f32).abs();
            let moving = match &curve {
                _ if is_write(index) => write.turns(d, per_turn),
                Some(curve) => curve.turns(d),
                None => read.turns(d, per_turn),
            };
            let cost = with_wait(moving, self.angles[index] - head.phase_turns);
            if cost < least {
                least = cost;
                best = index;
            }
        }
        best
    }
}

/// Return seek plus rotational delay in revolutions.
#[inline]
fn with_wait(seek: f32, ahead: f32) -> f32 {
    // The offset keeps the value positive, so that the fraction is the rest of a revolution; a seek
    // takes less than 64 revolutions.
    seek + fraction(ahead - seek + (64.0 + GRACE_TURNS))
}

/// Return the fractional part of a number below 2^22, with its sign. Adding 2^23 rounds to an
/// integer. Unlike a cast or `trunc`, this takes vector instructions that every x86-64 has.
#[inline]
fn fraction(value: f32) -> f32 {
    const ROUNDING: f32 = (1 << 23) as f32;
    let size = value.abs();
    let near = (size + ROUNDING) - ROUNDING;
    let whole = if near > size { near - 1.0 } else { near };
    (size - whole).copysign(value)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// The vectors of every processor find the place that wider ones find.
        #[test]
        fn the_choice_does_not_depend_on_the_processor(
            places in prop::collection::vec((0..100_000_u32, 0.0..1.0_f32), 1..80),
            cylinder in 0..100_000_u32,
            phase_turns in 0.0..1.0_f32,
        ) {
            let mut spots = Spots::new();
            for &(cylinder, angle) in &places {
                spots.push(cylinder, angle);
            }
            let two_piece = TwoPiece {
                short_base_ns: 0.7e6,
                short_root_ns: 0.02e6,
                boundary: 20_000.0,
                long_base_ns: 2.0e6,
                long_slope_ns: 80.0,
            };
            let head = Head { phase_turns, cylinder, turn_ns: 8_333_333 };
            let curve = Curve::new(&two_piece, 500_000, 1.0 / head.turn_ns as f32);
            let seen = places.len();
            let found = spots.cheapest_by_blocks(seen, &head, &curve);
            let costs: Vec<u32> = spots.costs[..seen].iter().map(|cost| cost.to_bits()).collect();
            prop_assert_eq!(found, spots.cheapest_of_blocks(seen, &head, &curve));
            let plain = spots.costs[..seen].iter().map(|cost| cost.to_bits());
            prop_assert_eq!(costs, plain.collect::<Vec<_>>());
        }
    }
}
