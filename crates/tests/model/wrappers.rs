//! No wrapper loses what the device below it reports: fault counts, energy, capacity, stored data.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use headrace_model::drive::build;
use headrace_model::faults::{FaultSpec, FaultyDevice};
use headrace_model::raid::member::MemberDrive;
use headrace_model::request::{
    Completion, Device, FaultCounts, FlashWrites, Medium, Nanos, Op, Queue, Request, SectorRange,
    Status, StoredOrder, SubmittedIo,
};
use headrace_model::scheduler::{BlockQueue, QueueSpec, SharedHabits};
use headrace_model::spec::{DriveSpec, RaidSpec, StorageSpec};
use headrace_model::storage::Storage;
use headrace_model::virtualisation::{VirtualDisk, VirtualDiskSpec};

/// A device that completes every request at once and reports values that no other device has.
#[derive(Default)]
struct Bottom {
    done: Vec<Completion>,
    preloaded: Vec<SectorRange>,
}

impl Medium for Bottom {
    fn flash_writes(&self) -> FlashWrites {
        FlashWrites { host_bytes: 4096, flash_bytes: 8192 }
    }
    fn capacity_sectors(&self) -> u64 {
        4242
    }
    fn energy_j(&self, now: Nanos) -> f64 {
        17.0 + now as f64
    }
    fn unflushed(&mut self, _now: Nanos) -> Vec<SectorRange> {
        vec![(7, 5)]
    }
    fn fault_counts(&self) -> FaultCounts {
        // Preloaded data is reported as lost, so that a test sees it arrive.
        let preloaded = self.preloaded.iter().map(|&(_, sectors)| sectors).sum::<u64>();
        FaultCounts { fired: vec![3, 1], lost_bytes: 4096 + preloaded, rebuilt: Some(0.25) }
    }
    fn trim(&mut self, data: &[SectorRange]) {
        self.preloaded.retain(|range| !data.contains(range));
    }
    fn preload(&mut self, data: &[SectorRange], _order: StoredOrder) {
        self.preloaded = data.to_vec();
    }
}

impl Device for Bottom {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.done.push(Completion { tag: request.tag, time: now, status: Status::Done });
    }
    fn wake_ahead(&mut self, _now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        out.append(&mut self.done);
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.done.first().map(|completion| completion.time)
    }
    fn in_flight(&self) -> usize {
        self.done.len()
    }
}

impl Queue for Bottom {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }
    fn plug(&mut self) {}
    fn unplug(&mut self, _now: Nanos) {}
}

/// The name of a wrapper in the source, and one over the device.
fn over_anything() -> Vec<(&'static str, Box<dyn Queue + Send>)> {
    let bottom = Bottom::default;
    vec![
        ("Box", Box::new(Box::new(bottom()))),
        ("BlockQueue", Box::new(BlockQueue::new(bottom(), &QueueSpec::default()))),
        ("FaultyDevice", Box::new(FaultyDevice::new(bottom(), &[], 1).unwrap())),
        ("VirtualDisk", Box::new(VirtualDisk::new(Box::new(bottom()), VirtualDiskSpec::default()))),
    ]
}

#[test]
fn a_wrapper_reports_what_is_below_it() {
    for (name, mut device) in over_anything() {
        device.preload(&[(0, 8), (64, 16)], StoredOrder::OfDrive);
        let counts = FaultCounts { fired: vec![3, 1], lost_bytes: 4096 + 24, rebuilt: Some(0.25) };
        assert_eq!(device.fault_counts(), counts, "{name}");
        device.trim(&[(64, 16)]);
        // A hypervisor ignores discards.
        let left = if name == "VirtualDisk" { 24 } else { 8 };
        assert_eq!(device.fault_counts().lost_bytes, 4096 + left, "{name}");
        assert_eq!(device.capacity_sectors(), 4242, "{name}");
        assert_eq!(device.energy_j(5), 22.0, "{name}");
        assert_eq!(device.flash_writes().flash_bytes, 8192, "{name}");
        assert_eq!(device.unflushed(5), [(7, 5)], "{name}");
    }
}

