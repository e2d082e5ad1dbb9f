//! Memory of jobs that grows and is released, and what it leaves to the page cache.

use crate::common::{node, outcome, volume};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::Scenario;
use proptest::prelude::*;
use serde_json::{json, Value};

/// One node of 4 GB, one slot, a file of 1 GB and an output.
fn alone(steps: Value) -> Value {
    let mut worker = node("worker", 1, 1);
    worker["call_ns"] = json!(0);
    worker["volumes"] = json!([volume("data", "ext4", "noop")]);
    json!({
        "seed": 2,
        "nodes": [worker],
        "files": [
            {"name": "input", "on": {"volume": "data"}, "bytes": 1_000_000_000},
            {"name": "output", "on": {"volume": "data"}, "share": "new"}
        ],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    })
}

fn reading(hold: bool) -> Value {
    json!({"do": "pattern", "file": "input", "count": 1000, "length_bytes": 1_000_000, "hold": hold})
}

#[test]
fn the_page_cache_has_what_jobs_leave_and_gets_it_back() {
    // How often the file is read from the drive.
    let times = |between: Value| {
        let mut steps = vec![reading(false)];
        steps.extend(between.as_array().unwrap().clone());
        steps.push(reading(false));
        outcome(&alone(json!(steps))).drives[0].read_bytes as f64 / 1e9
    };
    let hold = |bytes: u64| json!({"do": "memory", "bytes": bytes});
    assert!((times(json!([])) - 1.0).abs() < 0.01);
    // 4 GB less 3.2 GB leave no room for the file; 2 GB less do.
    assert!(times(json!([hold(3_200_000_000)])) > 1.9);
    assert!((times(json!([hold(2_000_000_000)])) - 1.0).abs() < 0.01);
    // What was released is page cache again: the third reading comes from memory.
    let released = times(json!([hold(3_200_000_000), hold(0), reading(false)]));
    assert!((1.4..2.01).contains(&released), "{released}");
}

/// A page cache of 1.25 GB has 0.5 GB of active pages; then a job reads 1 GB again and again.
#[test]
fn a_new_working_set_settles_with_refault_distances_alone() {
    let read_gb = |page_reclaim: &str| {
        let reading_old = json!({"do": "pattern", "file": "old", "count": 500,
                                 "length_bytes": 1_000_000});
        let mut steps = vec![reading_old.clone(), reading_old];
        steps.extend((0..6).map(|_| reading(false)));
        let mut scenario = alone(json!(steps));
        let old = json!({"name": "old", "on": {"volume": "data"}, "bytes": 500_000_000});
        scenario["files"].as_array_mut().unwrap().push(old);
        scenario["nodes"][0]["memory_bytes"] = json!(1_250_000_000 + (256u64 << 20));
        scenario["nodes"][0]["page_reclaim"] = json!(page_reclaim);
        outcome(&scenario).drives[0].read_bytes as f64 / 1e9
    };
    assert!((read_gb("two_lists") - 6.5).abs() < 0.05, "{}", read_gb("two_lists"));
    assert!(read_gb("workingset") < 4.0, "{}", read_gb("workingset"));
    // Pages used twice are evicted as all others, and the job reads 1 GB of 1.25 again.
    assert!((read_gb("mglru") - 1.5).abs() < 0.05, "{}", read_gb("mglru"));
}

#[test]
fn what_a_job_reads_and_holds_is_counted_as_its_memory() {
    let times = |hold: bool| {
        let steps = json!([reading(hold), reading(hold), reading(hold), reading(false)]);
        outcome(&alone(steps)).drives[0].read_bytes as f64 / 1e9
    };
    assert!((times(false) - 1.0).abs() < 0.01);
    // With 3 GB in the job's memory 0.7 GB are left for a file of 1 GB.
    assert!(times(true) > 1.5, "{}", times(true));
}

