//! Erasure coding: bytes of parity, overwrites, and reads without a server; metadata servers on
//! hosts.

use crate::common::{node, parse, volume};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::{run, Scenario};
use serde_json::{json, Value};

const FILE_BYTES: u64 = 24 << 20;

/// Two nodes before six servers, files in 4 data and 2 parity objects with units of 1 MiB.
fn coded(steps: Value) -> Value {
    let mut server = node("server", 6, 4);
    server["volumes"] = json!([volume("export", "xfs", "deadline")]);
    json!({
        "seed": 3,
        "nodes": [node("worker", 2, 4)],
        "servers": [server],
        "services": [{"name": "store", "kind": "eos",
            "targets": [{"host": "server", "volume": "export"}],
            "tuning": {"replicas": 1, "stripe_bytes": 1 << 20, "stripe_targets": 4,
                       "parity_targets": 2, "timeout_ns": 1_000_000_000}}],
        "files": [
            {"name": "input", "on": {"service": "store"}, "bytes": FILE_BYTES, "count": 4},
            {"name": "output", "on": {"service": "store"}, "share": "new", "keep": true}
        ],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 2, "load": {"kind": "batch", "jobs": 4}}
    })
}

fn reading() -> Value {
    json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 24, "length_bytes": 1 << 20, "events": 1},
        {"do": "close", "file": "input"}
    ])
}

fn writing(bytes: u64) -> Value {
    json!([
        {"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": bytes >> 19,
         "length_bytes": 1 << 19},
        {"do": "close", "file": "output"}
    ])
}

fn simulated(scenario: &Value) -> Outcome {
    let outcome = run(&parse(scenario)).unwrap();
    assert_eq!(outcome.broken_off, None);
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns(), "{job:?}");
        assert_eq!(job.errors, 0);
    }
    let sent: u64 = outcome.hosts.iter().map(|h| h.sent_bytes).sum();
    assert_eq!(sent, outcome.hosts.iter().map(|h| h.received_bytes).sum::<u64>());
    outcome
}

fn down(scenario: &mut Value, servers: u32) {
    let fault = |n| {
        json!({"at_ns": 0, "host": format!("server[{n}]"),
                           "what": {"kind": "server-down"}})
    };
    scenario["faults"] = (0..servers).map(fault).collect();
}

#[test]
fn what_is_written_takes_its_share_of_parity() {
    // Whole rows of 4 MiB: 6 bytes on the drives for 4; and a row of 1 MiB: 3 for 1.
    for (bytes, stored) in [(24 << 20, 36 << 20), (25 << 20, 39 << 20), (1 << 19, 3 << 19)] {
        let outcome = simulated(&coded(writing(bytes)));
        assert_eq!(outcome.services[0].written_bytes, 4 * stored, "{bytes}");
        let received: u64 = outcome.hosts[2..].iter().map(|h| h.received_bytes).sum();
        assert_eq!(received, 4 * stored, "{bytes}");
        assert_eq!(outcome.services[0].read_requests, 0);
    }
}

#[test]
fn reads_need_no_parity_while_all_servers_are_up() {
    let outcome = simulated(&coded(reading()));
    let service = &outcome.services[0];
    assert_eq!((service.read_bytes, service.degraded_reads), (4 * FILE_BYTES, 0));
    // Of a file of six rows: four objects with data and two with parity, 6 MiB each.
    assert_eq!(service.stored_bytes.iter().sum::<u64>(), 4 * FILE_BYTES / 4 * 6);
}

#[test]
fn a_read_without_its_server_reads_as_many_others_as_there_are_data_objects() {
    let whole = simulated(&coded(reading()));
    let mut before = whole.end_ns;
    for servers in [1, 2] {
        let mut scenario = coded(reading());
        down(&mut scenario, servers);
        let outcome = simulated(&scenario);
        let service = &outcome.services[0];
        let lost = service.degraded_reads;
        assert!(lost > 0, "{servers}");
        for job in &outcome.jobs {
            assert_eq!(job.bytes.asked_bytes, FILE_BYTES);
            assert_eq!(job.bytes.served_bytes, FILE_BYTES);
        }
        // 4 MiB come for each lost one.
        let sent: u64 = outcome.hosts.iter().map(|h| h.sent_bytes).sum();
        assert_eq!(sent, 4 * FILE_BYTES - (lost << 20) + 4 * (lost << 20));
        assert!(outcome.end_ns > before, "{servers}");
        before = outcome.end_ns;
    }
    let mut scenario = coded(reading());
    down(&mut scenario, 3);
    let outcome = run(&parse(&scenario)).unwrap();
    assert!(outcome.broken_off.is_some(), "three of six are too many");
}

