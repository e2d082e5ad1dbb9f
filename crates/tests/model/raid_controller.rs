//! A hardware RAID: what its cache is worth with and without a battery.

use crate::loads::{close, load};
use headrace_model::drive_run::{run_device, FioLike, Rw};
use headrace_model::raid::spec::{ControllerSpec, RaidSpec};
use headrace_model::request::{Completion, Device, Op, Queue, Request};
use headrace_model::scheduler::{BlockQueue, QueueSpec, SchedulerSpec};
use headrace_model::spec::{DriveSpec, StorageSpec};
use headrace_model::storage::{Drives, Storage};

const DISK: &str = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 500107862016,
    "rotation_rpm": 7200, "heads": 4, "rates": {"outer_bytes_per_s": 109e6},
    "link_bytes_per_s": 300e6,
    "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}}"#;

fn controller(battery: bool) -> ControllerSpec {
    ControllerSpec {
        cache_bytes: 256 << 20,
        battery,
        queue_depth: 256,
        command_us: 25.0,
        link_bytes_per_s: 2e9,
        flush_interval_s: 4.0,
        destage_above: 0.5,
    }
}

fn storage(level: u32, drives: u32, controller: Option<ControllerSpec>) -> Storage {
    let raid = Some(RaidSpec { level, drives, controller, ..RaidSpec::default() });
    let drives = vec![DriveSpec::from_json(DISK).unwrap()];
    Storage::build(&StorageSpec { drives, raid, faults: Vec::new() }, 1).unwrap()
}

fn one(device: &mut Storage, now: u64, op: Op, sector: u64) -> Completion {
    let mut done = Vec::new();
    device.submit(now, Request { tag: now, op, sector, sectors: 8, fua: false });
    while done.is_empty() {
        let next = device.next_wake().unwrap();
        device.wake(next, &mut done);
    }
    done[0]
}

#[test]
fn a_battery_makes_a_write_as_fast_as_the_link() {
    let now = 1_000_000;
    let with = |battery| {
        let mut device = storage(5, 4, Some(controller(battery)));
        let write = one(&mut device, now, Op::Write, 4096).time - now;
        let flush = one(&mut device, now + write, Op::Flush, 0).time - now - write;
        (write, flush)
    };
    // Command, 4 KiB over the link; the flush is a command.
    assert_eq!(with(true), (25_000 + 2_048, 25_000));
    let (write, _) = with(false);
    assert!(write > 5_000_000, "{write}");
}

#[test]
fn a_read_of_data_in_the_cache_needs_no_drive() {
    let mut device = storage(5, 4, Some(controller(true)));
    one(&mut device, 0, Op::Write, 4096);
    assert!(one(&mut device, 1_000_000, Op::Read, 4096).time < 1_100_000);
    assert!(one(&mut device, 2_000_000, Op::Read, 40_960_000).time > 3_000_000);
}

#[test]
fn pieces_of_a_stripe_are_gathered_and_read_nothing() {
    let issued = |gap: u64, count: u64| {
        let mut device = storage(5, 4, Some(controller(true)));
        for piece in 0..count {
            one(&mut device, piece * gap, Op::Write, piece * 8);
        }
        let mut done = Vec::new();
        while let Some(next) = device.next_wake() {
            device.wake(next, &mut done);
        }
        let Drives::Controlled(controller) = &device.drives else { unreachable!() };
        controller.raid().issued().iter().sum::<u64>()
    };
    // 192 KiB in pieces of 4 KiB, even if they come slowly: a chunk for each of four drives.
    assert_eq!(issued(10_000_000, 48), 4);
    // All but the last piece: the rest of the last chunk is read, after the interval.
    assert_eq!(issued(10_000_000, 47), 1 + 4);
}

fn rate(controller: Option<ControllerSpec>, load: &FioLike) -> f64 {
    run_device(&mut storage(5, 4, controller), load).unwrap().bytes_per_s()
}

#[test]
fn sustained_writes_come_down_to_the_drives() {
    // In sequence: three disks' worth, as md does.
    let writes = load(Rw::Write, 1 << 20, 8, 30.0);
    close(rate(Some(controller(true)), &writes) / rate(None, &writes), 1.0, 0.15);
    // At random: the cache sorts many of them, but cannot do without reading and writing.
    let random = load(Rw::RandWrite, 4096, 32, 600.0);
    let bare = rate(None, &random);
    let gain = rate(Some(controller(true)), &random) / bare;
    assert!((1.2..6.0).contains(&gain), "{gain}");
    // Without its battery nothing is gained.
    let gain = rate(Some(controller(false)), &random) / bare;
    assert!((0.8..1.2).contains(&gain), "{gain}");
}

#[test]
fn a_stripe_that_is_written_again_while_it_leaves_goes_to_the_drives_once_that_has_ended() {
    let mut device = storage(5, 4, Some(controller(true)));
    let stripe = |tag| Request { tag, op: Op::Write, sector: 0, sectors: 384, fua: false };
    device.submit(0, stripe(1));
    // It is on its way to the drives.
    device.submit(1_000_000, stripe(2));
    let mut done = Vec::new();
    while let Some(next) = device.next_wake().filter(|&next| next < 1_000_000_000) {
        device.wake(next, &mut done);
    }
    let Drives::Controlled(controller) = &device.drives else { unreachable!() };
    // Four chunks each time, and long before the interval of 4 s.
    assert_eq!(controller.raid().issued().iter().sum::<u64>(), 8);
}

#[test]
fn one_scheduler_orders_the_requests_of_the_whole_array() {
    let served = |scheduler: &str| {
        let spec = QueueSpec {
            scheduler: SchedulerSpec::named(scheduler).unwrap(),
            queue_depth: 1,
            ..QueueSpec::default()
        };
        let device: Box<dyn Queue + Send> = Box::new(storage(0, 2, Some(controller(true))));
        let mut queue = BlockQueue::new(device, &spec);
        let mut done = Vec::new();
        for tag in 0..32 {
            let sector = tag * 7919 % 32 * 60_000_000 / 8 * 8;
            queue.submit(0, Request { tag, op: Op::Read, sector, sectors: 8, fua: false });
        }
        while let Some(next) = queue.next_wake() {
            queue.wake(next, &mut done);
        }
        done.last().unwrap().time
    };
    let (sorted, as_they_came) = (served("deadline") as f64, served("noop") as f64);
    assert!(sorted < 0.8 * as_they_came, "{sorted} {as_they_came}");
}
