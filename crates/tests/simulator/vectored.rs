//! Vectored reads: one message for many ranges, with the same bytes.

use crate::common::{node, parse, volume};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::run;
use serde_json::{json, Value};

/// One job that reads ranges of a file from an XRootD server `latency_ns` away, in groups.
fn reading(ranges: &[(u64, u64)], vector: u32, latency_ns: u64, tuning: Value) -> Value {
    let mut server = node("server", 1, 4);
    server["volumes"] = json!([volume("export", "xfs", "deadline")]);
    let mut worker = node("worker", 1, 4);
    for host in [&mut server, &mut worker] {
        host["network"] = json!({"rate_bytes_per_s": 1.25e9, "latency_ns": latency_ns});
    }
    json!({
        "seed": 5, "cache": "warm",
        "nodes": [worker], "servers": [server],
        "services": [{"name": "store", "kind": "xrootd",
                      "targets": [{"host": "server", "volume": "export"}], "tuning": tuning}],
        "files": [{"name": "input", "on": {"service": "store"}, "bytes": 100_000_000}],
        "profiles": [{"name": "job", "steps": [
            {"do": "open", "file": "input"},
            {"do": "sequence", "file": "input", "ranges_bytes": ranges, "vector": vector,
             "events": 7}
        ]}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    })
}

fn simulated(scenario: &Value) -> Outcome {
    let outcome = run(&parse(scenario)).unwrap();
    let job = &outcome.jobs[0];
    assert_eq!(outcome.broken_off, None);
    assert_eq!((job.errors, job.events), (0, 7));
    assert_eq!(job.ledger.total_ns(), job.wall_ns());
    outcome
}

fn spread(count: u64, bytes: u64) -> Vec<(u64, u64)> {
    (0..count).map(|number| (number * 17 % count * (90_000_000 / count), bytes)).collect()
}

#[test]
fn a_vectored_read_is_one_message_with_all_bytes() {
    for (count, bytes, vector) in [(60, 1000, 60), (60, 1000, 7), (2000, 300, 2000), (9, 5_000, 1)]
    {
        let ranges = spread(count, bytes);
        let outcome = simulated(&reading(&ranges, vector, 50_000, json!({})));
        let (job, store) = (&outcome.jobs[0], &outcome.services[0]);
        assert_eq!(job.bytes.asked_bytes, count * bytes);
        assert_eq!(job.bytes.served_bytes, count * bytes);
        assert_eq!(store.read_bytes, count * bytes);
        assert_eq!(outcome.hosts[0].received_bytes, count * bytes);
        let groups = count / u64::from(vector) * u64::from(vector.div_ceil(1024));
        let messages = groups + u64::from(count % u64::from(vector) > 0);
        assert_eq!((store.read_requests, job.reads), (messages, messages), "{vector}");
        // A service without vectored reads has the same bytes, and a request for each range.
        let apart = simulated(&reading(&ranges, vector, 50_000, json!({"vector_ranges": 1})));
        assert_eq!(apart.services[0].read_requests, count);
        assert_eq!(apart.jobs[0].bytes, job.bytes);
    }
}

#[test]
fn reads_that_wait_for_the_latency_are_faster_by_the_number_of_ranges() {
    let ranges = spread(240, 100);
    let read_ns = |vector: u32| {
        simulated(&reading(&ranges, vector, 10_000_000, json!({}))).jobs[0].phases.read_ns as f64
    };
    let one_by_one = read_ns(1);
    for vector in [4, 20, 240] {
        let faster = one_by_one / read_ns(vector);
        assert!((faster / f64::from(vector) - 1.0).abs() < 0.05, "{vector}: {faster}");
    }
}

#[test]
fn a_large_range_is_read_in_pieces_and_nothing_beyond_the_end() {
    let ranges = [(0, 5_000_000), (60_000_000, 3_000), (99_999_000, 5_000), (200_000_000, 9)];
    let tuning = json!({"vector_ranges": 4, "read_request_bytes": 2_000_000});
    let outcome = simulated(&reading(&ranges, 4, 50_000, tuning));
    // Pieces of 2, 2, 1 MB and 3 kB, then 1 kB up to the end of the file.
    assert_eq!(outcome.jobs[0].bytes.served_bytes, 5_004_000);
    assert_eq!(outcome.services[0].read_requests, 2);
}

#[test]
fn a_server_reads_the_ranges_from_its_drive_in_order() {
    let ranges = spread(50, 4096);
    let mut scenario = reading(&ranges, 50, 50_000, json!({"server_cache": false}));
    scenario["cache"] = json!("cold");
    let outcome = simulated(&scenario);
    let export = outcome.drives.iter().find(|drive| drive.volume == "export").unwrap();
    assert!(export.reads >= 50, "{}", export.reads);
    // One thread of the server: never two of its reads at once.
    assert!(export.inside_ns <= outcome.jobs[0].phases.read_ns);
    assert_eq!(outcome.services[0].read_requests, 1);
}
