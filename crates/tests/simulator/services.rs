//! File services, staging and packets: every kind runs to its end and shows what sets it apart.

use crate::common::{node, parse, volume};
use headrace_simulator::outcome::{JobOutcome, Outcome};
use headrace_simulator::run;
use serde_json::{json, Value};

/// Three nodes reading through a service over `servers` servers.
fn through(kind: &str, servers: u32, tuning: Value, steps: Value) -> Value {
    let mut server = node("server", servers, 4);
    server["volumes"] = json!([volume("export", "xfs", "deadline")]);
    json!({
        "seed": 3,
        "nodes": [node("worker", 3, 4)],
        "servers": [server],
        "services": [{"name": "store", "kind": kind, "targets": [{"host": "server", "volume": "export"}],
                      "tuning": tuning}],
        "files": [
            {"name": "input", "on": {"service": "store"}, "bytes": 60_000_000, "count": 12},
            {"name": "output", "on": {"service": "store"}, "share": "new", "keep": true}
        ],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 2, "load": {"kind": "batch", "jobs": 12}}
    })
}

fn reading() -> Value {
    json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 60, "length_bytes": 500_000, "cpu_ns": 5_000_000,
         "order": {"kind": "strided", "stride_bytes": 1_000_000}, "events": 1},
        {"do": "close", "file": "input"}
    ])
}

fn writing() -> Value {
    json!([
        {"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": 40, "length_bytes": 1_000_000},
        {"do": "fsync", "file": "output"},
        {"do": "close", "file": "output"}
    ])
}

fn sound(outcome: &Outcome) {
    assert_eq!(outcome.broken_off, None);
    for job in &outcome.jobs {
        assert_eq!(job.ledger.total_ns(), job.wall_ns(), "{job:?}");
        assert_eq!(job.errors, 0);
    }
    let sent: u64 = outcome.hosts.iter().map(|h| h.sent_bytes).sum();
    let received: u64 = outcome.hosts.iter().map(|h| h.received_bytes).sum();
    assert_eq!(sent, received);
    assert_eq!(outcome.counters.out_of_space, 0);
}

const KINDS: [(&str, u32); 9] = [
    ("nfs", 1),
    ("bluearc", 1),
    ("glusterfs", 3),
    ("lustre", 3),
    ("hdfs", 4),
    ("orangefs", 3),
    ("xrootd", 3),
    ("cephfs", 4),
    ("eos", 3),
];

#[test]
fn every_kind_serves_reads() {
    for (kind, servers) in KINDS {
        let outcome = run(&parse(&through(kind, servers, json!({}), reading()))).unwrap();
        sound(&outcome);
        assert_eq!(outcome.jobs.len(), 12, "{kind}");
        for job in &outcome.jobs {
            assert_eq!(job.bytes.asked_bytes, 60 * 500_000, "{kind}");
            assert!(job.bytes.served_bytes >= job.bytes.asked_bytes, "{kind}");
            assert!(job.bytes.device_bytes >= job.bytes.asked_bytes, "{kind} {:?}", job.bytes);
            assert!(job.ledger.wait_network_ns > 0 && job.ledger.wait_block_ns == 0, "{kind}");
        }
        let service = &outcome.services[0];
        assert!(service.read_requests > 0 && service.latency_ns_mean > 100_000.0, "{kind}");
        assert_eq!(service.stored_bytes.len(), servers as usize);
    }
}

#[test]
fn every_kind_takes_writes_and_keeps_them() {
    for (kind, servers) in KINDS {
        let outcome = run(&parse(&through(kind, servers, json!({}), writing()))).unwrap();
        sound(&outcome);
        let copies = match kind {
            "hdfs" | "cephfs" => 3,
            "eos" => 2,
            _ => 1,
        };
        let received: u64 = outcome.hosts[3..].iter().map(|h| h.received_bytes).sum();
        let written = 12 * 40_000_000;
        assert!(
            received >= copies * written && received < copies * written + written / 10,
            "{kind}: {received}"
        );
    }
}

#[test]
fn more_replicas_make_hdfs_writes_slower() {
    let seconds = |replicas: u32| {
        let outcome =
            run(&parse(&through("hdfs", 4, json!({"replicas": replicas}), writing()))).unwrap();
        outcome.end_ns as f64 * 1e-9
    };
    let (one, three) = (seconds(1), seconds(3));
    assert!(three > 1.3 * one, "{one} s and {three} s");
}

