//! Number of requests in flight over time.

#[derive(Clone, Debug)]
pub struct Depth {
    now: usize,
    since_ns: u64,
    pub max: usize,
    /// Time by number in flight; the last bin has all larger numbers, too.
    pub time_ns: Vec<u64>,
    pub sum: u128,
}

impl Depth {
    pub fn new(bins: usize, since_ns: u64) -> Depth {
        Depth { now: 0, since_ns, max: 0, time_ns: vec![0; bins], sum: 0 }
    }

    #[inline]
    pub fn change(&mut self, now_ns: u64, by: i64) {
        let span = now_ns.saturating_sub(self.since_ns);
        self.since_ns = now_ns;
        self.sum += span as u128 * self.now as u128;
        if let Some(last) = self.time_ns.len().checked_sub(1) {
            self.time_ns[self.now.min(last)] += span;
        }
        self.now = (self.now as i64 + by).max(0) as usize;
        self.max = self.max.max(self.now);
    }
}
