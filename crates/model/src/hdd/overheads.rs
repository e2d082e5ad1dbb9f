//! Controller time of a command by its kind and by the command before it.

use super::spec::HddSpec;
use crate::request::Nanos;

/// Overheads in nanoseconds.
pub struct Overheads {
    /// The least of all. Every command takes it before its kind is known to the model.
    pub least_ns: Nanos,
    /// What a command takes beyond it: by write, hit, and whether a write came before.
    extra_ns: [[[Nanos; 2]; 2]; 2],
    completion_ns: [Nanos; 2],
    varies: bool,
}

impl Overheads {
    pub fn new(spec: &HddSpec) -> Self {
        let given = &spec.overhead;
        let ns =
            |us: Option<f64>| ((us.unwrap_or(spec.controller_overhead_us) * 1e3) as Nanos).max(1);
        let all_ns = [
            [
                [ns(given.read_miss_after_read_us), ns(given.read_miss_after_write_us)],
                [ns(given.read_hit_after_read_us), ns(given.read_hit_after_write_us)],
            ],
            [
                [ns(given.write_miss_after_read_us), ns(given.write_miss_after_write_us)],
                [ns(given.write_hit_after_read_us), ns(given.write_hit_after_write_us)],
            ],
        ];
        let least_ns = all_ns.iter().flatten().flatten().fold(Nanos::MAX, |a, &b| a.min(b));
        let extra_ns = all_ns.map(|kind| kind.map(|hit| hit.map(|ns| ns - least_ns)));
        let completion = |us: Option<f64>| (us.unwrap_or(0.0) * 1e3) as Nanos;
        Overheads {
            least_ns,
            varies: extra_ns.iter().flatten().flatten().any(|&ns| ns > 0),
            extra_ns,
            completion_ns: [
                completion(given.read_completion_us),
                completion(given.write_completion_us),
            ],
        }
    }

    /// Return whether commands of different kinds take different times.
    #[inline]
    pub fn vary(&self) -> bool {
        self.varies
    }

    pub fn extra_ns(&self, write: bool, hit: bool, after_write: bool) -> Nanos {
        self.extra_ns[usize::from(write)][usize::from(hit)][usize::from(after_write)]
    }

    #[inline]
    pub fn completion_ns(&self, write: bool) -> Nanos {
        self.completion_ns[usize::from(write)]
    }
}
