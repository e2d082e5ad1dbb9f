//! Reads that run ahead of a job's work: they cost what the longer of both takes, and never more.

use crate::common::{node, outcome, volume};
use headrace_simulator::Scenario;
use proptest::prelude::*;
use serde_json::{json, Value};

const CLUSTERS: u64 = 20;
const CLUSTER_BYTES: u64 = 4 << 20;

/// One job on one node that reads a file of twenty clusters, `work_ms` of work each.
fn clusters(ahead: u32, work_ms: u64) -> Value {
    let mut worker = node("worker", 1, 2);
    worker["call_ns"] = json!(0);
    worker["copy_bytes_per_s"] = json!(1e15);
    json!({
        "seed": 5,
        "nodes": [worker],
        "files": [{"name": "input", "on": {"volume": "data"}, "bytes": CLUSTERS * CLUSTER_BYTES}],
        "profiles": [{"name": "job", "steps": [
            {"do": "open", "file": "input"},
            {"do": "events", "file": "input", "events": 1000 * CLUSTERS, "events_per_cluster": 1000,
             "reads_per_cluster": 1, "read_bytes": CLUSTER_BYTES, "access": "direct",
             "cpu_ns_per_event": work_ms * 1000, "uncompressed_bytes_per_event": 100, "ahead": ahead},
            {"do": "close", "file": "input"}
        ]}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    })
}

fn seconds(scenario: &Value) -> f64 {
    outcome(scenario).jobs[0].wall_ns() as f64 * 1e-9
}

/// Seconds that a cluster takes to read: requests of 512 KiB, 10 ms and 100 MB/s each.
fn read_s() -> f64 {
    8.0 * 0.010 + CLUSTER_BYTES as f64 / 100e6
}

#[test]
fn a_job_takes_its_first_read_then_the_longer_of_work_and_read_then_its_last_work() {
    let open_s = 0.011;
    for work_ms in [10, 50, 120, 400] {
        let work = work_ms as f64 * 1e-3;
        let steps = (CLUSTERS - 1) as f64;
        let apart = CLUSTERS as f64 * (work + read_s());
        let together = read_s() + steps * work.max(read_s()) + work;
        for (ahead, expected) in [(0, apart), (1, together), (5, together)] {
            let took = seconds(&clusters(ahead, work_ms)) - open_s;
            assert!((took / expected - 1.0).abs() < 0.02, "{ahead} {work_ms}: {took} {expected}");
        }
    }
}

#[test]
fn the_same_events_and_bytes_are_read_and_counted_once() {
    let (apart, ahead) = (outcome(&clusters(0, 20)), outcome(&clusters(3, 20)));
    let (a, b) = (&apart.jobs[0], &ahead.jobs[0]);
    assert_eq!((a.events, a.bytes, a.reads), (b.events, b.bytes, b.reads));
    // Ends of work are whole nanoseconds.
    assert!(a.ledger.on_cpu_ns.abs_diff(b.ledger.on_cpu_ns) <= 4 * CLUSTERS);
    assert!(b.ledger.wait_block_ns < a.ledger.wait_block_ns);
    assert!(b.phases.read_ns > 0);
}

#[test]
fn sequences_of_several_steps_overlap_as_clusters_do() {
    let step = |number: u64, ahead: u32| {
        json!({"do": "sequence", "file": "input", "access": "direct", "cpu_after_ns": 100_000_000,
               "ranges_bytes": [[number * CLUSTER_BYTES, CLUSTER_BYTES]], "ahead": ahead, "events": 7})
    };
    let of = |ahead: u32| {
        let mut scenario = clusters(0, 0);
        let mut steps = vec![json!({"do": "open", "file": "input"})];
        steps.extend((0..CLUSTERS).map(|number| step(number, ahead)));
        steps.push(json!({"do": "close", "file": "input"}));
        scenario["profiles"][0]["steps"] = json!(steps);
        outcome(&scenario)
    };
    let expected = read_s() + (CLUSTERS - 1) as f64 * read_s().max(0.1) + 0.1;
    let took = of(1).jobs[0].wall_ns() as f64 * 1e-9 - 0.011;
    assert!((took / expected - 1.0).abs() < 0.02, "{took} {expected}");
    assert_eq!(of(1).jobs[0].events, 7 * CLUSTERS);
}

#[test]
fn a_job_that_fails_ends_with_its_reader() {
    let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
        "rotation_rpm": 7200, "heads": 4, "link_bytes_per_s": 300e6,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6},
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
    for (work_ms, from_s) in [(1, 0.3), (300, 0.3), (300, 2.0)] {
        let mut scenario = clusters(2, work_ms);
        let mut volume = volume("data", "ext4", "deadline");
        volume.as_object_mut().unwrap().remove("ideal");
        volume["storage"] = json!({"drives": [disk],
            "faults": [{"fault": {"kind": "media_error"}, "from_s": from_s, "at_most": 1}]});
        scenario["nodes"][0]["volumes"] = json!([volume]);
        scenario["run"]["fail_on_error"] = json!(true);
        scenario["run"]["load"]["jobs"] = json!(3);
        let out = outcome(&scenario);
        let failed = out.jobs.iter().filter(|job| job.failed).count();
        assert_eq!((out.jobs.len(), failed), (3, 1));
        assert!(out.jobs.iter().all(|job| job.failed || job.events == 1000 * CLUSTERS));
    }
}

