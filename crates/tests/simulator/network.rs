//! Connections with windows: slow start over long links, and incast at a switch's port.

use crate::common::{node, parse};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::run;
use serde_json::{json, Value};

const CALLS: u64 = 20;

/// One client that reads 1 MiB at a time, each call from all servers at once.
fn striped(servers: u32, tcp: Value) -> Value {
    let mut server = node("server", servers, 4);
    server["volumes"] = json!([{
        "name": "export", "filesystem": {"kind": "xfs"},
        "ideal": {"capacity_bytes": 320_000_000_000u64, "read_ns": 1000, "write_ns": 1000,
                  "read_bytes_per_s": 10e9, "write_bytes_per_s": 10e9}
    }]);
    let mut scenario = json!({
        "nodes": [node("worker", 1, 4)],
        "servers": [server],
        "services": [{"name": "store", "kind": "orangefs",
                      "targets": [{"host": "server", "volume": "export"}]}],
        "files": [{"name": "input", "on": {"service": "store"}, "bytes": CALLS << 20, "count": 1}],
        "profiles": [{"name": "job", "steps": [
            {"do": "open", "file": "input"},
            {"do": "pattern", "file": "input", "count": CALLS, "length_bytes": 1 << 20, "events": 1}
        ]}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    });
    if !tcp.is_null() {
        scenario["tcp"] = tcp;
    }
    scenario
}

fn simulated(scenario: &Value) -> Outcome {
    let outcome = run(&parse(scenario)).unwrap();
    assert_eq!(outcome.broken_off, None);
    let sent: u64 = outcome.hosts.iter().map(|h| h.sent_bytes).sum();
    assert_eq!(sent, outcome.hosts.iter().map(|h| h.received_bytes).sum::<u64>());
    assert_eq!((sent, outcome.jobs[0].bytes.asked_bytes), (CALLS << 20, CALLS << 20));
    assert_eq!(outcome.jobs[0].ledger.total_ns(), outcome.jobs[0].wall_ns());
    outcome
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.end_ns as f64 * 1e-9
}

#[test]
fn many_servers_that_answer_at_once_overfill_a_port() {
    let buffer = |kib: u64| json!({"port_buffer_bytes": kib << 10, "recovery": "newreno"});
    let free = simulated(&striped(32, json!(null)));
    assert_eq!(free.counters.tcp, None);
    let small = simulated(&striped(32, buffer(64)));
    let large = simulated(&striped(32, buffer(1024)));
    let timeouts = |outcome: &Outcome| outcome.counters.tcp.unwrap().timeouts;
    assert!(timeouts(&small) > 10 && timeouts(&large) == 0, "{:?}", small.counters.tcp);
    // Nearly every call waits for a timeout of 200 ms.
    assert!(seconds(&small) > 0.1 * CALLS as f64, "{}", seconds(&small));
    assert!(seconds(&large) < 1.1 * seconds(&free), "{} {}", seconds(&large), seconds(&free));
    // One server cannot overfill a port that is as fast as its own.
    assert_eq!(timeouts(&simulated(&striped(1, buffer(64)))), 0);
    let with = |key: &str, value: Value| {
        let mut tcp = buffer(64);
        tcp[key] = value;
        simulated(&striped(32, tcp))
    };
    let quick = with("min_rto_ns", json!(200_000));
    assert!(seconds(&quick) < 0.2 * seconds(&small) && seconds(&quick) > seconds(&free));
    // Probes find what was lost at the end of a read.
    let probed = with("recovery", json!("rack"));
    assert!(probed.counters.tcp.unwrap().probes > 0 && timeouts(&probed) < timeouts(&small));
    assert!(seconds(&probed) < seconds(&small), "{} {}", seconds(&probed), seconds(&small));
}

#[test]
fn a_long_link_makes_each_read_after_a_pause_start_slowly() {
    let read = |latency_ns: u64, cpu_ns: u64, tcp: Value| {
        let mut scenario = striped(1, tcp);
        scenario["servers"][0]["network"]["latency_ns"] = json!(latency_ns);
        scenario["profiles"][0]["steps"][1]["cpu_ns"] = json!(cpu_ns);
        seconds(&simulated(&scenario)) - CALLS as f64 * cpu_ns as f64 * 1e-9
    };
    let window = || json!({"initial_window_packets": 10});
    let (near, far, pause_ns) = (50_000, 10_000_000, 2_000_000_000);
    // On the site the first window fills the path.
    assert!((read(near, 0, window()) - read(near, 0, json!(null))).abs() < 1e-3);
    let continuous = read(far, 0, window()) - read(far, 0, json!(null));
    let paused = read(far, pause_ns, window()) - read(far, pause_ns, json!(null));
    // Windows of 14 kB x 1, 2 ... 32 are sent in rounds of 20 ms, once or for each read.
    assert!((0.05..0.2).contains(&continuous), "{continuous}");
    assert!((0.05..0.2).contains(&(paused / CALLS as f64)), "{paused}");
}

#[test]
fn nodes_of_a_leaf_share_its_uplink() {
    // Eight nodes with a job each read 20 MiB from 32 servers: their ports are the limit, then the
    // uplinks of two leaves, to which all bytes go.
    let read = |uplink: Option<f64>| {
        let mut scenario = striped(32, json!(null));
        scenario["nodes"][0]["count"] = json!(8);
        scenario["files"][0]["count"] = json!(8);
        scenario["run"]["load"]["jobs"] = json!(8);
        if let Some(rate) = uplink {
            scenario["leaves"] = json!({"nodes": 4, "uplink_bytes_per_s": rate});
        }
        let outcome = run(&parse(&scenario)).unwrap();
        assert_eq!(outcome.hosts.iter().map(|h| h.sent_bytes).sum::<u64>(), 8 * (CALLS << 20));
        seconds(&outcome)
    };
    let free = read(None);
    assert!((read(Some(4.0 * 125e6)) / free - 1.0).abs() < 0.02);
    let shared = read(Some(125e6));
    let least = 4.0 * (CALLS << 20) as f64 / 125e6;
    assert!((least..1.1 * least).contains(&shared), "{shared} {least}");
    assert!(shared > 3.0 * free);
}