#[test]
fn replica_pipelines_that_cross_do_not_wait_for_each_other() {
    // Every server is first, second and third of some pipeline, and each client may have two requests under way to it.
    let tuning = json!({"replicas": 3, "requests_in_flight": 2});
    let outcome = run(&parse(&through("hdfs", 3, tuning, writing()))).unwrap();
    sound(&outcome);
    assert_eq!(outcome.broken_off, None);
    assert!(outcome
        .jobs
        .iter()
        .all(|job| !job.unfinished && job.bytes.written_bytes == 40_000_000));
}

#[test]
fn lustre_reads_over_small_gaps_and_nfs_does_not() {
    // Half of the file, in pieces of 24 KiB with gaps of 24 KiB.
    let steps = json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 1200, "length_bytes": 24_576,
         "order": {"kind": "strided", "stride_bytes": 49_152}}
    ]);
    let moved = |kind| {
        let outcome = run(&parse(&through(kind, 1, json!({}), steps.clone()))).unwrap();
        outcome.jobs.iter().map(|j| j.bytes.served_bytes).sum::<u64>() as f64 / (12.0 * 60e6)
    };
    let (lustre, orangefs) = (moved("lustre"), moved("orangefs"));
    assert!(lustre > 0.9, "{lustre}");
    assert!((0.45..0.55).contains(&orangefs), "{orangefs}");
}

#[test]
fn files_that_were_read_before_are_in_the_memory_of_nodes_whose_client_caches() {
    let received = |kind: &str, cache: &str| {
        let mut scenario = through(kind, 1, json!({}), reading());
        scenario["cache"] = json!(cache);
        let outcome = run(&parse(&scenario)).unwrap();
        sound(&outcome);
        outcome.services[0].read_requests
    };
    for kind in ["nfs", "cephfs"] {
        assert!(received(kind, "cold") > 0);
        assert_eq!(received(kind, "warm"), 0, "{kind}");
    }
    // XRootD's client keeps nothing, that of GlusterFS nothing over an open.
    for kind in ["xrootd", "glusterfs"] {
        assert_eq!(received(kind, "warm"), received(kind, "cold"), "{kind}");
    }
}

#[test]
fn a_shared_port_bounds_all_clients_together() {
    // Everything is in the server's cache: what is left is its 125 MB/s.
    let mut scenario = through("nfs", 1, json!({"server_threads": 64}), reading());
    scenario["cache"] = json!("warm");
    scenario["nodes"][0]["memory_bytes"] = json!(300_000_000);
    scenario["profiles"][0]["steps"][1]["cpu_ns"] = json!(0);
    scenario["profiles"][0]["steps"][1]["order"] = json!({"kind": "sequential"});
    scenario["profiles"][0]["steps"][1]["count"] = json!(120);
    let outcome = run(&parse(&scenario)).unwrap();
    sound(&outcome);
    let sent = outcome.hosts[3].sent_bytes as f64;
    let rate = sent / (outcome.end_ns as f64 * 1e-9);
    assert!((100e6..=125e6).contains(&rate), "{rate}");
}

#[test]
fn a_server_that_goes_away_is_waited_for_or_replaced() {
    let fault = json!([{"at_ns": 500_000_000, "for_ns": 5_000_000_000u64, "host": "server", "what": {"kind": "server-down"}}]);
    let mut nfs = through("nfs", 1, json!({"timeout_ns": 1_000_000_000}), reading());
    nfs["faults"] = fault.clone();
    let outcome = run(&parse(&nfs)).unwrap();
    sound(&outcome);
    assert!(outcome.end_ns > 5_500_000_000 && outcome.services[0].failed_over > 0);
    assert_eq!(outcome.counters.faults_fired, 1);
    let mut hdfs = through("hdfs", 4, json!({"timeout_ns": 1_000_000_000}), reading());
    hdfs["faults"] =
        json!([{"at_ns": 500_000_000, "host": "server[1]", "what": {"kind": "server-down"}}]);
    let outcome = run(&parse(&hdfs)).unwrap();
    sound(&outcome);
    assert!(outcome.services[0].failed_over > 0);
}

