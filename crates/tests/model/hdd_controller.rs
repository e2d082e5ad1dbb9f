//! Controller, link and buffer of a hard disk: overheads by kind of command, a link slower than the
//! medium, read-ahead rules, and skews of each zone.

use crate::loads::{close, load};
use headrace_model::drive_run::{run, FioLike, Rw};
use headrace_model::hdd::Hdd;
use headrace_model::request::{Completion, Device, Op, Request};
use headrace_model::spec::DriveSpec;
use headrace_model::stream::Stream;

const TURN_NS: f64 = 60e9 / 7200.0;

/// A disk with two heads and two zones, the outer one of 200 sectors per track.
fn disk(extra: &str) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "hdd", "name": "disk", "capacity_bytes": 102400000, "rotation_rpm": 7200, "heads": 2,
        "zone": [{{"cylinders": 400, "sectors_per_track": 200}}, {{"cylinders": 400, "sectors_per_track": 100}}],
        "seek": {{"curve": "sheet", "track_to_track_ms": 1.0, "average_ms": 8.0}},
        "head_switch_ms": 1.0, "controller_overhead_us": 100{extra}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

const FAST: &str = r#", "link_bytes_per_s": 1e9"#;

fn model(spec: &DriveSpec) -> Hdd {
    let DriveSpec::Hdd(spec) = spec else { panic!("a disk") };
    Hdd::new(spec, 1).unwrap()
}

/// Submit requests one after the other, each 0.3 to 0.4 s after the completion before it, and
/// return their response times.
fn responses(spec: &DriveSpec, requests: &[(Op, u64, u32)]) -> Vec<f64> {
    let mut hdd = model(spec);
    let mut gaps = Stream::new(7, "gaps");
    let (mut now, mut out, mut times) = (0, Vec::<Completion>::new(), Vec::new());
    for (tag, &(op, sector, sectors)) in requests.iter().enumerate() {
        hdd.submit(now, Request { tag: tag as u64, op, sector, sectors, fua: false });
        while out.is_empty() {
            let due = hdd.next_wake().unwrap();
            hdd.wake(due, &mut out);
        }
        let done = out.pop().unwrap().time;
        times.push((done - now) as f64);
        now = done + 300_000_000 + gaps.below(100_000_000);
    }
    times
}

#[test]
fn each_kind_of_command_takes_its_own_overhead() {
    let overhead = r#", "link_bytes_per_s": 1e12, "overhead": {
        "read_hit_after_read_us": 10, "read_hit_after_write_us": 20,
        "write_hit_after_read_us": 50, "write_hit_after_write_us": 60,
        "write_miss_after_read_us": 70000, "write_miss_after_write_us": 90000,
        "read_completion_us": 1000, "write_completion_us": 2000}"#;
    let requests = [
        (Op::Read, 0, 8),      // a miss
        (Op::Read, 8, 8),      // a hit after a read: read ahead
        (Op::Write, 90000, 8), // after a read: a hit, since the write cache takes it
        (Op::Write, 50000, 8), // after a write
        (Op::Read, 16, 8),     // a hit after a write
    ];
    let times = responses(&disk(overhead), &requests);
    for (obtained, expected_us) in times[1..].iter().zip([1010, 2050, 2060, 1020]) {
        assert!((obtained / 1e3 - f64::from(expected_us)).abs() < 1.0, "{times:?}");
    }
    // A write to the medium is a miss; more than its overhead takes it at most a seek and a turn.
    let through = format!(r#"{overhead}, "buffer": {{"write_cache_bytes": 0}}"#);
    let times = responses(&disk(&through), &requests);
    for (obtained, least_us) in times[2..4].iter().zip([72_000, 92_000]) {
        let over_us = obtained / 1e3 - f64::from(least_us);
        assert!((0.0..30_000.0).contains(&over_us), "{times:?}");
    }
}

