//! Threads of a job that share its work: N of them are N times as fast where nothing holds them up,
//! never faster, and the job's ledger still adds up to its wall time.

use crate::common::{node, outcome, parse, volume};
use headrace_simulator::outcome::JobOutcome;
use headrace_simulator::{run, Scenario};
use proptest::prelude::*;
use serde_json::{json, Value};

const CLUSTER_BYTES: u64 = 4 << 20;

/// Return the steps of a cluster: one read, and its work.
fn cluster(number: u64, work_ms: u64, ahead: u32) -> Value {
    json!({"do": "sequence", "file": "input", "access": "direct", "events": 100, "ahead": ahead,
           "ranges_bytes": [[number * CLUSTER_BYTES, CLUSTER_BYTES]],
           "cpu_after_ns": work_ms * 1_000_000})
}

/// One job on one node with 16 cores that reads a file of clusters; `threads` 0: in turn, without
/// the step.
fn scenario(threads: u32, clusters: u64, work_ms: u64, ahead: u32) -> Value {
    let mut worker = node("worker", 1, 16);
    worker["call_ns"] = json!(0);
    worker["copy_bytes_per_s"] = json!(1e15);
    let parts: Vec<Value> = (0..clusters).map(|number| cluster(number, work_ms, ahead)).collect();
    let mut steps = vec![json!({"do": "open", "file": "input"})];
    if threads == 0 {
        steps.extend(parts);
    } else {
        let parts: Vec<Value> = parts.into_iter().map(|step| json!([step])).collect();
        steps.push(json!({"do": "parallel", "threads": threads, "parts": parts}));
    }
    steps.push(json!({"do": "close", "file": "input"}));
    json!({
        "seed": 5,
        "nodes": [worker],
        "files": [{"name": "input", "on": {"volume": "data"}, "bytes": clusters * CLUSTER_BYTES}],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    })
}

/// Let the drive of the node answer at once, with any number of requests.
fn with_infinite_storage(mut scenario: Value) -> Value {
    let ideal = &mut scenario["nodes"][0]["volumes"][0]["ideal"];
    (ideal["read_ns"], ideal["read_bytes_per_s"]) = (json!(0), json!(1e18));
    scenario
}

fn job(scenario: &Value) -> JobOutcome {
    outcome(scenario).jobs.remove(0)
}

/// Return the job's CPU time, of all its threads.
fn cpu_ns(job: &JobOutcome) -> u64 {
    job.ledger.on_cpu_ns + job.more_cpu_ns
}

#[test]
fn what_the_system_does_beside_jobs_delays_them_only_where_cores_are_few() {
    let end_ns = |slots: u32, beside_job_ns: u64| {
        let mut host = node("worker", 1, 2);
        host["beside_job_ns"] = json!(beside_job_ns);
        let made = outcome(&json!({
            "seed": 1, "nodes": [host], "files": [],
            "profiles": [{"name": "job", "steps": [{"do": "compute", "cpu_ns": 300_000_000}]}],
            "run": {"profile": "job", "slots_per_node": slots,
                    "load": {"kind": "batch", "jobs": slots}}
        }));
        // It is in no job's ledger.
        assert!(made.jobs.iter().all(|job| job.ledger.on_cpu_ns < 302_000_000));
        made.end_ns as f64
    };
    assert_eq!(end_ns(1, 0), end_ns(1, 50_000_000));
    // Four jobs of 0.3 s and four times 0.05 s on two cores.
    let (free, busy) = (end_ns(4, 0), end_ns(4, 50_000_000));
    assert!((free / 0.6e9 - 1.0).abs() < 0.01 && (busy / 0.7e9 - 1.0).abs() < 0.01, "{busy}");
}

