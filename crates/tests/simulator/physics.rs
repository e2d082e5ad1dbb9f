//! What the parts together must show: read-ahead, metadata, journals, sharing of cores and drives, write-back.

use crate::common::{node, outcome, text, volume};
use proptest::prelude::*;
use serde_json::{json, Value};

/// One node, one slot, one file of 64 MiB on a volume, and these steps.
fn alone(filesystem: &str, scheduler: &str, steps: Value) -> Value {
    let mut node = node("worker", 1, 1);
    node["volumes"] = json!([volume("data", filesystem, scheduler)]);
    json!({
        "seed": 2,
        "nodes": [node],
        "files": [
            {"name": "input", "on": {"volume": "data"}, "bytes": 64 << 20, "count": 4},
            {"name": "output", "on": {"volume": "data"}, "share": "new"}
        ],
        "profiles": [{"name": "job", "steps": steps}],
        "run": {"profile": "job", "slots_per_node": 1, "load": {"kind": "batch", "jobs": 1}}
    })
}

fn sequential(length: u64) -> Value {
    json!([{"do": "pattern", "file": "input", "count": (64 << 20) / length, "length_bytes": length}])
}

#[test]
fn read_ahead_makes_sequential_reads_large() {
    let reads = |read_ahead: u64| {
        let mut scenario = alone("ext4", "noop", sequential(16_384));
        scenario["nodes"][0]["volumes"][0]["read_ahead_bytes"] = json!(read_ahead);
        outcome(&scenario).drives[0].reads
    };
    // 64 MiB: windows of 128 KiB make 512 requests (and a few to get there), pages alone 16 384.
    assert!((510..530).contains(&reads(131_072)), "{}", reads(131_072));
    assert_eq!(reads(0), 16_384);
    assert!(reads(1 << 20) < 150);
}

#[test]
fn direct_calls_to_a_volume_copy_nothing() {
    let cpu = |op: &str, file: &str, access: &str| {
        let pattern = json!({"do": "pattern", "op": op, "file": file, "count": 64,
                             "length_bytes": 1 << 20, "access": access});
        let create = json!({"do": "create", "file": "output"});
        let mut scenario = alone("ext4", "noop", json!([create, pattern]));
        scenario["nodes"][0]["copy_bytes_per_s"] = json!(1e9);
        outcome(&scenario).jobs[0].ledger.on_cpu_ns
    };
    for (op, file) in [("read", "input"), ("write", "output")] {
        let (buffered, direct) = (cpu(op, file, "buffered"), cpu(op, file, "direct"));
        // 64 MiB at 1 GB/s.
        assert!(buffered > 67_000_000 && direct < 10_000_000, "{op}: {buffered} {direct}");
    }
}

#[test]
fn a_large_read_is_cut_by_the_read_ahead_unless_the_kernel_is_new() {
    let reads = |large: u64| {
        let steps = json!([{"do": "pattern", "file": "input", "count": 50, "length_bytes": 262_144,
                            "order": {"kind": "permuted"}}]);
        let mut scenario = alone("ext4", "noop", steps);
        scenario["nodes"][0]["volumes"][0]["read_ahead_bytes"] = json!(16_384);
        scenario["nodes"][0]["volumes"][0]["large_read_bytes"] = json!(large);
        outcome(&scenario).drives[0].reads
    };
    assert!(reads(0) > 50 * 10 && reads(1 << 20) < 50 * 4, "{} {}", reads(0), reads(1 << 20));
}

#[test]
fn a_random_read_moves_what_it_asks_for() {
    let steps = json!([{"do": "pattern", "file": "input", "count": 200, "length_bytes": 8192,
                        "order": {"kind": "permuted"}}]);
    let out = outcome(&alone("xfs", "noop", steps));
    assert!(out.drives[0].read_bytes < 200 * 8192 * 12 / 10, "{}", out.drives[0].read_bytes);
}