#[test]
fn a_read_over_a_slow_link_ends_when_the_link_has_carried_it() {
    // 200 sectors of 512 bytes: one revolution on the medium, 20.48 ms on the link.
    let slow = disk(r#", "link_bytes_per_s": 5e6, "buffer": {"read_ahead_bytes": 0}"#);
    let fast = disk(&format!(r#"{FAST}, "buffer": {{"read_ahead_bytes": 0}}"#));
    let requests: Vec<_> = (0..2000).map(|n| (Op::Read, n * 3400 % 100_000, 200)).collect();
    let mean = |times: Vec<f64>| times.iter().sum::<f64>() / times.len() as f64;
    let longer = mean(responses(&slow, &requests)) - mean(responses(&fast, &requests));
    close(longer, 200.0 * 512.0 / 5e6 * 1e9 - TURN_NS, 0.03);
}

#[test]
fn a_stream_over_a_slow_link_runs_at_the_rate_of_the_link() {
    for depth in [1, 4] {
        let spec = disk(r#", "link_bytes_per_s": 3e6"#);
        let load = FioLike { ramp_time_s: 1.0, ..load(Rw::Read, 65536, depth, 20.0) };
        let rate = run(&spec, &load).unwrap().bytes_per_s();
        assert!((2.6e6..=3.0e6 * 1.001).contains(&rate), "depth {depth}: {rate}");
    }
}

#[test]
fn a_write_may_begin_on_the_medium_before_all_of_it_is_there() {
    // 100 sectors take 10.24 ms on the link: more than any seek and rotational delay to the start.
    let through = |mark: &str| {
        disk(&format!(
            r#", "link_bytes_per_s": 5e6, "buffer": {{"write_cache_bytes": 0, "write_water_mark": {mark}}}"#
        ))
    };
    let requests: Vec<_> = (0..2000).map(|n| (Op::Write, n * 997 % 100_000, 100)).collect();
    let mean = |spec| {
        let times = responses(&spec, &requests);
        assert!(times.iter().all(|&ns| ns > 100.0 * 512.0 / 5e6 * 1e9));
        times.iter().sum::<f64>() / times.len() as f64
    };
    let (early, late) = (mean(through("0.0")), mean(through("1.0")));
    assert!(early < late - 1e6, "{early} {late}");
}

/// Return whether a read of `sector` is served from the buffer, after reads of the sectors before.
fn hits(rule: &str, reads: &[(u64, u32)], sector: u64) -> bool {
    let spec = disk(&format!(
        r#"{FAST}, "buffer": {{"segment_bytes": 524288, "read_ahead_bytes": 524288, "read_ahead": "{rule}"}}"#
    ));
    let mut requests: Vec<_> = reads.iter().map(|&(at, n)| (Op::Read, at, n)).collect();
    requests.push((Op::Read, sector, 1));
    *responses(&spec, &requests).last().unwrap() < 150_000.0
}

#[test]
fn each_rule_reads_ahead_as_far_as_it_says() {
    // A track has 200 sectors, a cylinder 400.
    let first = [(10, 8)];
    let continued = [(10, 8), (18, 8)];
    let crossing = [(190, 8), (198, 8)];
    let ending = [(192, 8)];
    for (rule, reads, last_hit, first_miss) in [
        ("always", &first[..], 900, 1100),
        ("track", &first, 199, 200),
        ("cylinder", &first, 399, 400),
        ("sequential", &continued, 900, 1100),
        ("track_by_track", &first, 199, 200),
        ("track_by_track", &crossing, 599, 600),
        ("track_by_track", &ending, 599, 600),
    ] {
        assert!(hits(rule, reads, last_hit), "{rule}: {last_hit}");
        assert!(!hits(rule, reads, first_miss), "{rule}: {first_miss}");
    }
    assert!(!hits("sequential", &first, 18));
}

/// Return whether the last of the requests is a read from the buffer.
fn last_hits(buffer: &str, requests: &[(Op, u64, u32)]) -> bool {
    let spec = disk(&format!(
        r#"{FAST}, "buffer": {{"segment_bytes": 524288, "read_ahead_bytes": 65536{buffer}}}"#
    ));
    *responses(&spec, requests).last().unwrap() < 150_000.0
}

#[test]
fn data_that_were_sent_stay_in_the_buffer_unless_the_drive_drops_them() {
    for (again, keeps, drops) in [(10, true, false), (14, true, false), (18, true, true)] {
        let requests = [(Op::Read, 10, 8), (Op::Read, again, 4)];
        assert_eq!(last_hits("", &requests), keeps, "{again}");
        assert_eq!(last_hits(r#", "keep_sent": false"#, &requests), drops, "{again}");
    }
}

#[test]
fn a_write_makes_what_was_read_old() {
    let near = |write| [(Op::Read, 10, 8), (Op::Write, write, 8), (Op::Read, 30, 4)];
    assert!(!last_hits("", &near(60)), "sectors to 146 were read ahead");
    assert!(last_hits("", &near(1000)));
}

#[test]
fn data_that_were_written_are_read_from_the_buffer_if_the_drive_keeps_them() {
    let requests = [(Op::Write, 1000, 8), (Op::Read, 1000, 8)];
    assert!(!last_hits("", &requests));
    assert!(last_hits(r#", "keep_written": true"#, &requests));
    let past = [(Op::Write, 1000, 8), (Op::Read, 1004, 8)];
    assert!(!last_hits(r#", "keep_written": true"#, &past));
}

#[test]
fn spare_sectors_take_their_share_of_the_rate_and_of_the_capacity() {
    let spares = |spare: u32, capacity: u64| {
        let DriveSpec::Hdd(mut given) = disk(FAST) else { panic!("a disk") };
        given.zone.iter_mut().for_each(|zone| zone.spare_sectors_per_track = spare);
        given.capacity_bytes = capacity;
        DriveSpec::Hdd(given)
    };
    let rate = |spec| {
        let load = FioLike { ramp_time_s: 0.3, ..load(Rw::Read, 65536, 4, 3.0) };
        run(&spec, &load).unwrap().bytes_per_s()
    };
    // 40 of 200 sectors of an outer track, 40 of 100 of an inner one.
    let all = 400 * 2 * (160 + 60) * 512;
    close(rate(spares(40, all)) / rate(spares(0, all)), 0.8, 0.01);
    let DriveSpec::Hdd(too_large) = spares(40, all + 512) else { panic!("a disk") };
    assert!(Hdd::new(&too_large, 1).is_err());
}

#[test]
fn a_zone_streams_at_the_rate_of_its_own_skews() {
    let spec = disk(&format!(r#"{FAST}, "track_skew_ms": 1.0, "cylinder_skew_ms": 1.0"#));
    let DriveSpec::Hdd(mut given) = spec else { panic!("a disk") };
    given.zone[1].track_skew_sectors = Some(50.0);
    given.zone[1].cylinder_skew_sectors = Some(70.0);
    let spec = DriveSpec::Hdd(given);
    // A cylinder of the outer zone: two turns and two skews of 1 ms; of the inner one: 3.2 turns.
    let outer = 400.0 * 512.0 / (2.0 * TURN_NS + 2e6) * 1e9;
    let inner = 200.0 * 512.0 / (3.2 * TURN_NS) * 1e9;
    for (offset_bytes, expected) in [(0, outer), (400 * 400 * 512, inner)] {
        let load = FioLike { offset_bytes, ramp_time_s: 0.3, ..load(Rw::Read, 65536, 4, 3.0) };
        close(run(&spec, &load).unwrap().bytes_per_s(), expected, 0.01);
    }
}

#[test]
fn a_write_over_data_read_ahead_leaves_the_order_of_waiting_reads_to_their_distance() {
    let extra = r#", "link_bytes_per_s": 1e9, "queue": {"depth": 32, "reordering": 1.0}"#;
    // The first read is on the medium when the others come. It lies on cylinder 100; the oldest of
    // the others lies 600 cylinders further, the next one 1 cylinder.
    let first = 100 * 400;
    let requests = |write_at: u64| {
        [
            (Op::Read, first, 64),
            (Op::Write, write_at, 8),
            (Op::Read, 150_000, 8),
            (Op::Read, first + 400, 8),
        ]
    };
    for write_at in [first + 16, 1_000] {
        let mut hdd = model(&disk(extra));
        for (tag, (op, sector, sectors)) in requests(write_at).into_iter().enumerate() {
            let request = Request { tag: tag as u64, op, sector, sectors, fua: false };
            hdd.submit(2_000_000 * tag as u64, request);
        }
        let (mut out, mut order) = (Vec::<Completion>::new(), Vec::new());
        while order.len() < 4 {
            let due = hdd.next_wake().unwrap();
            hdd.wake(due, &mut out);
            order.extend(out.drain(..).map(|completion| completion.tag));
        }
        order.retain(|&tag| tag != 1);
        assert_eq!(order, [0, 3, 2], "write at {write_at}");
    }
}

/// Return the reads per second of a disk whose queue chooses freely, relative to one read at a time.
fn gain(queue: &str, depth: u32) -> f64 {
    let spec = disk(&format!(r#"{FAST}, "queue": {{"depth": 32, "reordering": 1.0{queue}}}"#));
    let iops = |iodepth| run(&spec, &load(Rw::RandRead, 4096, iodepth, 200.0)).unwrap().read.iops;
    iops(depth) / iops(1)
}

#[test]
fn a_disk_that_chooses_late_gains_from_the_second_command_on() {
    // When the arm is free, one of two commands in flight waits: there is no choice.
    assert!(gain("", 2) < 1.03);
    // One that commits itself shortly before the latest start has the choice of two; when it must
    // commit itself a revolution before, it has none.
    let shortly = gain(r#", "commit_ms": 0.1"#, 2);
    let (half, turn) = (gain(r#", "commit_ms": 4.0"#, 2), gain(r#", "commit_ms": 8.4"#, 2));
    assert!(
        shortly > 1.1 && half > 1.02 && half < shortly && turn < 1.03,
        "{shortly} {half} {turn}"
    );
    // The choice of two of two is that of two of three without.
    close(shortly, gain("", 3), 0.03);
}

#[test]
fn a_command_alone_is_reached_as_early_when_the_arm_waits() {
    let requests: Vec<(Op, u64, u32)> = (0..200u64)
        .map(|n| (if n % 3 == 0 { Op::Write } else { Op::Read }, n * 7919 * 8 % 190_000, 8))
        .collect();
    let through = r#""buffer": {"write_cache_bytes": 0, "read_ahead_bytes": 0}"#;
    let plain = responses(&disk(&format!("{FAST}, {through}")), &requests);
    let late = disk(&format!(r#"{FAST}, {through}, "queue": {{"commit_ms": 0.05}}"#));
    for (late, plain) in responses(&late, &requests).iter().zip(plain) {
        close(*late, plain, 1e-6);
    }
}
