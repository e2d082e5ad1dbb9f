//! How far apart requests follow each other, in both definitions.
//!
//! Absolute: from the end of the one before to the start of the next (what an arm travels). Closeness, as `btt` has it (its
//! documentation, "seeks"): nothing when the two overlap or touch, else from the nearer side (end when ahead, start when behind).

use headrace_model::histogram::Histogram;
use serde::Serialize;

const SECTOR_BYTES: u64 = 512;

/// Of one stream of requests.
#[derive(Clone, Debug, Default)]
pub struct Seeks {
    last: Option<(u64, u64)>,
    /// Requests with one before them.
    pub followed: u64,
    /// Those that began where the one before had ended.
    pub sequential: u64,
    /// Those with a distance in closeness.
    pub apart: u64,
    absolute: Histogram,
    closeness: Histogram,
    absolute_sectors: u128,
    closeness_sectors: u128,
}

/// Distances for a record: sums are exact, quantiles to an eighth of an octave.
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
    /// Takes the next request; true when it is a seek (it did not begin where the one before ended).
    #[inline]
    pub fn add(&mut self, sector: u64, sectors: u32) -> bool {
        let end = sector + u64::from(sectors);
        let Some((last_start, last_end)) = self.last.replace((sector, end)) else { return false };
        self.followed += 1;
        let absolute = sector.abs_diff(last_end);
        let touches = |place: u64| last_start <= place && place <= last_end;
        let closeness = if touches(sector) || touches(end) {
            0
        } else if sector > last_end {
            sector - last_end
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

    /// Seeks: requests that did not begin where the one before ended.
    pub fn seeks(&self) -> u64 {
        self.followed - self.sequential
    }

    /// The two together, of two drives.
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
