//! Offsets of the reads and writes of patterns and clusters.

use headrace_model::stream::Stream;

use crate::program::Events;
use crate::scenario::Order;

/// Return the offset, relative to the start of the span, of the `iteration`-th of `count` accesses
/// of `length` bytes. `position` is state that the caller keeps between calls; `shuffle` chooses the
/// permutation of a shuffled order.
#[allow(clippy::too_many_arguments)] // where an access may be, which it is, and its randomness
pub(crate) fn next(
    order: &Order,
    iteration: u64,
    count: u64,
    length: u64,
    span: u64,
    position: &mut u64,
    shuffle: u64,
    stream: &mut Stream,
) -> u64 {
    let room = span.saturating_sub(length);
    let places = (span / length).max(1);
    match *order {
        Order::Sequential => (iteration % places) * length,
        Order::Strided { stride_bytes } => {
            if room == 0 {
                0
            } else {
                iteration * stride_bytes % (room + 1)
            }
        }
        Order::Random => stream.below(places) * length,
        Order::Permuted => {
            // Multiples of a step that is coprime with the number of blocks visit each block once;
            // the golden ratio spreads them.
            let mut step = ((places as f64 * 0.618_033_988_75) as u64).max(1);
            while gcd(step, places) != 1 {
                step += 1;
            }
            (u128::from(iteration % places) * u128::from(step) % u128::from(places)) as u64 * length
        }
        Order::Shuffled => {
            // Each pass over the span has an order of its own, as fio's random map.
            let key = shuffle.wrapping_add(iteration / places);
            shuffled(iteration % places, places, key) * length
        }
        Order::Clustered { window_bytes } => {
            let windows = (span / window_bytes).max(1);
            let window = u128::from(iteration) * u128::from(windows) / u128::from(count.max(1));
            let within = (window_bytes / length).max(1);
            (window as u64 * window_bytes + stream.below(within) * length).min(room)
        }
        Order::Scattered => {
            let free = span.saturating_sub(count * length) as f64 / count.max(1) as f64;
            let gap = if free > 0.0 { stream.exponential(free) as u64 } else { 0 };
            let at = (*position + gap).min(room);
            *position = at + length;
            at
        }
    }
}

/// Return the position of `index` in the random permutation of `0..count` that `key` chooses: a
/// Feistel network over the next power of four, iterated until the result is in range (cycle
/// walking).
fn shuffled(index: u64, count: u64, key: u64) -> u64 {
    let half = (64 - count.saturating_sub(1).leading_zeros()).div_ceil(2).max(1);
    let mask = (1u64 << half) - 1;
    let mut value = index;
    loop {
        let (mut left, mut right) = (value >> half, value & mask);
        for round in 1..=4u64 {
            let round_key = key.rotate_left(16 * round as u32);
            let mixed = (right ^ round_key ^ round.wrapping_mul(0x9e37_79b9_7f4a_7c15))
                .wrapping_mul(0xbf58_476d_1ce4_e5b9);
            (left, right) = (right, left ^ ((mixed ^ (mixed >> 29)) >> 17) & mask);
        }
        value = left << half | right;
        if value < count {
            return value;
        }
    }
}

fn gcd(a: u64, b: u64) -> u64 {
    if b == 0 {
        a
    } else {
        gcd(b, a % b)
    }
}

/// Return a number coprime with `count` near its golden section: multiples of it visit every
/// position once, far apart.
fn coprime(count: u64) -> u64 {
    let near = ((count as f64 * 0.618) as u64).max(1);
    (near..).find(|&step| gcd(step, count) == 1).unwrap_or(1)
}

/// Return whether a cluster is among the skipped fraction. Skipped clusters are evenly distributed.
pub(crate) fn skipped(cluster: u64, fraction: f64) -> bool {
    ((cluster + 1) as f64 * fraction).floor() > (cluster as f64 * fraction).floor()
}

