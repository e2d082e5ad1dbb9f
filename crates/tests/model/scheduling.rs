//! The block layer against queueing theory, the kernel's promises, and the law of the late wake.

use headrace_model::drive::build;
use headrace_model::ideal::{IdealDrive, IdealSpec, ServiceTime};
use headrace_model::request::{Completion, Device, Nanos, Op, Queue, Request};
use headrace_model::scheduler::{BlockQueue, QueueSpec, SchedulerSpec, SharedHabits, SubmittedIo};
use headrace_model::spec::DriveSpec;
use headrace_model::stream::Stream;
use proptest::prelude::*;

fn drive(service_ns: u64, channels: u32, service_time: ServiceTime) -> Box<dyn Queue + Send> {
    let spec = IdealSpec {
        capacity_bytes: 1 << 40,
        read_ns: service_ns,
        write_ns: service_ns,
        read_bytes_per_s: 0.0,
        write_bytes_per_s: 0.0,
        flush_ns: 0,
        channels,
        service_time,
        idle_w: 0.0,
        active_w: 0.0,
    };
    Box::new(IdealDrive::new(&spec, 1))
}

fn queue(scheduler: &str, depth: u32, service_ns: u64) -> BlockQueue {
    let spec = QueueSpec {
        scheduler: SchedulerSpec::named(scheduler).unwrap(),
        queue_depth: depth,
        ..QueueSpec::default()
    };
    BlockQueue::new(drive(service_ns, depth, ServiceTime::Constant), &spec)
}

fn io(tag: u64, op: Op, sector: u64, process: u32) -> SubmittedIo {
    SubmittedIo {
        request: Request { tag, op, sector, sectors: 8, fua: false },
        process,
        sync: op == Op::Read,
    }
}

fn drain(queue: &mut BlockQueue) -> Vec<Completion> {
    let mut done = Vec::new();
    while let Some(time) = queue.next_wake() {
        queue.wake(time, &mut done);
    }
    done
}

/// Mean time in the system of Poisson arrivals at one server.
fn mean_response(service_time: ServiceTime, load: f64) -> f64 {
    let service_ns = 1_000_000.0;
    let spec = QueueSpec { queue_depth: 1, nr_requests: 100_000, ..QueueSpec::default() };
    let mut queue = BlockQueue::new(drive(service_ns as u64, 1, service_time), &spec);
    let mut stream = Stream::new(11, "arrivals");
    let mut now = 0.0;
    let mut done = Vec::new();
    let n = 600_000;
    for tag in 0..n {
        now += stream.exponential(service_ns / load);
        queue.wake(now as Nanos, &mut done);
        // Far apart, so that nothing merges.
        queue.submit_io(now as Nanos, io(tag, Op::Read, (tag * 7919 % 100_000) * 1000, 1));
    }
    done.extend(drain(&mut queue));
    assert_eq!(done.len(), n as usize);
    queue.read_latency().mean_ns() / service_ns
}

#[test]
fn one_server_meets_theory() {
    for load in [0.3, 0.6, 0.8] {
        // Pollaczek-Khinchine: 1 + load / (2 (1 - load)) for constant, 1 / (1 - load) for exponential service.
        let constant = mean_response(ServiceTime::Constant, load);
        let expected = 1.0 + load / (2.0 * (1.0 - load));
        assert!(
            (constant / expected - 1.0).abs() < 0.025,
            "M/D/1 at {load}: {constant} not {expected}"
        );
        let exponential = mean_response(ServiceTime::Exponential, load);
        let expected = 1.0 / (1.0 - load);
        assert!(
            (exponential / expected - 1.0).abs() < 0.03,
            "M/M/1 at {load}: {exponential} not {expected}"
        );
    }
}

#[test]
fn neighbours_merge_in_the_plug_and_in_the_queue() {
    let mut noop = queue("noop", 1, 1_000_000);
    noop.plug();
    for i in 0..16 {
        noop.submit_io(0, io(i, Op::Read, 1000 + i * 8, 1));
    }
    noop.unplug(0);
    assert_eq!((noop.counters().reads, noop.counters().merged), (1, 15));
    // While the drive is busy: one behind, one in front of what waits.
    noop.submit_io(0, io(20, Op::Read, 5000, 1));
    noop.submit_io(0, io(21, Op::Read, 5008, 1));
    noop.submit_io(0, io(22, Op::Read, 4992, 1));
    assert_eq!(drain(&mut noop).len(), 19);
    assert_eq!(noop.counters().reads, 2);
    // "none" merges in the plug alone.
    let mut none = queue("none", 1, 1_000_000);
    (0..3).for_each(|i| none.submit_io(0, io(i, Op::Read, 5000 + 8 * i, 1)));
    drain(&mut none);
    assert_eq!(none.counters().reads, 3);
}

