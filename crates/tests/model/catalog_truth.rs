//! Every drive of the catalog does what its `[sheet]` states: disks within 1 %, SSDs within 5 %.
//!
//! Each key of `[sheet]` names one measurement below; a key that names none is an error.

use std::path::PathBuf;

use crate::loads::load;
use headrace_model::drive::build;
use headrace_model::drive_run::{run, DriveRun, FioLike, Rw};
use headrace_model::hdd::seek::SeekCurve;
use headrace_model::hdd::Hdd;
use headrace_model::spec::{DriveSpec, HddSpec};
use headrace_model::ssd::spec::{InitialState, SsdSpec};

fn catalog() -> Vec<(String, DriveSpec)> {
    let folder =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../python/headrace/catalog/drives");
    let mut drives: Vec<(String, DriveSpec)> = std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .map(|path| {
            let stem = path.file_stem().unwrap().to_string_lossy().into_owned();
            let spec = toml::from_str(&std::fs::read_to_string(&path).unwrap());
            (stem.clone(), spec.unwrap_or_else(|error| panic!("{stem}: {error}")))
        })
        .collect();
    drives.sort_by(|a, b| a.0.cmp(&b.0));
    assert!(drives.len() >= 14, "{}", drives.len());
    drives
}

/// Mean over all pairs of cylinders, as the sheets define it.
fn mean_seek_ms(curve: &SeekCurve, cylinders: u32) -> f64 {
    let total = f64::from(cylinders);
    let weights = (1..cylinders).map(|d| (f64::from(cylinders - d), curve.time_ns(d) as f64));
    let sum: f64 = weights.map(|(pairs, time)| 2.0 * pairs * time).sum();
    sum / (total * total) / 1e6
}

fn disk_fact(key: &str, spec: &HddSpec) -> f64 {
    let hdd = Hdd::new(spec, 1).unwrap();
    let drive = DriveSpec::Hdd(Box::new(spec.clone()));
    let (reads, writes) = (hdd.seek_curve(), hdd.seek_curve_of_writes());
    let cylinders = hdd.geometry().cylinders;
    let sequential = |offset_bytes| {
        let load = FioLike { offset_bytes, ramp_time_s: 2.0, ..load(Rw::Read, 1 << 20, 4, 20.0) };
        run(&drive, &load).unwrap().read.bytes_per_s / 1e6
    };
    let random_iops = |rw, iodepth| {
        let load = FioLike { ramp_time_s: 60.0, ..load(rw, 4096, iodepth, 600.0) };
        run(&drive, &load).unwrap().iops()
    };
    match key {
        "average_seek_read_ms" => mean_seek_ms(reads, cylinders),
        "average_seek_write_ms" => mean_seek_ms(writes, cylinders) + spec.write_settle_ms,
        "track_to_track_read_ms" => reads.time_ns(1) as f64 / 1e6,
        "track_to_track_write_ms" => writes.time_ns(1) as f64 / 1e6 + spec.write_settle_ms,
        "average_latency_ms" => hdd.geometry().turn_ns as f64 / 2e6,
        "random_read_iops_qd16" => random_iops(Rw::RandRead, 16),
        "random_write_iops_qd16" => random_iops(Rw::RandWrite, 16),
        "sustained_mb_s" => sequential(0),
        "sustained_inner_mb_s" => {
            let last = hdd.geometry().zones().last().unwrap().first_sector * 512;
            sequential(last)
        }
        _ => panic!("{}: nothing is known of sheet.{key}", spec.name),
    }
}