#[test]
fn reads_with_gaps_are_read_ahead_by_new_kernels_alone() {
    // 60 kB in 100 kB, in the order of the file, from the middle of a page.
    let steps = json!([{"do": "pattern", "file": "input", "count": 600, "length_bytes": 60_000,
                        "order": {"kind": "scattered"}}]);
    let out = |rules: &str, steps: &Value| {
        let mut scenario = alone("ext4", "noop", steps.clone());
        scenario["nodes"][0]["read_ahead"] = json!(rules);
        outcome(&scenario).drives[0].read_bytes as f64
    };
    let asked = 600.0 * 60_000.0;
    // Two pages beside each, and a window where two reads happen to adjoin.
    assert!(
        (1.05..1.25).contains(&(out("two_windows", &steps) / asked)),
        "{}",
        out("two_windows", &steps)
    );
    assert!(out("on_demand", &steps) > out("two_windows", &steps));
    // A stream is a stream for both.
    let whole = sequential(100_000);
    assert!((out("two_windows", &whole) / out("on_demand", &whole) - 1.0).abs() < 0.01);
}

#[test]
fn ext3_reads_indirect_blocks_that_ext4_and_xfs_do_not_have() {
    let reads =
        |filesystem| outcome(&alone(filesystem, "noop", sequential(131_072))).drives[0].reads;
    let (ext3, ext4, xfs) = (reads("ext3"), reads("ext4"), reads("xfs"));
    // 16 indirect blocks and the double-indirect one, and requests that end at them.
    assert!((ext3 as i64 - ext4 as i64 - 17).abs() <= 20, "{ext3} {ext4}");
    assert!(ext4.abs_diff(xfs) <= 2);
}

#[test]
fn mapped_reads_read_around() {
    let steps = json!([{"do": "pattern", "file": "input", "count": 40, "length_bytes": 4096, "access": "mapped",
                        "order": {"kind": "permuted"}}]);
    let out = outcome(&alone("ext4", "noop", steps));
    assert!(out.jobs[0].bytes.device_bytes > 40 * 100_000, "{}", out.jobs[0].bytes.device_bytes);
    let direct = json!([{"do": "pattern", "file": "input", "count": 40, "length_bytes": 4096, "access": "direct",
                         "order": {"kind": "permuted"}}]);
    assert_eq!(outcome(&alone("ext4", "noop", direct)).jobs[0].bytes.device_bytes, 40 * 4096);
}

#[test]
fn a_second_read_comes_from_memory() {
    let twice = json!([{"do": "repeat", "times": 2, "steps": sequential(131_072)}]);
    let once = outcome(&alone("ext4", "noop", sequential(131_072))).end_ns;
    let both = outcome(&alone("ext4", "noop", twice)).end_ns;
    assert!(both < once + once / 10, "{once} {both}");
}

#[test]
fn fsync_waits_for_data_and_journal() {
    let steps = json!([
        {"do": "create", "file": "output"},
        {"do": "write", "file": "output", "length_bytes": 1_000_000},
        {"do": "fsync", "file": "output"}
    ]);
    for filesystem in ["ext3", "ext4", "xfs", "btrfs"] {
        let out = outcome(&alone(filesystem, "deadline", steps.clone()));
        let drive = &out.drives[0];
        assert!(drive.written_bytes >= 1_000_000 + 8192, "{filesystem}: {}", drive.written_bytes);
        // Data (10 ms a request), then the journal (10 ms).
        assert!(out.end_ns >= 30_000_000, "{filesystem}: {}", out.end_ns);
    }
}

