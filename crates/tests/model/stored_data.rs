//! Data that are on a drive must be read from its flash; what holds no data is answered by the controller.

use std::sync::Arc;

use headrace_model::drive::{build, Drive};
use headrace_model::drive_replay::{replay, ReplayMode, TraceOp, TraceRequest};
use headrace_model::drive_run::{run, run_device, FioLike, Rw};
use headrace_model::request::{Device, Medium, Nanos, Op, Queue, Request, StoredOrder};
use headrace_model::scheduler::{BlockQueue, QueueSpec, SchedulerSpec};
use headrace_model::spec::{DriveSpec, RaidSpec, StorageSpec};
use headrace_model::ssd::amplification::write_amplification;
use headrace_model::ssd::Ssd;
use headrace_model::storage::Storage;
use headrace_model::stream::Stream;
use headrace_model::virtualisation::{VirtualDisk, VirtualDiskSpec};
use proptest::prelude::*;

const PAGE_MAP: &str = r#"{"ftl": "page", "unit_bytes": 4096}"#;
const LOG_BLOCKS: &str =
    r#"{"ftl": "log_block", "unit_bytes": 4096, "block_bytes": 4194304, "log_blocks": 4}"#;
/// Followed unit by unit, and on a slice.
const SMALL: u64 = 1 << 31;
const LARGE: u64 = 1 << 40;

fn ssd(capacity_bytes: u64, read_us: f64, mapping: &str, extra: &str) -> DriveSpec {
    let text = format!(
        r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": {capacity_bytes}, "link_bytes_per_s": 500e6,
        "controller": {{"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 90000,
        "write_iops_max": 30000}}, "mapping": {mapping},
        "flash": {{"channels": 8, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 64,
        "read_us": {read_us}, "program_us": 300, "erase_us": 2000, "channel_bytes_per_s": 400e6}}{extra}}}"#
    );
    DriveSpec::from_json(&text).unwrap()
}

/// The time of one read of 4 KiB, long after everything else.
fn read_ns(device: &mut impl Device, now: Nanos, sector: u64) -> Nanos {
    device.submit(now, Request { tag: 1, op: Op::Read, sector, sectors: 8, fua: false });
    let mut out = Vec::new();
    while let Some(next) = device.next_wake() {
        device.wake(next, &mut out);
    }
    assert_eq!(out.len(), 1);
    out[0].time - now
}

const FLASH_NS: Nanos = 75_000;

/// Every wrapper over one or several fresh drives.
fn stacks() -> Vec<(String, Box<dyn Queue + Send>)> {
    let drive = ssd(SMALL, 75.0, PAGE_MAP, "");
    let storage = |level: Option<u32>| {
        let raid = level.map(|level| RaidSpec {
            level,
            drives: 4,
            chunk_bytes: 65_536,
            rebuild_bytes_per_s: 1 << 20,
            ..RaidSpec::default()
        });
        StorageSpec { drives: vec![drive.clone()], raid, faults: Vec::new() }
    };
    let spec =
        QueueSpec { scheduler: SchedulerSpec::named("deadline").unwrap(), ..QueueSpec::default() };
    let mut made: Vec<(String, Box<dyn Queue + Send>)> = Vec::new();
    for level in [None, Some(0), Some(1), Some(5), Some(6), Some(10)] {
        for queued in [false, true] {
            let members = queued.then_some(&spec);
            let new = || Storage::build_queued(&storage(level), 3, members).unwrap();
            let mut watched = new();
            watched.watch();
            let virtual_disk = VirtualDisk::new(Box::new(new()), VirtualDiskSpec::default());
            made.push((format!("{level:?}, members queued {queued}"), Box::new(new())));
            made.push((format!("{level:?}, watched"), Box::new(watched)));
            made.push((format!("{level:?}, block queue"), Box::new(BlockQueue::new(new(), &spec))));
            made.push((format!("{level:?}, virtual disk"), Box::new(virtual_disk)));
        }
    }
    made
}

