//! RAID levels against the arithmetic of Linux md: how many disks' worth of each load they do.

use crate::loads::{close, load};
use headrace_model::drive_run::{run_device, FioLike, Rw};
use headrace_model::raid::spec::RaidSpec;
use headrace_model::raid::Raid;
use headrace_model::request::{Device, Op, Queue, Request};
use headrace_model::scheduler::{QueueSpec, SchedulerSpec};
use headrace_model::spec::{DriveSpec, StorageSpec};
use headrace_model::storage::Storage;

fn disk(write_cache_bytes: u64) -> DriveSpec {
    let text = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 500107862016, "rotation_rpm": 7200,
        "heads": 4, "rates": {"outer_bytes_per_s": 109e6}, "link_bytes_per_s": 300e6,
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
        "buffer": {"write_cache_bytes": CACHE}}"#;
    DriveSpec::from_json(&text.replace("CACHE", &write_cache_bytes.to_string())).unwrap()
}

fn raid_spec(level: u32, drives: u32) -> RaidSpec {
    RaidSpec {
        level,
        drives,
        chunk_bytes: 64 << 10,
        rebuild_bytes_per_s: 1 << 20,
        ..RaidSpec::default()
    }
}

fn rate(raid: Option<(u32, u32)>, write_cache_bytes: u64, load: &FioLike) -> f64 {
    let raid = raid.map(|(level, drives)| raid_spec(level, drives));
    let spec = StorageSpec { drives: vec![disk(write_cache_bytes)], raid, faults: Vec::new() };
    let queue = QueueSpec {
        scheduler: SchedulerSpec::named("mq-deadline").unwrap(),
        ..QueueSpec::default()
    };
    let mut storage = Storage::build_queued(&spec, 1, Some(&queue)).unwrap();
    run_device(&mut storage, load).unwrap().bytes_per_s()
}

#[test]
fn sequential_writes_do_as_many_disks_worth_as_hold_data() {
    let writes = load(Rw::Write, 1 << 20, 8, 5.0);
    for cache in [0, 8 << 20] {
        let one = rate(None, cache, &writes);
        for (raid, worth) in [
            ((0, 4), 4.0),
            ((1, 2), 1.0),
            ((5, 3), 2.0),
            ((5, 4), 3.0),
            ((6, 6), 4.0),
            ((10, 4), 2.0),
        ] {
            close(rate(Some(raid), cache, &writes) / one, worth, 0.03);
        }
    }
}

#[test]
fn small_random_writes_with_parity_cost_two_rounds() {
    // One at a time: the slowest of the members' reads, and nearly a revolution later the writes
    // at the same places.
    let writes = load(Rw::RandWrite, 4096, 1, 60.0);
    let one = rate(None, 0, &writes);
    for raid in [(5, 4), (5, 8), (6, 6)] {
        let worth = rate(Some(raid), 0, &writes) / one;
        assert!((0.4..0.6).contains(&worth), "{raid:?}: {worth}");
    }
}

/// Return the requests that the members receive for each group of writes (sector, sectors); a group
/// is collected in a plug.
fn issued(groups: &[&[(u64, u32)]]) -> Vec<u64> {
    let devices = (0..4).map(|n| headrace_model::drive::build(&disk(0), n).unwrap()).collect();
    let mut raid = Raid::new(&raid_spec(5, 4), devices).unwrap();
    let mut so_far = 0;
    let mut counts = Vec::new();
    for group in groups {
        let now = raid.next_wake().unwrap_or(counts.len() as u64 * 1_000_000_000);
        raid.plug();
        for &(sector, sectors) in *group {
            raid.submit(now, Request { tag: sector, op: Op::Write, sector, sectors, fua: false });
        }
        raid.unplug(now);
        let mut done = Vec::new();
        while let Some(next) = raid.next_wake() {
            raid.wake(next, &mut done);
        }
        assert_eq!(done.len(), group.len());
        let all: u64 = raid.issued().iter().sum();
        counts.push(all - so_far);
        so_far = all;
    }
    counts
}

#[test]
fn writes_gather_in_stripes_before_anything_is_read() {
    // A stripe in pieces of half a chunk: three data chunks and parity, and no reads.
    let pieces: Vec<(u64, u32)> = (0..6).map(|piece| (piece * 64, 64)).collect();
    assert_eq!(issued(&[&pieces]), [4]);
    // Two thirds of a stripe: the third chunk is read.
    assert_eq!(issued(&[&pieces[..4]]), [1 + 3]);
}

#[test]
fn data_in_the_stripe_cache_is_not_read_again() {
    // The first write reads the other chunks of its columns, so that the next ones read nothing.
    let (first, beside) = ((0, 8), (128, 8));
    assert_eq!(issued(&[&[first], &[first], &[beside]]), [4, 2, 2]);
    // 300 stripes further on it is forgotten (256 pages per member).
    let far: Vec<(u64, u32)> = (1..301).map(|stripe| (stripe * 384, 8)).collect();
    let counts = issued(&[&[first], &far, &[first]]);
    assert_eq!(counts[2], 4);
}

#[test]
fn writes_that_a_process_waits_for_read_their_stripes_at_once() {
    // Four I/Os per write: many writes in flight do a quarter of what eight disks do. Those that
    // are written back wait for the stripes that are being read (`preread_active_stripes`).
    let rate = |buffered, depth| {
        let spec =
            StorageSpec { drives: vec![disk(0)], raid: Some(raid_spec(5, 8)), faults: Vec::new() };
        let writes = FioLike { buffered, ..load(Rw::RandWrite, 4096, depth, 100.0) };
        run_device(&mut Storage::build_queued(&spec, 1, None).unwrap(), &writes).unwrap().iops()
    };
    let one = rate_of_one(64);
    close(rate(false, 256), 8.0 / 4.0 * one, 0.15);
    assert!(rate(false, 8) > 1.15 * rate(true, 8));
    close(rate(false, 1), rate(true, 1), 0.001);
}

/// Return the random writes per second of one disk without a cache, with so many in flight.
fn rate_of_one(depth: u32) -> f64 {
    let spec = StorageSpec { drives: vec![disk(0)], raid: None, faults: Vec::new() };
    let writes = load(Rw::RandWrite, 4096, depth, 100.0);
    run_device(&mut Storage::build(&spec, 1).unwrap(), &writes).unwrap().iops()
}