#[test]
fn requests_take_cores_beside_the_jobs_that_wait_for_them() {
    let run_with = |slots: u32, beside_request_ns: u64, reload_ns: u64| {
        let mut host = node("worker", 1, 1);
        host["beside_request_ns"] = json!(beside_request_ns);
        host["sharing"] = json!({"switch_ns": 0, "reload_ns": reload_ns});
        let made = outcome(&json!({
            "seed": 1, "nodes": [host],
            "files": [{"name": "input", "on": {"volume": "data"}, "count": slots,
                       "bytes": 100_000_000}],
            "profiles": [{"name": "job", "steps": [
                {"do": "open", "file": "input"},
                {"do": "pattern", "file": "input", "count": 100, "length_bytes": 4096,
                 "order": {"kind": "permuted"}, "cpu_ns": 1_000_000}]}],
            "run": {"profile": "job", "slots_per_node": slots,
                    "load": {"kind": "batch", "jobs": slots}}
        }));
        let on_cpu_ns: u64 = made.jobs.iter().map(|job| job.ledger.on_cpu_ns).sum();
        let requests = made.drives.iter().map(|drive| drive.reads).sum::<u64>();
        assert!(requests >= 100 * u64::from(slots));
        let busy_s = made.hosts[0].busy_core_ns as f64 / 1e9;
        (busy_s - requests as f64 * beside_request_ns as f64 / 1e9, on_cpu_ns as f64 / 1e9)
    };
    // Each request takes its time of the core, and no job has it.
    let ((free_s, work_s), (busy_s, same_s)) = (run_with(2, 0, 0), run_with(2, 500_000, 0));
    assert!((busy_s - free_s).abs() < 0.002, "{free_s} {busy_s}");
    assert!((same_s - work_s).abs() < 0.002, "{work_s} {same_s}");
    // Waits of a few milliseconds cost nearly all of the 0.3 ms of a reload, in the job itself.
    let ((_, warm_s), (_, cold_s)) = (run_with(1, 0, 0), run_with(1, 0, 300_000));
    assert!((cold_s - warm_s) / 0.03 > 0.6 && (cold_s - warm_s) / 0.03 < 1.01, "{warm_s} {cold_s}");
}

#[test]
fn one_thread_is_the_job_without_threads() {
    for (work_ms, ahead) in [(0, 0), (20, 0), (20, 1), (0, 1)] {
        let alone = run(&parse(&scenario(0, 24, work_ms, ahead))).unwrap();
        let one = run(&parse(&scenario(1, 24, work_ms, ahead))).unwrap();
        if ahead == 0 {
            assert_eq!(alone.jobs, one.jobs);
            assert_eq!(alone.drives, one.drives);
        } else {
            // Reads run ahead within a part alone: here one cluster, so not at all.
            assert_eq!(alone.jobs[0].bytes, one.jobs[0].bytes);
            assert_eq!(one.end_ns, run(&parse(&scenario(0, 24, work_ms, 0))).unwrap().end_ns);
        }
    }
}

#[test]
fn threads_with_a_core_each_and_infinite_storage_are_as_many_times_as_fast() {
    let one = job(&with_infinite_storage(scenario(1, 48, 50, 0)));
    for threads in [2, 3, 4, 8, 16] {
        let several = job(&with_infinite_storage(scenario(threads, 48, 50, 0)));
        let times = one.wall_ns() as f64 / several.wall_ns() as f64;
        assert!((times / f64::from(threads) - 1.0).abs() < 0.01, "{threads}: {times}");
        assert!(cpu_ns(&one).abs_diff(cpu_ns(&several)) < 1_000_000, "{several:?}");
        let efficiency = several.ledger.on_cpu_ns as f64 / several.wall_ns() as f64;
        assert!(efficiency > 0.99, "{efficiency}");
    }
}

#[test]
fn threads_are_limited_by_cores_and_by_the_drive() {
    // 32 threads on 16 cores.
    let half = job(&with_infinite_storage(scenario(16, 96, 50, 0)));
    let all = job(&with_infinite_storage(scenario(32, 96, 50, 0)));
    assert!((all.wall_ns() as f64 / half.wall_ns() as f64 - 1.0).abs() < 0.02);
    assert!(all.ledger.wait_cpu_ns as f64 > 0.4 * all.wall_ns() as f64, "{all:?}");
    // A drive with one request at a time: threads read no faster than one.
    let (one, four) = (job(&scenario(1, 24, 0, 0)), job(&scenario(4, 24, 0, 0)));
    assert!((four.wall_ns() as f64 / one.wall_ns() as f64 - 1.0).abs() < 0.05);
    assert!(four.ledger.wait_block_ns as f64 > 0.9 * four.wall_ns() as f64, "{four:?}");
}

