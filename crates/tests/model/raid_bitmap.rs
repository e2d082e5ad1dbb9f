//! The write-intent bitmap of md: when its pages are written, and what that costs.

use crate::loads::{close, load};
use headrace_model::drive_run::{run_device, Rw};
use headrace_model::raid::spec::RaidSpec;
use headrace_model::raid::Raid;
use headrace_model::request::{Device, Nanos, Op, Request, Status};
use headrace_model::spec::{DriveSpec, StorageSpec};
use headrace_model::storage::Storage;

const DISK: &str = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 500107862016,
    "rotation_rpm": 7200, "heads": 4, "rates": {"outer_bytes_per_s": 109e6},
    "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
    "buffer": {"write_cache_bytes": 0}}"#;
const CHUNK: u64 = 64 << 20;

fn spec(level: u32, drives: u32, chunk: Option<u64>) -> RaidSpec {
    RaidSpec { level, drives, bitmap_chunk_bytes: chunk, ..RaidSpec::default() }
}

/// Return the requests that the members receive for a write at each (time, sector).
fn issued(level: u32, drives: u32, writes: &[(Nanos, u64)]) -> Vec<u64> {
    let disk = DriveSpec::from_json(DISK).unwrap();
    let devices = (0..u64::from(drives)).map(|n| headrace_model::drive::build(&disk, n).unwrap());
    let mut raid = Raid::new(&spec(level, drives, Some(CHUNK)), devices.collect()).unwrap();
    let mut so_far = 0;
    let mut counts = Vec::new();
    for &(now, sector) in writes {
        raid.submit(now, Request { tag: 1, op: Op::Write, sector, sectors: 8, fua: false });
        let mut done = Vec::new();
        while let Some(next) = raid.next_wake() {
            raid.wake(next, &mut done);
        }
        assert_eq!(done.len(), 1);
        let all: u64 = raid.issued().iter().sum();
        counts.push(all - so_far);
        so_far = all;
    }
    counts
}

#[test]
fn a_bit_is_written_before_the_first_write_to_its_chunk_and_again_once_it_was_cleared() {
    let s = 1_000_000_000;
    let in_chunk = CHUNK / 512 - 8;
    // Each of two mirrors: flush, page, data. Then the data alone, up to the daemon's second pass.
    let writes =
        [(0, 0), (s, in_chunk), (2 * s, in_chunk + 8), (9 * s, 0), (14 * s, 0), (26 * s, 0)];
    assert_eq!(issued(1, 2, &writes), [6, 2, 6, 2, 2, 6]);
}

#[test]
fn with_parity_a_bit_stands_for_sectors_of_the_members() {
    // Three chunks of data: the array's third 64 MiB are still in the first bit.
    let counts = issued(5, 4, &[(0, 0), (1, 2 * CHUNK / 512), (2, 3 * CHUNK / 512)]);
    // Old data and parity, or two chunks of data, are read; two pieces written; four pages, flushes.
    assert_eq!(counts, [4 + 8, 4, 4 + 8]);
}

#[test]
fn random_writes_pay_for_the_bitmap_and_sequential_ones_hardly() {
    let rate = |chunk: Option<u64>, rw: Rw, bytes: u64, depth: u32| {
        let storage = StorageSpec {
            drives: vec![DriveSpec::from_json(DISK).unwrap()],
            raid: Some(spec(1, 2, chunk)),
            faults: Vec::new(),
        };
        let mut storage = Storage::build(&storage, 1).unwrap();
        run_device(&mut storage, &load(rw, bytes, depth, 20.0)).unwrap().bytes_per_s()
    };
    let sequential = |chunk| rate(chunk, Rw::Write, 1 << 20, 4);
    close(sequential(Some(CHUNK)) / sequential(None), 1.0, 0.05);
    // Nearly every one of these finds its bit clear: a seek to the bitmap and back.
    let random = |chunk| rate(chunk, Rw::RandWrite, 4096, 1);
    let worth = random(Some(CHUNK)) / random(None);
    assert!((0.35..0.6).contains(&worth), "{worth}");
    // Larger chunks are set more often by another write: the bits of 64 GiB are soon all set.
    let worth = random(Some(64 << 30)) / random(None);
    assert!(worth > 0.95, "{worth}");
}

/// A mirror whose drives are gone from 5 ms on.
fn mirror_that_goes() -> Storage {
    let gone = |drive: u32| {
        let text = r#"{"fault": {"kind": "drop_off"}, "drive": DRIVE, "from_s": 0.005}"#;
        serde_json::from_str(&text.replace("DRIVE", &drive.to_string())).unwrap()
    };
    let storage = StorageSpec {
        drives: vec![DriveSpec::from_json(DISK).unwrap()],
        raid: Some(spec(1, 2, Some(CHUNK))),
        faults: vec![gone(0), gone(1)],
    };
    Storage::build(&storage, 1).unwrap()
}

#[test]
fn writes_that_wait_for_the_bitmap_fail_with_the_last_drive() {
    let mut mirror = mirror_that_goes();
    for tag in 0..8 {
        let sector = tag * CHUNK / 512;
        let write = Request { tag, op: Op::Write, sector, sectors: 8, fua: false };
        mirror.submit(tag * 1_000_000, write);
    }
    let mut done = Vec::new();
    // The daemon that clears bits wakes for as long as a write is under way.
    while let Some(next) = mirror.next_wake().filter(|&next| next < 60_000_000_000) {
        mirror.wake(next, &mut done);
    }
    assert_eq!((done.len(), mirror.in_flight()), (8, 0));
    assert!(done.iter().any(|each| each.status != Status::Done));
}

#[test]
fn a_bitmap_that_cannot_be_is_refused() {
    for (level, drives, chunk) in [(0, 2, CHUNK), (1, 2, 100_000), (1, 2, 4096)] {
        let disk = DriveSpec::from_json(DISK).unwrap();
        let raid = Some(spec(level, drives, Some(chunk)));
        let storage = StorageSpec { drives: vec![disk], raid, faults: Vec::new() };
        let refused = Storage::build(&storage, 1).err().unwrap();
        assert_eq!(refused.field, "raid.bitmap_chunk_bytes");
    }
}
