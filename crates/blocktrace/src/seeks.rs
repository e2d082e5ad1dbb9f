//! Distances between successive requests, in two definitions.
//!
//! Absolute: from the end of the previous request to the start of the next (the distance that the
//! arm moves). Closeness, as defined by `btt` (its documentation, "seeks"): 0 if the two overlap or
//! touch, else the distance from the nearer side (the end if the next request is ahead, the start
//! if it is behind).

use headrace_model::histogram::Histogram;
use serde::Serialize;

const SECTOR_BYTES: u64 = 512;

/// Distances in one stream of requests.
#[derive(Clone, Debug, Default)]
pub struct Seeks {
    last: Option<(u64, u64)>,
    /// Requests with a predecessor.
    pub followed: u64,
    /// Requests that started at the end of their predecessor.
    pub sequential: u64,
    /// Requests with a closeness distance above 0.
    pub apart: u64,
    absolute: Histogram,
    closeness: Histogram,
    absolute_sectors: u128,
    closeness_sectors: u128,
}

/// Distances for a record: sums are exact, quantiles have a resolution of an eighth of an octave.
#[derive(Clone, Debug, Serialize)]
pub struct Distances {
    pub mean_sectors: f64,
    pub bytes_p50: f64,
    pub bytes_p90: f64,
    pub bytes_max: u64,
    pub lower_bytes: Vec<u64>,
    pub count: Vec<u64>,
}

impl Seeks {
    /// Add the next request; return true if it is a seek (it does not start at the end of its
    /// predecessor).
    #[inline]
    pub fn add(&mut self, sector: u64, sectors: u32) -> bool {
        let end = sector + u64::from(sectors);
        let Some((last_start, last_end)) = self.last.replace((sector, end)) else { return false };
        self.followed += 1;
        let absolute = sector.abs_diff(last_end);
        let closeness = if sector >= last_start {
            sector.saturating_sub(last_end)
        } else if last_start <= end && end <= last_end {
            0
        } else {
            last_start - sector
        };
        self.sequential += u64::from(absolute == 0);
        self.apart += u64::from(closeness != 0);
        self.absolute_sectors += u128::from(absolute);
        self.closeness_sectors += u128::from(closeness);
        self.absolute.add(absolute * SECTOR_BYTES);
        self.closeness.add(closeness * SECTOR_BYTES);
        absolute != 0
    }

    /// Return the number of seeks: requests that do not start at the end of their predecessor.
    pub fn seeks(&self) -> u64 {
        self.followed - self.sequential
    }

    /// Combine the distances of two drives.
    pub fn and(mut self, other: &Seeks) -> Seeks {
        self.followed += other.followed;
        self.sequential += other.sequential;
        self.apart += other.apart;
        self.absolute.merge(&other.absolute);
        self.closeness.merge(&other.closeness);
        self.absolute_sectors += other.absolute_sectors;
        self.closeness_sectors += other.closeness_sectors;
        self
    }

    pub fn absolute(&self) -> Distances {
        distances(&self.absolute, self.absolute_sectors)
    }

    pub fn closeness(&self) -> Distances {
        distances(&self.closeness, self.closeness_sectors)
    }
}

fn distances(histogram: &Histogram, sum_sectors: u128) -> Distances {
    let bins = histogram.bins();
    Distances {
        mean_sectors: sum_sectors as f64 / histogram.count().max(1) as f64,
        bytes_p50: histogram.quantile_ns(0.5),
        bytes_p90: histogram.quantile_ns(0.9),
        bytes_max: histogram.max_ns(),
        lower_bytes: bins.lower_ns,
        count: bins.count,
    }
}