#[test]
fn fsync_of_overwritten_data_waits_for_a_flush() {
    let end_ns = |flush_ns: u64, barrier: bool, steps: &Value| {
        let mut scenario = alone("ext4", "noop", steps.clone());
        let volume = &mut scenario["nodes"][0]["volumes"][0];
        let barrier = json!({"kind": "ext4", "access_time": "never", "barrier": barrier});
        volume["filesystem"] = barrier;
        let ideal = json!({"capacity_bytes": 1u64 << 40, "read_ns": 10_000, "write_ns": 10_000,
                           "flush_ns": flush_ns});
        volume["ideal"] = ideal;
        outcome(&scenario).end_ns
    };
    let fsync = json!({"do": "fsync", "file": "input"});
    let write = |access: &str| {
        json!({"do": "write", "file": "input", "offset_bytes": 8192, "length_bytes": 4096,
               "access": access})
    };
    // The space is allocated already, so no commit of the journal flushes the drive.
    for access in ["buffered", "direct"] {
        let steps = json!([{"do": "repeat", "times": 10, "steps": [write(access), fsync]}]);
        let flushes = end_ns(5_000_000, true, &steps) - end_ns(0, true, &steps);
        assert_eq!(flushes, 50_000_000, "{access}");
        assert_eq!(end_ns(5_000_000, false, &steps), end_ns(0, false, &steps), "{access}");
    }
}

#[test]
fn writers_wait_when_too_much_is_dirty() {
    // 2 GB into 3.7 GB of memory: the first 20 % are free, the rest goes at the drive's pace.
    let steps = json!([
        {"do": "create", "file": "output"},
        {"do": "pattern", "file": "output", "op": "write", "count": 2000, "length_bytes": 1_000_000}
    ]);
    let out = outcome(&alone("ext4", "deadline", steps));
    let job = &out.jobs[0];
    let rate = 100e6 * (512.0 * 1024.0 / 100e6) / (512.0 * 1024.0 / 100e6 + 0.010);
    let paced = (2e9 - 0.2 * 3.7e9) / rate;
    let waited = job.ledger.wait_block_ns as f64 * 1e-9;
    assert!((waited / paced - 1.0).abs() < 0.15, "{waited} s, not {paced}");
    assert_eq!(job.phases.write_ns + job.phases.metadata_ns, job.ledger.wait_block_ns);
}

#[test]
fn dirty_pages_are_written_after_their_time() {
    let steps = json!([
        {"do": "create", "file": "output"},
        {"do": "write", "file": "output", "length_bytes": 5_000_000},
        {"do": "wait", "wait_ns": 50_000_000_000u64}
    ]);
    let out = outcome(&alone("ext4", "deadline", steps));
    let series = &out.drives[0].series.written_bytes;
    let before: u64 = series[..25].iter().sum();
    let after: u64 = series[25..45].iter().sum();
    assert!(before < 200_000 && after >= 5_000_000, "{before} {after}");
    assert_eq!(out.jobs[0].ledger.other_ns, 50_000_000_000);
}

#[test]
fn jobs_beyond_the_cores_wait_for_them() {
    let mut scenario = text();
    scenario["nodes"] = json!([node("worker", 1, 2)]);
    scenario["nodes"][0]["sharing"] = json!({"switch_ns": 0});
    scenario["profiles"][0]["steps"] = json!([{"do": "compute", "cpu_ns": 1_000_000_000}]);
    scenario["run"] =
        json!({"profile": "job", "slots_per_node": 4, "load": {"kind": "batch", "jobs": 4}});
    let out = outcome(&scenario);
    for job in &out.jobs {
        assert_eq!(job.wall_ns(), 2_000_000_000);
        assert!(job.ledger.on_cpu_ns.abs_diff(1_000_000_000) <= 2);
    }
    assert_eq!(out.hosts[0].busy_core_ns, 4_000_000_000);
}

#[test]
fn slots_hide_waiting_until_the_cores_are_full() {
    // A job waits for its drive about as long as it computes: two slots a core are faster than one.
    let rate = |slots: u32| {
        let mut scenario = text();
        scenario["nodes"] = json!([node("worker", 1, 1)]);
        scenario["nodes"][0]["memory_bytes"] = json!(8_000_000_000u64);
        scenario["profiles"][0]["steps"][1]["cpu_ns"] = json!(12_000_000);
        scenario["run"]["slots_per_node"] = json!(slots);
        scenario["run"]["load"]["jobs"] = json!(4);
        4.0 / outcome(&scenario).end_ns as f64
    };
    let (one, two, four) = (rate(1), rate(2), rate(4));
    assert!(two > 1.5 * one && four < 1.3 * two, "{one} {two} {four}");
}

