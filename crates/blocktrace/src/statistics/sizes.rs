//! Number of requests by size.

use rustc_hash::FxHashMap;

/// Sizes counted separately; later ones are counted under the next power of two.
const SIZES_AT_MOST: usize = 1024;
/// Sizes in sectors below this are counted in an array.
const SMALL: usize = 2049;

#[derive(Clone, Debug)]
pub struct Sizes {
    small: Box<[u64]>,
    large: FxHashMap<u32, u64>,
    /// Number of different sizes.
    kinds: usize,
}

impl Default for Sizes {
    fn default() -> Self {
        let small = vec![0; SMALL].into_boxed_slice();
        Sizes { small, large: FxHashMap::default(), kinds: 0 }
    }
}

impl Sizes {
    #[inline]
    pub fn add(&mut self, sectors: u32) {
        match self.count_of(sectors) {
            Some(count) if *count > 0 => *count += 1,
            _ => self.add_new(sectors),
        }
    }

    #[inline]
    fn count_of(&mut self, sectors: u32) -> Option<&mut u64> {
        let small = self.small.get_mut(sectors as usize);
        small.or_else(|| self.large.get_mut(&sectors))
    }

    #[cold]
    fn add_new(&mut self, sectors: u32) {
        let full = self.kinds >= SIZES_AT_MOST;
        let size =
            if full { sectors.checked_next_power_of_two().unwrap_or(u32::MAX) } else { sectors };
        let count = match self.small.get_mut(size as usize) {
            Some(count) => count,
            None => self.large.entry(size).or_default(),
        };
        self.kinds += usize::from(*count == 0);
        *count += 1;
    }

    /// Return sizes in sectors and their counts, in order of size.
    pub fn counts(&self) -> Vec<(u32, u64)> {
        let small = self.small.iter().enumerate().map(|(size, &count)| (size as u32, count));
        let large = self.large.iter().map(|(&size, &count)| (size, count));
        let mut counts: Vec<(u32, u64)> =
            small.chain(large).filter(|(_, count)| *count > 0).collect();
        counts.sort_unstable();
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_beyond_the_most_are_rounded_up() {
        let mut sizes = Sizes::default();
        (1..=1100).for_each(|step| sizes.add(step * 3));
        sizes.add(3);
        let counts = sizes.counts();
        assert_eq!((counts[0], counts.iter().map(|count| count.1).sum()), ((3, 2), 1101u64));
        // 3 to 3072 have counts of their own, 3075 to 3300 are under 4096.
        assert_eq!(counts.last(), Some(&(4096, 76)));
        assert_eq!(counts.len(), 1025);
    }
}
