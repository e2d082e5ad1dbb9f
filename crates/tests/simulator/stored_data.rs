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

/// A small drive that was overwritten randomly for long: with the device full, each write of the
/// host makes its flash write several.
fn used_ssd() -> Value {
    json!({"kind": "ssd", "name": "ssd", "capacity_bytes": 512 << 20, "link_bytes_per_s": 500e6,
        "controller": {"read_overhead_us": 10, "write_overhead_us": 20, "read_iops_max": 90000,
                       "write_iops_max": 30000},
        "flash": {"channels": 2, "dies_per_channel": 2, "page_bytes": 4096, "pages_per_block": 64,
                  "read_us": 50, "program_us": 50, "erase_us": 500, "channel_bytes_per_s": 400e6},
        "initial": {"state": "steady", "fill": 1.0}})
}

/// Write amplification of jobs with these steps on a used drive, with these fields of its
/// filesystem.
fn amplification(fields: &[(&str, Value)], raid: Option<u32>, steps: &Value) -> f64 {
    let mut storage = json!({"drives": [used_ssd()]});
    if let Some(level) = raid {
        storage["raid"] = json!({"level": level, "drives": 3});
    }
    let mut scenario = text();
    scenario["nodes"] = json!([node("worker", 1, 2)]);
    scenario["nodes"][0]["volumes"] = json!([volume("data", "ext4", storage)]);
    for (name, value) in fields {
        scenario["nodes"][0]["volumes"][0]["filesystem"][*name] = value.clone();
    }
    scenario["files"] = json!([
        {"name": "input", "on": {"volume": "data"}, "bytes": 64 << 20, "count": 1},
        {"name": "new", "on": {"volume": "data"}, "share": "new"}
    ]);
    scenario["profiles"][0]["steps"] = steps.clone();
    scenario["run"] =
        json!({"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}});
    let outcome = outcome(&scenario);
    let flash = |of: fn(&headrace_simulator::outcome::DriveOutcome) -> u64| {
        outcome.drives.iter().map(of).sum::<u64>() as f64
    };
    flash(|drive| drive.flash_written_bytes) / flash(|drive| drive.flash_host_bytes)
}

/// Random writes of 4 KiB past the page cache.
fn overwriting() -> Value {
    json!([
        {"do": "open", "file": "input"},
        {"do": "pattern", "file": "input", "op": "write", "count": 3000, "length_bytes": 4096,
         "access": "direct", "order": {"kind": "random"}, "span_bytes": 64 << 20},
        {"do": "close", "file": "input"}
    ])
}

#[test]
fn a_filesystem_is_made_on_an_empty_drive_unless_mkfs_keeps_the_data() {
    let steps = overwriting();
    let kept = [("discarded", json!(false))];
    let aged = [("free_extent_bytes", json!(1 << 20)), ("used_fraction", json!(0.5))];
    assert!(amplification(&[], None, &steps) < 1.1);
    assert!(amplification(&[], Some(0), &steps) < 1.1);
    for (fields, raid) in [(&kept[..], None), (&kept, Some(0)), (&aged, None), (&[], Some(5))] {
        let obtained = amplification(fields, raid, &steps);
        assert!(obtained > 3.0, "{fields:?} on RAID {raid:?}: {obtained}");
    }
}

#[test]
fn removed_files_leave_room_when_mounted_with_discard() {
    let mut steps = json!([
        {"do": "create", "file": "new"},
        {"do": "write", "file": "new", "length_bytes": 16 << 20, "access": "direct"},
        {"do": "close", "file": "new"},
        {"do": "delete", "file": "new"}
    ]);
    let overwriting = overwriting();
    steps.as_array_mut().unwrap().extend(overwriting.as_array().unwrap().iter().cloned());
    let kept = ("discarded", json!(false));
    let without = amplification(std::slice::from_ref(&kept), None, &steps);
    let with = amplification(&[kept, ("discard", json!(true))], None, &steps);
    assert!(with < 0.7 * without, "{with} {without}");
}

#[test]
fn a_filesystem_takes_the_front_of_its_drive() {
    let stored = |size: Option<u64>| {
        let mut scenario = local(json!({"drives": [ssd(75.0)]}), "ext4");
        scenario["nodes"][0]["volumes"][0]["size_bytes"] = json!(size);
        headrace_simulator::run(
            &headrace_simulator::Scenario::from_json(&scenario.to_string()).unwrap(),
        )
    };
    assert!(stored(Some(1 << 30)).is_ok());
    let small = stored(Some(100 << 20)).unwrap_err();
    assert!(small.to_string().contains("room"), "{small}");
    let large = stored(Some(1 << 50)).unwrap_err();
    assert!(large.to_string().contains("size_bytes"), "{large}");
}
