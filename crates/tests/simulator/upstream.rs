//! File services before other ones: gateways, and XCache with a cache on a volume.

use crate::common::{node, parse, volume};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::{run, run_many, Scenario};
use serde_json::{json, Value};

const FILE_BYTES: u64 = 64 << 20;

fn with_volume(mut host: Value, name: &str) -> Value {
    host["volumes"] = json!([volume(name, "xfs", "deadline")]);
    host
}

/// One slot, in which jobs read the same file one after the other, through `front` before `remote`.
fn before(front: Value, kind: &str) -> Value {
    json!({
        "seed": 3,
        "nodes": [node("worker", 1, 4)],
        "servers": [
            with_volume(node("xcache", 1, 4), "disk"),
            with_volume(node("origin", 1, 4), "export")
        ],
        "services": [
            {"name": "site", "kind": kind, "targets": [front]},
            {"name": "remote", "kind": "xrootd", "targets": [{"host": "origin", "volume": "export"}]}
        ],
        "files": [{"name": "input", "on": {"service": "site"}, "bytes": FILE_BYTES, "count": 1}],
        "profiles": [{"name": "job", "steps": reading()}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 2}}
    })
}

/// Reads all of the file in pieces of 1 MiB.
fn reading() -> Value {
    json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 64, "length_bytes": 1 << 20, "events": 1},
        {"do": "close", "file": "input"}
    ])
}

fn gateway() -> Value {
    json!({"host": "xcache", "upstream": "remote"})
}

fn xcache() -> Value {
    json!({"host": "xcache", "upstream": "remote", "cache": {"volume": "disk"}})
}

fn simulated(scenario: &Value) -> Outcome {
    let outcome = run(&parse(scenario)).unwrap();
    assert_eq!(outcome.broken_off, None);
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns(), "{job:?}");
        assert_eq!(job.ledger.wait_block_ns, 0);
    }
    let sent: u64 = outcome.hosts.iter().map(|h| h.sent_bytes).sum();
    assert_eq!(sent, outcome.hosts.iter().map(|h| h.received_bytes).sum::<u64>());
    assert_eq!(outcome.counters.out_of_space, 0);
    outcome
}

fn refusal(scenario: &Value) -> String {
    Scenario::from_json(&scenario.to_string()).unwrap_err().to_string()
}

#[test]
fn the_second_reading_is_served_by_the_front_server() {
    for front in [gateway(), xcache()] {
        let outcome = simulated(&before(front.clone(), "xrootd"));
        let (site, remote) = (&outcome.services[0], &outcome.services[1]);
        assert_eq!((site.read_bytes, remote.read_bytes), (2 * FILE_BYTES, FILE_BYTES), "{front}");
        let upstream = site.upstream.as_ref().unwrap();
        assert_eq!((upstream.service.as_str(), upstream.read_bytes), ("remote", FILE_BYTES));
        let cached = if front == gateway() { 0 } else { FILE_BYTES };
        assert_eq!((upstream.hit_bytes, upstream.missed_bytes), (cached, cached), "{front}");
        assert_eq!(remote.upstream, None);
        let (first, second) = (&outcome.jobs[0], &outcome.jobs[1]);
        assert!(second.wall_ns() < first.wall_ns(), "{front}");
        assert!(first.bytes.device_bytes >= FILE_BYTES && second.bytes.device_bytes == 0);
        let moved =
            |host: usize| (outcome.hosts[host].sent_bytes, outcome.hosts[host].received_bytes);
        assert_eq!(moved(1), (2 * FILE_BYTES, FILE_BYTES), "{front}");
        assert_eq!(moved(2), (FILE_BYTES, 0), "{front}");
    }
}

#[test]
fn bytes_served_count_once_for_the_job_and_separately_for_each_service() {
    let outcome = simulated(&before(gateway(), "xrootd"));
    for job in &outcome.jobs {
        assert_eq!(job.bytes.asked_bytes, FILE_BYTES);
        assert_eq!(job.bytes.served_bytes, FILE_BYTES);
    }
    assert_eq!(outcome.services[0].read_requests, 2 * 64);
    assert_eq!(outcome.services[1].read_requests, 64);
}