#[test]
fn preloaded_data_cost_flash_under_every_wrapper_and_nothing_else_does() {
    for (name, mut device) in stacks() {
        // Neither begins nor ends with a chunk.
        device.preload(&[(1000, 40_000), (100_000, 8)], StoredOrder::OfDrive);
        let mut now = 0;
        for sector in (1000..40_992).step_by(504).chain([100_000]) {
            now += 10_000_000;
            let took = read_ns(&mut device, now, sector);
            assert!(took >= FLASH_NS, "{name}: sector {sector} in {took} ns");
        }
        let empty = read_ns(&mut device, now + 10_000_000, 2_000_000);
        assert!(empty < FLASH_NS, "{name}: {empty} ns of what was never written");
    }
}

/// Whatever is discarded before the run (as mkfs does in virtual time) or by a request (as mkfs does
/// on an emulated drive), the device is the same afterwards.
#[test]
fn discards_before_the_run_and_by_requests_leave_the_same_device() {
    let ranges = [(0, 30_000), (65_536, 200_000), (600_000, 8)];
    for ((name, mut before), (_, mut by_request)) in stacks().into_iter().zip(stacks()) {
        let all = [(0, before.capacity_sectors().min(1 << 20))];
        before.preload(&all, StoredOrder::OfDrive);
        by_request.preload(&all, StoredOrder::OfDrive);
        before.trim(&ranges);
        for (tag, (sector, sectors)) in ranges.into_iter().enumerate() {
            let request = Request {
                tag: tag as u64,
                op: Op::Discard,
                sector,
                sectors: sectors as u32,
                fua: false,
            };
            by_request.submit(0, request);
            while let Some(next) = by_request.next_wake() {
                by_request.wake(next, &mut Vec::new());
            }
        }
        let mut discarded = 0;
        for number in 0..400u64 {
            let (now, sector) = ((number + 1) * 10_000_000, number * 2_621 / 8 * 8);
            let took = read_ns(&mut before, now, sector);
            assert_eq!(took, read_ns(&mut by_request, now, sector), "{name}: sector {sector}");
            discarded += u32::from(took < FLASH_NS);
        }
        let ignored = ["virtual", "Some(5)", "Some(6)"].iter().any(|part| name.contains(part));
        assert_eq!(discarded == 0, ignored, "{name}: {discarded} of 400 places hold no data");
    }
}

#[test]
fn parity_is_stored_with_the_data() {
    let raid = RaidSpec {
        level: 5,
        drives: 4,
        chunk_bytes: 65_536,
        rebuild_bytes_per_s: 1 << 20,
        ..RaidSpec::default()
    };
    let spec = StorageSpec {
        drives: vec![ssd(SMALL, 5000.0, PAGE_MAP, "")],
        raid: Some(raid),
        faults: Vec::new(),
    };
    let write_ns = |preloaded: bool| {
        let mut device = Storage::build(&spec, 1).unwrap();
        if preloaded {
            device.preload(&[(0, 1 << 20)], StoredOrder::OfDrive);
        }
        // A small write reads old data and old parity, at once, from two members.
        device.submit(0, Request { tag: 0, op: Op::Write, sector: 8, sectors: 8, fua: false });
        let mut out = Vec::new();
        while let Some(next) = device.next_wake() {
            device.wake(next, &mut out);
        }
        out[0].time
    };
    assert!(write_ns(true) > 5_000_000 && write_ns(false) < 5_000_000);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(60))]

    /// However small, and wherever it lies on the slice that is followed of a large drive.
    #[test]
    fn any_stored_range_is_read_from_flash(
        capacity in prop::sample::select(vec![SMALL, LARGE]),
        mapping in prop::sample::select(vec![PAGE_MAP, LOG_BLOCKS]),
        written in any::<bool>(),
        at in 0.0f64..1.0,
        length in 1u64..5000,
        inside in 0.0f64..1.0,
    ) {
        let mut drive = build(&ssd(capacity, 75.0, mapping, ""), 1).unwrap();
        let first = ((drive.capacity_sectors() - 5000) as f64 * at) as u64;
        let mut now = 0;
        if written {
            let sectors = length as u32;
            drive.submit(0, Request { tag: 0, op: Op::Write, sector: first, sectors, fua: false });
            drive.wake(1_000_000_000, &mut Vec::new());
            now = 20_000_000_000;
        } else {
            drive.preload(&[(first, length)], StoredOrder::OfDrive);
        }
        let sector = first + ((length - 1) as f64 * inside) as u64;
        prop_assert!(read_ns(&mut drive, now, sector) >= FLASH_NS);
    }
}

