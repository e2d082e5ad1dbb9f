//! What RAID levels cost and survive.

use crate::loads::{close, load};
use headrace_model::drive_run::{run_device, DriveRun, FioLike, Rw};
use headrace_model::faults::{FaultKind, FaultSpec};
use headrace_model::raid::Raid;
use headrace_model::request::{Completion, Device, Fault, Medium, Op, Request, Status};
use headrace_model::spec::{DriveSpec, RaidSpec, StorageSpec};
use headrace_model::storage::{Drives, Storage};

const CHUNK: u64 = 64 << 10;

fn disk() -> DriveSpec {
    let text = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 8589934592, "rotation_rpm": 7200, "heads": 4,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6}, "link_bytes_per_s": 300e6,
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
        "buffer": {"write_cache_bytes": 0}}"#;
    DriveSpec::from_json(text).unwrap()
}

fn spec(level: u32, drives: u32) -> RaidSpec {
    RaidSpec {
        level,
        drives,
        chunk_bytes: CHUNK,
        rebuild_bytes_per_s: 20_000_000,
        ..RaidSpec::default()
    }
}

fn raid(level: u32, drives: u32) -> Raid<headrace_model::drive::Drive> {
    let devices =
        (0..drives).map(|n| headrace_model::drive::build(&disk(), u64::from(n)).unwrap()).collect();
    Raid::new(&spec(level, drives), devices).unwrap()
}

fn one(device: &mut impl Device, op: Op, sector: u64, sectors: u32) -> Status {
    let now = device.next_wake().unwrap_or(0);
    device.submit(now, Request { tag: 1, op, sector, sectors, fua: false });
    let mut out: Vec<Completion> = Vec::new();
    while let Some(next) = device.next_wake() {
        device.wake(next, &mut out);
    }
    assert_eq!(out.len(), 1);
    out[0].status
}

fn issued(raid: &Raid<headrace_model::drive::Drive>) -> u64 {
    raid.issued().iter().sum()
}

#[test]
fn requests_to_the_members() {
    // level, drives, op, bytes, requests
    for (level, drives, op, bytes, expected) in [
        // Reads equally much either way: the rest of the stripe, then data and parity.
        (5, 4, Op::Write, 4096, 4),
        (5, 3, Op::Write, 4096, 3), // the one other chunk instead of old data and parity
        (5, 8, Op::Write, 4096, 4), // old data and parity
        (6, 8, Op::Write, 4096, 6),
        (6, 4, Op::Write, 4096, 4), // the one other chunk, then data and two parities
        (6, 6, Op::Write, 4096, 6),
        (5, 4, Op::Write, 3 * CHUNK, 4), // a full stripe: data and parity
        (5, 5, Op::Write, 3 * CHUNK, 1 + 4), // three of four chunks: one read, three data, a parity
        (6, 6, Op::Write, 4 * CHUNK, 6),
        (5, 4, Op::Read, 4096, 1),
        (5, 4, Op::Read, 3 * CHUNK, 3),
        (0, 4, Op::Write, 8 * CHUNK, 4), // two chunks a member, next to each other there
        (1, 3, Op::Write, 4096, 3),
        (1, 3, Op::Read, 4096, 1),
        (10, 4, Op::Write, 4096, 2),
        (5, 4, Op::Flush, 0, 4),
    ] {
        let mut raid = raid(level, drives);
        assert_eq!(one(&mut raid, op, 0, (bytes / 512) as u32), Status::Done);
        assert_eq!(issued(&raid), expected, "level {level}, {drives} drives, {op:?} of {bytes}");
    }
}

#[test]
fn capacities() {
    let drive = disk().capacity_bytes() / 512;
    for (level, drives, data) in [(0, 3, 3), (1, 2, 1), (5, 4, 3), (6, 6, 4), (10, 6, 3)] {
        close(raid(level, drives).capacity_sectors() as f64, (drive * data) as f64, 0.001);
    }
}

fn run(level: u32, drives: u32, load: &FioLike) -> DriveRun {
    run_device(&mut raid(level, drives), load).unwrap()
}