#[test]
fn parts_that_are_fewer_than_threads_leave_threads_that_wait() {
    let job = job(&with_infinite_storage(scenario(4, 2, 100, 0)));
    let wall = job.wall_ns() as f64;
    assert!((job.ledger.other_ns as f64 / wall - 0.5).abs() < 0.02, "{job:?}");
    assert!((job.ledger.on_cpu_ns as f64 / wall - 0.5).abs() < 0.02, "{job:?}");
}

#[test]
fn every_thread_begins_with_what_each_does_first() {
    let mut made = with_infinite_storage(scenario(4, 8, 10, 0));
    let begin = json!([{"do": "open", "file": "input"}, {"do": "compute", "cpu_ns": 30_000_000}]);
    made["profiles"][0]["steps"][1]["begin"] = begin;
    let (with, without) = (job(&made), job(&with_infinite_storage(scenario(4, 8, 10, 0))));
    assert_eq!(with.operations, without.operations + 4);
    let more = cpu_ns(&with) as f64 - cpu_ns(&without) as f64;
    assert!((more / (4.0 * 30e6) - 1.0).abs() < 0.01, "{more}");
}

#[test]
fn a_job_that_fails_or_is_ended_takes_its_threads_with_it() {
    let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
        "rotation_rpm": 7200, "heads": 4, "link_bytes_per_s": 300e6,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6},
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
    for (work_ms, ahead, from_s) in [(1, 0, 0.3), (300, 0, 0.1), (300, 2, 0.3)] {
        let mut made = scenario(4, 32, work_ms, ahead);
        let mut volume = volume("data", "ext4", "deadline");
        volume.as_object_mut().unwrap().remove("ideal");
        volume["storage"] = json!({"drives": [disk],
            "faults": [{"fault": {"kind": "media_error"}, "from_s": from_s, "at_most": 1}]});
        made["nodes"][0]["volumes"] = json!([volume]);
        made["run"]["fail_on_error"] = json!(true);
        made["run"]["load"]["jobs"] = json!(3);
        let out = outcome(&made);
        let failed = out.jobs.iter().filter(|job| job.failed).count();
        assert_eq!((out.jobs.len(), failed), (3, 1));
        assert!(out.jobs.iter().all(|job| job.failed || job.events == 3200));
    }
    let mut sustained = scenario(4, 32, 200, 0);
    sustained["run"]["load"] = json!({"kind": "sustained", "duration_ns": 700_000_000});
    let out = outcome(&sustained);
    assert!(out.jobs[0].unfinished && out.jobs[0].ledger.on_cpu_ns > 0, "{:?}", out.jobs);
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let mut nested = scenario(2, 2, 1, 0);
    nested["profiles"][0]["steps"][1]["parts"][0][0] =
        json!({"do": "parallel", "threads": 2, "parts": []});
    let refused = Scenario::from_json(&nested.to_string()).unwrap_err();
    assert!(refused.to_string().contains("parts[0].steps[0]"));
    let many = scenario(5000, 2, 1, 0).to_string();
    assert!(Scenario::from_json(&many).unwrap_err().to_string().contains("1 to 4095"));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 24, ..ProptestConfig::default() })]

    #[test]
    fn threads_do_the_same_work_no_faster_than_as_many_jobs_would(
        threads in 1u32..9, clusters in 1u64..30, work_ms in 0u64..40, ahead in 0u32..3,
    ) {
        let one = job(&scenario(1, clusters, work_ms, ahead));
        let several = job(&scenario(threads, clusters, work_ms, ahead));
        prop_assert_eq!((one.events, one.bytes, one.reads), (several.events, several.bytes, several.reads));
        prop_assert!(cpu_ns(&one).abs_diff(cpu_ns(&several)) <= 10 * clusters * u64::from(threads));
        let (one, several) = (one.wall_ns() as f64, several.wall_ns() as f64);
        prop_assert!(several * f64::from(threads) >= 0.999 * one);
        prop_assert!(several <= 1.05 * one);
    }
}
