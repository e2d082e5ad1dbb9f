//! Nodes that share nothing: each as if it were alone, and few in memory at once.

use serde_json::{json, Value};

use super::*;
use crate::run::run;

/// Nodes with an ideal drive each, whose jobs take different times.
fn scenario(nodes: u32, load: &Value) -> Scenario {
    let text = json!({
        "seed": 5,
        "nodes": [{
            "name": "worker", "count": nodes, "cores": 2, "memory_bytes": 4_000_000_000u64,
            "power": {"idle_w": 50.0, "core_w": 10.0},
            "volumes": [{
                "name": "data",
                "ideal": {"capacity_bytes": 320_000_000_000u64, "read_ns": 10_000_000,
                          "write_ns": 10_000_000, "read_bytes_per_s": 100e6,
                          "write_bytes_per_s": 100e6, "idle_w": 1.0, "active_w": 2.0},
                "filesystem": {"kind": "ext4"}, "scheduler": "deadline"
            }]
        }],
        "files": [{"name": "input", "on": {"volume": "data"}, "bytes": 10_000_000, "count": 4}],
        "profiles": [{"name": "job", "memory_bytes": 500_000_000, "steps": [
            {"do": "open", "file": "input"},
            {"do": "repeat", "times": 2, "steps": [
                {"do": "pattern", "file": "input", "count": 10, "length_bytes": 65536,
                 "cpu_ns": 2_000_000, "order": {"kind": "random"}, "events": 10}
            ]},
            {"do": "close", "file": "input"}
        ]}],
        "run": {"profile": "job", "slots_per_node": 2, "assign": "static", "cpu_spread": 0.3,
                "load": load},
        "observe": {"series_interval_ns": 100_000_000}
    });
    Scenario::from_json(&text.to_string()).unwrap_or_else(|error| panic!("{error}"))
}

fn loads() -> [Value; 2] {
    [
        json!({"kind": "sustained", "duration_ns": 3_000_000_000u64}),
        json!({"kind": "batch", "jobs": 200}),
    ]
}

#[test]
fn as_many_worlds_are_in_memory_as_threads_run_and_what_ended_is_reduced() {
    for load in loads() {
        let scenario = scenario(64, &load);
        let parts = parts(&scenario).unwrap();
        let (program, worlds) = (program(&scenario), Worlds::default());
        let pool = rayon::ThreadPoolBuilder::new().num_threads(3).build().unwrap();
        let cancel = AtomicBool::new(false);
        let ended = pool.install(|| run_parts(&parts, &program, &cancel, &mut |_, _| {}, &worlds));
        let ended = ended.unwrap();
        assert_eq!(ended.len(), 64);
        assert!((1..=3).contains(&worlds.most.into_inner()));
        for ended in &ended {
            match ended {
                Ended::Done(outcome) => assert_eq!(outcome.end_ns, 3_000_000_000),
                Ended::Early { world, .. } => {
                    assert_eq!(load["kind"], "batch", "a sustained load ends at once everywhere");
                    assert_eq!(world.instances.occupied(), 0);
                    assert_eq!(world.tasks.occupied(), 0);
                    assert_eq!(world.hosts[0].cache.used_pages(), 0);
                    assert!(std::sync::Arc::ptr_eq(&world.program, program.as_ref().unwrap()));
                }
            }
        }
    }
}

#[test]
fn each_node_gives_what_it_gives_alone() {
    for load in loads() {
        let scenario = scenario(5, &load);
        let whole = run(&scenario).unwrap();
        for (node, mut part) in parts(&scenario).unwrap().into_iter().enumerate() {
            part.scenario.profiles.clone_from(&scenario.profiles);
            let alone = program(&part.scenario);
            // Alone, kept whole, and accounted for until the last node is done.
            let mut world = World::build(&part.scenario, &alone, &AtomicBool::new(false)).unwrap();
            let complete = world.run(&AtomicBool::new(false), &mut |_, _| {});
            world.now = whole.end_ns;
            let alone = world.outcome(complete);
            assert_eq!(whole.hosts[node..=node], alone.hosts[..]);
            assert_eq!(whole.drives[node..=node], alone.drives[..]);
            let mut jobs: Vec<_> =
                whole.jobs.iter().filter(|job| job.host == alone.hosts[0].name).cloned().collect();
            // Jobs are numbered over all nodes, by their start.
            for (number, job) in jobs.iter_mut().enumerate() {
                job.number = number as u64;
            }
            let mut alone_jobs = alone.jobs;
            alone_jobs.sort_by_key(|job| (job.start_ns, job.slot, job.number));
            for (number, job) in alone_jobs.iter_mut().enumerate() {
                job.number = number as u64;
            }
            assert!(!jobs.is_empty());
            assert_eq!(jobs, alone_jobs);
        }
    }
}
