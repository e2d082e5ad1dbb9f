//! Geometries that drives of one kind share: a cluster has thousands of them.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use super::geometry::Geometry;

/// Geometries of the drives that there are.
static KNOWN: Mutex<Vec<Weak<Geometry>>> = Mutex::new(Vec::new());

/// Return the geometry of another drive that equals this one, or this one if there is none.
pub(super) fn shared(geometry: Geometry) -> Arc<Geometry> {
    let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
    known.retain(|other| other.strong_count() > 0);
    let same = known.iter().filter_map(Weak::upgrade).find(|other| **other == geometry);
    same.unwrap_or_else(|| {
        let new = Arc::new(geometry);
        known.push(Arc::downgrade(&new));
        new
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::hdd::spec::HddSpec;

    #[test]
    fn drives_of_one_kind_share_their_geometry() {
        let build = |heads: u32| {
            let spec: HddSpec = serde_json::from_value(serde_json::json!({
                "name": "disk", "capacity_bytes": 500_000_000_000u64, "rotation_rpm": 7200.0,
                "heads": heads, "rates": {"outer_bytes_per_s": 1e8},
                "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
                "link_bytes_per_s": 3e8
            }))
            .unwrap();
            shared(Geometry::build(&spec).unwrap())
        };
        let (first, other) = (build(4), build(2));
        assert!(Arc::ptr_eq(&first, &build(4)));
        assert!(!Arc::ptr_eq(&first, &other));
    }
}