#[test]
fn stripes_add_up_and_small_parity_writes_cost_four() {
    let single = run_device(
        &mut headrace_model::drive::build(&disk(), 1).unwrap(),
        &load(Rw::Read, 1 << 20, 8, 20.0),
    );
    let single = single.unwrap().read.bytes_per_s;
    close(run(0, 3, &load(Rw::Read, 1 << 20, 16, 20.0)).read.bytes_per_s, 3.0 * single, 0.03);
    let reads = run(5, 4, &load(Rw::RandRead, 4096, 32, 100.0)).read.iops;
    let writes = run(5, 4, &load(Rw::RandWrite, 4096, 32, 100.0)).write.iops;
    // A read-modify-write is a read and, a turn later, a write at the same place, on two drives.
    assert!(writes > reads / 4.5 && writes < reads / 2.2, "{reads} {writes}");
    let mirrored = run(1, 2, &load(Rw::RandRead, 4096, 8, 100.0)).read.iops;
    let single = run(0, 2, &load(Rw::RandRead, 4096, 8, 100.0)).read.iops;
    assert!(mirrored > 0.9 * single, "two mirrors read like two drives: {mirrored} {single}");
}

#[test]
fn lost_members() {
    for (level, drives, survives) in [(0, 3, 0), (1, 3, 2), (5, 4, 1), (6, 6, 2), (10, 4, 1)] {
        for lost in 0..=survives + 1 {
            if lost > survives + 1 || (level == 10 && lost == 2) {
                continue;
            }
            let mut raid = raid(level, drives);
            (0..lost).for_each(|member| raid.fail_member(member));
            let expected =
                if lost <= survives { Status::Done } else { Status::Failed(Fault::Gone) };
            for op in [Op::Read, Op::Write, Op::Flush] {
                let sectors = if op == Op::Flush { 0 } else { 1024 };
                assert_eq!(
                    one(&mut raid, op, 0, sectors),
                    expected,
                    "level {level}, {lost} lost, {op:?}"
                );
            }
            (0..lost).for_each(|member| assert_eq!(raid.issued()[member], 0));
        }
    }
}

#[test]
fn degraded_reads_read_all_others() {
    let mut raid = raid(5, 4);
    raid.fail_member(0);
    assert_eq!(one(&mut raid, Op::Read, 0, 8), Status::Done);
    assert_eq!(raid.issued(), [0, 1, 1, 1]);
    let mut small = run_degraded(5, Rw::RandWrite);
    small.sort_by(f64::total_cmp);
    assert!(small[0] > 0.0);
}

fn run_degraded(level: u32, rw: Rw) -> Vec<f64> {
    let lost = [None, Some(1)];
    lost.iter()
        .map(|lost| {
            let mut raid = raid(level, 4);
            if let Some(member) = lost {
                raid.fail_member(*member);
            }
            run_device(&mut raid, &load(rw, 4096, 8, 20.0)).unwrap().iops()
        })
        .collect()
}

#[test]
fn a_replaced_drive_fills_beside_the_load_and_then_serves() {
    let mut raid = raid(5, 3);
    raid.fail_member(1);
    let spare = headrace_model::drive::build(&disk(), 77).unwrap();
    assert!(raid.replace_member(0, 1, spare).is_ok());
    let during = run_device(&mut raid, &load(Rw::RandRead, 4096, 4, 30.0)).unwrap().read.iops;
    let progress = raid.rebuild_progress().expect("still filling");
    assert!(progress > 0.01 && progress < 0.5, "{progress}");
    let hour = 3_600_000_000_000;
    raid.wake(hour, &mut Vec::new());
    assert!(raid.rebuild_progress().is_none() && !raid.is_degraded());
    assert!(during > 10.0);
}

#[test]
fn a_rebuild_keeps_to_its_rate() {
    let mut raid = raid(1, 2);
    raid.fail_member(0);
    assert!(raid.replace_member(0, 0, headrace_model::drive::build(&disk(), 5).unwrap()).is_ok());
    raid.wake(100_000_000_000, &mut Vec::new());
    close(raid.rebuild_progress().unwrap() * 8589934592.0 / 100.0, 20e6, 0.05);
}

fn storage(level: u32, drives: u32, faults: Vec<FaultSpec>) -> StorageSpec {
    StorageSpec { drives: vec![disk()], raid: Some(spec(level, drives)), faults }
}

fn fault(kind: &str) -> FaultSpec {
    serde_json::from_str(kind).unwrap()
}

