//! Seek time as a function of distance.
//!
//! Two pieces: a square root for short distances (the arm accelerates and brakes) and a line for
//! long ones (it coasts), after Ruemmler and Wilkes, "An introduction to disk drive modeling",
//! 1994.

use super::spec::SeekSpec;
use crate::request::Nanos;
use crate::spec::{refuse, within, SpecError};

/// A seek curve: nanoseconds by distance in cylinders.
#[derive(Clone, Debug)]
pub enum SeekCurve {
    TwoPiece(TwoPiece),
    Table(Vec<(f64, f64)>),
}

#[derive(Clone, Copy, Debug)]
pub struct TwoPiece {
    pub short_base_ns: f64,
    pub short_root_ns: f64,
    pub boundary: f64,
    pub long_base_ns: f64,
    pub long_slope_ns: f64,
}

impl SeekCurve {
    /// Return the seek time over `distance` cylinders (0 for distance 0), without the settle time
    /// of writes.
    #[inline]
    pub fn time_ns(&self, distance: u32) -> Nanos {
        if distance == 0 {
            return 0;
        }
        let d = f64::from(distance);
        match self {
            SeekCurve::TwoPiece(curve) => {
                let time = if d < curve.boundary {
                    curve.short_base_ns + curve.short_root_ns * d.sqrt()
                } else {
                    curve.long_base_ns + curve.long_slope_ns * d
                };
                time as i64 as Nanos
            }
            SeekCurve::Table(points) => {
                let after = points.partition_point(|&(x, _)| x < d);
                if after == 0 {
                    return points[0].1 as Nanos;
                }
                if after == points.len() {
                    return points[after - 1].1 as Nanos;
                }
                let ((x0, y0), (x1, y1)) = (points[after - 1], points[after]);
                (y0 + (y1 - y0) * (d - x0) / (x1 - x0)) as Nanos
            }
        }
    }

    pub fn build(spec: &SeekSpec, cylinders: u32) -> Result<Self, SpecError> {
        match spec {
            SeekSpec::Sheet { track_to_track_ms, average_ms } => {
                Self::from_sheet(*track_to_track_ms, *average_ms, cylinders)
            }
            SeekSpec::TwoPiece {
                short_base_ms,
                short_root_ms,
                boundary_cylinders,
                long_base_ms,
                long_slope_ms,
            } => {
                within("seek.short_base_ms", *short_base_ms, 0.0, 1000.0)?;
                within("seek.short_root_ms", *short_root_ms, 0.0, 1000.0)?;
                within("seek.long_base_ms", *long_base_ms, 0.0, 1000.0)?;
                within("seek.long_slope_ms", *long_slope_ms, 0.0, 1000.0)?;
                Ok(SeekCurve::TwoPiece(TwoPiece {
                    short_base_ns: short_base_ms * 1e6,
                    short_root_ns: short_root_ms * 1e6,
                    boundary: f64::from(*boundary_cylinders),
                    long_base_ns: long_base_ms * 1e6,
                    long_slope_ns: long_slope_ms * 1e6,
                }))
            }
            SeekSpec::Table { distance_cylinders, time_ms } => {
                Self::from_table(distance_cylinders, time_ms)
            }
        }
    }

    /// Build the curve of a data sheet. Its average is the mean over all seeks between every pair
    /// of cylinders with equal probability (the definition of data sheets: the weight of distance n
    /// is the number of its pairs, max + 1 - n).
    fn from_sheet(
        track_to_track_ms: f64,
        average_ms: f64,
        cylinders: u32,
    ) -> Result<Self, SpecError> {
        within("seek.track_to_track_ms", track_to_track_ms, 0.001, 1000.0)?;
        within("seek.average_ms", average_ms, 0.001, 1000.0)?;
        if average_ms <= track_to_track_ms {
            return refuse("seek.average_ms", average_ms, "more than seek.track_to_track_ms");
        }
        // t(d) = t_min + k (sqrt(d) - 1); the mean of sqrt(d / D) over all pairs is 8/15.
        let mean_root = f64::from(cylinders).sqrt() * 8.0 / 15.0;
        if mean_root <= 1.0 {
            let allowed = "a table: there are too few cylinders for a curve";
            return refuse("seek.curve", "sheet", allowed);
        }
        let rise = (average_ms - track_to_track_ms) * 1e6 / (mean_root - 1.0);
        Ok(SeekCurve::TwoPiece(TwoPiece {
            short_base_ns: track_to_track_ms * 1e6 - rise,
            short_root_ns: rise,
            boundary: f64::INFINITY,
            long_base_ns: 0.0,
            long_slope_ns: 0.0,
        }))
    }

    fn from_table(distance_cylinders: &[u32], time_ms: &[f64]) -> Result<Self, SpecError> {
        let distances = distance_cylinders.len();
        if distances != time_ms.len() || time_ms.is_empty() {
            return refuse(
                "seek.time_ms",
                format!("{} times", time_ms.len()),
                &format!("one for each of the {distances} distances, at least one"),
            );
        }
        if !distance_cylinders.windows(2).all(|pair| pair[0] < pair[1]) {
            return refuse("seek.distance_cylinders", "unsorted distances", "rising distances");
        }
        for &time in time_ms {
            within("seek.time_ms", time, 0.0, 1000.0)?;
        }
        let points = distance_cylinders.iter().zip(time_ms);
        Ok(SeekCurve::Table(points.map(|(&d, &t)| (f64::from(d), t * 1e6)).collect()))
    }
}
