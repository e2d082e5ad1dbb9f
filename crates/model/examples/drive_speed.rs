//! How many requests a second of CPU the drive models serve: `cargo run --release --example drive_speed`.
//!
//! Takes drive tables as JSON files, or measures a disk and an SSD of its own. With `--depths` it
//! measures disks whose write caches hold 4, 64 and 256 ranges, at several depths. CPU time of the
//! thread, so that other load on the machine does not count.

use std::time::Duration;

use headrace_model::drive_run::{run, FioLike, Rw};
use headrace_model::spec::DriveSpec;

const DISK: &str = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 750156374016, "rotation_rpm": 7200,
    "heads": 8, "rates": {"outer_bytes_per_s": 78e6}, "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
    "queue": {"depth": 32, "reordering": 1.0}}"#;

const SSD: &str = r#"{"kind": "ssd", "name": "ssd", "capacity_bytes": 160041885696, "link_bytes_per_s": 280e6,
    "controller": {"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 35000, "write_iops_max": 8600},
    "flash": {"channels": 10, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 128, "read_us": 50,
    "program_us": 900, "erase_us": 2000, "channel_bytes_per_s": 40e6}, "initial": {"state": "steady", "fill": 1.0}}"#;

fn thread_cpu() -> Duration {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    Duration::new(now.tv_sec as u64, now.tv_nsec as u32)
}

fn measure(spec: &DriveSpec, rw: Rw, iodepth: u32, requests: u64) {
    let load = FioLike {
        rw,
        bs_bytes: 4096,
        iodepth,
        numjobs: 1,
        runtime_s: 1e8,
        ramp_time_s: 0.0,
        offset_bytes: 0,
        offset_increment_bytes: 0,
        size_bytes: None,
        rwmixread: 50,
        fsync: 0,
        number_ios: Some(requests),
        seed: 1,
        empty: false,
        buffered: false,
        scheduler: None,
        raid: None,
    };
    let start = thread_cpu();
    let result = run(spec, &load).expect("a drive that can be built");
    let cpu_s = (thread_cpu() - start).as_secs_f64();
    println!(
        "{:24} {:9} depth {iodepth:3}: {:6.2} M requests per CPU second ({:.0} IOPS modelled)",
        spec.name(),
        format!("{rw:?}").to_lowercase(),
        requests as f64 / cpu_s / 1e6,
        result.iops(),
    );
}

/// Measure disks that differ in their write caches, random and sequential, at several depths.
fn measure_depths() {
    for extents in [4, 64, 256] {
        let mut table: serde_json::Value = serde_json::from_str(DISK).expect("a table");
        table["name"] = format!("disk, cache of {extents}").into();
        table["buffer"] = serde_json::json!({ "write_cache_extents": extents });
        let spec = DriveSpec::from_json(&table.to_string()).expect("a drive table");
        for iodepth in [1, 4, 32] {
            for rw in [Rw::RandRead, Rw::RandWrite, Rw::RandRw] {
                measure(&spec, rw, iodepth, 2_000_000);
            }
        }
        for rw in [Rw::Read, Rw::Write] {
            measure(&spec, rw, 1, 2_000_000);
        }
    }
}

fn main() {
    let files: Vec<String> = std::env::args().skip(1).collect();
    if files == ["--depths"] {
        measure_depths();
        return;
    }
    let texts: Vec<String> = if files.is_empty() {
        vec![DISK.into(), SSD.into()]
    } else {
        files.iter().map(|file| std::fs::read_to_string(file).expect("a readable file")).collect()
    };
    for text in texts {
        let spec = DriveSpec::from_json(&text).expect("a drive table");
        for (rw, iodepth) in [
            (Rw::RandRead, 1),
            (Rw::RandRead, 2),
            (Rw::RandRead, 32),
            (Rw::Read, 1),
            (Rw::RandWrite, 32),
        ] {
            measure(&spec, rw, iodepth, 4_000_000);
        }
    }
}
