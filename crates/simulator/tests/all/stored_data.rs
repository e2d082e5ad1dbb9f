//! Files that are there before a simulation are on the flash of the drives that hold them.

use crate::common::{node, parse, text};
use headrace_simulator::outcome::Outcome;
use headrace_simulator::run;
use serde_json::{json, Value};

/// A drive that was never written, so large that it is followed on a slice.
fn ssd(read_us: f64) -> Value {
    json!({"kind": "ssd", "name": "ssd", "capacity_bytes": 1_000_204_886_016u64, "link_bytes_per_s": 500e6,
        "controller": {"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 90000,
                       "write_iops_max": 30000},
        "flash": {"channels": 8, "dies_per_channel": 2, "page_bytes": 16384, "pages_per_block": 64,
                  "read_us": read_us, "program_us": 300, "erase_us": 2000, "channel_bytes_per_s": 400e6}})
}

fn volume(name: &str, filesystem: &str, storage: Value) -> Value {
    json!({"name": name, "filesystem": {"kind": filesystem}, "scheduler": "deadline", "storage": storage})
}

/// Random reads of 4 KiB past the page cache.
fn reading() -> Value {
    json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 200, "length_bytes": 4096, "access": "direct",
         "order": {"kind": "permuted"}},
        {"do": "close", "file": "input"}
    ])
}

fn local(storage: Value, filesystem: &str) -> Value {
    let mut scenario = text();
    scenario["nodes"][0]["volumes"] = json!([volume("data", filesystem, storage)]);
    scenario["profiles"][0]["steps"] = reading();
    scenario
}

fn served(kind: &str, servers: u32, storage: &Value) -> Value {
    let mut server = node("server", servers, 4);
    server["volumes"] = json!([volume("export", "xfs", storage.clone())]);
    let mut scenario = text();
    scenario["servers"] = json!([server]);
    scenario["services"] = json!([{"name": "store", "kind": kind, "targets": [{"host": "server", "volume": "export"}]}]);
    scenario["files"] = json!([
        {"name": "input", "on": {"service": "store"}, "bytes": 100_000_000, "count": 4}
    ]);
    scenario["profiles"][0]["steps"] = reading();
    scenario
}

fn outcome(scenario: &Value) -> Outcome {
    run(&parse(scenario)).unwrap()
}

/// Mean time of a read on the drives that were read.
fn read_latency_ns(outcome: &Outcome) -> f64 {
    let read: Vec<_> = outcome.drives.iter().map(|drive| &drive.read_latency).collect();
    let requests: u64 = read.iter().map(|latency| latency.requests).sum();
    assert!(requests > 100, "{requests}");
    read.iter().map(|latency| latency.mean_ns * latency.requests as f64).sum::<f64>()
        / requests as f64
}

/// Reads take the flash's time, and 100 times as long when the flash does.
fn reads_flash(name: &str, scenario: impl Fn(Value) -> Value) {
    let latency_ns =
        |read_us| read_latency_ns(&outcome(&scenario(json!({"drives": [ssd(read_us)]}))));
    let (plain, slow) = (latency_ns(75.0), latency_ns(7500.0));
    assert!(plain >= 75e3, "{name}: {plain}");
    assert!(slow >= 7500e3, "{name}: {slow}");
}

#[test]
fn local_files_are_read_from_flash() {
    for filesystem in ["ext3", "ext4", "xfs", "btrfs"] {
        reads_flash(filesystem, |storage| local(storage, filesystem));
    }
}

#[test]
fn files_on_a_raid_are_read_from_flash() {
    for level in [0, 1, 5, 6, 10] {
        reads_flash(&format!("RAID {level}"), |mut storage| {
            storage["raid"] = json!({"level": level, "drives": 4});
            local(storage, "xfs")
        });
    }
}

#[test]
fn files_of_services_are_read_from_their_servers_flash() {
    let kinds =
        [("nfs", 1), ("glusterfs", 3), ("lustre", 3), ("hdfs", 4), ("orangefs", 3), ("xrootd", 3)];
    for (kind, servers) in kinds {
        let latency_ns = |read_us| {
            read_latency_ns(&outcome(&served(kind, servers, &json!({"drives": [ssd(read_us)]}))))
        };
        // Servers read ahead: what one read brings in serves several.
        let (plain, slow) = (latency_ns(75.0), latency_ns(7500.0));
        assert!(plain >= 75e3 && slow >= 7500e3, "{kind}: {plain}, {slow}");
    }
}

#[test]
fn a_virtual_disk_passes_on_what_is_stored_what_fails_and_what_is_lost() {
    let machine = json!({"disk_request_ns": 50_000});
    reads_flash("virtual disk", |storage| {
        let mut scenario = local(storage, "ext4");
        scenario["nodes"][0]["virtualisation"] = machine.clone();
        scenario
    });
    let faults = json!([
        {"fault": {"kind": "latency_spike", "extra_ms": 1.0}, "from_s": 0.0, "at_most": 3},
        {"fault": {"kind": "power_loss"}, "from_s": 0.05, "until_s": 0.06}
    ]);
    let mut scenario = local(json!({"drives": [ssd(75.0)], "faults": faults}), "ext4");
    scenario["nodes"][0]["virtualisation"] = machine;
    scenario["files"]
        .as_array_mut()
        .unwrap()
        .push(json!({"name": "output", "on": {"volume": "data"}, "share": "new", "keep": true}));
    scenario["profiles"][0]["steps"].as_array_mut().unwrap().extend([
        json!({"do": "create", "file": "output"}),
        json!({"do": "pattern", "file": "output", "op": "write", "count": 4000, "length_bytes": 65_536,
               "access": "direct"}),
        json!({"do": "close", "file": "output"}),
    ]);
    let outcome = outcome(&scenario);
    for drive in &outcome.drives {
        assert_eq!(drive.faults_fired[0], 3, "{drive:?}");
        assert!(drive.faults_fired[1] >= 1 && drive.lost_bytes > 0, "{drive:?}");
    }
}

#[test]
fn reads_and_writes_have_latencies_of_their_own() {
    let mut scenario = local(json!({"drives": [ssd(3000.0)]}), "ext4");
    scenario["observe"] = json!({"series_interval_ns": 10_000_000, "histograms": true});
    scenario["profiles"][0]["steps"] = json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "count": 100, "length_bytes": 4096, "access": "direct",
         "order": {"kind": "permuted"}},
        {"do": "pattern", "file": "input", "op": "write", "count": 100, "length_bytes": 4096, "access": "direct",
         "order": {"kind": "permuted"}},
        {"do": "close", "file": "input"}
    ]);
    let outcome = outcome(&scenario);
    for drive in &outcome.drives {
        let (read, write) = (&drive.read_latency, &drive.write_latency);
        assert_eq!((read.requests, write.requests), (drive.reads, drive.writes));
        assert!(read.mean_ns > 3e6 && write.mean_ns < 1e6, "{} {}", read.mean_ns, write.mean_ns);
        assert!(read.max_ns as f64 >= read.p99_ns && read.p99_ns >= read.p50_ns);
        assert_eq!(read.bins.count.iter().sum::<u64>(), read.requests);
        let series = &drive.series;
        assert!(series.read_latency_ns.iter().any(|&mean| mean > 3e6));
        assert!(series.write_latency_ns.iter().any(|&mean| mean > 0.0));
        assert!(
            series.write_latency_ns.iter().all(|&mean| mean < 2e6),
            "{:?}",
            series.write_latency_ns
        );
    }
}