#[test]
fn a_sustained_load_ends_on_time_and_says_who_was_running() {
    let mut scenario = text();
    scenario["run"]["load"] = json!({"kind": "sustained", "duration_ns": 3_000_000_000u64});
    let out = outcome(&scenario);
    assert_eq!(out.end_ns, 3_000_000_000);
    assert_eq!(out.jobs.iter().filter(|j| j.unfinished).count(), 4);
    assert!(out.jobs.len() > 8);
}

#[test]
fn static_assignment_gives_each_node_its_share() {
    let mut scenario = text();
    scenario["run"]["assign"] = json!("static");
    scenario["run"]["load"]["jobs"] = json!(7);
    let out = outcome(&scenario);
    let first = out.jobs.iter().filter(|j| j.host == "worker[0]").count();
    assert_eq!((first, out.jobs.len()), (4, 7));
}

#[test]
fn aged_space_and_strict_access_times_cost() {
    let fresh = outcome(&alone("ext3", "noop", sequential(131_072)));
    let mut scenario = alone("ext3", "noop", sequential(131_072));
    scenario["nodes"][0]["volumes"][0]["filesystem"] = json!({"kind": "ext3", "free_extent_bytes": 65_536, "used_fraction": 0.5, "access_time": "strict"});
    let aged = outcome(&scenario);
    assert!(aged.end_ns > fresh.end_ns * 3 / 2);
    assert!(aged.drives[0].writes > fresh.drives[0].writes);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    /// Whatever the mix: ledgers add up, bytes are conserved, the drive is never busier than the run is long.
    #[test]
    fn conservation(
        seed in 0u64..1000,
        filesystem in prop::sample::select(vec!["ext3", "ext4", "xfs", "btrfs"]),
        scheduler in prop::sample::select(vec!["noop", "deadline", "anticipatory", "cfq", "bfq", "kyber"]),
        slots in 1u32..5,
        length in 1u64..300_000,
        memory_mb in 300u64..900,
        written in 1u64..20,
    ) {
        let mut scenario = alone(filesystem, scheduler, json!([
            {"do": "open", "file": "input"},
            {"do": "create", "file": "output"},
            {"do": "repeat", "times": 3, "steps": [
                {"do": "pattern", "file": "input", "count": 20, "length_bytes": length, "cpu_ns": 1_000_000,
                 "order": {"kind": "random"}},
                {"do": "pattern", "file": "output", "op": "write", "count": written, "length_bytes": 1_000_000},
                {"do": "fsync", "file": "output"}
            ]},
            {"do": "delete", "file": "output"},
            {"do": "close", "file": "input"}
        ]));
        scenario["seed"] = json!(seed);
        scenario["nodes"][0]["memory_bytes"] = json!(memory_mb * 1_000_000);
        scenario["run"]["slots_per_node"] = json!(slots);
        scenario["run"]["load"]["jobs"] = json!(6);
        let out = outcome(&scenario);
        prop_assert_eq!(out.jobs.len(), 6);
        let drive = &out.drives[0];
        let attributed: u64 = out.jobs.iter().map(|j| j.bytes.device_bytes).sum();
        prop_assert_eq!(drive.read_bytes, attributed);
        prop_assert!(drive.busy_ns <= out.end_ns);
        prop_assert!(drive.written_bytes >= 6 * written * 1_000_000);
        let busy: u64 = out.jobs.iter().map(|j| j.ledger.on_cpu_ns).sum();
        prop_assert!(busy.abs_diff(out.hosts[0].busy_core_ns) <= 10_000 + busy / 1_000_000);
    }
}