const DISK: &str = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 2147483648,
    "rotation_rpm": 7200, "rates": {"outer_bytes_per_s": 100e6}, "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5},
    "buffer": {"write_cache_bytes": 8388608}}"#;

/// Loses its power while its write cache is not empty.
const POWER_LOSS: &str = r#"{"fault": {"kind": "power_loss"}, "from_s": 0.02, "until_s": 1.0}"#;

/// The wrappers of real drives, of which each drive loses its power once.
fn over_drives() -> Vec<(&'static str, Box<dyn Queue + Send>)> {
    let disk = || DriveSpec::from_json(DISK).unwrap();
    let fault: FaultSpec = serde_json::from_str(POWER_LOSS).unwrap();
    let queue = QueueSpec::default();
    let drive = || {
        let drive = build(&disk(), 1).unwrap();
        FaultyDevice::new(drive, std::slice::from_ref(&fault), 1).unwrap()
    };
    let habits = SharedHabits::default();
    let storage = |level: Option<u32>, queue: Option<&QueueSpec>| {
        let raid = level.map(|level| RaidSpec {
            level,
            drives: 2,
            chunk_bytes: 65536,
            rebuild_bytes_per_s: 1 << 20,
            ..RaidSpec::default()
        });
        let spec = StorageSpec { drives: vec![disk()], raid, faults: vec![fault.clone()] };
        Storage::build_queued(&spec, 1, queue).unwrap()
    };
    let guest = |device| VirtualDisk::new(device, VirtualDiskSpec::default());
    vec![
        ("Drive", Box::new(drive())),
        ("MemberDrive", Box::new(MemberDrive::new(drive(), None, &habits))),
        ("MemberDrive", Box::new(MemberDrive::new(drive(), Some(&queue), &habits))),
        ("Storage", Box::new(storage(None, None))),
        ("Storage", Box::new(storage(Some(1), None))),
        ("Storage", Box::new(storage(Some(1), Some(&queue)))),
        ("VirtualDisk", Box::new(guest(Box::new(storage(Some(1), Some(&queue)))))),
        ("BlockQueue", Box::new(BlockQueue::new(guest(Box::new(storage(None, None))), &queue))),
    ]
}

#[test]
fn lost_power_is_counted_above_every_wrapper() {
    for (name, mut device) in over_drives() {
        let mut done = Vec::new();
        for tag in 0..400 {
            // More than the drive writes until it loses its power.
            let sector = tag * 7919 % 4_000_000 / 8 * 8;
            device.submit(0, Request { tag, op: Op::Write, sector, sectors: 8, fua: false });
        }
        for step in 1..=200 {
            device.wake(step * 10_000_000, &mut done);
        }
        let counts = device.fault_counts();
        assert!(counts.lost_bytes > 0, "{name}: {counts:?}");
        assert_eq!(counts.fired.len(), 1, "{name}: {counts:?}");
        assert!(counts.fired[0] > 0, "{name}: {counts:?}");
    }
}

/// A new wrapper must be added to the lists above.
#[test]
fn every_wrapper_is_tested() {
    let mut written = BTreeSet::new();
    let crates = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("..");
    for each in std::fs::read_dir(crates).unwrap() {
        collect_wrappers(&each.unwrap().path().join("src"), &mut written);
    }
    let tested: BTreeSet<String> =
        over_anything().into_iter().chain(over_drives()).map(|(name, _)| name.to_owned()).collect();
    assert_eq!(written, tested);
}

fn collect_wrappers(folder: &Path, found: &mut BTreeSet<String>) {
    for each in std::fs::read_dir(folder).into_iter().flatten() {
        let path = each.unwrap().path();
        if path.is_dir() {
            collect_wrappers(&path, found);
            continue;
        }
        for line in std::fs::read_to_string(&path).unwrap().lines() {
            if let (true, Some((_, name))) =
                (line.starts_with("impl"), line.split_once("Wrapper for "))
            {
                found.insert(name.split(['<', ' ']).next().unwrap().to_owned());
            }
        }
    }
}
