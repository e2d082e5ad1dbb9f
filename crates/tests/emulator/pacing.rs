//! The pacer: what it says is due is what the simulator says, however late it is asked.

use headrace_emulator::pacer::{Floor, Pacer, Service, Times, Way, QUICK_NS};
use headrace_model::spec::StorageSpec;
use headrace_model::storage::Storage;
use headrace_model::stream::Stream;
use headrace_model::{Device, Nanos, Op, Request, SECTOR_BYTES};
use proptest::prelude::*;

const DISK: &str = include_str!("../../../python/headrace/catalog/drives/seagate-st3750640ns.toml");
const SSD: &str = include_str!("../../../python/headrace/catalog/drives/intel-x25-m-g2-160gb.toml");

fn storage(text: &str, raid: bool, seed: u64) -> Storage {
    let drive = toml::from_str(text).unwrap();
    let raid = raid.then(|| serde_json::from_str(r#"{"level": 0, "drives": 2}"#).unwrap());
    let spec = StorageSpec { drives: vec![drive], raid, faults: Vec::new() };
    let mut made = Storage::build(&spec, seed).unwrap();
    made.watch();
    made
}

/// Requests at random times and places: (time, op, sector, sectors).
fn requests(seed: u64, count: usize, gap_ns: u64) -> Vec<(Nanos, Op, u64, u64)> {
    let mut chance = Stream::new(seed, "requests");
    let mut now = 0;
    (0..count)
        .map(|_| {
            now += chance.below(gap_ns);
            let op = match chance.below(10) {
                0 => Op::Flush,
                1..=4 => Op::Write,
                _ => Op::Read,
            };
            let sectors = if op == Op::Flush { 0 } else { 8 << chance.below(5) };
            (now, op, chance.below(1 << 21), sectors)
        })
        .collect()
}

/// When each request ends, by the simulator's way of driving the model.
fn simulated(mut device: Storage, requests: &[(Nanos, Op, u64, u64)]) -> Vec<Nanos> {
    let mut ends = vec![0; requests.len()];
    let mut out = Vec::new();
    for (tag, &(at, op, sector, sectors)) in requests.iter().enumerate() {
        while let Some(next) = device.next_wake().filter(|&next| next <= at) {
            device.wake(next, &mut out);
        }
        device.submit(
            at,
            Request { tag: tag as u64, op, sector, sectors: sectors as u32, fua: false },
        );
    }
    while let Some(next) = device.next_wake() {
        device.wake(next, &mut out);
    }
    out.iter().for_each(|completion| ends[completion.tag as usize] = completion.time);
    ends
}

/// The same by a pacer that is asked at its own times, each up to `lateness` later, and at every submission.
fn paced(
    device: Storage,
    requests: &[(Nanos, Op, u64, u64)],
    lateness: u64,
    seed: u64,
) -> Vec<Nanos> {
    let mut chance = Stream::new(seed, "lateness");
    let mut pacer = Pacer::new(Service::Drive(Box::new(device)));
    let mut ends = vec![0; requests.len()];
    let mut answer = |pacer: &mut Pacer, now: Nanos| {
        pacer.collect(now);
        while let Some(due) = pacer.pop(now) {
            assert!(due.at <= now && due.end <= now, "an answer before its time");
            ends[due.tag as usize] = due.end;
        }
    };
    for (tag, &(at, op, sector, sectors)) in requests.iter().enumerate() {
        while let Some(next) = pacer.next().filter(|&next| next <= at) {
            let now = (next + chance.below(lateness + 1)).min(at);
            answer(&mut pacer, now);
            if now == at {
                break;
            }
        }
        pacer.submit(at, tag as u64, op, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        answer(&mut pacer, at);
    }
    while let Some(next) = pacer.next() {
        let now = next + chance.below(lateness + 1);
        answer(&mut pacer, now);
    }
    assert_eq!(pacer.in_flight(), 0);
    ends
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(32))]

    #[test]
    fn lateness_is_never_passed_on(
        seed in any::<u64>(), lateness in 0..2_000_000u64, ssd in any::<bool>(), raid in any::<bool>(),
    ) {
        let text = if ssd { SSD } else { DISK };
        let given = requests(seed, 200, if ssd { 300_000 } else { 9_000_000 });
        let wanted = simulated(storage(text, raid, 1), &given);
        prop_assert_eq!(paced(storage(text, raid, 1), &given, lateness, seed), wanted);
    }

    /// With a floor, answers leave that much earlier, and the model still says when requests end.
    #[test]
    fn the_floor_is_subtracted(seed in any::<u64>(), floor_us in 1..80u64) {
        let way = |us: u64| Way { quick_ns: us * 700, slow_ns: us * 1000 };
        let floor =
            Floor { read: way(floor_us), write: way(floor_us / 2), read_ns_per_byte: 0.1, write_ns_per_byte: 0.2 };
        let mut pacer = Pacer::new(Service::Drive(Box::new(storage(SSD, false, 1))));
        pacer.set_floor(floor);
        let mut chance = Stream::new(seed, "places");
        let mut model = storage(SSD, false, 1);
        let mut now = 0;
        // When something came in or went out.
        let mut events = vec![0];
        for tag in 0..50 {
            let (op, sector, sectors) = (if tag % 3 == 0 { Op::Write } else { Op::Read }, chance.below(1 << 20), 8u64);
            // Depth 1: the next comes when the application has seen the end, by the request's half of the floor later.
            let mut pauses = events.windows(2).filter(|pair| pair[1] - pair[0] > QUICK_NS && now - pair[1] <= QUICK_NS);
            let since = now - events[events.len() - 1];
            let slept = if since > QUICK_NS { since } else { pauses.next_back().map_or(since, |pair| pair[1] - pair[0]) };
            pacer.submit(now, tag, op, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
            model.submit(now, Request { tag, op, sector, sectors: sectors as u32, fua: false });
            let mut out = Vec::new();
            while let Some(next) = model.next_wake() {
                model.wake(next, &mut out);
            }
            let mut answered = None;
            while answered.is_none() {
                let at = pacer.next().unwrap().max(now);
                pacer.collect(at);
                answered = pacer.pop(at).map(|due| (at, due));
            }
            let (at, due) = answered.unwrap();
            prop_assert_eq!(due.end, out[0].time);
            let floor_ns = floor.of(op, sectors * SECTOR_BYTES, Some(slept), due.end - due.submitted);
            prop_assert_eq!(due.at, due.end.saturating_sub(floor_ns));
            prop_assert_eq!(at, due.at.max(now));
            events.extend([now, at]);
            // Some come at once, some after a while.
            now = due.end.max(at) + if tag % 5 == 0 { chance.below(8_000_000) } else { 0 };
        }
    }

    /// Where the time of issue is known, a request that reaches the emulator late ends when it
    /// would have ended anyway; what cannot be caught up is left to see in `at`.
    #[test]
    fn a_request_that_arrives_late_ends_in_time(
        seed in any::<u64>(), late_us in 0..5_000u64, ssd in any::<bool>(),
    ) {
        let text = if ssd { SSD } else { DISK };
        // One at a time: each ends before the next one is issued.
        let given: Vec<_> = requests(seed, 60, 1_000_000)
            .into_iter().enumerate().filter(|(_, (_, op, ..))| *op != Op::Flush)
            .map(|(number, (_, op, sector, sectors))| (number as u64 * 500_000_000, op, sector, sectors))
            .collect();
        let wanted = simulated(storage(text, false, 1), &given);
        let mut chance = Stream::new(seed, "delays");
        let mut pacer = Pacer::new(Service::Drive(Box::new(storage(text, false, 1))));
        for (tag, (&(issued, op, sector, sectors), end)) in given.iter().zip(wanted).enumerate() {
            let arrived = issued + chance.below(late_us * 1000 + 1);
            let times = Times { arrived, issued: Some(issued) };
            pacer.submit(times, tag as u64, op, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
            let mut now = arrived;
            let due = loop {
                pacer.collect(now);
                if let Some(due) = pacer.pop(now) {
                    break due;
                }
                now = pacer.next().unwrap().max(now);
            };
            prop_assert_eq!((due.end, due.at, now), (end, end, end.max(arrived)));
        }
    }

    /// The loop driver passes nothing on while it waits for a flush. What was issued meanwhile
    /// arrives after it, and ends when it would have ended anyway: a SATA drive takes no command
    /// while it flushes. So does what was issued before the flush itself arrived, `late_us` late.
    #[test]
    fn what_was_issued_during_a_flush_ends_in_time(
        seed in any::<u64>(), ssd in any::<bool>(), after_us in 0..40u64, count in 1..6u64,
        late_us in 0..100u64,
    ) {
        let text = if ssd { SSD } else { DISK };
        let mut chance = Stream::new(seed, "places");
        let mut request = |at: Nanos, op| (at, op, chance.below(1 << 21) & !7, 8u64);
        let mut given: Vec<_> = (0..8).map(|number| request(number * 1000, Op::Write)).collect();
        given.push((10_000, Op::Flush, 0, 0));
        let flush = given.len() - 1;
        given.extend((0..count).map(|number| request(20_000 + number * 1000, Op::Read)));
        let wanted = simulated(storage(text, false, 1), &given);
        let mut pacer = Pacer::new(Service::Drive(Box::new(storage(text, false, 1))));
        let mut dues = Vec::new();
        let mut now = 0;
        for (tag, &(at, op, sector, sectors)) in given.iter().enumerate() {
            // Those after the flush arrive when it has been answered.
            let held = tag > flush;
            let arrived = match tag {
                _ if held => (at + late_us * 1000).max(wanted[flush]) + after_us * 1000,
                _ if tag == flush => at + late_us * 1000,
                _ => at,
            };
            while let Some(next) = pacer.next().filter(|&next| next <= arrived) {
                now = next.max(now);
                pacer.collect(now);
                dues.extend(std::iter::from_fn(|| pacer.pop(now)));
            }
            now = arrived;
            let times = Times { arrived, issued: Some(at) };
            pacer.submit(times, tag as u64, op, sector * SECTOR_BYTES, sectors * SECTOR_BYTES);
        }
        while let Some(next) = pacer.next() {
            now = next.max(now);
            pacer.collect(now);
            dues.extend(std::iter::from_fn(|| pacer.pop(now)));
        }
        prop_assert_eq!(dues.len(), given.len());
        for due in dues.iter().filter(|due| due.tag as usize > flush) {
            let behind = due.end - due.at;
            prop_assert!(behind <= (after_us + late_us) * 1000, "{} ns late", behind);
            // Of several that arrive at once the drive chooses the first as soon as it is there.
            let at_once = count == 1 && after_us == 0 && late_us == 0;
            prop_assert!(!at_once || due.end == wanted[due.tag as usize]);
        }
    }

    /// A request whose issue lies before the model's time starts then, and its reply leaves that
    /// much earlier: the application sees the drive's time.
    #[test]
    fn what_the_model_is_behind_is_subtracted(behind in 0..1_000_000u64) {
        let mut pacer = Pacer::new(Service::Fixed(2_000_000));
        let mut model = Pacer::new(Service::Drive(Box::new(storage(SSD, false, 1))));
        let times = Times { arrived: 5_000_000, issued: Some(5_000_000 - behind) };
        pacer.submit(times, 0, Op::Read, 0, 4096);
        prop_assert_eq!(pacer.next(), Some(7_000_000 - behind));
        // The first request has moved the model's time to 5 ms.
        model.submit(5_000_000, 0, Op::Write, 0, 4096);
        model.submit(times, 1, Op::Write, 1 << 20, 4096);
        let mut dues = Vec::new();
        let mut now = 5_000_000;
        while dues.len() < 2 {
            model.collect(now);
            dues.extend(std::iter::from_fn(|| model.pop(now)));
            now = model.next().map_or(now, |next| next.max(now));
        }
        let second = dues.iter().find(|due| due.tag == 1).unwrap();
        prop_assert_eq!((second.submitted, second.at), (5_000_000, second.end - behind));
    }
}