#[test]
fn no_request_outgrows_the_limit() {
    let mut queue = queue("deadline", 1, 1_000_000);
    queue.plug();
    (0..300).for_each(|i| queue.submit_io(0, io(i, Op::Write, i * 8, 1)));
    queue.unplug(0);
    assert_eq!(drain(&mut queue).len(), 300);
    // 1200 KiB in requests of 512 KiB at most.
    assert_eq!(queue.counters().writes, 3);
}

#[test]
fn deadline_prefers_reads_but_starves_no_write() {
    let mut queue = queue("deadline", 1, 1_000_000);
    for i in 0..64 {
        queue.submit_io(0, io(1000 + i, Op::Write, 1_000_000 + i * 1000, 9));
    }
    for i in 0..256 {
        queue.submit_io(0, io(i, Op::Read, i * 1000, 1));
    }
    let done = drain(&mut queue);
    // The writes came first, so their batch of 16 goes on; then two batches of 16 reads pass before the next batch of
    // writes has its turn (writes_starved = 2).
    let kinds: Vec<bool> = done.iter().map(|c| c.tag >= 1000).collect();
    let expected = [vec![true; 16], vec![false; 32], vec![true; 16], vec![false; 32]].concat();
    assert_eq!(kinds[..96], expected[..]);
    let last_write = done.iter().rposition(|c| c.tag >= 1000).unwrap();
    assert!(last_write < 64 + 3 * 2 * 16 + 40, "{last_write}");
}

#[test]
fn deadline_serves_what_has_waited_too_long() {
    // A stream of reads at low sectors would keep the elevator there; the far one expires after 500 ms.
    let mut queue = queue("deadline", 1, 10_000_000);
    queue.submit_io(0, io(0, Op::Read, 0, 1));
    queue.submit_io(0, io(1, Op::Read, 900_000_000, 2));
    let mut done = Vec::new();
    let mut tag = 2;
    let mut far = None;
    while far.is_none() {
        let time = queue.next_wake().unwrap();
        let before = done.len();
        queue.wake(time, &mut done);
        for c in &done[before..] {
            if c.tag == 1 {
                far = Some(c.time);
            }
        }
        queue.submit_io(time, io(tag, Op::Read, tag * 1000, 1));
        tag += 1;
        assert!(tag < 1000);
    }
    assert!(far.unwrap() < 800_000_000, "{far:?}");
}

/// Two processes that read far apart, each asking for the next piece `think_ns` after the last. Returns how often the
/// drive changed between them, of how many reads.
fn changes(scheduler: &str, think_ns: u64) -> (usize, usize) {
    let mut queue = queue(scheduler, 1, 2_000_000);
    let mut next = [0u64; 2];
    let mut pending: Vec<(Nanos, u64)> = vec![(0, 0), (0, 1)];
    let mut order = Vec::new();
    let mut done = Vec::new();
    while order.len() < 2000 {
        let submit = pending.iter().copied().min();
        match (submit, queue.next_wake()) {
            (Some((time, process)), wake) if wake.is_none_or(|wake| time <= wake) => {
                pending.retain(|p| p.1 != process);
                let sector = process * 500_000_000 + next[process as usize] * 8;
                next[process as usize] += 1;
                queue.submit_io(time, io(process, Op::Read, sector, process as u32 + 1));
            }
            (_, Some(wake)) => {
                done.clear();
                queue.wake(wake, &mut done);
                for c in &done {
                    order.push(c.tag);
                    pending.push((c.time + think_ns, c.tag));
                }
            }
            _ => unreachable!("someone always has something to do"),
        }
    }
    (order.windows(2).filter(|w| w[0] != w[1]).count(), order.len())
}

#[test]
fn schedulers_that_wait_keep_the_head_with_a_process() {
    for scheduler in ["noop", "deadline", "mq-deadline", "kyber"] {
        let (changes, reads) = changes(scheduler, 500_000);
        assert!(changes > reads / 3, "{scheduler}: {changes} of {reads}");
    }
    for scheduler in ["anticipatory", "cfq", "cfq-2.6.18", "bfq"] {
        let (changes, reads) = changes(scheduler, 500_000);
        assert!(changes < reads / 8, "{scheduler}: {changes} of {reads}");
        assert!(changes > 0, "{scheduler} serves both");
    }
}

