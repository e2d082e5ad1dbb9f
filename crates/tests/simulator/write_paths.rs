//! When a write to a service counts as done: write-behind, what closing waits for, and what servers bring to their drives.

use crate::common::{node, parse, volume};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::run;
use serde_json::{json, Value};

const MB: u64 = 1_000_000;

/// One client, one server with one disk, and a job.
fn alone(kind: &str, filesystem: &str, tuning: Value, steps: Value) -> Outcome {
    let mut server = node("server", 1, 4);
    server["volumes"] = json!([volume("export", filesystem, "deadline")]);
    let scenario = json!({
        "seed": 3,
        "nodes": [node("worker", 1, 4)],
        "servers": [server],
        "services": [{"name": "store", "kind": kind, "targets": [{"host": "server", "volume": "export"}],
                      "tuning": tuning}],
        "files": [{"name": "output", "on": {"service": "store"}, "share": "new", "keep": true}],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    });
    let outcome = run(&parse(&scenario)).unwrap();
    assert_eq!(outcome.broken_off, None);
    assert!(outcome.jobs.iter().all(|job| !job.unfinished && job.errors == 0));
    outcome
}

fn seconds(outcome: &Outcome) -> f64 {
    outcome.end_ns as f64 * 1e-9
}

/// Writes of 4 MB with a second of work behind each.
fn writing_and_working() -> Value {
    json!([
        {"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": 5, "length_bytes": 4 * MB,
         "cpu_ns": 1_000_000_000},
        {"do": "compute", "cpu_ns": 1_000_000_000},
        {"do": "close", "file": "output"}
    ])
}

/// 200 MB at once, then `last`.
fn writing_and(last: &str) -> Value {
    json!([
        {"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": 200, "length_bytes": MB},
        {"do": last, "file": "output"}
    ])
}

#[test]
fn a_write_within_the_window_is_not_waited_for() {
    for (kind, window) in [("hdfs", 5 << 20), ("glusterfs", 5 << 20)] {
        let waited = |behind: bool| {
            let tuning =
                json!({"write_behind": behind, "write_window_bytes": window, "replicas": 1});
            alone(kind, "xfs", tuning, writing_and_working()).jobs[0].ledger.wait_network_ns
        };
        let (behind, before) = (waited(true), waited(false));
        // 20 MB take 0.16 s on the wire. Behind, only metadata and the answers to what closing finds are waited for.
        assert!(before > 160_000_000, "{kind}: {before} ns");
        assert!(behind < before / 10, "{kind}: {behind} and {before} ns");
    }
}

#[test]
fn what_does_not_fit_into_the_window_waits_for_the_wire() {
    for window in [1u64 << 20, 5 << 20] {
        let tuning = json!({"write_window_bytes": window, "replicas": 1});
        let outcome = alone("hdfs", "xfs", tuning, writing_and("close"));
        // 200 MB at 125 MB/s; closing waits for the last of them.
        assert!((1.6..1.9).contains(&seconds(&outcome)), "{window}: {} s", seconds(&outcome));
        assert_eq!(outcome.jobs[0].bytes.written_bytes, 200 * MB);
        assert!(outcome.hosts[1].received_bytes >= 200 * MB);
    }
}

/// A server sends a packet on while the next one arrives: the pipeline has the rate of its slowest
/// link, however many replicas it has (the packets of a window on their way, in order).
#[test]
fn packets_of_a_pipeline_follow_each_other() {
    let written = |replicas: u64| {
        let mut server = node("server", 4, 4);
        server["volumes"] = json!([volume("export", "xfs", "deadline")]);
        let scenario = json!({
            "seed": 3,
            "nodes": [node("worker", 1, 4)],
            "servers": [server],
            "services": [{"name": "store", "kind": "hdfs",
                          "targets": [{"host": "server", "volume": "export"}],
                          "tuning": {"replicas": replicas}}],
            "files": [{"name": "output", "on": {"service": "store"}, "share": "new", "keep": true}],
            "profiles": [{"name": "job", "steps": writing_and("close")}],
            "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
        });
        let outcome = run(&parse(&scenario)).unwrap();
        let sent: u64 = outcome.hosts.iter().map(|host| host.sent_bytes).sum();
        assert_eq!(sent, replicas * 200 * MB);
        seconds(&outcome)
    };
    // 200 MB at 125 MB/s, and a packet's way through each further server at the end of a block.
    let times = [1, 2, 3].map(written);
    assert!(times.iter().all(|time| (1.6..1.68).contains(time)), "{times:?}");
    assert!(times[0] <= times[1] && times[1] <= times[2], "{times:?}");
}

#[test]
fn a_small_window_costs_round_trips() {
    let time = |window: u64| {
        let tuning =
            json!({"write_window_bytes": window, "client_delay_ns": 1_000_000, "replicas": 1});
        seconds(&alone("hdfs", "xfs", tuning, writing_and("close")))
    };
    // A packet and its round trip at a time, against 80 packets under way.
    assert!(time(64 << 10) > 3.0 * time(5 << 20));
}

#[test]
fn servers_bring_files_to_their_drives_when_asked() {
    let bytes = |outcome: &Outcome| outcome.drives.iter().map(|d| d.written_bytes).sum::<u64>();
    let run = |commit: &str, last: &str| {
        alone("nfs", "xfs", json!({"commit": commit}), writing_and(last))
    };
    for (commit, last, stored) in [
        ("close", "close", true),
        ("close", "fsync", true),
        ("sync", "fsync", true),
        ("sync", "close", false),
        ("never", "close", false),
        ("never", "fsync", false),
    ] {
        let outcome = run(commit, last);
        assert_eq!(
            bytes(&outcome) >= 200 * MB,
            stored,
            "{commit}, {last}: {} bytes",
            bytes(&outcome)
        );
    }
    // The disk is slower than the wire: who waits for it takes longer.
    assert!(seconds(&run("close", "close")) > 1.1 * seconds(&run("sync", "close")));
}

#[test]
fn a_file_that_nobody_wrote_is_not_brought_anywhere() {
    let steps = json!([{"do": "create", "file": "output"}, {"do": "close", "file": "output"}]);
    let outcome = alone("nfs", "xfs", json!({}), steps);
    assert_eq!(outcome.services[0].write_requests, 0);
    assert!(seconds(&outcome) < 0.01);
}

#[test]
fn direct_writes_wait_for_metadata_and_go_on() {
    // ext3 maps a file by indirect blocks, which have to be read between writes that are already under way.
    for filesystem in ["ext3", "ext4", "xfs"] {
        let tuning = json!({"server_cache": false});
        let outcome = alone("lustre", filesystem, tuning, writing_and("fsync"));
        assert_eq!(outcome.jobs[0].bytes.written_bytes, 200 * MB, "{filesystem}");
    }
}
