//! When an SSD reads and writes, and what it draws for it.

use super::spec::SsdPowerSpec;
use crate::request::Nanos;

/// Total busy time; overlapping intervals count once.
#[derive(Default)]
struct Busy {
    total: Nanos,
    until: Nanos,
}

impl Busy {
    #[inline]
    fn note(&mut self, from: Nanos, to: Nanos) {
        if to > self.until {
            self.total += to - from.max(self.until);
            self.until = to;
        }
    }

    fn seconds(&self, now: Nanos) -> f64 {
        self.total.saturating_sub(self.until.saturating_sub(now)) as f64 * 1e-9
    }
}

/// Time in which the drive reads, writes, or does either.
#[derive(Default)]
pub struct Activity {
    reading: Busy,
    writing: Busy,
    either: Busy,
}

impl Activity {
    #[inline]
    pub fn read(&mut self, from: Nanos, to: Nanos) {
        self.reading.note(from, to);
        self.either.note(from, to);
    }

    #[inline]
    pub fn write(&mut self, from: Nanos, to: Nanos) {
        self.writing.note(from, to);
        self.either.note(from, to);
    }

    /// Return joules. `read_w` and `write_w` are totals of the active drive, so it draws the larger
    /// one, not their sum, while it does both.
    pub fn joules(&self, power: &SsdPowerSpec, now: Nanos) -> f64 {
        let (reading, writing) = (self.reading.seconds(now), self.writing.seconds(now));
        let both = (reading + writing - self.either.seconds(now)).clamp(0.0, reading.min(writing));
        let (read_w, write_w) = (power.read_w - power.idle_w, power.write_w - power.idle_w);
        power.idle_w * now as f64 * 1e-9 + read_w * reading + write_w * writing
            - read_w.min(write_w) * both
    }
}