#[test]
fn copies_and_first_touches_have_their_own_rates() {
    let seconds = |steps: Value, rates: Value| {
        let mut scenario = alone(steps);
        scenario["cache"] = json!("warm");
        scenario["nodes"][0].as_object_mut().unwrap().extend(rates.as_object().unwrap().clone());
        outcome(&scenario).jobs[0].ledger.on_cpu_ns as f64 * 1e-9
    };
    let writing = json!([{"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": 500, "length_bytes": 1_000_000}]);
    let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.01;
    let rates = json!({"copy_bytes_per_s": 5e9, "write_copy_bytes_per_s": 2e9,
                       "first_touch_bytes_per_s": 4e9});
    assert!(near(seconds(json!([reading(false)]), rates.clone()), 0.2));
    assert!(near(seconds(json!([reading(true)]), rates.clone()), 0.2 + 0.25));
    assert!(near(seconds(writing.clone(), rates), 0.25));
    // One rate serves both when the other is not given, and first touches are then free.
    let one = json!({"copy_bytes_per_s": 5e9});
    assert!(near(seconds(writing, one.clone()), 0.1));
    assert!(near(seconds(json!([reading(true)]), one), 0.2));
}

#[test]
fn dirty_limits_are_shares_of_what_jobs_leave() {
    // 500 MB are below 20 % of 3.7 GB, but not of 1.2 GB.
    let waited = |held: u64| {
        let out = outcome(&alone(json!([
            {"do": "memory", "bytes": held},
            {"do": "create", "file": "output"},
            {"do": "pattern", "file": "output", "op": "write", "count": 500,
             "length_bytes": 1_000_000}])));
        out.jobs[0].phases.write_ns as f64 * 1e-9
    };
    assert!(waited(0) < 0.1, "{}", waited(0));
    assert!(waited(2_500_000_000) > 1.0, "{}", waited(2_500_000_000));
}

#[test]
fn a_job_without_memory_is_killed_and_its_memory_is_free_again() {
    let mut scenario = alone(json!([
        {"do": "memory", "bytes": 1_500_000_000u64},
        {"do": "wait", "wait_ns": 1_000_000_000},
        {"do": "memory", "bytes": 2_500_000_000u64},
        {"do": "wait", "wait_ns": 1_000_000_000}]));
    scenario["run"]["slots_per_node"] = json!(2);
    scenario["run"]["load"]["jobs"] = json!(4);
    let out = outcome(&scenario);
    let failed: Vec<bool> = out.jobs.iter().map(|job| job.failed).collect();
    // Two of 2.5 GB do not fit into 4 GB: the first to ask finds too little.
    assert_eq!(out.jobs.len(), 4);
    assert!(
        failed.iter().any(|&failed| failed) && !failed.iter().all(|&failed| failed),
        "{failed:?}"
    );
}

#[test]
fn rates_below_zero_are_refused() {
    let mut scenario = alone(json!([]));
    scenario["nodes"][0]["first_touch_bytes_per_s"] = json!(-1.0);
    let error = Scenario::from_json(&scenario.to_string()).unwrap_err().to_string();
    assert!(error.contains("nodes[0].first_touch_bytes_per_s"), "{error}");
}

/// Bytes read from the drive and the outcome, of two jobs that read their own file of 1 GB twice,
/// with a limit for each.
fn limited(limit_bytes: u64) -> (f64, Outcome) {
    let mut scenario = alone(json!([reading(false), reading(false)]));
    scenario["run"]["slots_per_node"] = json!(2);
    scenario["run"]["load"]["jobs"] = json!(2);
    scenario["files"][0]["count"] = json!(2);
    scenario["run"]["job_memory_limit_bytes"] = json!(limit_bytes);
    let out = outcome(&scenario);
    (out.drives[0].read_bytes as f64 / 1e9, out)
}

#[test]
fn a_job_with_a_limit_keeps_no_more_page_cache() {
    let near = |got: f64, expected: f64| (got / expected - 1.0).abs() < 0.02;
    // 4 GB hold both files; 0.5 GB hold none, though memory is free; 1.2 GB hold one each.
    assert!(near(limited(0).0, 2.0));
    assert!(near(limited(500_000_000).0, 4.0), "{}", limited(500_000_000).0);
    assert!(near(limited(1_200_000_000).0, 2.0));
}