#[test]
fn what_was_written_anew_is_not_in_a_register_any_more() {
    for (capacity, mapping) in [(SMALL, PAGE_MAP), (LARGE, PAGE_MAP), (SMALL, LOG_BLOCKS)] {
        let mut drive = build(&ssd(capacity, 75.0, mapping, ""), 1).unwrap();
        drive.preload(&[(0, 1 << 20)], StoredOrder::OfDrive);
        assert!(read_ns(&mut drive, 0, 4096) >= FLASH_NS);
        assert!(read_ns(&mut drive, 1_000_000_000, 4096) < FLASH_NS, "it is in the register");
        // Pages are written to all dies in turn. The last one begins in the middle of a unit, which
        // is read first.
        for (number, sector) in [4096, 4096, 4092].into_iter().enumerate() {
            let now = (2 + 2 * number as u64) * 1_000_000_000;
            drive.submit(now, Request { tag: 0, op: Op::Write, sector, sectors: 8, fua: true });
            drive.wake(now + 500_000_000, &mut Vec::new());
            let took = read_ns(&mut drive, now + 1_000_000_000, 4096);
            assert!(took >= FLASH_NS, "{capacity} {mapping}: {took} ns");
        }
    }
}

#[test]
fn discarded_data_are_no_longer_read() {
    for (capacity, mapping) in [(SMALL, PAGE_MAP), (LARGE, PAGE_MAP), (SMALL, LOG_BLOCKS)] {
        let mut drive = build(&ssd(capacity, 75.0, mapping, ""), 1).unwrap();
        let sectors = drive.capacity_sectors();
        drive.preload(&[(0, sectors)], StoredOrder::OfDrive);
        let trim =
            |sector, sectors| Request { tag: 0, op: Op::Discard, sector, sectors, fua: false };
        drive.submit(0, trim(1 << 20, 1 << 20));
        drive.submit(0, trim(sectors - (1 << 20), 1 << 20));
        drive.wake(1_000_000, &mut Vec::new());
        let mut now = 1_000_000_000;
        let mut time = |sector| {
            now += 1_000_000_000;
            read_ns(&mut drive, now, sector)
        };
        assert!(time((1 << 20) + (1 << 19)) < FLASH_NS, "{capacity} {mapping}");
        assert!(time(sectors - 8) < FLASH_NS, "{capacity} {mapping}: the end");
        assert!(time((1 << 20) - 4096) >= FLASH_NS, "{capacity} {mapping}: before");
        assert!(time(2 << 20) >= FLASH_NS, "{capacity} {mapping}: behind");
    }
}

#[test]
fn preloaded_data_are_valid_pages_and_no_wear() {
    let spare = r#", "spare_ratio": 0.28"#;
    let DriveSpec::Ssd(spec) = ssd(SMALL, 75.0, PAGE_MAP, spare) else { panic!("an SSD") };
    let mut drive = Ssd::new(&spec).unwrap();
    let sectors = drive.capacity_sectors();
    // In pieces, some of them twice.
    let pieces: Vec<(u64, u64)> = (0..16).map(|n| (n * (sectors / 16), sectors / 16)).collect();
    drive.preload(&pieces[..10], StoredOrder::OfDrive);
    drive.preload(&pieces[5..], StoredOrder::OfDrive);
    assert_eq!(drive.written(), (0, 0));
    assert!(drive.erases().iter().all(|&count| count == 0));
    let load = |seed| -> FioLike {
        serde_json::from_str(&format!(
            r#"{{"rw": "randwrite", "bs_bytes": 4096, "iodepth": 32, "runtime_s": 1e6, "seed": {seed},
            "number_ios": 2000000}}"#
        ))
        .unwrap()
    };
    run_device(&mut drive, &load(1)).unwrap();
    let before = drive.written();
    let mut now = 1_000_000_000_000_000;
    let mut random = headrace_model::stream::Stream::new(4, "more");
    let units = sectors / 8;
    for _ in 0..2_000_000 {
        now += 1_000_000;
        let sector = random.below(units) * 8;
        drive.submit(now, Request { tag: 0, op: Op::Write, sector, sectors: 8, fua: false });
        drive.wake(now, &mut Vec::new());
    }
    let after = drive.written();
    let obtained = (after.0 - before.0) as f64 / (after.1 - before.1) as f64;
    let expected = write_amplification(0.28);
    assert!((obtained / expected - 1.0).abs() < 0.03, "{obtained}, theory {expected}");
}

