//! What a hard disk's data sheet states must come out of the model.

use crate::loads::{close, load};
use headrace_model::drive_run::{run, FioLike, Rw};
use headrace_model::hdd::Hdd;
use headrace_model::request::{Device, Medium, Op, Request};
use headrace_model::spec::DriveSpec;
use headrace_model::stream::Stream;

const RPM: f64 = 7200.0;
const AVERAGE_SEEK_MS: f64 = 8.5;
const OVERHEAD_US: f64 = 100.0;

fn disk(extra: &str) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "hdd", "name": "disk", "capacity_bytes": 750156374016, "rotation_rpm": {RPM}, "heads": 8,
        "rates": {{"outer_bytes_per_s": 78e6, "inner_bytes_per_s": 40e6}}, "link_bytes_per_s": 300e6,
        "seek": {{"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": {AVERAGE_SEEK_MS}}},
        "controller_overhead_us": {OVERHEAD_US}{extra}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

fn model(spec: &DriveSpec) -> Hdd {
    let DriveSpec::Hdd(spec) = spec else { panic!("a disk") };
    Hdd::new(spec, 1).unwrap()
}

#[test]
fn mean_seek_over_all_cylinders_is_the_sheets() {
    let hdd = model(&disk(""));
    let mut random = Stream::new(3, "seek");
    let mut cylinder = || random.below(u64::from(hdd.geometry().cylinders)) as u32;
    let count = 200_000;
    let sum: f64 =
        (0..count).map(|_| hdd.seek_curve().time_ns(cylinder().abs_diff(cylinder())) as f64).sum();
    close(sum / f64::from(count) / 1e6, AVERAGE_SEEK_MS, 0.01);
    close(hdd.seek_curve().time_ns(1) as f64 / 1e6, 0.8, 0.001);
}

#[test]
fn random_reads_take_seek_and_half_a_turn_and_overhead() {
    let obtained = run(&disk(""), &load(Rw::RandRead, 512, 1, 2000.0)).unwrap().read.iops;
    let half_turn_ms = 60_000.0 / RPM / 2.0;
    close(obtained, 1000.0 / (AVERAGE_SEEK_MS + half_turn_ms + OVERHEAD_US / 1e3), 0.03);
}