#[test]
fn what_a_server_s_drive_cannot_read_comes_from_another_replica_or_fails() {
    let read = |replicas: u32| {
        let mut scenario = through("glusterfs", 1, json!({"replicas": replicas}), reading());
        let mut bad = scenario["servers"][0].clone();
        bad["name"] = json!("bad");
        bad["volumes"][0].as_object_mut().unwrap().remove("ideal");
        let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
            "rotation_rpm": 7200, "heads": 4, "link_bytes_per_s": 300e6,
            "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6},
            "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
        bad["volumes"][0]["storage"] = json!({"drives": [disk],
            "faults": [{"fault": {"kind": "media_error"}, "from_s": 0.2, "at_most": 1}]});
        scenario["servers"].as_array_mut().unwrap().push(bad);
        let targets = scenario["services"][0]["targets"].as_array_mut().unwrap();
        targets.push(json!({"host": "bad", "volume": "export"}));
        let outcome = run(&parse(&scenario)).unwrap();
        assert_eq!(outcome.drives.iter().flat_map(|d| &d.faults_fired).sum::<u64>(), 1);
        let errors: u64 = outcome.jobs.iter().map(|job| job.errors).sum();
        (errors, outcome.services[0].failed_over)
    };
    let ((lost, none), (spared, over)) = (read(1), read(2));
    assert!(lost > 0 && none == 0, "{lost} errors, {none} failed over");
    assert!(spared == 0 && over > 0, "{spared} errors, {over} failed over");
}

#[test]
fn a_server_in_a_virtual_machine_writes_through_slowly() {
    let rate = |virtualisation: Value| {
        let mut scenario = through("lustre", 1, json!({"server_sync": true}), writing());
        scenario["servers"][0]["virtualisation"] = virtualisation;
        let outcome = run(&parse(&scenario)).unwrap();
        sound(&outcome);
        12.0 * 40e6 / (outcome.end_ns as f64 * 1e-9)
    };
    let metal = rate(Value::Null);
    let machine = rate(json!({"write_through": true, "write_request_bytes": 131_072}));
    assert!(machine < 0.8 * metal, "{machine} of {metal}");
}

/// Jobs that stage three files each from a service to their node's drive, one ahead, and read them there.
fn staging() -> Value {
    let mut scenario = through(
        "xrootd",
        2,
        json!({}),
        json!([
            {"do": "stage", "from": "input", "to": "scratch", "background": true},
            {"do": "repeat", "times": 2, "steps": [
                {"do": "stage", "from": "input", "to": "scratch", "background": true},
                {"do": "take", "file": "scratch"},
                {"do": "pattern", "file": "scratch", "count": 60, "length_bytes": 1_000_000, "cpu_ns": 20_000_000},
                {"do": "delete", "file": "scratch"}
            ]},
            {"do": "take", "file": "scratch"},
            {"do": "pattern", "file": "scratch", "count": 60, "length_bytes": 1_000_000, "cpu_ns": 20_000_000}
        ]),
    );
    scenario["files"] = json!([
        {"name": "input", "on": {"service": "store"}, "bytes": 60_000_000, "count": 12},
        {"name": "scratch", "on": {"volume": "data"}, "share": "new"}
    ]);
    scenario
}

#[test]
fn staged_files_are_copied_in_the_background_and_read_locally() {
    let outcome = run(&parse(&staging())).unwrap();
    sound(&outcome);
    for job in &outcome.jobs {
        assert_eq!(job.bytes.asked_bytes, 3 * 60_000_000);
        assert_eq!(job.bytes.staged_bytes, 3 * 60_000_000);
        assert!(job.phases.stage_in_ns > 0, "the first file is waited for");
    }
    // The copies come over the network; the jobs find most of them in the page cache.
    assert!(outcome.services[0].read_bytes == 12 * 3 * 60_000_000);
}

#[test]
fn a_pcache_spares_copies() {
    let mut scenario = staging();
    scenario["run"]["pcache_bytes"] = json!(2_000_000_000u64);
    let outcome = run(&parse(&scenario)).unwrap();
    sound(&outcome);
    let staged: u64 = outcome.jobs.iter().map(|j| j.bytes.staged_bytes).sum();
    assert!(staged < 12 * 3 * 60_000_000, "{staged}");
    assert!(outcome.services[0].read_bytes == staged);
}