fn ssd_fact(key: &str, spec: &DriveSpec) -> f64 {
    let DriveSpec::Ssd(ssd) = spec else { panic!("an SSD") };
    let depth = if ssd.queue_depth > 32 { 256 } else { 32 };
    // The ramp fills the write buffer, which is memory's rate and not the drive's.
    let load = |rw, bs, depth| FioLike { ramp_time_s: 1.0, ..load(rw, bs, depth, 1.0) };
    // As `headrace drive run` does: reads find data, writes the state that the drive is described in.
    let run = |rw, bs, depth| -> DriveRun { run(spec, &load(rw, bs, depth)).unwrap() };
    match key {
        "access_time_ms" => run(Rw::RandRead, 512, 1).read.latency_ns_mean / 1e6,
        // Of data that were written in order, whatever state the drive is described in.
        "sequential_read_mb_s" => {
            let in_order = SsdSpec { initial: InitialState::Fresh, ..ssd.as_ref().clone() };
            let in_order = DriveSpec::Ssd(Box::new(in_order));
            let load = load(Rw::Read, 128 << 10, 32);
            headrace_model::drive_run::run(&in_order, &load).unwrap().bytes_per_s() / 1e6
        }
        "sequential_write_mb_s" => run(Rw::Write, 128 << 10, 32).bytes_per_s() / 1e6,
        "random_read_iops" => run(Rw::RandRead, 4096, depth).iops(),
        "random_write_iops" => run(Rw::RandWrite, 4096, depth).iops(),
        "random_read_iops_qd1" => run(Rw::RandRead, 4096, 1).iops(),
        "random_write_iops_qd1" => run(Rw::RandWrite, 4096, 1).iops(),
        _ => panic!("{}: nothing is known of sheet.{key}", ssd.name),
    }
}

#[test]
fn every_drive_is_named_as_its_file_and_can_be_built() {
    for (stem, spec) in catalog() {
        assert_eq!(spec.name(), stem);
        build(&spec, 0).unwrap_or_else(|error| panic!("{stem}: {error}"));
    }
}

#[test]
fn sheets_come_true() {
    let mut wrong = Vec::new();
    for (name, spec) in catalog() {
        for (key, &expected) in spec.sheet() {
            let (obtained, tolerance) = match &spec {
                DriveSpec::Hdd(disk) => {
                    // Reordering is a whole number of commands, which moves IOPS in steps.
                    (disk_fact(key, disk), if key.contains("iops") { 0.02 } else { 0.01 })
                }
                DriveSpec::Ssd(_) => (ssd_fact(key, &spec), 0.05),
            };
            if (obtained / expected - 1.0).abs() > tolerance {
                wrong.push(format!("{name}: sheet.{key} = {expected}, obtained {obtained:.4}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn a_random_read_of_every_ssd_takes_its_flash_read_time_at_least() {
    for (name, spec) in catalog() {
        let DriveSpec::Ssd(ssd) = &spec else { continue };
        let mean_us = |spec: &DriveSpec| {
            run(spec, &load(Rw::RandRead, 4096, 1, 1.0)).unwrap().read.latency_ns_mean / 1e3
        };
        let mut slow = ssd.clone();
        slow.flash.read_us *= 100.0;
        let (stated, slow_us) = (mean_us(&spec), mean_us(&DriveSpec::Ssd(slow)));
        assert!(stated >= ssd.flash.read_us, "{name}: {stated}");
        assert!(slow_us >= 100.0 * ssd.flash.read_us, "{name}: {slow_us}");
    }
}

#[test]
fn random_reads_of_every_disk_take_seek_half_a_turn_and_overhead() {
    for (name, spec) in catalog() {
        let DriveSpec::Hdd(disk) = &spec else { continue };
        let hdd = Hdd::new(disk, 1).unwrap();
        let seek_ms = mean_seek_ms(hdd.seek_curve(), hdd.geometry().cylinders);
        let half_turn_ms = hdd.geometry().turn_ns as f64 / 2e6;
        let expected = 1e3 / (seek_ms + half_turn_ms + disk.controller_overhead_us / 1e3);
        let obtained = run(&spec, &load(Rw::RandRead, 512, 1, 1000.0)).unwrap().iops();
        assert!((obtained / expected - 1.0).abs() < 0.03, "{name}: {obtained} {expected}");
    }
}

#[test]
fn a_queue_helps_every_disk_as_much_as_real_ones_gain() {
    for (name, spec) in catalog() {
        let DriveSpec::Hdd(disk) = &spec else { continue };
        if disk.queue.depth < 32 {
            continue;
        }
        let iops = |depth| run(&spec, &load(Rw::RandRead, 4096, depth, 500.0)).unwrap().iops();
        let single = iops(1);
        let (two, many) = (iops(2) / single, iops(32) / single);
        assert!(two < 1.1, "{name}: depth 2 gains {two}");
        if disk.sheet.contains_key("random_read_iops_qd16") {
            // Its sheet says what its queue gains (`sheets_come_true`).
            let sixteen = iops(16) / single;
            assert!(sixteen < many && many < 1.4 * sixteen, "{name}: {sixteen} {many}");
            continue;
        }
        assert!((1.3..=2.0).contains(&many), "{name}: depth 32 gains {many}");
    }
}
