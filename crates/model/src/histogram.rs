//! Mergeable histograms of durations: eight bins per octave, so values have a resolution of 12.5 %.

use serde::{Deserialize, Serialize};

use crate::request::Nanos;

const BINS_PER_OCTAVE_LOG2: u32 = 3;
#[cfg(test)]
const BINS: usize = (65 - BINS_PER_OCTAVE_LOG2 as usize) << BINS_PER_OCTAVE_LOG2;

/// Counts of durations in bins of one eighth of an octave, with exact count, sum and maximum.
#[derive(Clone, Debug, Default)]
pub struct Histogram {
    /// The bins from `first` on; all others are empty. Durations of one kind are within a few
    /// octaves, and each drive of a cluster has three histograms.
    counts: Vec<u64>,
    first: usize,
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

impl PartialEq for Histogram {
    fn eq(&self, other: &Self) -> bool {
        (self.count, self.sum_ns, self.max_ns) == (other.count, other.sum_ns, other.max_ns)
            && self.filled().eq(other.filled())
    }
}

impl Eq for Histogram {}

impl Histogram {
    /// Return the count of a bin to change it.
    #[inline]
    fn bin(&mut self, bin: usize) -> &mut u64 {
        let at = bin.wrapping_sub(self.first);
        if at < self.counts.len() {
            return &mut self.counts[at];
        }
        self.reach(bin)
    }

    /// As `bin`, of a bin that is not in `counts`.
    #[cold]
    fn reach(&mut self, bin: usize) -> &mut u64 {
        // A whole octave at once: durations near this one follow.
        let octave = 1 << BINS_PER_OCTAVE_LOG2;
        let begin = bin / octave * octave;
        let (first, end) = match self.counts.len() {
            0 => (begin, begin + octave),
            bins => (begin.min(self.first), (begin + octave).max(self.first + bins)),
        };
        let mut counts = vec![0; end - first];
        if !self.counts.is_empty() {
            let at = self.first - first;
            counts[at..at + self.counts.len()].copy_from_slice(&self.counts);
        }
        (self.counts, self.first) = (counts, first);
        &mut self.counts[bin - first]
    }

    /// Return the bins that are not empty, with their counts.
    fn filled(&self) -> impl Iterator<Item = (usize, u64)> + '_ {
        let bins = (self.first..).zip(self.counts.iter().copied());
        bins.filter(|&(_, count)| count > 0)
    }

    #[inline]
    pub fn add(&mut self, value: Nanos) {
        *self.bin(bin_of(value)) += 1;
        self.count += 1;
        self.sum_ns += u128::from(value);
        self.max_ns = self.max_ns.max(value);
    }

    /// Add a value several times.
    #[inline]
    pub fn add_times(&mut self, value: Nanos, times: u64) {
        if times > 0 {
            *self.bin(bin_of(value)) += times;
            self.count += times;
            self.sum_ns += u128::from(value) * u128::from(times);
            self.max_ns = self.max_ns.max(value);
        }
    }

    pub fn merge(&mut self, other: &Histogram) {
        for (bin, count) in other.filled() {
            *self.bin(bin) += count;
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
        for (bin, count) in self.filled() {
            if seen + count as f64 >= target {
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
        let (lower_ns, count) = self.filled().map(|(bin, count)| (lower_of(bin), count)).unzip();
        HistogramBins { lower_ns, count }
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
    fn histograms_are_equal_and_merge_whatever_came_first() {
        let mut rising = Histogram::default();
        let mut falling = Histogram::default();
        let values = [0, 3, 900, 1 << 20, u64::MAX];
        values.iter().for_each(|&value| rising.add(value));
        values.iter().rev().for_each(|&value| falling.add(value));
        assert_eq!(rising, falling);
        assert_ne!(rising, Histogram::default());
        let mut merged = Histogram::default();
        merged.merge(&falling);
        assert_eq!(merged, rising);
        assert_eq!(merged.bins().count, [1; 5]);
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