#[test]
fn packets_are_read_ahead_within_themselves() {
    let of = |ahead: u32, work_ms: u64| {
        let mut scenario = clusters(ahead, work_ms);
        scenario["files"][0]["count"] = json!(3);
        scenario["files"][0]["share"] = json!("shared");
        scenario["run"]["feed"] = json!({"kind": "packets", "file": "input",
            "events_per_file": 1000 * CLUSTERS, "first_events": 5000, "target_ns": 1_000_000_000,
            "min_events": 5000, "max_events": 5000});
        outcome(&scenario)
    };
    // Without work, the process begins a packet while the reader of the last one ends.
    for work_ms in [60, 0] {
        let (apart, ahead) = (of(0, work_ms), of(1, work_ms));
        assert_eq!(ahead.jobs[0].events, 3 * 1000 * CLUSTERS);
        assert_eq!(ahead.jobs[0].bytes.asked_bytes, apart.jobs[0].bytes.asked_bytes);
        assert!(work_ms == 0 || ahead.end_ns < apart.end_ns * 3 / 4, "{}", ahead.end_ns);
    }
}

#[test]
fn writes_do_not_run_ahead() {
    let mut scenario = clusters(0, 0);
    scenario["profiles"][0]["steps"][1] = json!({"do": "pattern", "file": "input", "op": "write",
        "count": 3, "length_bytes": 10, "ahead": 1});
    let error = Scenario::from_json(&scenario.to_string()).unwrap_err();
    assert!(error.to_string().contains("steps[1].ahead"), "{error}");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Reads that run ahead make no job slower, and none faster than its work or its reads alone.
    #[test]
    fn overlap_only_helps(
        seed in 0u64..1000,
        ahead in 1u32..6,
        vector in 1u32..9,
        count in 1u64..60,
        length in 1u64..400_000,
        work_us in 0u64..20_000,
        order in prop::sample::select(vec!["sequential", "permuted", "scattered"]),
    ) {
        let of = |ahead: u32, work_us: u64| {
            let mut scenario = clusters(0, 0);
            scenario["seed"] = json!(seed);
            scenario["profiles"][0]["steps"][1] = json!({"do": "pattern", "file": "input",
                "count": count, "length_bytes": length, "vector": vector, "ahead": ahead,
                "cpu_ns": work_us * 1000, "order": {"kind": order}, "access": "direct"});
            outcome(&scenario)
        };
        let (apart, together) = (of(0, work_us), of(ahead, work_us));
        prop_assert_eq!(apart.jobs[0].bytes, together.jobs[0].bytes);
        let (apart, together) = (apart.end_ns, together.end_ns);
        prop_assert!(together <= apart + 1000, "{} {}", together, apart);
        let reads = of(0, 0).end_ns;
        prop_assert!(together + 1000 >= reads, "{} {}", together, reads);
        prop_assert!(together >= count * work_us * 1000);
    }
}