#[test]
fn packets_share_all_events_among_workers() {
    let scenario = json!({
        "seed": 5,
        "nodes": [node("worker", 2, 4)],
        "files": [{"name": "events", "on": {"volume": "data"}, "bytes": 200_000_000, "count": 3, "share": "shared"}],
        "profiles": [{"name": "scan", "steps": [
            {"do": "events", "file": "events", "events": 100_000, "events_per_cluster": 1000, "reads_per_cluster": 4,
             "read_bytes": 65_536, "cpu_ns_per_event": 20_000}
        ]}],
        "run": {"profile": "scan", "slots_per_node": 3, "load": {"kind": "batch", "jobs": 1},
                "feed": {"kind": "packets", "file": "events", "events_per_file": 100_000, "first_events": 1000,
                         "target_ns": 500_000_000, "min_events": 1000, "max_events": 20_000,
                         "master_ns": 200_000, "round_trip_ns": 400_000}}
    });
    let outcome = run(&parse(&scenario)).unwrap();
    sound(&outcome);
    assert_eq!(outcome.jobs.len(), 6);
    assert_eq!(outcome.jobs.iter().map(|j| j.events).sum::<u64>(), 2 * 3 * 100_000);
    let ends: Vec<_> = outcome.jobs.iter().map(|j| j.end_ns).collect();
    let (first, last) = (*ends.iter().min().unwrap(), *ends.iter().max().unwrap());
    assert!(last - first < 2_000_000_000, "workers end together: {ends:?}");
}

#[test]
fn a_server_writes_the_access_times_of_what_it_reads() {
    let writes = |access_time: &str| {
        let mut scenario = through("nfs", 1, json!({}), reading());
        scenario["servers"][0]["volumes"][0]["filesystem"] =
            json!({"kind": "ext4", "access_time": access_time, "commit_interval_ns": 500_000_000});
        let outcome = run(&parse(&scenario)).unwrap();
        let on_server = outcome.drives.iter().filter(|drive| drive.host == "server");
        on_server.map(|drive| drive.writes).sum::<u64>()
    };
    assert_eq!(writes("never"), 0);
    assert!(writes("relative") > 0);
    assert!(writes("strict") > writes("relative"));
}

#[test]
fn energy_is_that_of_cores_drives_and_room() {
    let mut scenario = through("nfs", 1, json!({}), reading());
    scenario["power"] = json!({"pue": 1.5, "switch_w": 20.0});
    let outcome = run(&parse(&scenario)).unwrap();
    let seconds = outcome.end_ns as f64 * 1e-9;
    let e = &outcome.energy;
    let busy: f64 = outcome.hosts[..3].iter().map(|h| h.busy_core_ns as f64 * 1e-9).sum();
    assert!((e.nodes_j - (3.0 * 50.0 * seconds + 10.0 * busy)).abs() < 1e-6 * e.nodes_j);
    assert!((e.switch_j - 20.0 * seconds).abs() < 1e-6);
    // Four ideal drives between 1 and 2 W.
    assert!(e.drives_j >= 4.0 * seconds * 0.999 && e.drives_j <= 8.0 * seconds);
    assert!(
        (e.total_j - 1.5 * (e.nodes_j + e.servers_j + e.drives_j + e.switch_j)).abs()
            < 1e-6 * e.total_j
    );
}

#[test]
fn a_library_s_buffer_turns_short_reads_into_few_requests() {
    // 10 kB in 20 kB through a buffer of 128 kB: one fill for 6 or 7 reads, and bytes that nobody asked for.
    let steps = json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 1000, "length_bytes": 10_000,
         "order": {"kind": "strided", "stride_bytes": 20_000}},
        {"do": "close", "file": "input"}
    ]);
    let ran = |buffer: u64| {
        let outcome = run(&parse(&through(
            "xrootd",
            3,
            json!({"client_buffer_bytes": buffer}),
            steps.clone(),
        )))
        .unwrap();
        sound(&outcome);
        assert!(outcome
            .jobs
            .iter()
            .all(|job| job.bytes.asked_bytes == 10_000_000 && job.reads == 1000));
        (outcome.services[0].read_requests, outcome.services[0].read_bytes)
    };
    assert_eq!(ran(0), (12_000, 120_000_000));
    let (requests, bytes) = ran(131_072);
    assert!((1700..2100).contains(&requests), "{requests}");
    assert_eq!(bytes, requests * 131_072);
}

