//! Steps that name places or keep requests in flight: `sequence` and `requests`.

use headrace_simulator::{run, Outcome, Scenario};

/// One node with an ideal drive of 1 ms a request, whatever its size, `streams` at once.
fn outcome(steps: &str, files: &str, run_fields: &str) -> Outcome {
    let text = format!(
        r#"{{"nodes": [{{"name": "n", "cores": 2, "memory_bytes": 4000000000, "call_ns": 0, "copy_bytes_per_s": 1e15,
            "network": {{"rate_bytes_per_s": 1e9, "latency_ns": 1000}}, "power": {{"idle_w": 1, "core_w": 1}},
            "volumes": [{{"name": "v", "ideal": {DRIVE}, "filesystem": {{"kind": "xfs"}},
                          "scheduler": "noop", "read_ahead_bytes": 0, "queue_depth": 32}}]}}],
        "files": [{files}],
        "profiles": [{{"name": "p", "steps": [{steps}]}}],
        "run": {{"profile": "p", "slots_per_node": 1, "load": {{"kind": "batch", "jobs": 1}} {run_fields}}}}}"#
    );
    run(&Scenario::from_json(&text).unwrap_or_else(|e| panic!("{e}")))
        .unwrap_or_else(|e| panic!("{e}"))
}

const DRIVE: &str = r#"{"capacity_bytes": 100000000000, "read_ns": 1000000, "write_ns": 1000000,
    "read_bytes_per_s": 1e15, "write_bytes_per_s": 1e15}"#;
const FILE: &str = r#"{"name": "f", "on": {"volume": "v"}, "bytes": 1073741824}"#;

#[test]
fn a_sequence_works_sleeps_and_reads_in_turn() {
    let steps = r#"{"do": "sequence", "file": "f", "ranges_bytes": [[0, 4096], [8192, 4096]], "cpu_ns": [1000000, 2000000],
        "wait_ns": [0, 5000000], "cpu_after_ns": 3000000, "events": 7, "access": "direct"}"#;
    let job = &outcome(steps, FILE, "").jobs[0];
    assert_eq!((job.reads, job.events), (2, 7));
    assert_eq!(job.ledger.on_cpu_ns, 6_000_000);
    assert_eq!(job.ledger.other_ns, 5_000_000);
    assert!(job.ledger.wait_block_ns >= 2_000_000);
}

#[test]
fn packets_choose_steps_by_their_first_event() {
    let step = |first: u64| {
        format!(
            r#"{{"do": "sequence", "file": "f", "ranges_bytes": [[0, 4096]], "events": 10, "first_event": {first}}}"#
        )
    };
    let steps = (0..10).map(|n| step(n * 10)).collect::<Vec<_>>().join(",");
    let feed = r#", "feed": {"kind": "packets", "file": "f", "events_per_file": 100, "first_events": 20, "target_ns": 1000000000,
        "min_events": 20, "max_events": 20}"#;
    let outcome = outcome(&steps, FILE, feed);
    assert_eq!(outcome.jobs.iter().map(|job| job.events).sum::<u64>(), 100);
    assert_eq!(outcome.jobs.iter().map(|job| job.reads).sum::<u64>(), 10);
}

#[test]
fn a_duration_ends_on_time_and_depth_one_takes_a_request_at_a_time() {
    let steps = r#"{"do": "requests", "file": "f", "duration_ns": 1000000000, "length_bytes": 4096, "order": {"kind": "random"},
        "cpu_ns": 1000, "access": "direct"}"#;
    let job = &outcome(steps, FILE, "").jobs[0];
    assert!((990..=1001).contains(&job.reads), "{}", job.reads);
    let wall_ns = job.end_ns - job.start_ns;
    assert!((1_000_000_000..1_010_000_000).contains(&wall_ns), "{wall_ns}");
}

#[test]
fn mixed_requests_keep_their_share() {
    let steps = r#"{"do": "requests", "file": "f", "count": 4000, "length_bytes": 4096, "order": {"kind": "shuffled"}, "in_flight": 8,
        "read_fraction": 0.7, "cpu_ns": 1000, "access": "direct"}"#;
    let job = &outcome(steps, FILE, "").jobs[0];
    assert_eq!(job.reads + job.writes, 4000);
    assert!((2700..2900).contains(&job.reads), "{}", job.reads);
}

#[test]
fn depth_keeps_a_solid_state_drive_busy() {
    let run = |depth: u32| {
        let steps = format!(
            r#"{{"do": "requests", "file": "f", "count": 4000, "length_bytes": 4096, "order": {{"kind": "random"}},
                "in_flight": {depth}, "cpu_ns": 1000, "access": "direct"}}"#
        );
        let job = &outcome(&steps, FILE, "").jobs[0];
        job.end_ns - job.start_ns
    };
    // One ideal drive serves one request at a time: depth costs nothing and gains nothing.
    let (one, eight) = (run(1), run(8));
    assert!((one as f64 / eight as f64 - 1.0).abs() < 0.02, "{one} {eight}");
}

#[test]
fn wrong_lists_are_refused_with_their_place() {
    let steps = r#"{"do": "sequence", "file": "f", "ranges_bytes": [[0, 1]], "cpu_ns": [1, 2]}"#;
    let text = format!(
        r#"{{"nodes": [], "files": [{FILE}], "profiles": [{{"name": "p", "steps": [{steps}]}}],
        "run": {{"profile": "p", "slots_per_node": 1, "load": {{"kind": "batch", "jobs": 1}}}}}}"#
    );
    assert!(Scenario::from_json(&text).and_then(|s| run(&s).map(|_| ())).is_err());
}
