//! What each scheduler gains over a disk that many processes read at random, against theory.

use headrace_model::drive::build;
use headrace_model::drive_run::{FioLike, Rw};
use headrace_model::ideal::{IdealDrive, IdealSpec, ServiceTime};
use headrace_model::request::{Completion, Device, Nanos, Op, Queue, Request};
use headrace_model::scheduler::{BlockQueue, QueueSpec, SchedulerSpec, SubmittedIo};
use headrace_model::spec::DriveSpec;
use headrace_model::stream::Stream;

use crate::loads::load;

const SECTORS: u64 = 320_000_000_000 / 512 / 8 * 8;

/// A disk of 7200 revolutions per minute without a buffer, with a command queue of `depth`.
fn disk(depth: u32) -> Box<dyn Queue + Send> {
    let text = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 320000000000,
        "rotation_rpm": 7200, "rates": {"outer_bytes_per_s": 108000000},
        "link_bytes_per_s": 300000000, "queue": {"depth": DEPTH},
        "buffer": {"read_ahead_bytes": 0, "write_cache_bytes": 0},
        "seek": {"curve": "sheet", "track_to_track_ms": 1.0, "average_ms": 8.5}}"#;
    let spec = DriveSpec::from_json(&text.replace("DEPTH", &depth.to_string())).unwrap();
    Box::new(build(&spec, 5).unwrap())
}

/// Return reads per second of `processes` that each read 4 KiB at random, one at a time.
fn reads_per_s(scheduler: &str, processes: u64, depth: u32) -> f64 {
    let spec = QueueSpec {
        scheduler: SchedulerSpec::named(scheduler).unwrap(),
        queue_depth: depth,
        ..QueueSpec::default()
    };
    let mut queue = BlockQueue::new(disk(depth), &spec);
    let mut random = Stream::new(3, "places");
    let mut submit = |queue: &mut BlockQueue, now: Nanos, tag: u64| {
        let sector = random.below(SECTORS / 8) * 8;
        let request = Request { tag, op: Op::Read, sector, sectors: 8, fua: false };
        queue.submit_io(now, SubmittedIo { request, process: tag as u32 + 1, sync: true });
    };
    (0..processes).for_each(|process| submit(&mut queue, 0, process));
    let (mut done, mut now) = (Vec::<Completion>::new(), 0);
    let reads = 4000;
    for _ in 0..reads {
        while done.is_empty() {
            now = queue.next_wake().unwrap();
            queue.wake(now, &mut done);
        }
        let completion = done.remove(0);
        submit(&mut queue, now + 20_000, completion.tag);
    }
    reads as f64 / now as f64 * 1e9
}

/// Return what theory expects of a one-way elevator: half a turn, and a seek as long as the way to
/// the next of the waiting requests. These are twice as dense before the head as on average, since
/// those that it has just passed are gone, and a sweep serves twice as many as wait. Distances are
/// exponential, so the mean of their root is that of the mean times gamma(3/2); one seek over the
/// whole disk per sweep.
fn elevator_reads_per_s(processes: u64) -> f64 {
    let per_sweep = 2.0 * (processes - 1) as f64;
    let (track_to_track, average, overhead) = (1.0, 8.5, 0.1);
    let stroke = (average - track_to_track) * 15.0 / 8.0;
    let seek = track_to_track + stroke * 0.8862 / per_sweep.sqrt();
    let back = (track_to_track + stroke - seek) / per_sweep;
    1000.0 / (seek + back + 60_000.0 / 7200.0 / 2.0 + overhead)
}

#[test]
fn an_elevator_gains_what_shorter_seeks_are_worth() {
    for processes in [8, 32] {
        let expected = elevator_reads_per_s(processes);
        for scheduler in ["deadline", "mq-deadline", "anticipatory"] {
            let obtained = reads_per_s(scheduler, processes, 1);
            let error = obtained / expected - 1.0;
            assert!(error.abs() < 0.1, "{scheduler}, {processes}: {obtained}, not {expected}");
        }
    }
}