#[test]
fn mean_rotational_wait_is_half_a_turn() {
    // One access at a time to a track that the head is already on, at moments that follow no pattern.
    let mut hdd = model(&disk(r#", "buffer": {"read_ahead_bytes": 0, "segments": 1}"#));
    let mut random = Stream::new(5, "wait");
    let (mut now, mut waits, mut out) = (0, 0.0, Vec::new());
    let count = 20_000;
    for tag in 0..count {
        let sector = (tag % 2) * 300;
        hdd.submit(now, Request { tag, op: Op::Read, sector, sectors: 1, fua: false });
        let done = hdd.next_wake().unwrap();
        hdd.wake(done, &mut out);
        waits += (out.pop().unwrap().time - now) as f64 - OVERHEAD_US * 1e3;
        now = done + random.below(50_000_000);
    }
    close(waits / count as f64 / 1e6, 60_000.0 / RPM / 2.0, 0.01);
}

#[test]
fn sequential_rates_of_the_edges_are_the_sheets() {
    let capacity = 750_156_374_016;
    for (offset_bytes, expected) in [(0, 78e6), (capacity - (8 << 30), 40e6)] {
        for rw in [Rw::Read, Rw::Write] {
            let load = FioLike { offset_bytes, ramp_time_s: 5.0, ..load(rw, 1 << 20, 4, 60.0) };
            close(run(&disk(""), &load).unwrap().bytes_per_s(), expected, 0.01);
        }
    }
}

#[test]
fn every_zone_reads_at_its_rate() {
    let spec = disk("");
    let hdd = model(&spec);
    let zones = hdd.geometry().zones();
    for (index, zone) in zones.iter().enumerate() {
        let load = FioLike {
            offset_bytes: zone.first_sector * 512,
            ramp_time_s: 1.0,
            ..load(Rw::Read, 256 << 10, 2, 20.0)
        };
        let expected = hdd.geometry().zone_rate_bytes_per_s(index);
        close(run(&spec, &load).unwrap().bytes_per_s(), expected, 0.01);
    }
    assert_eq!(zones.len(), 16);
}

#[test]
fn queuing_helps_as_much_as_the_drive_reorders() {
    let iops = |reordering: f64, depth| {
        let spec = disk(&format!(r#", "queue": {{"reordering": {reordering}}}"#));
        run(&spec, &load(Rw::RandRead, 4096, depth, 500.0)).unwrap().read.iops
    };
    let single = iops(0.3, 1);
    let gains: Vec<f64> =
        [2, 4, 8, 16, 32].iter().map(|&depth| iops(0.3, depth) / single).collect();
    assert!(gains.windows(2).all(|pair| pair[1] > pair[0] * 0.99), "{gains:?}");
    assert!(gains[0] < 1.03, "depth 2 gains almost nothing: {gains:?}");
    assert!((1.3..2.0).contains(&gains[4]), "depth 32: {gains:?}");
    assert!(iops(1.0, 32) > iops(0.3, 32));
    close(iops(0.0, 32), single, 0.03);
}

#[test]
fn a_small_write_waits_for_the_platter_only_without_cache() {
    let cached = run(&disk(""), &load(Rw::RandWrite, 4096, 1, 0.1)).unwrap();
    assert!(cached.write.latency_ns_p50 < 200_000);
    let through = disk(r#", "buffer": {"write_cache_bytes": 0}, "write_settle_ms": 1.0"#);
    let through = run(&through, &load(Rw::RandWrite, 512, 1, 1000.0)).unwrap();
    let half_turn_ms = 60_000.0 / RPM / 2.0;
    close(
        through.write.iops,
        1000.0 / (AVERAGE_SEEK_MS + 1.0 + half_turn_ms + OVERHEAD_US / 1e3),
        0.03,
    );
}

#[test]
fn destaging_costs_the_time_to_settle_and_no_missed_revolutions() {
    // Ranges are chosen by the seek curve of writes and the time to settle after it, so that the
    // head does not arrive just behind them.
    let ms = |settle: f64| {
        let seek =
            r#""seek_write": {"curve": "sheet", "track_to_track_ms": 1.0, "average_ms": 9.5}"#;
        let spec = disk(&format!(r#", {seek}, "write_settle_ms": {settle}"#));
        let load = FioLike { ramp_time_s: 5.0, ..load(Rw::RandWrite, 4096, 4, 300.0) };
        1e3 / run(&spec, &load).unwrap().write.iops
    };
    let cost = ms(0.5) - ms(0.0);
    assert!((0.2..0.8).contains(&cost), "{cost} ms");
}

#[test]
fn cached_writes_are_not_commands_that_grow_old() {
    // 1024 ranges take longer than the age limit of commands to write; shortest accesses of 1024
    // still beat shortest accesses of 64.
    let iops = |ranges: u32| {
        let buffer = format!(r#", "buffer": {{"write_cache_extents": {ranges}}}"#);
        let load = FioLike { ramp_time_s: 60.0, ..load(Rw::RandWrite, 4096, 4, 300.0) };
        run(&disk(&buffer), &load).unwrap().write.iops
    };
    let (few, many) = (iops(64), iops(1024));
    assert!(many > 1.5 * few, "{many} {few}");
}

#[test]
fn a_zero_latency_read_of_a_track_takes_one_revolution() {
    // Anywhere on the track where the head arrives, instead of half a revolution later on average.
    let turns = |zero_latency: bool| {
        let buffer = r#""buffer": {"read_ahead_bytes": 0, "segments": 1}"#;
        let spec = disk(&format!(r#", {buffer}, "zero_latency": {zero_latency}"#));
        let mut hdd = model(&spec);
        let track = hdd.geometry().zones()[0].sectors_per_track;
        let mut random = Stream::new(5, "wait");
        let (mut now, mut sum, mut out) = (0, 0.0, Vec::new());
        let count = 4000;
        for tag in 0..count {
            // Two tracks of the first cylinder in turn.
            let sector = (tag % 2) * u64::from(track) * 2;
            hdd.submit(now, Request { tag, op: Op::Read, sector, sectors: track, fua: false });
            while let Some(done) = hdd.next_wake() {
                hdd.wake(done, &mut out);
            }
            let done = out.pop().unwrap().time;
            sum += (done - now) as f64 / 1e6 - OVERHEAD_US / 1e3 - 0.8;
            now = done + random.below(50_000_000);
        }
        sum / count as f64 / (60_000.0 / RPM)
    };
    close(turns(true), 1.0, 0.02);
    close(turns(false), 1.5, 0.02);
}

#[test]
fn reordering_ends_at_its_window() {
    let iops = |window: u32, depth| {
        let queue = format!(r#", "queue": {{"reordering": 1.0, "window": {window}}}"#);
        run(&disk(&queue), &load(Rw::RandRead, 4096, depth, 500.0)).unwrap().read.iops
    };
    let single = iops(2, 1);
    // From the second command that waits on, and no more with a longer queue.
    close(iops(2, 2), single, 0.03);
    assert!(iops(2, 3) > 1.05 * single, "{} {single}", iops(2, 3));
    close(iops(2, 32), iops(2, 3), 0.03);
    assert!(iops(4, 32) > 1.05 * iops(2, 32));
}

#[test]
fn a_flush_ends_after_what_was_written_before_it() {
    let flushed = FioLike { fsync: 1, ..load(Rw::RandWrite, 4096, 1, 200.0) };
    let result = run(&disk(""), &flushed).unwrap();
    let half_turn_ms = 60_000.0 / RPM / 2.0;
    let single = 1000.0 / (AVERAGE_SEEK_MS + half_turn_ms + 2.0 * OVERHEAD_US / 1e3);
    close(result.write.iops, single, 0.05);
    assert!(result.flush.requests > 0);
}

#[test]
fn streams_are_read_ahead_each_into_its_segment() {
    let one = run(&disk(""), &load(Rw::Read, 64 << 10, 1, 20.0)).unwrap().bytes_per_s();
    let four = FioLike {
        numjobs: 4,
        offset_increment_bytes: 100 << 30,
        ..load(Rw::Read, 64 << 10, 1, 60.0)
    };
    let plain = run(&disk(""), &four).unwrap().bytes_per_s();
    let ahead = disk(
        r#", "buffer": {"segment_bytes": 1048576, "read_ahead_bytes": 1048576, "read_ahead_min_bytes": 524288}"#,
    );
    let ahead = run(&ahead, &four).unwrap().bytes_per_s();
    assert!(one > 70e6 && plain < one / 4.0, "{one} {plain}");
    assert!(ahead > 2.0 * plain, "{ahead} {plain}");
}

#[test]
fn energy_is_the_integral_over_the_states() {
    let power = r#", "power": {"idle_w": 5.0, "seek_w": 11.0, "transfer_w": 9.0}"#;
    let random = run(&disk(power), &load(Rw::RandRead, 4096, 1, 300.0)).unwrap();
    let per_request_ms = 1000.0 / random.iops();
    let transfer_ms = 4096.0 / 59e6 * 1e3;
    let expected = 5.0 + (6.0 * AVERAGE_SEEK_MS + 4.0 * transfer_ms) / per_request_ms;
    close(random.power_w_mean, expected, 0.02);
    let mut idle = model(&disk(power));
    idle.wake(10_000_000_000, &mut Vec::new());
    close(idle.energy_j(10_000_000_000), 50.0, 1e-9);
    let standby = r#", "power": {"idle_w": 5.0, "seek_w": 5.0, "transfer_w": 5.0, "standby_w": 1.0,
        "standby_after_s": 4.0, "spin_up_s": 2.0, "spin_up_w": 20.0}"#;
    let mut still = model(&disk(standby));
    close(still.energy_j(10_000_000_000), 4.0 * 5.0 + 6.0, 1e-9);
    still.submit(
        10_000_000_000,
        Request { tag: 1, op: Op::Read, sector: 0, sectors: 8, fua: false },
    );
    assert!(still.next_wake().unwrap() > 12_000_000_000);
}

#[test]
fn reading_ahead_takes_the_power_of_a_transfer() {
    let power = r#", "power": {"idle_w": 5.0, "seek_w": 11.0, "transfer_w": 9.0}"#;
    for bytes in [4096, 1 << 20] {
        let found = run(&disk(power), &load(Rw::Read, bytes, 1, 30.0)).unwrap();
        let reading = found.bytes_per_s() / 78e6;
        assert!(reading > 0.2, "{reading}");
        close(found.power_w_mean, 5.0 + 4.0 * reading, 0.05);
    }
}

#[test]
fn a_classic_curve_gives_its_published_times() {
    let text = r#"{"kind": "hdd", "name": "HP 97560", "capacity_bytes": 1374216192, "rotation_rpm": 4002, "heads": 19,
        "zone": [{"cylinders": 1962, "sectors_per_track": 72}], "link_bytes_per_s": 10e6, "head_switch_ms": 1.6,
        "seek": {"curve": "two_piece", "short_base_ms": 3.24, "short_root_ms": 0.4, "boundary_cylinders": 384,
                 "long_base_ms": 8.0, "long_slope_ms": 0.008}}"#;
    let hdd = model(&DriveSpec::from_json(text).unwrap());
    close(hdd.seek_curve().time_ns(100) as f64, 7.24e6, 1e-6);
    close(hdd.seek_curve().time_ns(1000) as f64, 16.0e6, 1e-6);
    assert_eq!(hdd.geometry().cylinders, 1962);
}

#[test]
fn what_cannot_be_is_refused_by_the_name_of_its_field() {
    for (change, field) in [
        (r#", "heads": 0"#, "heads"),
        (r#", "head_switch_ms": -1.0"#, "head_switch_ms"),
        (r#", "queue": {"depth": 0}"#, "queue.depth"),
        (
            r#", "buffer": {"segment_bytes": 4096, "read_ahead_bytes": 8192}"#,
            "buffer.read_ahead_bytes",
        ),
        (r#", "track_skew_ms": 0.1"#, "track_skew_ms"),
        (r#", "zone": [{"cylinders": 10, "sectors_per_track": 10}]"#, "rates"),
    ] {
        let text = serde_json::to_string(&disk("")).unwrap();
        let mut value: serde_json::Value = serde_json::from_str(&text).unwrap();
        let change: serde_json::Value =
            serde_json::from_str(&format!("{{{}}}", &change[1..])).unwrap();
        for (key, new) in change.as_object().unwrap() {
            value[key] = new.clone();
        }
        let spec = DriveSpec::from_json(&value.to_string()).unwrap();
        let error = headrace_model::drive::build(&spec, 0).err().expect(field);
        assert_eq!(error.field, field, "{error}");
    }
    assert!(DriveSpec::from_json(r#"{"kind": "hdd", "nmae": "x"}"#).is_err());
}