#[test]
fn a_medium_that_cannot_be_read_is_computed_from_the_others() {
    let mut scenario = coded(reading());
    let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
        "rotation_rpm": 7200, "heads": 4, "link_bytes_per_s": 300e6,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6},
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
    // Of one server: each drive has the fault once.
    scenario["servers"][0]["count"] = json!(5);
    let mut worn = scenario["servers"][0].clone();
    worn["name"] = json!("worn");
    worn["count"] = json!(1);
    scenario["servers"].as_array_mut().unwrap().push(worn);
    let targets = scenario["services"][0]["targets"].as_array_mut().unwrap();
    targets.push(json!({"host": "worn", "volume": "export"}));
    let export = &mut scenario["servers"][1]["volumes"][0];
    export.as_object_mut().unwrap().remove("ideal");
    export["storage"] = json!({"drives": [disk],
        "faults": [{"fault": {"kind": "media_error"}, "from_s": 0.2, "at_most": 1}]});
    let outcome = simulated(&scenario);
    assert_eq!(outcome.services[0].degraded_reads, 1);
}

#[test]
fn an_overwrite_reads_the_old_data_and_parity() {
    let outcome = simulated(&coded(json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "op": "write", "count": 10, "length_bytes": 65_536,
         "order": {"kind": "permuted"}},
        {"do": "close", "file": "input"}
    ])));
    let service = &outcome.services[0];
    assert_eq!(service.read_requests, 4 * 10 * 3);
    assert_eq!(service.read_bytes, 4 * 10 * 3 * 65_536);
    assert_eq!(service.written_bytes, 4 * 10 * 3 * 65_536);
}

#[test]
fn codes_that_do_not_fit_are_refused() {
    for (field, value) in [
        ("parity_targets", json!(3)),
        ("stripe_bytes", json!(0)),
        ("replicas", json!(2)),
        ("write_back", json!(true)),
    ] {
        let mut scenario = coded(reading());
        scenario["services"][0]["tuning"][field] = value;
        let refusal = Scenario::from_json(&scenario.to_string()).unwrap_err().to_string();
        assert!(refusal.starts_with("services[0].tuning.parity_targets"), "{refusal}");
    }
}

#[test]
fn metadata_servers_use_their_cores_and_drives() {
    let with = |cores: u32, operation_ns: u64, create: bool| {
        let mut scenario = coded(json!([{"do": "repeat", "times": 20, "steps": [
            {"do": if create { "create" } else { "open" }, "file": if create { "output" } else { "input" }},
            {"do": "close", "file": if create { "output" } else { "input" }}
        ]}]));
        let mut mds = node("mds", 1, cores);
        mds["volumes"] = json!([volume("inodes", "ext4", "deadline")]);
        scenario["servers"].as_array_mut().unwrap().push(mds);
        let service = &mut scenario["services"][0];
        service["metadata"] = json!({"host": "mds", "volume": "inodes"});
        service["tuning"]["metadata_read_ns"] = json!(operation_ns);
        service["tuning"]["metadata_write_ns"] = json!(operation_ns);
        service["tuning"]["server_sync"] = json!(true);
        simulated(&scenario)
    };
    let one = with(1, 2_000_000, false);
    let (mds, requests) = (one.hosts.last().unwrap(), one.services[0].metadata_requests);
    assert!(requests >= 4 * 20);
    let busy_ns = mds.busy_core_ns as f64 / (requests * 2_000_000) as f64;
    assert!((1.0..1.01).contains(&busy_ns), "with switches between threads {busy_ns}");
    // Four clients wait for one core, and not for four.
    let four = with(4, 2_000_000, false);
    assert!(one.end_ns as f64 > 2.5 * four.end_ns as f64, "{} {}", one.end_ns, four.end_ns);
    // The inodes are read once; what is created is in the journal before the reply.
    let drive = |outcome: &Outcome| {
        let drive = outcome.drives.iter().find(|d| d.volume == "inodes").unwrap();
        (drive.reads, drive.writes)
    };
    assert!((1..=4).contains(&drive(&four).0), "{:?}", drive(&four));
    let created = with(4, 1000, true);
    assert!(drive(&created).1 >= 20, "{:?}", drive(&created));
    assert!(created.jobs.iter().all(|job| job.phases.metadata_ns >= 20 * 10_000_000));
}