#[test]
fn the_slow_link_between_both_bounds_the_first_reading_only() {
    for front in [gateway(), xcache()] {
        let mut scenario = before(front, "xrootd");
        scenario["servers"][1]["network"]["rate_bytes_per_s"] = json!(2e6);
        let outcome = simulated(&scenario);
        let rate = |job: usize| FILE_BYTES as f64 / (outcome.jobs[job].wall_ns() as f64 * 1e-9);
        assert!((1.6e6..2e6).contains(&rate(0)), "{}", rate(0));
        assert!((50e6..125e6).contains(&rate(1)), "{}", rate(1));
    }
}

#[test]
fn equal_seeds_give_equal_bytes_on_any_number_of_threads() {
    let mut scenario = before(xcache(), "xrootd");
    scenario["nodes"][0]["count"] = json!(3);
    scenario["run"]["slots_per_node"] = json!(4);
    scenario["run"]["load"]["jobs"] = json!(24);
    scenario["run"]["cpu_variation"] = json!(0.5);
    scenario["files"][0]["count"] = json!(6);
    scenario["profiles"][0]["steps"][1]["cpu_ns"] = json!(3_000_000);
    let scenarios = vec![parse(&scenario); 3];
    let stop = std::sync::atomic::AtomicBool::new(false);
    let mut texts: Vec<String> = Vec::new();
    for threads in [1, 2] {
        for outcome in run_many(&scenarios, threads, &|_| {}, &stop) {
            texts.push(serde_json::to_string(&outcome.unwrap()).unwrap());
        }
    }
    assert!(texts.iter().all(|text| *text == texts[0]));
    let outcome = simulated(&scenario);
    // Jobs that read the same blocks at the same time share one fetch.
    assert_eq!(outcome.services[1].read_bytes, 6 * FILE_BYTES);
}

#[test]
fn a_cache_on_a_drive_outlives_the_server_s_memory() {
    let mut scenario = before(xcache(), "xrootd");
    scenario["files"][0]["count"] = json!(8);
    scenario["run"]["load"]["jobs"] = json!(16);
    // Room for one file; the second round reads the cache's drive.
    scenario["servers"][0]["memory_bytes"] = json!((256 << 20) + FILE_BYTES);
    let outcome = simulated(&scenario);
    assert_eq!(outcome.services[1].read_bytes, 8 * FILE_BYTES);
    let disk = outcome.drives.iter().find(|drive| drive.volume == "disk").unwrap();
    assert!(disk.written_bytes >= 7 * FILE_BYTES && disk.read_bytes >= 6 * FILE_BYTES, "{disk:?}");
    assert_eq!(outcome.services[0].stored_bytes, [8 * FILE_BYTES]);

    scenario["services"][0]["targets"] = json!([gateway()]);
    let outcome = simulated(&scenario);
    assert!(outcome.services[1].read_bytes > 15 * FILE_BYTES, "a gateway has its memory only");
}

#[test]
fn a_full_cache_loses_the_files_unused_for_longest() {
    let mut scenario = before(xcache(), "xrootd");
    scenario["files"][0]["count"] = json!(8);
    scenario["run"]["load"]["jobs"] = json!(16);
    scenario["servers"][0]["volumes"][0]["ideal"]["capacity_bytes"] = json!(7 * FILE_BYTES);
    let outcome = simulated(&scenario);
    let (read, kept) = (outcome.services[1].read_bytes, outcome.services[0].stored_bytes[0]);
    // Read in turn, each file is gone before its turn comes again.
    assert_eq!(read, 16 * FILE_BYTES);
    assert!((4 * FILE_BYTES..7 * FILE_BYTES).contains(&kept), "{kept}");
}

#[test]
fn a_warm_run_starts_with_the_files_in_the_cache() {
    for front in [gateway(), xcache()] {
        let mut scenario = before(front, "xrootd");
        scenario["cache"] = json!("warm");
        let outcome = simulated(&scenario);
        assert_eq!(outcome.services[1].read_bytes, 0);
        assert_eq!(outcome.services[1].metadata_requests, 0);
    }
}