#[test]
fn the_page_cache_of_a_job_stays_when_it_ends() {
    // The second job finds what the first has left and what it may read itself.
    let mut scenario = alone(json!([reading(false)]));
    scenario["run"]["load"]["jobs"] = json!(3);
    scenario["run"]["job_memory_limit_bytes"] = json!(500_000_000);
    let read = outcome(&scenario).drives[0].read_bytes as f64 / 1e9;
    assert!((1.4..2.6).contains(&read), "{read}");
}

#[test]
fn a_job_above_its_limit_is_killed_though_its_node_has_memory() {
    let hold = |bytes: u64| json!([{"do": "memory", "bytes": bytes}, {"do": "wait", "wait_ns": 1}]);
    let failed = |bytes: u64, limit_bytes: u64| {
        let mut scenario = alone(hold(bytes));
        scenario["profiles"][0]["memory_bytes"] = json!(100_000_000);
        scenario["run"]["job_memory_limit_bytes"] = json!(limit_bytes);
        outcome(&scenario).jobs[0].failed
    };
    assert!(!failed(1_000_000_000, 0));
    assert!(!failed(1_000_000_000, 1_200_000_000));
    assert!(failed(1_000_000_000, 1_000_000_000));
}

#[test]
fn dirty_limits_of_a_job_are_shares_of_its_own_memory() {
    let waited = |limit_bytes: u64| {
        let mut scenario = alone(json!([
            {"do": "create", "file": "output"},
            {"do": "pattern", "file": "output", "op": "write", "count": 500,
             "length_bytes": 1_000_000}]));
        scenario["run"]["job_memory_limit_bytes"] = json!(limit_bytes);
        outcome(&scenario).jobs[0].phases.write_ns as f64 * 1e-9
    };
    assert!(waited(0) < 0.1 && waited(3_000_000_000) < 0.1);
    assert!(waited(1_000_000_000) > 1.0, "{}", waited(1_000_000_000));
}

#[test]
fn a_limit_below_what_a_job_holds_is_refused() {
    let refusal = |limit_bytes: u64| {
        let mut scenario = alone(json!([reading(false)]));
        scenario["profiles"][0]["memory_bytes"] = json!(100_000_000);
        scenario["run"]["job_memory_limit_bytes"] = json!(limit_bytes);
        let parsed = Scenario::from_json(&scenario.to_string());
        parsed.err().map(|error| error.to_string()).unwrap_or_default()
    };
    assert!(refusal(100_500_000).contains("profiles[0].memory_bytes"));
    assert!(refusal(1_000_000).contains("run.job_memory_limit_bytes"));
    assert_eq!(refusal(110_000_000), "");
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever jobs hold and release: memory is never below zero nor kept by a job that has ended,
    /// and the page cache never has more pages than its memory.
    #[test]
    fn memory_is_conserved(
        sizes in prop::collection::vec(0u64..4_500_000_000, 1..6),
        slots in 1u32..4,
        hold in any::<bool>(),
        limit in prop::option::of(200_000_000u64..3_000_000_000),
    ) {
        let mut steps: Vec<Value> = sizes
            .iter()
            .flat_map(|bytes| [json!({"do": "memory", "bytes": bytes}),
                json!({"do": "pattern", "file": "input", "count": 40, "length_bytes": 5_000_000,
                       "hold": hold})])
            .collect();
        steps.push(json!({"do": "compute", "cpu_ns": 1000}));
        let mut scenario = alone(json!(steps));
        scenario["run"]["slots_per_node"] = json!(slots);
        scenario["run"]["load"]["jobs"] = json!(5);
        scenario["run"]["job_memory_limit_bytes"] = json!(limit.unwrap_or(0));
        let out = outcome(&scenario);
        prop_assert_eq!(out.jobs.len(), 5);
        // A job alone that needs less than the node has always gets it.
        let most = sizes.iter().max().unwrap() + if hold { 200_000_000 } else { 0 };
        let least = limit.unwrap_or(3_700_000_000).min(3_700_000_000);
        if slots == 1 && most < least - (1 << 20) {
            prop_assert!(out.jobs.iter().all(|job| !job.failed));
        }
        if most > limit.unwrap_or(4_000_000_000) + if hold { 200_000_000 } else { 0 } {
            prop_assert!(out.jobs.iter().all(|job| job.failed));
        }
    }
}
