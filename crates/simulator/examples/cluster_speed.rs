//! How fast the simulator is: a run of the cluster-energy study, and coupled clusters on one file server.
//!
//! `cargo run --release -p headrace-simulator --example cluster_speed [thesis|cluster] [nodes] [hours]`
//! prints events, requests, CPU seconds and the cost of a request; `benchmarks/` compares them.

use std::fs;
use std::path::Path;

use headrace_simulator::{run, Outcome, Scenario};
use serde_json::{json, Value};

fn catalog_drive(name: &str) -> Value {
    let file = Path::new(env!("CARGO_MANIFEST_DIR"))
        .join(format!("../../python/headrace/catalog/drives/{name}.toml"));
    let text =
        fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let table: toml::Value =
        toml::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    serde_json::to_value(table).expect("TOML is JSON's subset")
}

/// CPU seconds of this process so far, user and system (clock ticks of 10 ms).
fn cpu_seconds() -> f64 {
    let stat = fs::read_to_string("/proc/self/stat").unwrap_or_default();
    let fields: Vec<&str> =
        stat.rsplit(')').next().unwrap_or_default().split_whitespace().collect();
    let ticks =
        |number: usize| fields.get(number).and_then(|f| f.parse::<f64>().ok()).unwrap_or(0.0);
    (ticks(11) + ticks(12)) / 100.0
}

fn peak_memory_mb() -> f64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find(|l| l.starts_with("VmHWM")).unwrap_or_default();
    line.split_whitespace().nth(1).and_then(|kb| kb.parse::<f64>().ok()).unwrap_or(0.0) / 1024.0
}

/// 312 jobs over 656 MB files in 4 slots on each of 3 nodes with a 7200 rpm disk.
fn thesis() -> Value {
    json!({
        "seed": 1,
        "nodes": [{
            "name": "r210", "count": 3, "cores": 4, "memory_bytes": 8_000_000_000u64,
            "volumes": [{"name": "data", "storage": {"drives": [catalog_drive("wd-wd3200bekt")]},
                         "filesystem": {"kind": "ext4"}, "scheduler": "deadline"}]
        }],
        "files": [{"name": "aod", "on": {"volume": "data"}, "bytes": 656_000_000, "count": 24}],
        "profiles": [{"name": "tau", "memory_bytes": 500_000_000, "steps": [
            {"do": "open", "file": "aod"},
            {"do": "pattern", "file": "aod", "count": 6000, "length_bytes": 65_536, "cpu_ns": 150_000_000,
             "order": {"kind": "clustered", "window_bytes": 30_000_000}}
        ]}],
        "run": {"profile": "tau", "slots_per_node": 4, "load": {"kind": "batch", "jobs": 312}}
    })
}

/// Nodes with 24 slots each on one file server, for some hours of analysis.
fn cluster(nodes: u32, hours: f64) -> Value {
    json!({
        "seed": 1,
        "nodes": [{"name": "worker", "count": nodes, "cores": 24, "memory_bytes": 64_000_000_000u64,
                   "network": {"rate_bytes_per_s": 125e6, "latency_ns": 50_000}}],
        "servers": [{
            "name": "filer", "cores": 16, "memory_bytes": 128_000_000_000u64,
            "network": {"rate_bytes_per_s": 1.25e9 * f64::from(nodes) / 1000.0, "latency_ns": 20_000},
            "volumes": [{
                "name": "export",
                "ideal": {"capacity_bytes": 400_000_000_000_000u64, "read_ns": 8_000_000, "write_ns": 8_000_000,
                          "read_bytes_per_s": 150e6, "channels": (nodes / 10).max(4)},
                "filesystem": {"kind": "xfs"}, "scheduler": "deadline", "nr_requests": 4096, "queue_depth": 1024,
                "read_ahead_bytes": 1_048_576
            }]
        }],
        "services": [{"name": "nas", "kind": "nfs", "targets": [{"host": "filer", "volume": "export"}],
                      "tuning": {"server_threads": 256, "read_request_bytes": 1_048_576,
                                 "client_read_ahead": {"kind": "kernel", "bytes": 1_048_576}}}],
        "files": [{"name": "aod", "on": {"service": "nas"}, "bytes": 2_000_000_000, "count": nodes * 24}],
        "profiles": [{"name": "analysis", "memory_bytes": 2_000_000_000, "steps": [
            {"do": "open", "file": "aod"},
            {"do": "pattern", "file": "aod", "count": 2000, "length_bytes": 1_000_000, "cpu_ns": 1_600_000_000}
        ]}],
        "run": {"profile": "analysis", "slots_per_node": 24, "stagger_ns": 60_000_000_000u64,
                "load": {"kind": "sustained", "duration_ns": (hours * 3.6e12) as u64}},
        "observe": {"series_interval_ns": 10_000_000_000u64}
    })
}

fn report(name: &str, outcome: &Outcome, cpu_s: f64) {
    let c = &outcome.counters;
    let requests = c.requests + c.service_requests;
    let wall_s: f64 = outcome.jobs.iter().map(|j| j.wall_ns() as f64 * 1e-9).sum();
    let busy_s: f64 = outcome.jobs.iter().map(|j| j.ledger.on_cpu_ns as f64 * 1e-9).sum();
    println!(
        "{name}: {} jobs, {:.0} s simulated, efficiency {:.3}, {} events, {requests} requests, {} flows, {cpu_s:.2} s of CPU, \
         {:.0} ns a request, peak {:.0} MB",
        outcome.jobs.len(),
        outcome.end_ns as f64 * 1e-9,
        busy_s / wall_s,
        c.events,
        c.flows,
        cpu_s * 1e9 / requests as f64,
        peak_memory_mb()
    );
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let what = arguments.first().map_or("all", String::as_str);
    let measure = |name: &str, scenario: Value| {
        let scenario =
            Scenario::from_json(&scenario.to_string()).unwrap_or_else(|error| panic!("{error}"));
        let before = cpu_seconds();
        let outcome = run(&scenario).unwrap_or_else(|error| panic!("{error}"));
        report(name, &outcome, cpu_seconds() - before);
    };
    if matches!(what, "thesis" | "all") {
        measure("thesis", thesis());
    }
    if matches!(what, "cluster" | "all") {
        let nodes = arguments.get(1).and_then(|n| n.parse().ok()).unwrap_or(100);
        let hours = arguments.get(2).and_then(|h| h.parse().ok()).unwrap_or(0.1);
        measure(&format!("cluster of {nodes}"), cluster(nodes, hours));
    }
}