/// Return the `read`-th range (offset, length) of a cluster: reads are evenly distributed over the
/// cluster's bytes.
pub(crate) fn in_cluster(cluster: u64, read: u64, e: &Events, file_bytes: u64) -> (u64, u64) {
    let cluster_bytes =
        (u128::from(file_bytes) * u128::from(e.per_cluster) / u128::from(e.events)) as u64;
    let start = (u128::from(file_bytes) * u128::from(cluster * e.per_cluster)
        / u128::from(e.events)) as u64;
    let length = e.read_bytes.min(cluster_bytes.max(1));
    let each = cluster_bytes / u64::from(e.reads);
    let reads = u64::from(e.reads);
    let read = if e.unordered { (read * coprime(reads) + cluster) % reads } else { read };
    let offset = start + read * each + each.saturating_sub(length) / 2;
    (offset.min(file_bytes.saturating_sub(length)), length)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(order: Order, count: u64, length: u64, span: u64) -> Vec<u64> {
        let mut stream = Stream::new(1, "offsets");
        let mut position = 0;
        (0..count)
            .map(|i| next(&order, i, count, length, span, &mut position, 1, &mut stream))
            .collect()
    }

    fn shuffle(count: u64, key: u64) -> Vec<u64> {
        (0..count).map(|index| shuffled(index, count, key)).collect()
    }

    #[test]
    fn every_order_stays_in_its_span() {
        for order in [
            Order::Sequential,
            Order::Strided { stride_bytes: 777 },
            Order::Random,
            Order::Permuted,
            Order::Shuffled,
            Order::Clustered { window_bytes: 5000 },
            Order::Scattered,
        ] {
            let offsets = all(order, 500, 100, 100_000);
            assert!(offsets.iter().all(|&o| o + 100 <= 100_000), "{order:?}");
        }
    }

    #[test]
    fn permuted_visits_each_place_once() {
        let mut offsets = all(Order::Permuted, 1000, 10, 10_000);
        offsets.sort_unstable();
        assert_eq!(offsets, (0..1000).map(|i| i * 10).collect::<Vec<_>>());
    }

    #[test]
    fn shuffled_visits_each_place_once_and_seldom_the_next() {
        for places in [1u64, 2, 3, 64, 1000, 4097] {
            let offsets = all(Order::Shuffled, places, 10, places * 10);
            let mut sorted = offsets.clone();
            sorted.sort_unstable();
            assert_eq!(sorted, (0..places).map(|i| i * 10).collect::<Vec<_>>());
        }
        let offsets = all(Order::Shuffled, 4096, 1, 4096);
        let distance: f64 =
            offsets.windows(2).map(|w| w[0].abs_diff(w[1]) as f64).sum::<f64>() / 4095.0 / 4096.0;
        assert!((distance - 1.0 / 3.0).abs() < 0.02, "{distance}");
    }

    #[test]
    fn each_pass_of_a_shuffled_span_has_an_order_of_its_own() {
        let offsets = all(Order::Shuffled, 3 * 1000, 1, 1000);
        let passes: Vec<&[u64]> = offsets.chunks(1000).collect();
        for pass in &passes {
            let mut sorted = pass.to_vec();
            sorted.sort_unstable();
            assert!(sorted.into_iter().eq(0..1000));
        }
        let same = |a: &[u64], b: &[u64]| a.iter().zip(b).filter(|(a, b)| a == b).count();
        assert!(same(passes[0], passes[1]) < 10 && same(passes[1], passes[2]) < 10);
    }

    #[test]
    fn keys_give_unrelated_permutations() {
        let keys = [0, 1, 2, 1 << 40, u64::MAX, 0x0123_4567_89ab_cdef];
        for (n, &key) in keys.iter().enumerate() {
            let one = shuffle(4096, key);
            let mut sorted = one.clone();
            sorted.sort_unstable();
            assert!(sorted.iter().copied().eq(0..4096));
            for &other in &keys[n + 1..] {
                let other = shuffle(4096, other);
                // The mean distance of two independent uniform numbers is a third.
                let distance: f64 =
                    one.iter().zip(&other).map(|(&a, &b)| a.abs_diff(b) as f64).sum::<f64>()
                        / 4096.0
                        / 4096.0;
                assert!((distance - 1.0 / 3.0).abs() < 0.03, "{distance}");
            }
        }
    }

    #[test]
    fn scattered_goes_forward_and_reaches_the_end() {
        let offsets = all(Order::Scattered, 1000, 100, 1_000_000);
        assert!(offsets.windows(2).all(|w| w[0] < w[1] || w[1] == 999_900));
        assert!(*offsets.last().unwrap() > 850_000);
    }

    #[test]
    fn half_of_the_clusters_are_skipped() {
        assert_eq!((0..1000).filter(|&c| skipped(c, 0.5)).count(), 500);
        assert_eq!((0..1000).filter(|&c| skipped(c, 0.0)).count(), 0);
    }
}
