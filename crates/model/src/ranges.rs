//! Sector ranges: sort them and join those that overlap or are adjacent.

use crate::request::SectorRange;

/// Sort ranges, join those that overlap or are adjacent, and drop empty ones.
pub fn merge(mut ranges: Vec<SectorRange>) -> Vec<SectorRange> {
    ranges.retain(|&(_, sectors)| sectors > 0);
    ranges.sort_unstable();
    ranges.dedup_by(|next, kept| {
        let end = kept.0 + kept.1;
        let joined = next.0 <= end;
        if joined {
            kept.1 = kept.1.max(next.0 + next.1 - kept.0);
        }
        joined
    });
    ranges
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn merged_ranges_cover_the_same_sectors_in_order_and_apart(
            ranges in prop::collection::vec((0u64..200, 0u64..20), 0..40),
        ) {
            let merged = merge(ranges.clone());
            let covered = |ranges: &[SectorRange], at: u64| {
                ranges.iter().any(|&(first, sectors)| first <= at && at < first + sectors)
            };
            for at in 0..230 {
                prop_assert_eq!(covered(&ranges, at), covered(&merged, at));
            }
            prop_assert!(merged.windows(2).all(|pair| pair[0].0 + pair[0].1 < pair[1].0));
        }
    }
}