#[test]
fn the_front_server_s_cores_do_the_work_of_a_client() {
    let busy_ns = |client_request_ns: u64| {
        let mut scenario = before(gateway(), "xrootd");
        scenario["services"][1]["tuning"] = json!({"client_request_ns": client_request_ns});
        let outcome = simulated(&scenario);
        let jobs: u64 = outcome.jobs.iter().map(|job| job.ledger.on_cpu_ns).sum();
        (jobs, outcome.hosts[1].busy_core_ns, outcome.services[1].read_requests)
    };
    let ((jobs, host, requests), (jobs_later, host_later, _)) = (busy_ns(0), busy_ns(500_000));
    assert_eq!(jobs, jobs_later);
    assert_eq!(host_later - host, requests * 500_000);
}

#[test]
fn opening_a_file_asks_the_upstream_once() {
    let outcome = simulated(&before(gateway(), "xrootd"));
    assert_eq!(outcome.services[0].metadata_requests, 2 * 2);
    assert_eq!(outcome.services[1].metadata_requests, 2);
    let opened = |latency_ns: u64| {
        let mut scenario = before(gateway(), "xrootd");
        scenario["servers"][1]["network"]["latency_ns"] = json!(latency_ns);
        simulated(&scenario).jobs[0].phases.metadata_ns
    };
    assert_eq!(opened(1_050_000) - opened(50_000), 2 * 2 * 1_000_000);
}

#[test]
fn faults_of_the_upstream_reach_the_jobs() {
    for front in [gateway(), xcache()] {
        let mut scenario = before(front, "xrootd");
        scenario["services"][1]["tuning"] = json!({"timeout_ns": 1_000_000_000});
        scenario["faults"] = json!([{"at_ns": 200_000_000, "for_ns": 5_000_000_000u64,
            "host": "origin", "what": {"kind": "server-down"}}]);
        let outcome = simulated(&scenario);
        assert!(outcome.jobs[0].ledger.wait_network_ns > 5_000_000_000);
        assert!(outcome.services[1].failed_over > 0 && outcome.services[0].failed_over == 0);

        scenario["faults"] = json!([]);
        scenario["run"]["fail_on_error"] = json!(true);
        let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
            "rotation_rpm": 7200, "heads": 4, "link_bytes_per_s": 300e6,
            "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6},
            "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
        let export = &mut scenario["servers"][1]["volumes"][0];
        export.as_object_mut().unwrap().remove("ideal");
        export["storage"] = json!({"drives": [disk],
            "faults": [{"fault": {"kind": "media_error"}, "from_s": 0.2, "at_most": 1}]});
        let outcome = simulated(&scenario);
        let failed: Vec<bool> = outcome.jobs.iter().map(|job| job.failed).collect();
        assert_eq!(failed, [true, false], "the second job reads the blocks again");
        assert_eq!(outcome.drives.iter().flat_map(|d| &d.faults_fired).sum::<u64>(), 1);
    }
}

#[test]
fn writes_pass_on_to_the_upstream_and_deleted_files_are_gone_there() {
    for (front, keep) in
        [(gateway(), true), (xcache(), true), (gateway(), false), (xcache(), false)]
    {
        let mut scenario = before(front, "nfs");
        scenario["files"] = json!([
            {"name": "output", "on": {"service": "site"}, "share": "new", "keep": keep}
        ]);
        scenario["profiles"][0]["steps"] = json!([
            {"do": "create", "file": "output"},
            {"do": "pattern", "file": "output", "op": "write", "count": 40, "length_bytes": 1_000_000},
            {"do": "fsync", "file": "output"},
            {"do": "pattern", "file": "output", "count": 40, "length_bytes": 1_000_000},
            {"do": "delete", "file": "output"}
        ]);
        if keep {
            scenario["profiles"][0]["steps"].as_array_mut().unwrap().pop();
        }
        let outcome = simulated(&scenario);
        let written = 2 * 40_000_000;
        for service in &outcome.services {
            assert!((written..written + (2 << 20)).contains(&service.written_bytes), "{service:?}");
        }
        let export = outcome.drives.iter().find(|drive| drive.volume == "export").unwrap();
        assert!(!keep || export.written_bytes >= written, "fsync reaches the drive");
        assert!(outcome.jobs.iter().all(|job| job.bytes.written_bytes == 40_000_000));
    }
}