#[test]
fn nobody_is_waited_for_who_thinks_long() {
    for scheduler in ["anticipatory", "cfq", "cfq-2.6.18", "bfq"] {
        let (changes, reads) = changes(scheduler, 30_000_000);
        assert!(changes > reads / 2, "{scheduler}: {changes} of {reads}");
    }
}

#[test]
fn processes_share_the_drive_fairly() {
    // One reads in sequence with 16 requests waiting, the other seeks, one at a time.
    for scheduler in ["cfq", "cfq-2.6.18", "bfq"] {
        let mut queue = queue(scheduler, 1, 1_000_000);
        let mut counts = [0u32; 2];
        let mut tag = 0;
        let mut submit = |queue: &mut BlockQueue, now, process: u64| {
            tag += 1;
            let sector =
                if process == 0 { tag * 64 } else { 100_000_000 + (tag * 7919 % 9973) * 65_536 };
            queue.submit_io(now, io(process, Op::Read, sector, process as u32 + 1));
        };
        (0..16).for_each(|_| submit(&mut queue, 0, 0));
        submit(&mut queue, 0, 1);
        let mut done = Vec::new();
        while counts[0] + counts[1] < 4000 {
            let time = queue.next_wake().unwrap();
            done.clear();
            queue.wake(time, &mut done);
            for c in &done {
                counts[c.tag as usize] += 1;
                submit(&mut queue, c.time, c.tag);
            }
        }
        let share = f64::from(counts[1]) / 4000.0;
        assert!(share > 0.2, "{scheduler}: the one that seeks gets {share}");
    }
}

/// The longest time that the first read of a burst takes, when two processes read four pages in a row in turn, 50 ms
/// from one process to the other.
fn longest_first_read_ns(spec: SchedulerSpec) -> u64 {
    let spec = QueueSpec { scheduler: spec, queue_depth: 32, ..QueueSpec::default() };
    let mut queue = BlockQueue::new(drive(100_000, 32, ServiceTime::Constant), &spec);
    let (mut done, mut longest) = (Vec::new(), 0);
    for turn in 0..40u64 {
        let mut now = (turn + 1) * 50_000_000;
        let process = turn % 2;
        for page in 0..4 {
            queue.submit_io(
                now,
                io(
                    page,
                    Op::Read,
                    process * 1_000_000 + turn * 1000 + page * 8,
                    process as u32 + 1,
                ),
            );
            done.clear();
            while done.is_empty() {
                let next = queue.next_wake().unwrap();
                queue.wake(next, &mut done);
            }
            if page == 0 && turn > 8 {
                longest = longest.max(done[0].time - now);
            }
            now = done[0].time + 50_000;
        }
    }
    longest
}

#[test]
fn cfq_of_2_6_18_pauses_at_every_change_of_process() {
    // Nobody has asked for 50 ms, and yet whoever comes waits for the last one's pause of 8 ms.
    let early = longest_first_read_ns(SchedulerSpec::named("cfq-2.6.18").unwrap());
    assert!((8_000_000..9_000_000).contains(&early), "{early}");
    for scheduler in ["noop", "deadline", "anticipatory", "bfq", "cfq"] {
        let longest = longest_first_read_ns(SchedulerSpec::named(scheduler).unwrap());
        assert!(longest < 1_000_000, "{scheduler}: {longest}");
    }
}

#[test]
fn the_anticipatory_scheduler_knows_a_process_from_other_drives() {
    // A process reads two drives in turn: the second 1 ms after the first, the first again 5 ms after that.
    let waited = |shared: bool| {
        let habits = SharedHabits::default();
        let mut queues: Vec<BlockQueue> =
            (0..2).map(|_| queue("anticipatory", 1, 500_000)).collect();
        if shared {
            queues.iter_mut().for_each(|queue| queue.share_habits(&habits));
        }
        let (mut done, mut now) = (Vec::new(), 0);
        for turn in 0..64u64 {
            let queue = &mut queues[(turn % 2) as usize];
            queue.submit_io(now, io(0, Op::Read, turn * 100_000, 1));
            while done.is_empty() {
                let next = queue.next_wake().unwrap();
                queue.wake(next, &mut done);
            }
            now = done.pop().map_or(now, |c: Completion| c.time)
                + if turn % 2 == 0 { 1_000_000 } else { 5_000_000 };
        }
        // Somebody else's read, far away, right behind the last.
        let queue = &mut queues[1];
        let asked = now - 4_900_000;
        queue.submit_io(asked, io(1, Op::Read, 900_000_000, 2));
        while done.is_empty() {
            let next = queue.next_wake().unwrap();
            queue.wake(next, &mut done);
        }
        done[0].time - asked
    };
    // Seen from one drive it thinks 6.5 ms, over both 3 ms: only then is it worth waiting for, 6 ms at most.
    assert!(waited(false) < 1_000_000, "{}", waited(false));
    assert!(waited(true) > 4_000_000, "{}", waited(true));
}

