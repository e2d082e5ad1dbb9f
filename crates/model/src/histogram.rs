//! Mergeable histograms of durations: eight bins per octave, so values have a resolution of 12.5 %.

use serde::{Deserialize, Serialize};

use crate::request::Nanos;

const BINS_PER_OCTAVE_LOG2: u32 = 3;
const BINS: usize = (65 - BINS_PER_OCTAVE_LOG2 as usize) << BINS_PER_OCTAVE_LOG2;

/// Counts of durations in bins of one eighth of an octave, with exact count, sum and maximum.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Histogram {
    counts: Box<[u64]>,
    count: u64,
    sum_ns: u128,
    max_ns: Nanos,
}

/// The non-empty bins of a histogram, for records: `lower_ns[i]` is the lowest duration of bin i.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HistogramBins {
    pub lower_ns: Vec<u64>,
    pub count: Vec<u64>,
}

impl Default for Histogram {
    fn default() -> Self {
        Histogram { counts: vec![0; BINS].into_boxed_slice(), count: 0, sum_ns: 0, max_ns: 0 }
    }
}

#[inline]
fn bin_of(value: u64) -> usize {
    let sub = 1u64 << BINS_PER_OCTAVE_LOG2;
    if value < sub {
        return value as usize;
    }
    let octave = 63 - value.leading_zeros();
    let shift = octave - BINS_PER_OCTAVE_LOG2;
    ((shift as usize + 1) << BINS_PER_OCTAVE_LOG2) + ((value >> shift) - sub) as usize
}

fn lower_of(bin: usize) -> u64 {
    let sub = 1usize << BINS_PER_OCTAVE_LOG2;
    if bin < sub {
        return bin as u64;
    }
    let shift = (bin >> BINS_PER_OCTAVE_LOG2) - 1;
    ((sub + (bin & (sub - 1))) as u64) << shift
}

impl Histogram {
    #[inline]
    pub fn add(&mut self, value: Nanos) {
        self.counts[bin_of(value)] += 1;
        self.count += 1;
        self.sum_ns += u128::from(value);
        self.max_ns = self.max_ns.max(value);
    }

    /// Add a value several times.
    #[inline]
    pub fn add_times(&mut self, value: Nanos, times: u64) {
        if times > 0 {
            self.counts[bin_of(value)] += times;
            self.count += times;
            self.sum_ns += u128::from(value) * u128::from(times);
            self.max_ns = self.max_ns.max(value);
        }
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (mine, theirs) in self.counts.iter_mut().zip(other.counts.iter()) {
            *mine += theirs;
        }
        self.count += other.count;
        self.sum_ns += other.sum_ns;
        self.max_ns = self.max_ns.max(other.max_ns);
    }

    pub fn count(&self) -> u64 {
        self.count
    }

    pub fn max_ns(&self) -> Nanos {
        self.max_ns
    }

    pub fn mean_ns(&self) -> f64 {
        if self.count == 0 {
            return 0.0;
        }
        self.sum_ns as f64 / self.count as f64
    }

    /// Return the quantile of `share` (0 to 1), interpolated within its bin.
    pub fn quantile_ns(&self, share: f64) -> f64 {
        let target = share * self.count as f64;
        let mut seen = 0.0;
        for (bin, &count) in self.counts.iter().enumerate() {
            if count > 0 && seen + count as f64 >= target {
                let low = lower_of(bin) as f64;
                let high = (lower_of(bin + 1) as f64).min(self.max_ns as f64 + 1.0);
                return low + (high - low) * ((target - seen) / count as f64).max(0.0);
            }
            seen += count as f64;
        }
        self.max_ns as f64
    }

    /// Return the non-empty bins.
    pub fn bins(&self) -> HistogramBins {
        let filled = || self.counts.iter().enumerate().filter(|(_, &count)| count > 0);
        HistogramBins {
            lower_ns: filled().map(|(bin, _)| lower_of(bin)).collect(),
            count: filled().map(|(_, &count)| count).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_value_lies_in_its_bin() {
        for value in (0..100).chain([1000, 12_345, 1 << 40, u64::MAX / 2, u64::MAX]) {
            let bin = bin_of(value);
            assert!(bin < BINS && lower_of(bin) <= value, "{value}");
            assert!(bin + 1 == BINS || value < lower_of(bin + 1), "{value}");
        }
    }

    #[test]
    fn a_value_added_several_times_counts_as_often() {
        let (mut once, mut several) = (Histogram::default(), Histogram::default());
        for (value, times) in [(7, 3), (1 << 40, 2), (u64::MAX, 0)] {
            several.add_times(value, times);
            (0..times).for_each(|_| once.add(value));
        }
        assert_eq!(several, once);
    }

    #[test]
    fn quantiles_of_a_known_set() {
        let mut histogram = Histogram::default();
        (1..=1000).for_each(|v| histogram.add(v * 1000));
        assert_eq!(histogram.count(), 1000);
        assert!((histogram.mean_ns() - 500_500.0).abs() < 1e-6);
        assert!((histogram.quantile_ns(0.5) / 500_000.0 - 1.0).abs() < 0.02);
        assert!((histogram.quantile_ns(0.99) / 990_000.0 - 1.0).abs() < 0.02);
    }
}