#[test]
fn services_stand_before_each_other_in_a_row() {
    let mut scenario = before(xcache(), "xrootd");
    scenario["servers"].as_array_mut().unwrap().push(node("door", 2, 4));
    scenario["services"].as_array_mut().unwrap().push(json!(
        {"name": "near", "kind": "xrootd", "targets": [{"host": "door", "upstream": "site"}]}
    ));
    scenario["files"][0]["on"] = json!({"service": "near"});
    scenario["files"][0]["count"] = json!(4);
    scenario["run"]["load"]["jobs"] = json!(8);
    let outcome = simulated(&scenario);
    let read: Vec<u64> = outcome.services.iter().map(|s| s.read_bytes / FILE_BYTES).collect();
    assert_eq!(read, [4, 4, 8]);
    assert!(outcome.jobs.iter().all(|job| job.bytes.served_bytes == FILE_BYTES));
    assert!(outcome.hosts.iter().skip(3).all(|door| door.sent_bytes > 0), "both doors are used");
}

#[test]
fn every_kind_of_whole_files_stands_before_every_kind() {
    for front in ["nfs", "bluearc", "glusterfs", "xrootd", "lustre"] {
        for behind in ["nfs", "glusterfs", "lustre", "hdfs", "orangefs", "xrootd"] {
            let mut scenario = before(xcache(), front);
            scenario["services"][1]["kind"] = json!(behind);
            let outcome = simulated(&scenario);
            assert_eq!(outcome.services[1].read_bytes, FILE_BYTES, "{front} before {behind}");
            assert!(outcome.jobs.iter().all(|job| job.bytes.asked_bytes == FILE_BYTES));
        }
    }
}

#[test]
fn what_cannot_stand_before_a_service_is_refused() {
    let mut circle = before(gateway(), "xrootd");
    circle["services"][1]["targets"] = json!([{"host": "origin", "upstream": "site"}]);
    assert_eq!(
        refusal(&circle),
        "services[0].targets[0].upstream: given a circle of services (site -> remote -> site), \
         allowed: upstreams that end at a service on volumes"
    );
    let mut itself = before(gateway(), "xrootd");
    itself["services"][0]["targets"][0]["upstream"] = json!("site");
    assert!(refusal(&itself).contains("a circle of services (site -> site)"));

    let mut unknown = before(gateway(), "xrootd");
    unknown["services"][0]["targets"][0]["upstream"] = json!("store");
    let message = refusal(&unknown);
    assert!(message.contains("\"store\"") && message.contains("site, remote"), "{message}");

    let mut mixed = before(gateway(), "xrootd");
    mixed["services"][0]["targets"]
        .as_array_mut()
        .unwrap()
        .push(json!({"host": "xcache", "volume": "disk"}));
    assert!(refusal(&mixed).contains("services[0].targets[1]"), "{}", refusal(&mixed));

    for (kind, what) in [("hdfs", "replicas"), ("orangefs", "stripes")] {
        let message = refusal(&before(gateway(), kind));
        assert!(message.starts_with("services[0]") && message.contains(what), "{message}");
    }
    for (target, what) in [
        (json!({"host": "xcache"}), "neither volume nor upstream"),
        (json!({"host": "xcache", "volume": "disk", "upstream": "remote"}), "volume and upstream"),
        (
            json!({"host": "xcache", "volume": "disk", "cache": {"volume": "disk"}}),
            "volume and cache",
        ),
        (
            json!({"host": "xcache", "upstream": "remote", "cache": {"volume": "export"}}),
            "\"export\"",
        ),
        (
            json!({"host": "xcache", "upstream": "remote",
                   "cache": {"volume": "disk", "block_bytes": 5000}}),
            "a multiple of 4096",
        ),
    ] {
        let message = refusal(&before(target, "xrootd"));
        assert!(
            message.starts_with("services[0].targets[0]") && message.contains(what),
            "{message}"
        );
    }
}

#[test]
fn a_scenario_with_an_upstream_survives_its_json() {
    let scenario = parse(&before(xcache(), "xrootd"));
    assert_eq!(Scenario::from_json(&serde_json::to_string(&scenario).unwrap()).unwrap(), scenario);
}