#[test]
fn a_fresh_drive_wears_less_than_one_that_holds_data() {
    let write_amplification_of = |share: f64| {
        let DriveSpec::Ssd(spec) = ssd(SMALL, 75.0, PAGE_MAP, "") else { panic!("an SSD") };
        let mut drive = Ssd::new(&spec).unwrap();
        drive.preload(
            &[(0, (drive.capacity_sectors() as f64 * share) as u64)],
            StoredOrder::OfDrive,
        );
        let load = r#"{"rw": "randwrite", "bs_bytes": 4096, "iodepth": 32, "runtime_s": 1e6,
            "size_bytes": 268435456, "number_ios": 1000000}"#;
        run_device(&mut drive, &serde_json::from_str(load).unwrap()).unwrap();
        let (flash, host) = drive.written();
        flash as f64 / host as f64
    };
    let (full, half) = (write_amplification_of(1.0), write_amplification_of(0.5));
    assert!(full > 1.2 * half, "full {full}, half {half}");
}

fn load(text: &str) -> FioLike {
    serde_json::from_str(text).unwrap()
}

#[test]
fn a_load_that_reads_finds_data_unless_the_drive_is_empty() {
    for (capacity, rw) in [(SMALL, Rw::RandRead), (LARGE, Rw::RandRead), (LARGE, Rw::Read)] {
        let latency_ns = |read_us: f64, empty: bool| {
            let load = FioLike {
                rw,
                empty,
                ..load(r#"{"rw": "randread", "bs_bytes": 4096, "runtime_s": 1.0, "numjobs": 1}"#)
            };
            run(&ssd(capacity, read_us, PAGE_MAP, ""), &load).unwrap().read.latency_ns_mean
        };
        let (plain, slow) = (latency_ns(75.0, false), latency_ns(7500.0, false));
        assert!(plain >= 75_000.0, "{capacity} {rw:?}: {plain}");
        assert!(
            slow >= 7_500_000.0 && slow > 50.0 * plain,
            "{capacity} {rw:?}: {slow} against {plain}"
        );
        assert_eq!(latency_ns(75.0, true), latency_ns(7500.0, true), "nothing is read from flash");
        assert!(latency_ns(75.0, true) < 75_000.0);
    }
}

#[test]
fn jobs_with_regions_of_their_own_find_data_in_each() {
    let spread = r#"{"rw": "randread", "bs_bytes": 4096, "runtime_s": 0.2, "numjobs": 4,
        "offset_increment_bytes": 274877906944, "size_bytes": 67108864}"#;
    let found = run(&ssd(LARGE, 75.0, PAGE_MAP, ""), &load(spread)).unwrap();
    // A page that is still in its die's register is not read again; in 256 MB that is rare.
    assert!(found.read.latency_ns_p50 >= 75_000, "{}", found.read.latency_ns_p50);
}

#[test]
fn a_trace_reads_flash_but_where_it_discarded_before() {
    let at = |number: u64, op, sector| TraceRequest {
        time_ns: number * 100_000_000,
        op,
        sector,
        sectors: 8,
        fua: false,
    };
    let trace = [
        at(0, TraceOp::Read, 800_000),
        at(1, TraceOp::Write, 16),
        at(2, TraceOp::Read, 16),
        at(3, TraceOp::Discard, 800_000),
        at(4, TraceOp::Read, 800_000),
        at(5, TraceOp::Read, 1 << 40),
    ];
    // Followed unit by unit a discard of 4 KiB counts; on a slice only that of a whole group does.
    for (capacity, discarded) in [(SMALL, true), (LARGE, false)] {
        let drive = ssd(capacity, 75.0, PAGE_MAP, "");
        let responses = replay(&drive, 1, &trace, ReplayMode::Open).unwrap();
        assert!(responses[0].response_ns >= FLASH_NS && responses[2].response_ns >= FLASH_NS);
        assert_eq!(responses[4].response_ns < FLASH_NS, discarded);
        assert!(responses[5].failed, "past the end");
    }
}

