//! Loads and comparisons that the tests of several kinds of drive share.

use headrace_model::drive_run::{FioLike, Rw};

/// One job of fio over the whole drive.
pub fn load(rw: Rw, bs_bytes: u64, iodepth: u32, runtime_s: f64) -> FioLike {
    FioLike {
        rw,
        bs_bytes,
        iodepth,
        numjobs: 1,
        runtime_s,
        ramp_time_s: 0.0,
        offset_bytes: 0,
        offset_increment_bytes: 0,
        size_bytes: None,
        rwmixread: 50,
        fsync: 0,
        number_ios: None,
        seed: 7,
        empty: false,
        buffered: false,
        scheduler: None,
        raid: None,
    }
}

/// Fail unless two figures differ by less than a share of the expected one.
pub fn close(obtained: f64, expected: f64, share: f64) {
    assert!((obtained / expected - 1.0).abs() < share, "obtained {obtained}, expected {expected}");
}