#[test]
fn a_client_starts_once_in_a_process_and_each_open_takes_its_round_trips() {
    // Three files are opened one after the other, of which the first starts the client.
    let steps = json!([{"do": "repeat", "times": 3, "steps": [
        {"do": "open", "file": "input"},
        {"do": "close", "file": "input"},
        {"do": "compute", "cpu_ns": 1000}
    ]}]);
    let ran = |tuning: Value| {
        let outcome = run(&parse(&through("xrootd", 3, tuning, steps.clone()))).unwrap();
        sound(&outcome);
        outcome
    };
    let cost = |outcome: &Outcome, other: &Outcome, of: fn(&JobOutcome) -> u64| -> Vec<u64> {
        outcome.jobs.iter().zip(&other.jobs).map(|(job, base)| of(job) - of(base)).collect()
    };
    let without = ran(json!({}));
    let started = ran(json!({"client_start_ns": 50_000_000, "client_start_cpu_ns": 7_000_000}));
    assert_eq!(cost(&started, &without, |job| job.phases.open_ns), vec![50_000_000; 12]);
    assert_eq!(cost(&started, &without, |job| job.ledger.on_cpu_ns), vec![7_000_000; 12]);
    assert_eq!(cost(&started, &without, JobOutcome::wall_ns), vec![57_000_000; 12]);
    // Opening is a part of the metadata operations, of which a close of nothing written is none.
    assert!(without.jobs.iter().all(|job| job.phases.open_ns == job.phases.metadata_ns));
    // Four more round trips for each of three opens: at least the latency there and back.
    let far = ran(json!({"open_round_trips": 6}));
    let more = cost(&far, &without, |job| job.phases.open_ns);
    assert!(more.iter().all(|&ns| ns >= 3 * 4 * 100_000), "{more:?}");
}

/// A reply that reports an error has no data: of two copies, the failed one crosses no link.
#[test]
fn failed_reads_send_no_data() {
    let disk = json!({"kind": "hdd", "name": "disk", "capacity_bytes": 8_589_934_592u64,
        "rotation_rpm": 7200, "heads": 4,
        "rates": {"outer_bytes_per_s": 100e6, "inner_bytes_per_s": 99e6}, "link_bytes_per_s": 300e6,
        "seek": {"curve": "sheet", "track_to_track_ms": 0.8, "average_ms": 8.5}});
    let mut scenario = through("xrootd", 1, json!({}), reading());
    let volume = &mut scenario["servers"][0]["volumes"][0];
    volume.as_object_mut().unwrap().remove("ideal");
    let fault = json!({"fault": {"kind": "drop_off"}, "from_s": 0.0});
    volume["storage"] = json!({"drives": [disk], "faults": [fault]});
    scenario["run"]["fail_on_error"] = json!(true);
    let outcome = run(&parse(&scenario)).unwrap();
    assert!(outcome.jobs.iter().all(|job| job.failed));
    assert_eq!(outcome.hosts.iter().map(|host| host.received_bytes).sum::<u64>(), 0);
    assert_eq!(outcome.drives.iter().map(|drive| drive.read_bytes).sum::<u64>(), 0);
}

/// Requests of NFS are as large as Linux makes them: windows of the read-ahead for small reads, and
/// all of a large read, or of what is written, up to rsize and wsize.
#[test]
fn requests_of_nfs_are_as_large_as_windows_and_reads() {
    const BYTES: u64 = 32 << 20;
    let kib = |tuning: Value, write: bool, length: u64| {
        let mut scenario = through("nfs", 1, tuning, json!([]));
        scenario["nodes"][0]["count"] = json!(1);
        let file = if write { "output" } else { "input" };
        let pattern = json!({"do": "pattern", "file": file, "op": if write { "write" } else { "read" },
            "count": BYTES / length, "length_bytes": length, "order": {"kind": "sequential"}});
        let begin = json!({"do": if write { "create" } else { "open" }, "file": file});
        scenario["profiles"][0]["steps"] = json!([begin, pattern, {"do": "close", "file": file}]);
        scenario["files"][0]["bytes"] = json!(BYTES);
        scenario["run"] =
            json!({"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}});
        let outcome = run(&parse(&scenario)).unwrap();
        sound(&outcome);
        let of = &outcome.services[0];
        assert_eq!(of.read_bytes + of.written_bytes, BYTES);
        BYTES as f64 / (of.read_requests + of.write_requests) as f64 / 1024.0
    };
    assert!((110.0..=128.0).contains(&kib(json!({}), false, 65_536)));
    assert!((900.0..=1024.0).contains(&kib(json!({}), false, 1 << 20)));
    assert!((512.0..=1024.0).contains(&kib(json!({}), true, 65_536)));
    // Kernels before 5.4 with a server of 64 KiB: windows of 15 requests.
    let older = json!({"read_request_bytes": 65_536, "write_request_bytes": 32_768,
        "client_read_ahead": {"kind": "kernel", "bytes": 15 * 65_536}});
    assert_eq!(kib(older.clone(), false, 1 << 20), 64.0);
    assert_eq!(kib(older, true, 65_536), 32.0);
}
