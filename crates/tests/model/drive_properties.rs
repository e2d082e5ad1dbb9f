//! What must hold for every device model, whatever the load.

use headrace_model::drive::build;
use headrace_model::raid::spec::ControllerSpec;
use headrace_model::request::{
    Completion, Device, Fault, Medium, Nanos, Op, Queue, Request, Status, SubmittedIo,
};
use headrace_model::scheduler::{QueueSpec, SchedulerSpec};
use headrace_model::spec::{DriveSpec, RaidSpec, StorageSpec};
use headrace_model::storage::Storage;
use proptest::prelude::*;

const CAPACITY_SECTORS: u64 = 2_000_000;

/// Small devices of each kind, with every mechanism switched on.
fn specs() -> Vec<DriveSpec> {
    let disk = |extra: &str| {
        let link =
            if extra.contains("link_bytes_per_s") { "" } else { r#", "link_bytes_per_s": 150e6"# };
        format!(
            r#"{{"kind": "hdd", "name": "disk", "capacity_bytes": {}, "rotation_rpm": 7200, "heads": 2,
            "rates": {{"outer_bytes_per_s": 78e6}}, "write_settle_ms": 0.5,
            "seek": {{"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}}{link}{extra}}}"#,
            CAPACITY_SECTORS * 512
        )
    };
    let ssd = |extra: &str| {
        format!(
            r#"{{"kind": "ssd", "name": "ssd", "capacity_bytes": {}, "link_bytes_per_s": 150e6,
            "controller": {{"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 50000,
            "write_iops_max": 20000}}, "write_buffer_bytes": 131072,
            "flash": {{"channels": 2, "dies_per_channel": 2, "planes": 2, "page_bytes": 8192, "pages_per_block": 64,
            "read_us": 75, "program_us": 750, "erase_us": 3800, "channel_bytes_per_s": 40e6}}{extra}}}"#,
            CAPACITY_SECTORS * 512
        )
    };
    [
        ssd(""),
        ssd(r#", "mapping": {"ftl": "page", "unit_bytes": 16384}, "initial": {"state": "steady", "fill": 0.9},
            "read_priority": {"kind": "suspend", "suspend_us": 20}, "slc_cache": {"bytes": 1048576, "program_us": 200}"#),
        ssd(r#", "mapping": {"ftl": "log_block", "unit_bytes": 4096, "block_bytes": 4194304, "log_blocks": 4},
            "initial": {"state": "filled", "fill": 1.0}, "read_priority": {"kind": "fifo"}"#),
        disk(""),
        disk(r#", "queue": {"depth": 4, "reordering": 1.0, "age_limit_ms": 50.0}"#),
        disk(r#", "buffer": {"write_cache_bytes": 0, "read_ahead_bytes": 0}"#),
        disk(
            r#", "buffer": {"write_cache_bytes": 65536, "write_cache_extents": 4, "destage_idle_ms": 1.0,
            "segments": 2, "segment_bytes": 262144, "read_ahead_bytes": 131072, "read_ahead_min_bytes": 65536},
            "power": {"idle_w": 5, "seek_w": 10, "transfer_w": 8, "standby_after_s": 0.2, "spin_up_s": 0.1}"#,
        ),
        disk(
            r#", "link_bytes_per_s": 5e6, "overhead": {"read_hit_after_read_us": 50, "read_miss_after_write_us": 900,
            "write_miss_after_read_us": 700, "write_hit_after_write_us": 300, "read_completion_us": 40,
            "write_completion_us": 80}, "buffer": {"write_cache_bytes": 0, "write_water_mark": 0.0,
            "segments": 3, "segment_bytes": 262144, "read_ahead_bytes": 262144, "read_ahead": "track_by_track"}"#,
        ),
        disk(
            r#", "hold_link": true, "controller_overhead_us": 10, "overhead": {"write_miss_after_write_us": 2000},
            "queue": {"depth": 2}, "buffer": {"read_ahead": "sequential", "write_cache_bytes": 65536}"#,
        ),
    ]
    .iter()
    .map(|text| DriveSpec::from_json(text).unwrap())
    .collect()
}

/// The same behind every RAID level.
fn raids() -> Vec<StorageSpec> {
    let specs = specs();
    let raid = |level, drives, drive: usize| StorageSpec {
        drives: vec![specs[drive].clone()],
        raid: Some(RaidSpec {
            level,
            drives,
            chunk_bytes: 16384,
            rebuild_bytes_per_s: 1 << 20,
            ..RaidSpec::default()
        }),
        faults: Vec::new(),
    };
    let with = |storage: StorageSpec, option: &dyn Fn(&mut RaidSpec)| {
        let mut raid = storage.raid.unwrap();
        option(&mut raid);
        StorageSpec { raid: Some(raid), ..storage }
    };
    let bitmap = |raid: &mut RaidSpec| raid.bitmap_chunk_bytes = Some(1 << 20);
    let controller = |battery| {
        move |raid: &mut RaidSpec| {
            raid.controller = Some(ControllerSpec {
                cache_bytes: 1 << 20,
                battery,
                queue_depth: 64,
                command_us: 20.0,
                link_bytes_per_s: 300e6,
                flush_interval_s: 0.2,
                destage_above: 0.5,
            });
        }
    };
    let mut all = vec![raid(0, 3, 3), raid(1, 2, 4), raid(5, 4, 3), raid(6, 5, 0), raid(10, 4, 6)];
    all.extend([with(raid(1, 2, 4), &bitmap), with(raid(5, 4, 3), &bitmap)]);
    all.extend([with(raid(5, 4, 3), &controller(true)), with(raid(10, 4, 0), &controller(false))]);
    all
}

/// Single drives and RAIDs, each with faults of every kind.
fn faulty() -> Vec<StorageSpec> {
    let single = |drive| StorageSpec { drives: vec![drive], raid: None, faults: Vec::new() };
    let mut storages = raids();
    storages.extend(specs().into_iter().map(single));
    for storage in &mut storages {
        storage.faults = serde_json::from_str(
            r#"[{"fault": {"kind": "latency_spike", "extra_ms": 7.5}, "probability": 0.2},
                {"fault": {"kind": "slow_down", "factor": 2.5}, "from_s": 0.5, "until_s": 2.0, "only": "write"},
                {"fault": {"kind": "media_error"}, "first_sector": 1000, "sectors": 900000, "probability": 0.5},
                {"fault": {"kind": "stall"}, "from_s": 1.0, "until_s": 1.5},
                {"fault": {"kind": "drop_off"}, "drive": 0, "from_s": 3.0, "until_s": 5.0}]"#,
        )
        .unwrap();
    }
    storages
}

/// A request and how long after the one before it comes.
#[derive(Clone, Debug)]
struct Step {
    gap: Nanos,
    op: Op,
    sector: u64,
    sectors: u32,
    fua: bool,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let op = prop_oneof![
        4 => Just(Op::Read), 4 => Just(Op::Write), 1 => Just(Op::Flush), 1 => Just(Op::Discard), 1 => Just(Op::WriteZeroes)
    ];
    let gap = prop_oneof![Just(0u64), 1u64..200_000, 1u64..30_000_000, 1u64..600_000_000];
    // Some requests near each other, some anywhere, some beyond the end.
    let sector = prop_oneof![
        0u64..4096,
        0u64..CAPACITY_SECTORS,
        CAPACITY_SECTORS - 64..CAPACITY_SECTORS + 64
    ];
    let step = (gap, op, sector, 0u32..600, any::<bool>());
    prop::collection::vec(step, 1..120).prop_map(|list| {
        list.into_iter()
            .map(|(gap, op, sector, sectors, fua)| Step { gap, op, sector, sectors, fua })
            .collect()
    })
}

/// When the driver looks: at every wake, only at submissions, or now and then.
#[derive(Clone, Copy)]
enum Waking {
    Punctual,
    AtSubmissions,
    Late(Nanos),
}

fn single(spec: &DriveSpec) -> StorageSpec {
    StorageSpec { drives: vec![spec.clone()], raid: None, faults: Vec::new() }
}

fn drive(spec: &StorageSpec, seed: u64, steps: &[Step], waking: Waking) -> (Vec<Completion>, f64) {
    drive_queued(spec, None, seed, steps, waking)
}

/// As `drive`; the members of a RAID behind queues of their own.
fn drive_queued(
    spec: &StorageSpec,
    queue: Option<&QueueSpec>,
    seed: u64,
    steps: &[Step],
    waking: Waking,
) -> (Vec<Completion>, f64) {
    let mut device = Storage::build_queued(spec, seed, queue).unwrap();
    let mut out = Vec::new();
    let mut now = 0;
    let mut looked: Nanos = 0;
    for (tag, step) in steps.iter().enumerate() {
        let then = now + step.gap;
        match waking {
            Waking::Punctual => {
                while let Some(next) = device.next_wake().filter(|&next| next <= then) {
                    device.wake(next.max(now), &mut out);
                }
            }
            Waking::AtSubmissions => {}
            Waking::Late(every) => {
                if then - looked > every {
                    device.wake(then, &mut out);
                    looked = then;
                }
            }
        }
        now = then;
        let Step { op, sector, sectors, fua, .. } = *step;
        let request = Request { tag: tag as u64, op, sector, sectors, fua };
        device
            .submit_io(now, SubmittedIo { request, process: tag as u32 % 3, sync: op == Op::Read });
    }
    let mut turns = 0;
    while let Some(next) = device.next_wake() {
        let late = if let Waking::Late(every) = waking { every } else { 0 };
        now = now.max(next) + late;
        device.wake(now, &mut out);
        turns += 1;
        assert!(turns < 200_000, "the device never comes to an end");
    }
    assert_eq!(device.in_flight(), 0);
    let end = 1_000_000_000_000;
    device.wake(end, &mut out);
    (out, device.energy_j(end))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn each_request_ends_once_and_never_before_it_can(steps in steps(), seed in 0u64..4) {
        let singles = specs();
        for spec in singles.iter().map(single).chain(raids()).chain(faulty()) {
            let (out, _) = drive(&spec, seed, &steps, Waking::Punctual);
            let members = spec.raid.map_or(1, |raid| raid.drives);
            let capacity_sectors = Storage::build(&spec, 0).unwrap().capacity_sectors();
            let mut ended = vec![0; steps.len()];
            let mut at = 0;
            let mut submitted = Vec::new();
            for step in &steps {
                at += step.gap;
                submitted.push(at);
            }
            for completion in &out {
                let tag = completion.tag as usize;
                ended[tag] += 1;
                let step = &steps[tag];
                let beyond = step.op != Op::Flush
                    && (step.sectors == 0 || step.sector + u64::from(step.sectors) > capacity_sectors);
                let expected = if beyond { Status::Failed(Fault::OutOfRange) } else { Status::Done };
                if spec.faults.is_empty() {
                    prop_assert_eq!(completion.status, expected);
                }
                let mut least = submitted[tag] + 1000;
                if matches!(step.op, Op::Read | Op::Write) && completion.status == Status::Done {
                    // Nothing is faster than the links of all members together.
                    let bytes = f64::from(step.sectors / members) * 512.0;
                    least += (bytes / 150e6 * 1e9) as Nanos;
                }
                prop_assert!(completion.time >= least, "{:?} ended at {} of {}", step, completion.time, least);
            }
            prop_assert!(ended.iter().all(|&times| times == 1), "{:?}", ended);
            prop_assert!(out.windows(2).all(|pair| pair[0].time <= pair[1].time));
        }
    }

    #[test]
    fn a_late_wake_changes_nothing(steps in steps(), every in 1u64..400_000_000) {
        let singles = specs();
        for spec in singles.iter().map(single).chain(raids()).chain(faulty()) {
            let punctual = drive(&spec, 1, &steps, Waking::Punctual);
            prop_assert_eq!(&punctual, &drive(&spec, 1, &steps, Waking::Punctual));
            prop_assert_eq!(&punctual, &drive(&spec, 1, &steps, Waking::AtSubmissions));
            prop_assert_eq!(&punctual, &drive(&spec, 1, &steps, Waking::Late(every)));
        }
    }

    /// A scheduler to each member of a RAID: everything ends once, and late wakes change nothing.
    #[test]
    fn members_behind_queues_keep_the_law(
        steps in steps(),
        every in 1u64..400_000_000,
        scheduler in prop::sample::select(SchedulerSpec::NAMES.to_vec()),
    ) {
        let queue = QueueSpec {
            scheduler: SchedulerSpec::named(scheduler).unwrap(),
            queue_depth: 4,
            nr_requests: 16,
            ..QueueSpec::default()
        };
        for spec in raids() {
            let punctual = drive_queued(&spec, Some(&queue), 1, &steps, Waking::Punctual);
            prop_assert_eq!(punctual.0.len(), steps.len());
            prop_assert_eq!(&punctual, &drive_queued(&spec, Some(&queue), 1, &steps, Waking::AtSubmissions));
            prop_assert_eq!(&punctual, &drive_queued(&spec, Some(&queue), 1, &steps, Waking::Late(every)));
        }
    }

    /// Over SATA a flush begins when all commands before it have ended, and no command after it
    /// begins before it has ended.
    #[test]
    fn a_flush_over_sata_stands_alone(steps in steps()) {
        for spec in specs().iter().filter(|spec| spec.flushes_alone()) {
            let (done, _) = drive(&single(spec), 1, &steps, Waking::Punctual);
            let mut ends = vec![0; steps.len()];
            for completion in done.iter().filter(|completion| completion.status == Status::Done) {
                ends[completion.tag as usize] = completion.time;
            }
            for (number, _) in steps.iter().enumerate().filter(|(_, step)| step.op == Op::Flush) {
                let flushed = ends[number];
                let within = |end: &&Nanos| **end > 0;
                prop_assert!(ends[..number].iter().all(|&end| end <= flushed));
                prop_assert!(ends[number + 1..].iter().filter(within).all(|&end| end >= flushed));
            }
        }
    }

    #[test]
    fn a_flush_leaves_nothing_that_was_written_before(steps in steps()) {
        for spec in specs() {
            let mut device = build(&spec, 1).unwrap();
            let mut now = 0;
            for (tag, step) in steps.iter().enumerate() {
                now += step.gap;
                let Step { sector, sectors, .. } = *step;
                device.submit(now, Request { tag: tag as u64, op: Op::Write, sector, sectors, fua: false });
            }
            let mut out = Vec::new();
            while let Some(next) = device.next_wake() {
                now = now.max(next);
                device.wake(now, &mut out);
            }
            device.submit(now, Request { tag: u64::MAX, op: Op::Flush, sector: 0, sectors: 0, fua: false });
            while let Some(next) = device.next_wake() {
                now = now.max(next);
                device.wake(now, &mut out);
            }
            prop_assert_eq!(device.unflushed(now), vec![]);
        }
    }
}
