//! Scenarios that several tests start from.

use headrace_simulator::outcome::Outcome;
use headrace_simulator::{run, Scenario};
use serde_json::{json, Value};

/// An ideal drive of 10 ms and 100 MB/s as a volume.
pub fn volume(name: &str, filesystem: &str, scheduler: &str) -> Value {
    json!({
        "name": name,
        "ideal": {"capacity_bytes": 320_000_000_000u64, "read_ns": 10_000_000, "write_ns": 10_000_000,
                  "read_bytes_per_s": 100e6, "write_bytes_per_s": 100e6, "idle_w": 1.0, "active_w": 2.0},
        "filesystem": {"kind": filesystem},
        "scheduler": scheduler
    })
}

pub fn node(name: &str, count: u32, cores: u32) -> Value {
    json!({
        "name": name, "count": count, "cores": cores, "memory_bytes": 4_000_000_000u64,
        "network": {"rate_bytes_per_s": 125e6, "latency_ns": 50_000},
        "power": {"idle_w": 50.0, "core_w": 10.0},
        "volumes": [volume("data", "ext4", "deadline")]
    })
}

/// Two nodes with two slots each, six jobs of forty strided reads.
pub fn text() -> Value {
    json!({
        "seed": 1,
        "nodes": [node("worker", 2, 4)],
        "files": [{"name": "input", "on": {"volume": "data"}, "bytes": 100_000_000, "count": 4}],
        "profiles": [{"name": "job", "memory_bytes": 500_000_000, "steps": [
            {"do": "open", "file": "input"},
            {"do": "pattern", "file": "input", "count": 40, "length_bytes": 65536, "cpu_ns": 2_000_000,
             "order": {"kind": "permuted"}, "events": 10},
            {"do": "close", "file": "input"}
        ]}],
        "run": {"profile": "job", "slots_per_node": 2, "load": {"kind": "batch", "jobs": 6}}
    })
}

pub fn parse(scenario: &Value) -> Scenario {
    Scenario::from_json(&scenario.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

pub fn local_scenario() -> Scenario {
    parse(&text())
}

/// Run a scenario to its end; the ledger of each job adds up.
pub fn outcome(scenario: &Value) -> Outcome {
    let outcome = run(&parse(scenario)).unwrap();
    assert_eq!(outcome.broken_off, None);
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns(), "{job:?}");
    }
    outcome
}
