//! What samples add up to.

use rustc_hash::FxHashMap;

/// Time by state, in ns, as far as samples tell.
#[derive(Default)]
pub struct Sums {
    /// By letter of the state and kernel function in which the thread sleeps (`wchan`, may be `0`).
    pub states_ns: FxHashMap<(u8, Box<[u8]>), f64>,
    /// Samples of all threads together, and the time that they stand for.
    pub samples: u64,
    pub sampled_ns: f64,
    /// CPU time of the sampling thread.
    pub cost_ns: u64,
    /// Time that the sampling thread waited for a CPU.
    pub waited_ns: u64,
}

impl Sums {
    pub fn begin_sample(&mut self, weight_ns: f64) {
        self.samples += 1;
        self.sampled_ns += weight_ns;
    }

    pub fn add(&mut self, letter: u8, function: &[u8], weight_ns: f64) {
        // A lookup needs an owned key; there is no allocation for the empty function of a runner.
        *self.states_ns.entry((letter, function.into())).or_default() += weight_ns;
    }
}
