//! Faults of drives in virtual time: what they do to jobs.

use crate::common::text;
use headrace_simulator::{run, Outcome, Scenario};
use serde_json::{json, Value};

fn disk() -> Value {
    json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64, "rotation_rpm": 7200, "heads": 4,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6}, "link_bytes_per_s": 300e6,
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}})
}

/// One node, two slots, six jobs of forty reads: some 2.5 s a pair of them.
fn with(faults: Value, raid: Option<Value>) -> Outcome {
    let mut scenario = text();
    let volume = &mut scenario["nodes"][0]["volumes"][0];
    volume.as_object_mut().unwrap().remove("ideal");
    volume["storage"] = json!({"drives": [disk()], "faults": faults});
    if let Some(raid) = raid {
        volume["storage"]["raid"] = raid;
    }
    scenario["nodes"][0]["count"] = json!(1);
    scenario["run"]["fail_on_error"] = json!(true);
    scenario["profiles"][0]["memory_bytes"] = json!(1_500_000_000u64);
    run(&Scenario::from_json(&scenario.to_string()).unwrap()).unwrap()
}

fn failed(outcome: &Outcome) -> usize {
    outcome.jobs.iter().filter(|job| job.failed).count()
}

#[test]
fn a_job_ends_at_its_first_error_and_the_next_takes_its_slot() {
    let plain = with(json!([]), None);
    assert_eq!((plain.jobs.len(), failed(&plain)), (6, 0));
    let bad = with(json!([{"fault": {"kind": "media_error"}, "from_s": 0.2, "at_most": 1}]), None);
    assert_eq!((bad.jobs.len(), failed(&bad)), (6, 1), "{:?}", bad.jobs);
    assert_eq!(bad.drives[0].faults_fired, [1]);
    let job = bad.jobs.iter().find(|job| job.failed).unwrap();
    assert!(job.bytes.asked_bytes < 40 * 65_536 && job.ledger.total_ns() == job.wall_ns());
    let gone = with(json!([{"fault": {"kind": "drop_off"}, "from_s": 0.2}]), None);
    assert_eq!((gone.jobs.len(), failed(&gone)), (6, 6));
    assert!(gone.end_ns < plain.end_ns);
}

#[test]
fn a_slow_or_stalled_drive_only_makes_jobs_longer() {
    let plain = with(json!([]), None);
    for (kind, longer) in [("stall", 1.9), ("slow_down", 0.3), ("latency_spike", 0.3)] {
        let mut fault = json!({"fault": {"kind": kind}, "from_s": 0.2, "until_s": 2.2});
        match kind {
            "slow_down" => fault["fault"]["factor"] = json!(4.0),
            "latency_spike" => fault["fault"]["extra_ms"] = json!(50.0),
            _ => {}
        }
        let outcome = with(json!([fault]), None);
        assert_eq!(failed(&outcome), 0, "{kind}");
        assert!(outcome.drives[0].faults_fired[0] > 0, "{kind}");
        assert!(outcome.end_ns as f64 > plain.end_ns as f64 + longer * 1e9, "{kind}");
    }
}

#[test]
fn a_mirror_outlives_its_drive_and_takes_a_new_one() {
    let raid = json!({"level": 1, "drives": 2});
    let plain = with(json!([]), Some(raid.clone()));
    let faults = json!([{"fault": {"kind": "degraded"}, "drive": 0, "from_s": 0.2}]);
    let degraded = with(faults, Some(raid.clone()));
    assert_eq!(failed(&degraded), 0);
    assert_eq!(degraded.drives[0].faults_fired, [1]);
    assert!(degraded.end_ns > plain.end_ns, "one drive serves what two did");
    let rebuild =
        with(json!([{"fault": {"kind": "rebuild"}, "drive": 0, "from_s": 0.2}]), Some(raid));
    assert_eq!(failed(&rebuild), 0);
    let part = rebuild.drives[0].rebuilt.unwrap();
    assert!(part > 0.0 && part < 1.0, "{part}");
}

#[test]
fn power_lost_fails_what_reads_meanwhile() {
    let outcome =
        with(json!([{"fault": {"kind": "power_loss"}, "from_s": 0.2, "until_s": 0.7}]), None);
    assert_eq!(failed(&outcome), 6, "jobs keep coming and failing while there is no power");
    assert!(outcome.drives[0].faults_fired[0] >= 2);
}

/// The bytes of failed requests are not moved, on one node or several, with or without RAID: the
/// series shows the whole stall, and totals have what jobs got.
#[test]
fn drives_that_are_gone_move_no_bytes() {
    let stripes = json!({"level": 0, "drives": 2});
    for (nodes, raid) in [(1, None), (1, Some(stripes.clone())), (2, None), (2, Some(stripes))] {
        let mut scenario = text();
        let fault = json!({"fault": {"kind": "drop_off"}, "from_s": 0.2, "until_s": 0.6});
        let volume = &mut scenario["nodes"][0]["volumes"][0];
        volume.as_object_mut().unwrap().remove("ideal");
        volume["storage"] = json!({"drives": [disk()], "faults": [fault]});
        if let Some(raid) = &raid {
            volume["storage"]["raid"] = raid.clone();
        }
        scenario["nodes"][0]["count"] = json!(nodes);
        // Each job fails at once, so jobs go on through the fault.
        scenario["run"]["fail_on_error"] = json!(true);
        scenario["run"]["load"] = json!({"kind": "sustained", "duration_ns": 1_000_000_000u64});
        scenario["observe"] = json!({"series_interval_ns": 100_000_000u64});
        let outcome = run(&Scenario::from_json(&scenario.to_string()).unwrap()).unwrap();
        for drive in &outcome.drives {
            let moved = &drive.series.read_bytes;
            assert!(drive.failed > 0);
            assert!(moved[0] > 0 && moved[1] > 0, "{nodes}: {moved:?}");
            assert_eq!(moved[2..6], [0; 4], "{nodes}: {moved:?}");
            // A RAID does not take back the drives that it lost.
            assert_eq!(moved[7] > 0, raid.is_none(), "{nodes}: {moved:?}");
            assert_eq!(moved.iter().sum::<u64>(), drive.read_bytes);
        }
    }
}