/// A used drive whose dies read 64 KiB at once.
fn used(capacity_bytes: u64) -> Drive {
    let text = format!(
        r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": {capacity_bytes}, "link_bytes_per_s": 2e9,
        "controller": {{"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 900000,
        "write_iops_max": 300000}}, "mapping": {PAGE_MAP}, "spare_ratio": 0.2,
        "initial": {{"state": "steady", "fill": 1.0}},
        "flash": {{"channels": 4, "dies_per_channel": 2, "planes": 4, "page_bytes": 16384,
        "pages_per_block": 64, "read_us": 75, "program_us": 300, "erase_us": 2000,
        "channel_bytes_per_s": 800e6}}}}"#
    );
    build(&DriveSpec::from_json(&text).unwrap(), 1).unwrap()
}

const FILE_SECTORS: u64 = 1 << 16;

/// The mean time of reads of 256 KiB in the file, alone.
fn reads_of_file_ns(drive: &mut Drive) -> f64 {
    let mut random = Stream::new(5, "reads");
    let mut total = 0;
    for number in 1..=200 {
        let now = number * 1_000_000_000_000;
        let sector = random.below((FILE_SECTORS - 512) / 8) * 8;
        drive.submit(now, Request { tag: 1, op: Op::Read, sector, sectors: 512, fua: false });
        let mut out = Vec::new();
        while let Some(next) = drive.next_wake() {
            drive.wake(next, &mut out);
        }
        total += out[0].time - now;
    }
    total as f64 / 200.0
}

/// A file that is there before the run lies on a used drive as one that is written during it.
#[test]
fn a_file_on_a_used_drive_is_read_as_fast_as_one_just_written() {
    for capacity in [SMALL, LARGE] {
        let (mut before, mut scattered, mut written) =
            (used(capacity), used(capacity), used(capacity));
        before.preload(&[(0, FILE_SECTORS)], StoredOrder::Written);
        scattered.preload(&[(0, FILE_SECTORS)], StoredOrder::OfDrive);
        for sector in (0..FILE_SECTORS).step_by(1024) {
            let request = Request { tag: 0, op: Op::Write, sector, sectors: 1024, fua: false };
            written.submit(sector * 1_000_000, request);
            written.wake((sector + 1024) * 1_000_000 - 1, &mut Vec::new());
        }
        let (scattered, written) =
            (reads_of_file_ns(&mut scattered), reads_of_file_ns(&mut written));
        let obtained = reads_of_file_ns(&mut before);
        assert!((obtained / written - 1.0).abs() < 0.2, "{capacity}: {obtained} {written}");
        assert!(scattered > 1.5 * written, "{capacity}: {scattered} {written}");
    }
}

/// What is written at random later costs as much copying as without the file.
#[test]
fn a_file_in_order_leaves_a_used_drive_as_old_as_it_was() {
    for capacity in [SMALL, LARGE] {
        let load = r#"{"rw": "randwrite", "bs_bytes": 4096, "iodepth": 32, "runtime_s": 2.0}"#;
        let load: FioLike = serde_json::from_str(load).unwrap();
        let rate = |order: Option<StoredOrder>| {
            let mut drive = used(capacity);
            if let Some(order) = order {
                drive.preload(&[(0, drive.capacity_sectors() / 2)], order);
            }
            run_device(&mut drive, &load).unwrap().iops()
        };
        let (old, obtained) = (rate(None), rate(Some(StoredOrder::Written)));
        assert!((obtained / old - 1.0).abs() < 0.03, "{capacity}: {obtained} {old}");
    }
}

#[test]
fn a_thousand_drives_with_the_same_data_share_it() {
    // Each alone would hold 9 MB: together as much as this machine may have.
    let spec = Arc::new(ssd(LARGE, 75.0, PAGE_MAP, ""));
    let data: Vec<(u64, u64)> = (0..2000).map(|n| (n * 1_000_000, 400_000)).collect();
    let mut drives: Vec<_> = (0..1000).map(|seed| build(&spec, seed).unwrap()).collect();
    drives.iter_mut().for_each(|drive| drive.preload(&data, StoredOrder::OfDrive));
    assert!(resident_bytes() < 1 << 30, "{}", resident_bytes());
    assert!(drives.iter_mut().all(|drive| read_ns(drive, 0, 1_999_000_000) >= FLASH_NS));
}

fn resident_bytes() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap();
    status.split(' ').nth(1).unwrap().parse::<u64>().unwrap() * 4096
}
