//! Work that waits for the arm, and the selection of the next one.
//!
//! Cylinders and angles are in separate arrays, so that scoring a queue of 32 takes few vector
//! instructions.

use super::geometry::{Geometry, Place};
use super::seek::SeekCurve;
use crate::request::Nanos;

/// Waiting items, oldest first.
pub struct Waiting<T> {
    cylinders: Vec<f32>,
    /// Angles in revolutions.
    angles: Vec<f32>,
    costs: Vec<f32>,
    places: Vec<Place>,
    since: Vec<Nanos>,
    things: Vec<T>,
}

/// How freely the drive reorders commands.
#[derive(Clone, Copy)]
pub struct Order {
    pub reordering: f64,
    /// Most items that it chooses from.
    pub window: usize,
    pub age_limit_ns: Nanos,
}

/// Angles this close ahead of the head count as reached, so that rounding does not cost a
/// revolution.
const GRACE_TURNS: f32 = 1e-5;

impl<T> Waiting<T> {
    pub fn with_capacity(capacity: usize) -> Self {
        Waiting {
            cylinders: Vec::with_capacity(capacity),
            angles: Vec::with_capacity(capacity),
            costs: vec![0.0; capacity],
            places: Vec::with_capacity(capacity),
            since: Vec::with_capacity(capacity),
            things: Vec::with_capacity(capacity),
        }
    }

    pub fn len(&self) -> usize {
        self.places.len()
    }

    pub fn is_empty(&self) -> bool {
        self.places.is_empty()
    }

    #[inline]
    pub fn push(&mut self, geometry: &Geometry, place: Place, since: Nanos, thing: T) {
        self.cylinders.push(place.cylinder as f32);
        self.angles.push(geometry.angle_turns(place.along));
        self.places.push(place);
        self.since.push(since);
        self.things.push(thing);
    }

    #[inline]
    pub fn remove(&mut self, index: usize) -> (Place, T) {
        self.cylinders.remove(index);
        self.angles.remove(index);
        self.since.remove(index);
        (self.places.remove(index), self.things.remove(index))
    }

    pub fn places(&self) -> &[Place] {
        &self.places
    }

    pub fn things(&self) -> &[T] {
        &self.things
    }

    pub fn thing_mut(&mut self, index: usize) -> &mut T {
        &mut self.things[index]
    }

    /// Extend a waiting range at its end.
    pub fn extend(&mut self, index: usize, along_end: Nanos) {
        self.places[index].along_end = along_end;
    }

    /// Return how many of the oldest items the drive chooses from at `now`: `1 + reordering * (n -
    /// 1)`, rounded down, `window` at most, or 1 once the oldest exceeds the age limit. There must
    /// be at least one item.
    #[inline]
    pub fn seen(&self, now: Nanos, order: &Order) -> usize {
        if now.saturating_sub(self.since[0]) > order.age_limit_ns {
            1
        } else {
            (1 + (order.reordering * (self.len() - 1) as f64) as usize).min(order.window)
        }
    }

    /// Return which of the `seen` oldest items has the shortest seek plus rotational delay. Items
    /// for which `is_write` says so are reached as `write` says, the others as `read` does.
    #[inline]
    pub fn choose(
        &mut self,
        seen: usize,
        head: &Head,
        read: Reach,
        write: Reach,
        is_write: impl Fn(&T) -> bool,
    ) -> usize {
        if seen == 1 {
            return 0;
        }
        let writes = self.things[..seen].iter().filter(|&thing| is_write(thing)).count();
        self.score(seen, head, if writes == seen { write } else { read });
        if writes > 0 && writes < seen {
            self.score_writes(seen, head, write, is_write);
        }
        let mut best = 0;
        let mut least = self.costs[0];
        for (index, &cost) in self.costs[1..seen].iter().enumerate() {
            if cost < least {
                least = cost;
                best = index + 1;
            }
        }
        best
    }

    #[inline]
    fn score(&mut self, seen: usize, head: &Head, reach: Reach) {
        let per_turn = 1.0 / head.turn_ns as f32;
        let at = head.cylinder as f32;
        let settle = reach.settle_ns as f32 * per_turn;
        let places = self.cylinders[..seen].iter().zip(&self.angles[..seen]);
        match reach.seek {
            SeekCurve::TwoPiece(curve) => {
                let short_base = curve.short_base_ns as f32 * per_turn + settle;
                let short_root = curve.short_root_ns as f32 * per_turn;
                let boundary = curve.boundary as f32;
                let long_base = curve.long_base_ns as f32 * per_turn + settle;
                let long_slope = curve.long_slope_ns as f32 * per_turn;
                for ((&to, &angle), cost) in places.zip(&mut self.costs) {
                    let d = (to - at).abs();
                    let short = short_base + short_root * d.sqrt();
                    let long = long_base + long_slope * d;
                    let moving = if d < boundary { short } else { long };
                    let moving = if d < 0.5 { 0.0 } else { moving };
                    *cost = with_wait(moving, angle - head.phase_turns);
                }
            }
            SeekCurve::Table(_) => {
                for ((&to, &angle), cost) in places.zip(&mut self.costs) {
                    let moving = reach.turns((to - at).abs(), per_turn);
                    *cost = with_wait(moving, angle - head.phase_turns);
                }
            }
        }
    }

    /// Score again the items that are writes.
    fn score_writes(
        &mut self,
        seen: usize,
        head: &Head,
        write: Reach,
        is_write: impl Fn(&T) -> bool,
    ) {
        let per_turn = 1.0 / head.turn_ns as f32;
        for index in (0..seen).filter(|&index| is_write(&self.things[index])) {
            let d = (self.cylinders[index] - head.cylinder as f32).abs();
            let ahead = self.angles[index] - head.phase_turns;
            self.costs[index] = with_wait(write.turns(d, per_turn), ahead);
        }
    }
}

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

/// Return seek plus rotational delay in revolutions.
#[inline]
fn with_wait(seek: f32, ahead: f32) -> f32 {
    // The offset keeps the value positive, so that the cast below rounds down; a seek takes less
    // than 64 revolutions.
    let turns = ahead - seek + (64.0 + GRACE_TURNS);
    seek + (turns - (turns as i32) as f32)
}
