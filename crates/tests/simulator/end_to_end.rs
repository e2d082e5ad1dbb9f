//! Whole scenarios: jobs run to their end, ledgers add up, equal seeds give equal bytes.

use crate::common::{local_scenario, node, text};
use headrace_simulator::{run, Scenario};
use serde_json::json;

#[test]
fn jobs_on_a_local_drive_run_to_their_end_and_their_ledgers_add_up() {
    let outcome = run(&local_scenario()).unwrap();
    assert_eq!(outcome.jobs.len(), 6);
    assert_eq!(outcome.broken_off, None);
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns(), "{job:?}");
        assert_eq!(job.bytes.asked_bytes, 40 * 65_536);
        assert_eq!(job.bytes.served_bytes, job.bytes.asked_bytes);
        assert!(job.bytes.device_bytes >= job.bytes.asked_bytes);
        assert!(job.ledger.on_cpu_ns >= 40 * 2_000_000);
        assert!(job.ledger.wait_block_ns > 40 * 5_000_000, "each read waits for the drive");
    }
    let drive = &outcome.drives[0];
    let per_drive: u64 = outcome.drives.iter().map(|d| d.read_bytes).sum();
    let per_job: u64 = outcome.jobs.iter().map(|j| j.bytes.device_bytes).sum();
    assert_eq!(per_drive, per_job);
    assert!(drive.busy_ns <= outcome.end_ns);
    assert_eq!(drive.series.read_bytes.iter().sum::<u64>(), drive.read_bytes);
}

#[test]
fn a_long_series_has_longer_intervals_and_the_same_sums() {
    let mut scenario = local_scenario();
    scenario.observe.series_interval_ns = 1_000;
    let outcome = run(&scenario).unwrap();
    for drive in outcome.drives.iter().filter(|drive| drive.reads > 0) {
        let series = &drive.series;
        let intervals = series.reads.len();
        assert!((32_768..=65_536).contains(&intervals), "{intervals}");
        assert_eq!(
            series.interval_ns,
            outcome.end_ns.div_ceil(65_536_000).next_power_of_two() * 1_000
        );
        assert_eq!(intervals as u64, outcome.end_ns.div_ceil(series.interval_ns));
        assert_eq!(series.read_bytes.iter().sum::<u64>(), drive.read_bytes);
        let shares: f64 = series.busy.iter().map(|&busy| f64::from(busy)).sum();
        let busy_ns = shares * series.interval_ns as f64;
        assert!((busy_ns / drive.busy_ns as f64 - 1.0).abs() < 1e-3, "{busy_ns} {}", drive.busy_ns);
        let slowest = series.read_latency_ns.iter().copied().fold(0.0, f32::max);
        assert!(slowest as f64 <= drive.read_latency.max_ns as f64 * 1.001);
        assert!(slowest as f64 >= drive.read_latency.mean_ns);
    }
}

#[test]
fn a_warm_cache_spares_the_drive() {
    let mut scenario = local_scenario();
    scenario.cache = headrace_simulator::scenario::CacheState::Warm;
    let outcome = run(&scenario).unwrap();
    // Who has read the files has read their inodes and maps, too.
    assert_eq!(outcome.drives.iter().map(|d| d.read_bytes).sum::<u64>(), 0);
    assert!(outcome.hosts[0].cache.hit_pages > 0);
}

#[test]
fn equal_seeds_give_equal_bytes_on_any_number_of_threads() {
    let scenarios: Vec<Scenario> = (0..6)
        .map(|seed| {
            let mut scenario = local_scenario();
            scenario.seed = seed / 2;
            scenario
        })
        .collect();
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let bytes = |threads| -> Vec<String> {
        headrace_simulator::run_many(&scenarios, threads, &|_| {}, &cancel)
            .into_iter()
            .map(|outcome| serde_json::to_string(&outcome.unwrap()).unwrap())
            .collect()
    };
    let one = bytes(1);
    assert_eq!(one, bytes(3));
    assert_eq!(one[0], one[1]);
}

