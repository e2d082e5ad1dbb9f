//! Replayed traces: open at recorded times, closed as the drive allows; and queues against theory.

use headrace_model::drive_replay::{replay, replay_on, ReplayMode, TraceOp, TraceRequest};
use headrace_model::drive_run::{run, FioLike, Rw};
use headrace_model::request::{
    Completion, Device, FaultCounts, FlashWrites, Medium, Nanos, Op, Request, SectorRange, Status,
    StoredOrder,
};
use headrace_model::spec::DriveSpec;
use headrace_model::stream::Stream;

/// One channel with one die: every random read takes the same time, one after the other.
fn single_server() -> DriveSpec {
    DriveSpec::from_json(
        r#"{"kind": "ssd", "name": "server", "capacity_bytes": 1073741824, "link_bytes_per_s": 1e12,
        "controller": {"read_overhead_us": 0, "write_overhead_us": 0, "read_iops_max": 1e8, "write_iops_max": 1e8},
        "flash": {"channels": 1, "dies_per_channel": 1, "page_bytes": 4096, "pages_per_block": 64, "read_us": 1000,
        "program_us": 1000, "erase_us": 1000, "channel_bytes_per_s": 1e12}, "initial": {"state": "filled", "fill": 1.0}}"#,
    )
    .unwrap()
}

fn read(time_ns: Nanos, sector: u64) -> TraceRequest {
    TraceRequest { time_ns, op: TraceOp::Read, sector, sectors: 8, fua: false }
}

/// Random reads of single pages at the times of a Poisson process.
fn poisson(load: f64, service_ns: f64, count: usize) -> Vec<TraceRequest> {
    let mut random = Stream::new(11, "arrivals");
    let mut time = 0.0;
    (0..count)
        .map(|_| {
            time += random.exponential(service_ns / load);
            read(time as Nanos, random.below(262_144) * 8)
        })
        .collect()
}

#[test]
fn poisson_arrivals_at_a_server_of_constant_time_wait_as_pollaczek_and_khinchine_say() {
    for load in [0.3, 0.6, 0.8] {
        let responses =
            replay(&single_server(), 1, &poisson(load, 1e6, 400_000), ReplayMode::Open).unwrap();
        let mean =
            responses.iter().map(|r| r.response_ns as f64).sum::<f64>() / responses.len() as f64;
        let expected = 1e6 * (1.0 + load / (2.0 * (1.0 - load)));
        assert!((mean / expected - 1.0).abs() < 0.03, "load {load}: {mean} {expected}");
    }
}

/// A server with exponential times: the theory of queues, checked on the replay itself.
struct Exponential {
    random: Stream,
    free: Nanos,
    due: Vec<Completion>,
    ended: usize,
}

impl Medium for Exponential {
    fn flash_writes(&self) -> FlashWrites {
        FlashWrites::default()
    }
    fn capacity_sectors(&self) -> u64 {
        u64::MAX
    }
    fn energy_j(&self, _now: Nanos) -> f64 {
        0.0
    }
    fn unflushed(&mut self, _now: Nanos) -> Vec<SectorRange> {
        Vec::new()
    }
    fn fault_counts(&self) -> FaultCounts {
        FaultCounts::default()
    }
    fn preload(&mut self, _data: &[SectorRange], _order: StoredOrder) {}

    fn trim(&mut self, _data: &[SectorRange]) {}
}

impl Device for Exponential {
    fn submit(&mut self, now: Nanos, request: Request) {
        self.free = self.free.max(now) + self.random.exponential(1e6) as Nanos;
        self.due.push(Completion { tag: request.tag, time: self.free, status: Status::Done });
    }
    fn wake_ahead(&mut self, now: Nanos, _until: Nanos, out: &mut Vec<Completion>) {
        while self.due.get(self.ended).is_some_and(|next| next.time <= now) {
            out.push(self.due[self.ended]);
            self.ended += 1;
        }
    }
    fn next_wake(&self) -> Option<Nanos> {
        self.due.get(self.ended).map(|next| next.time)
    }
    fn in_flight(&self) -> usize {
        self.due.len() - self.ended
    }
}

#[test]
fn poisson_arrivals_at_an_exponential_server_wait_as_theory_says() {
    let mut server =
        Exponential { random: Stream::new(5, "service"), free: 0, due: Vec::new(), ended: 0 };
    let responses =
        replay_on(&mut server, &poisson(0.7, 1e6, 1_000_000), ReplayMode::Open).unwrap();
    let mean = responses.iter().map(|r| r.response_ns as f64).sum::<f64>() / responses.len() as f64;
    let expected = 1e6 / (1.0 - 0.7);
    assert!((mean / expected - 1.0).abs() < 0.03, "{mean} {expected}");
}

#[test]
fn closed_at_one_is_the_closed_loop_at_one() {
    let mut random = Stream::numbered(7, "drive-run/job", 0);
    let trace: Vec<TraceRequest> =
        (0..20_000).map(|_| read(0, random.below(262_144) * 8)).collect();
    let spec = single_server();
    let responses = replay(&spec, 7, &trace, ReplayMode::Closed { iodepth: 1 }).unwrap();
    let total: Nanos = responses.iter().map(|r| r.response_ns).sum();
    let load = format!(
        r#"{{"rw": "randread", "bs_bytes": 4096, "runtime_s": {}, "seed": 7}}"#,
        total as f64 / 1e9
    );
    let load: FioLike = serde_json::from_str(&load).unwrap();
    assert_eq!(load.rw, Rw::RandRead);
    let requests = run(&spec, &load).unwrap().read.requests;
    assert!(requests.abs_diff(20_000) <= 1, "{requests}");
    assert!(responses
        .windows(2)
        .all(|pair| pair[1].submitted_ns == pair[0].submitted_ns + pair[0].response_ns));
}

#[test]
fn a_trace_keeps_its_times_and_tells_what_failed() {
    let far = 1 << 40;
    let trace =
        [read(0, 0), read(50, far), TraceRequest { op: TraceOp::Flush, ..read(5_000_000, 0) }];
    let responses = replay(&single_server(), 1, &trace, ReplayMode::Open).unwrap();
    assert_eq!(responses.iter().map(|r| r.submitted_ns).collect::<Vec<_>>(), [0, 50, 5_000_000]);
    assert_eq!(responses.iter().map(|r| r.failed).collect::<Vec<_>>(), [false, true, false]);
    let back = [read(10, 0), read(5, 0)];
    assert_eq!(
        replay(&single_server(), 1, &back, ReplayMode::Open).err().unwrap().field,
        "trace[1].time_ns"
    );
    assert_eq!(Op::from(TraceOp::WriteZeroes), Op::WriteZeroes);
}