/// A disk of 7200 turns a minute with command queuing, a write cache and read-ahead of its own.
fn disk() -> Box<dyn Queue + Send> {
    let spec = DriveSpec::from_json(
        r#"{"kind": "hdd", "name": "disk", "capacity_bytes": 320000000000, "rotation_rpm": 7200,
            "rates": {"outer_bytes_per_s": 108000000}, "link_bytes_per_s": 300000000,
            "seek": {"curve": "sheet", "track_to_track_ms": 2.0, "average_ms": 12.0}}"#,
    );
    Box::new(build(&spec.unwrap(), 5).unwrap())
}

const ALL: &[&str] = SchedulerSpec::NAMES;

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Every I/O completes once, and waking late gives the same times as waking on time.
    #[test]
    fn a_late_wake_changes_nothing(
        scheduler in prop::sample::select(ALL.to_vec()),
        turning in any::<bool>(),
        depth in 1u32..8,
        steps in prop::collection::vec((0u64..5_000_000, 0u64..2000, 0u32..5, 0u8..8), 1..150),
        late in prop::collection::vec(0u64..40_000_000, 1..20),
    ) {
        let mut outcomes = Vec::new();
        for punctual in [true, false] {
            let spec = QueueSpec {
                scheduler: SchedulerSpec::named(scheduler).unwrap(),
                queue_depth: depth,
                nr_requests: 24,
                ..QueueSpec::default()
            };
            let mut queue = if turning {
                BlockQueue::new(disk(), &spec)
            } else {
                BlockQueue::new(drive(3_000_000, depth.min(3), ServiceTime::Exponential), &spec)
            };
            let mut done = Vec::new();
            let mut now = 0;
            for (tag, &(gap, place, process, what)) in steps.iter().enumerate() {
                let next = now + gap;
                if punctual {
                    while let Some(time) = queue.next_wake().filter(|&time| time <= next) {
                        queue.wake(time, &mut done);
                    }
                }
                now = next;
                let op = if what < 5 { Op::Read } else if what < 7 { Op::Write } else { Op::Flush };
                let mut one = io(tag as u64, op, place * 8, process);
                if op == Op::Flush {
                    one.request.sectors = 0;
                }
                queue.submit_io(now, one);
            }
            if punctual {
                done.extend(drain(&mut queue));
            } else {
                for wait in &late {
                    now += wait;
                    queue.wake(now, &mut done);
                }
                while queue.in_flight() > 0 {
                    now += 1_000_000_000;
                    queue.wake(now, &mut done);
                }
            }
            prop_assert_eq!(queue.in_flight(), 0);
            prop_assert_eq!(done.len(), steps.len());
            let mut pairs: Vec<_> = done.iter().map(|c| (c.tag, c.time)).collect();
            pairs.sort_unstable();
            outcomes.push(pairs);
        }
        prop_assert_eq!(&outcomes[0], &outcomes[1]);
    }
}

/// While a drive flushes, all who ask for a flush wait for one that begins after it.
#[test]
fn flushes_that_are_asked_for_meanwhile_become_one() {
    let spec = IdealSpec {
        capacity_bytes: 1 << 40,
        read_ns: 1_000_000,
        write_ns: 1_000_000,
        read_bytes_per_s: 0.0,
        write_bytes_per_s: 0.0,
        flush_ns: 10_000_000,
        channels: 1,
        service_time: ServiceTime::Constant,
        idle_w: 0.0,
        active_w: 0.0,
    };
    let mut queue: BlockQueue =
        BlockQueue::new(Box::new(IdealDrive::new(&spec, 1)), &QueueSpec::default());
    let flush = |tag| {
        let mut io = io(tag, Op::Flush, 0, 0);
        io.request.sectors = 0;
        io
    };
    for tag in 0..8 {
        queue.submit_io(tag * 1000, flush(tag));
    }
    let ends: Vec<_> = drain(&mut queue).iter().map(|done| (done.tag, done.time)).collect();
    let together = (1..8).map(|tag| (tag, 20_000_000));
    assert_eq!(ends, std::iter::once((0, 10_000_000)).chain(together).collect::<Vec<_>>());
    queue.submit_io(20_000_000, flush(9));
    assert_eq!(drain(&mut queue)[0].time, 30_000_000);
}