#[test]
fn a_drive_that_drops_off_leaves_a_degraded_raid_and_no_request_lost() {
    let gone = fault(r#"{"fault": {"kind": "drop_off"}, "drive": 2, "from_s": 5.0}"#);
    let mut five = Storage::build(&storage(5, 4, vec![gone.clone()]), 1).unwrap();
    let result = run_device(&mut five, &load(Rw::RandRw, 4096, 16, 20.0)).unwrap();
    assert_eq!(result.failed, 0);
    let Drives::Raid(inner) = &five.drives else { panic!("a RAID") };
    assert!(inner.is_degraded());
    assert!(five.fired()[0] > 0);
    let mut zero = Storage::build(&storage(0, 4, vec![gone]), 1).unwrap();
    assert!(run_device(&mut zero, &load(Rw::RandRead, 4096, 16, 6.0)).unwrap().failed > 0);
}

#[test]
fn a_media_error_is_repaired_from_the_others() {
    let bad = fault(
        r#"{"fault": {"kind": "media_error"}, "drive": 0, "probability": 0.1, "only": "read"}"#,
    );
    assert_eq!(bad.fault, FaultKind::MediaError);
    let mut five = Storage::build(&storage(5, 4, vec![bad.clone()]), 1).unwrap();
    let result = run_device(&mut five, &load(Rw::RandRead, 4096, 16, 20.0)).unwrap();
    assert_eq!(result.failed, 0);
    assert!(five.fired()[0] > 10);
    let single = StorageSpec { drives: vec![disk()], raid: None, faults: vec![bad] };
    let mut single = Storage::build(&single, 1).unwrap();
    let result = run_device(&mut single, &load(Rw::RandRead, 4096, 1, 100.0)).unwrap();
    close(result.failed as f64 / (result.read.requests + result.failed) as f64, 0.1, 0.2);
}

#[test]
fn spikes_slowness_and_stalls() {
    let latency = |kind: &str| {
        let spec = StorageSpec { drives: vec![disk()], raid: None, faults: vec![fault(kind)] };
        run_device(&mut Storage::build(&spec, 1).unwrap(), &load(Rw::RandRead, 4096, 1, 100.0))
            .unwrap()
            .read
    };
    let plain =
        latency(r#"{"fault": {"kind": "media_error"}, "probability": 0.0}"#).latency_ns_mean;
    let spiked =
        latency(r#"{"fault": {"kind": "latency_spike", "extra_ms": 20}, "probability": 0.5}"#);
    close(spiked.latency_ns_mean, plain + 10e6, 0.03);
    close(
        latency(r#"{"fault": {"kind": "slow_down", "factor": 3}}"#).latency_ns_mean,
        3.0 * plain,
        0.03,
    );
    let stalled = latency(r#"{"fault": {"kind": "stall"}, "from_s": 10, "until_s": 14}"#);
    assert!(stalled.latency_ns_max > 3_900_000_000);
}

#[test]
fn a_degraded_raid_gets_a_new_drive_and_is_rebuilt() {
    // 8 GiB a member at 200 MB/s at most, beside a light load: some 60 s.
    let degraded =
        fault(r#"{"fault": {"kind": "degraded"}, "drive": 1, "from_s": 2.0, "until_s": 4.0}"#);
    let mut raid = Storage::build(&storage(1, 2, vec![degraded]), 1).unwrap();
    assert_eq!(run_device(&mut raid, &load(Rw::RandRead, 4096, 1, 3.0)).unwrap().failed, 0);
    assert_eq!(raid.fired(), vec![1]);
    let Drives::Raid(inner) = &raid.drives else { panic!("a RAID") };
    assert!(inner.is_degraded() && raid.fault_counts().rebuilt.is_none());
    raid.wake(20_000_000_000, &mut Vec::new());
    let part = raid.fault_counts().rebuilt.unwrap();
    assert!(part > 0.02 && part < 1.0, "{part}");
    raid.wake(600_000_000_000, &mut Vec::new());
    assert_eq!(raid.fault_counts().rebuilt, Some(1.0));
    let Drives::Raid(inner) = &raid.drives else { panic!("a RAID") };
    assert!(!inner.is_degraded());

    let rebuild = fault(r#"{"fault": {"kind": "rebuild"}, "drive": 0, "from_s": 1.0}"#);
    let mut slowed = Storage::build(&storage(1, 2, vec![rebuild.clone()]), 1).unwrap();
    let mut plain = Storage::build(&storage(1, 2, vec![]), 1).unwrap();
    let (beside, alone) = (load(Rw::RandRead, 4096, 1, 30.0), load(Rw::RandRead, 4096, 1, 30.0));
    let with = run_device(&mut slowed, &beside).unwrap().read;
    assert!(
        with.latency_ns_mean > 1.1 * run_device(&mut plain, &alone).unwrap().read.latency_ns_mean
    );
    assert_eq!(Storage::build(&storage(0, 2, vec![rebuild]), 1).err().unwrap().field, "fault.kind");
}

#[test]
fn power_lost_is_survived_by_what_was_flushed_and_by_every_member() {
    let lost = fault(r#"{"fault": {"kind": "power_loss"}, "from_s": 1.0, "until_s": 2.0}"#);
    for (level, drives) in [(0, 2), (1, 2), (5, 4), (10, 4)] {
        let mut spec = storage(level, drives, vec![lost.clone()]);
        let DriveSpec::Hdd(member) = &mut spec.drives[0] else { panic!("a disk") };
        member.buffer.write_cache_bytes = 8 << 20;
        let mut raid = Storage::build(&spec, 1).unwrap();
        let result = run_device(&mut raid, &load(Rw::RandWrite, 4096, 8, 4.0)).unwrap();
        assert!(result.failed > 0 && result.write.requests > 0, "level {level}");
        assert_eq!(raid.fired().len(), 1);
        assert!(raid.fired()[0] >= 2);
        let Drives::Raid(inner) = &raid.drives else { panic!("a RAID") };
        assert!(!inner.is_degraded(), "level {level}: drives come back with the power");
        assert!(raid.fault_counts().lost_bytes > 0, "level {level}: a write cache was not empty");
        assert!(!raid.unflushed(4_000_000_000).is_empty());
    }
}

#[test]
fn faults_come_and_go_while_requests_are_under_way() {
    let spec = StorageSpec { drives: vec![disk()], raid: None, faults: Vec::new() };
    let mut device = Storage::build(&spec, 1).unwrap();
    device.watch();
    let mut done = Vec::new();
    let read = |tag, sector| Request { tag, op: Op::Read, sector, sectors: 8, fua: false };
    device.submit(0, read(1, 0));
    let number = device.inject(&fault(r#"{"fault": {"kind": "media_error"}}"#)).unwrap();
    device.submit(1, read(2, 80_000));
    device.wake(100_000_000, &mut done);
    device.lift(number, 100_000_000);
    device.submit(100_000_000, read(3, 160_000));
    device.wake(200_000_000, &mut done);
    let ends: Vec<(u64, bool)> = done.iter().map(|c| (c.tag, c.status == Status::Done)).collect();
    assert_eq!(ends, [(1, true), (2, false), (3, true)]);
    assert_eq!(device.fired(), vec![1]);
    let mut unwatched = Storage::build(&spec, 1).unwrap();
    unwatched.submit(0, read(1, 0));
    assert!(unwatched.inject(&fault(r#"{"fault": {"kind": "media_error"}}"#)).is_err());
}

#[test]
fn what_cannot_be_is_refused() {
    for (level, drives, field) in
        [(5, 2, "raid.drives"), (1, 1, "raid.drives"), (3, 4, "raid.level"), (10, 5, "raid.drives")]
    {
        let error = Storage::build(&storage(level, drives, Vec::new()), 0).err().unwrap();
        assert_eq!(error.field, field, "{error}");
    }
    let stall = fault(r#"{"fault": {"kind": "stall"}}"#);
    assert_eq!(
        Storage::build(&storage(5, 4, vec![stall]), 0).err().unwrap().field,
        "fault.until_s"
    );
}

#[test]
fn mirrors_of_ssds_are_chosen_by_their_requests_in_flight() {
    // Reads near sector 0 and one far away: heads would stay, flash does not care.
    for (has_ssd, most) in [(false, 40), (true, 32)] {
        let devices = (0..2).map(|n| headrace_model::drive::build(&disk(), n).unwrap()).collect();
        let mut raid = Raid::new(&spec(1, 2), devices).unwrap().with_ssd(has_ssd);
        let far = raid.capacity_sectors() - 8;
        for tag in 0..64 {
            let sector = if tag == 1 { far } else { tag * 1000 };
            raid.submit(0, Request { tag, op: Op::Read, sector, sectors: 8, fua: false });
        }
        let busiest = raid.issued().into_iter().max().unwrap();
        assert!(if has_ssd { busiest == most } else { busiest > most }, "{has_ssd}: {busiest}");
    }
}