#[test]
fn a_drive_can_run_behind_a_scheduler() {
    let text = r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 320000000000,
        "rotation_rpm": 7200, "rates": {"outer_bytes_per_s": 108000000},
        "link_bytes_per_s": 300000000, "queue": {"depth": 1},
        "seek": {"curve": "sheet", "track_to_track_ms": 1.0, "average_ms": 8.5}}"#;
    let drive = DriveSpec::from_json(text).unwrap();
    let run = |scheduler: &str| {
        let scheduler = Some(scheduler.to_owned());
        let load = FioLike { scheduler, ..load(Rw::RandRead, 4096, 32, 100.0) };
        headrace_model::drive_run::run(&drive, &load)
    };
    let (fifo, elevator) = (run("none").unwrap().iops(), run("mq-deadline").unwrap().iops());
    assert!((elevator / elevator_reads_per_s(32) - 1.0).abs() < 0.1, "{elevator}");
    assert!(elevator > 1.5 * fifo, "{elevator} {fifo}");
    assert!(run("elevator").unwrap_err().to_string().contains("scheduler"));
}

#[test]
fn schedulers_that_keep_processes_apart_serve_one_request_each_in_order_of_arrival() {
    let one = reads_per_s("noop", 1, 1);
    for scheduler in ["noop", "none", "kyber", "cfq", "cfq-2.6.18", "bfq"] {
        let obtained = reads_per_s(scheduler, 32, 1);
        assert!((obtained / one - 1.0).abs() < 0.02, "{scheduler}: {obtained}, not {one}");
    }
}

#[test]
fn a_command_queue_is_filled_by_every_scheduler_but_cfq_of_2_6_18() {
    let most = reads_per_s("noop", 32, 32);
    for scheduler in ["none", "deadline", "mq-deadline", "kyber", "anticipatory", "cfq", "bfq"] {
        let obtained = reads_per_s(scheduler, 32, 32);
        assert!(obtained > 0.85 * most, "{scheduler}: {obtained}, not {most}");
    }
    assert!(most > 1.6 * reads_per_s("cfq-2.6.18", 32, 32));
}

#[test]
fn nothing_waits_for_a_process_on_an_ssd_with_a_command_queue() {
    // Two processes read in sequence and compute for 1 ms after each read of 0.1 ms.
    for scheduler in ["cfq", "bfq"] {
        for (rotational, least, most) in [(true, 0.0, 1100.0), (false, 1500.0, 2000.0)] {
            let obtained = sequential_reads_per_s(scheduler, rotational);
            assert!((least..most).contains(&obtained), "{scheduler}, {rotational}: {obtained}");
        }
    }
}

fn sequential_reads_per_s(scheduler: &str, rotational: bool) -> f64 {
    let ideal = IdealSpec {
        capacity_bytes: 1 << 40,
        read_ns: 100_000,
        write_ns: 100_000,
        read_bytes_per_s: 0.0,
        write_bytes_per_s: 0.0,
        flush_ns: 0,
        channels: 32,
        service_time: ServiceTime::Constant,
        idle_w: 0.0,
        active_w: 0.0,
    };
    let spec = QueueSpec {
        scheduler: SchedulerSpec::named(scheduler).unwrap(),
        rotational,
        ..QueueSpec::default()
    };
    let mut queue: BlockQueue = BlockQueue::new(Box::new(IdealDrive::new(&ideal, 1)), &spec);
    let mut due: Vec<(Nanos, u64)> = vec![(0, 0), (50_000, 1)];
    let (mut places, mut done, mut now) = ([0, 1 << 30], Vec::<Completion>::new(), 0);
    let reads = 2000;
    let mut ended = 0;
    while ended < reads {
        let next = due.iter().copied().min();
        match (next, queue.next_wake()) {
            (Some((at, process)), wake) if wake.is_none_or(|wake| at <= wake) => {
                due.retain(|entry| entry.1 != process);
                let sector = places[process as usize];
                places[process as usize] += 8;
                let request =
                    Request { tag: process, op: Op::Read, sector, sectors: 8, fua: false };
                let process = process as u32 + 1;
                queue.submit_io(at, SubmittedIo { request, process, sync: true });
            }
            (_, Some(wake)) => {
                queue.wake(wake, &mut done);
                now = wake;
                ended += done.len();
                due.extend(done.drain(..).map(|c| (c.time + 1_000_000, c.tag)));
            }
            _ => unreachable!("a process always has something to do"),
        }
    }
    ended as f64 / now as f64 * 1e9
}