#[test]
fn nodes_that_share_nothing_run_apart_and_give_the_same_on_any_number_of_threads() {
    let mut scenario = text();
    scenario["nodes"][0]["count"] = json!(5);
    scenario["servers"] = json!([node("idle", 1, 2)]);
    scenario["run"]["assign"] = json!("static");
    scenario["run"]["load"]["jobs"] = json!(13);
    scenario["run"]["cpu_spread"] = json!(0.3);
    scenario["profiles"][0]["steps"][1]["order"] = json!({"kind": "random"});
    let scenarios = [Scenario::from_json(&scenario.to_string()).unwrap()];
    let cancel = std::sync::atomic::AtomicBool::new(false);
    let outcome = |threads| {
        headrace_simulator::run_many(&scenarios, threads, &|_| {}, &cancel).remove(0).unwrap()
    };
    let (one, four) = (outcome(1), outcome(4));
    assert_eq!(serde_json::to_string(&one).unwrap(), serde_json::to_string(&four).unwrap());
    assert_eq!(one.jobs.iter().map(|j| j.number).collect::<Vec<_>>(), (0..13).collect::<Vec<_>>());
    let names: Vec<_> = one.hosts.iter().map(|h| h.name.as_str()).collect();
    assert_eq!(names, ["worker[0]", "worker[1]", "worker[2]", "worker[3]", "worker[4]", "idle"]);
    // Nodes draw different numbers, and all are there to the end.
    let first: std::collections::BTreeSet<_> =
        one.jobs[..5].iter().map(|j| j.ledger.on_cpu_ns).collect();
    assert_eq!(first.len(), 5);
    let seconds = one.end_ns as f64 * 1e-9;
    assert!((one.energy.servers_j - 50.0 * seconds).abs() < 1e-6);
    assert!(one.energy.nodes_j > 5.0 * 50.0 * seconds);
    assert_eq!(
        one.drives.iter().map(|d| d.series.reads.len()).min(),
        one.drives.iter().map(|d| d.series.reads.len()).max()
    );
    assert_eq!(one.broken_off, None);
}

#[test]
fn pieces_of_work_vary_and_whole_jobs_do_not() {
    const PIECE_NS: f64 = 2e6;
    let on_cpu_ns = |pieces: u32, jobs: u32| -> Vec<f64> {
        let mut scenario = text();
        scenario["run"]["cpu_variation"] = json!(0.2);
        scenario["run"]["load"]["jobs"] = json!(jobs);
        let piece = json!({"do": "compute", "cpu_ns": PIECE_NS as u64});
        scenario["profiles"][0]["steps"] =
            json!([{"do": "repeat", "times": pieces, "steps": [piece]}]);
        let outcome = run(&Scenario::from_json(&scenario.to_string()).unwrap()).unwrap();
        outcome.jobs.iter().map(|job| job.ledger.on_cpu_ns as f64).collect()
    };
    // A job of one piece has nothing to give back: half of the variance.
    let single = on_cpu_ns(1, 2000);
    let square = |ns: &f64| (ns / PIECE_NS - 1.0).powi(2);
    let variance = single.iter().map(square).sum::<f64>() / single.len() as f64;
    assert!((variance - 0.5 * 0.2f64.powi(2)).abs() < 0.002, "{variance}");
    // One of many pieces takes as long as given, but for what its last piece owes.
    for ns in on_cpu_ns(500, 6) {
        assert!((ns - 500.0 * PIECE_NS).abs() < 0.25 * PIECE_NS, "{ns}");
    }
}

#[test]
fn a_cancelled_run_says_so() {
    let cancel = std::sync::atomic::AtomicBool::new(true);
    let mut scenario = text();
    scenario["profiles"][0]["steps"][1]["count"] = json!(20_000);
    let scenario = Scenario::from_json(&scenario.to_string()).unwrap();
    let outcome = headrace_simulator::run_watched(&scenario, &cancel, &mut |_, _| {}).unwrap();
    assert_eq!(outcome.broken_off.as_deref(), Some("cancelled"));
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns());
    }
}

#[test]
fn errors_name_place_given_and_allowed() {
    let error = |change: &dyn Fn(&mut serde_json::Value)| {
        let mut scenario = text();
        change(&mut scenario);
        Scenario::from_json(&scenario.to_string()).unwrap_err()
    };
    let e = error(&|s| s["run"]["slots_per_node"] = json!(0));
    assert_eq!((e.path.as_str(), e.given.as_str()), ("run.slots_per_node", "0"));
    let e = error(&|s| s["nodes"][0]["volumes"][0]["scheduler"] = json!("elevator"));
    assert_eq!(e.path, "nodes[0].volumes[0].scheduler");
    assert!(e.given.contains("elevator") && e.allowed.contains("anticipatory"), "{e}");
    let e = error(&|s| s["nodes"][0]["color"] = json!("red"));
    assert!(
        e.path.starts_with("nodes[0]") && e.given.contains("color") && e.allowed.contains("cores"),
        "{e}"
    );
    let e = error(&|s| s["profiles"][0]["steps"][1]["file"] = json!("nothing"));
    assert_eq!((e.path.as_str(), e.allowed.as_str()), ("profiles[0].steps[1].file", "input"));
    let e = error(&|s| s["profiles"][0]["memory_bytes"] = json!(9_000_000_000u64));
    assert_eq!(e.path, "profiles[0].memory_bytes");
    let mut too_large = text();
    too_large["files"][0]["bytes"] = json!(900_000_000_000u64);
    let e = run(&Scenario::from_json(&too_large.to_string()).unwrap()).unwrap_err();
    assert_eq!(e.path, "files[0].bytes");
}
