//! Simulates nodes that share nothing separately, on all cores.
//!
//! A scenario can be split if no service connects its nodes and jobs are not pulled from a common
//! queue (static assignment or a sustained load). The split depends only on the scenario, never on
//! the number of threads.

use std::sync::atomic::AtomicBool;
use std::sync::Mutex;

use headrace_model::stream::name_hash;
use headrace_model::Nanos;
use rayon::prelude::*;

use crate::outcome::Outcome;
use crate::scenario::{Assign, Feed, HostSpec, Load, Scenario, ScenarioError};
use crate::world::World;

/// A scenario with a single node, and its origin in the full scenario.
struct Part {
    scenario: Scenario,
    /// Index of its specification among the scenario's nodes.
    spec: usize,
}

/// Return one scenario per node if the nodes share nothing.
fn parts(scenario: &Scenario) -> Option<Vec<Part>> {
    let run = &scenario.run;
    let apart = run.assign == Assign::Static || matches!(run.load, Load::Sustained { .. });
    if !apart
        || run.feed != Feed::Files
        || !scenario.services.is_empty()
        || !scenario.faults.is_empty()
    {
        return None;
    }
    let used = |spec: &HostSpec| run.nodes.is_empty() || run.nodes.contains(&spec.name);
    let hosts: u64 =
        scenario.nodes.iter().filter(|&spec| used(spec)).map(|spec| u64::from(spec.count)).sum();
    if hosts < 2 {
        return None;
    }
    let idle: Vec<HostSpec> = scenario.nodes.iter().filter(|&spec| !used(spec)).cloned().collect();
    let mut parts = Vec::new();
    for (spec_number, spec) in scenario.nodes.iter().enumerate().filter(|(_, spec)| used(spec)) {
        for number in 0..spec.count {
            let name = if spec.count == 1 {
                spec.name.clone()
            } else {
                format!("{}[{number}]", spec.name)
            };
            let mut part = Scenario { nodes: Vec::new(), servers: Vec::new(), ..scenario.clone() };
            part.seed ^= name_hash(&name);
            part.run.nodes = vec![name.clone()];
            part.nodes.push(HostSpec { name, count: 1, ..spec.clone() });
            let position = parts.len() as u64;
            if position == 0 {
                // Unused nodes and servers consume idle power; they are simulated with the first
                // node.
                part.nodes.extend(idle.iter().cloned());
                part.servers.clone_from(&scenario.servers);
            }
            if let Load::Batch { jobs } = &mut part.run.load {
                *jobs = *jobs / hosts + u64::from(position < *jobs % hosts);
            }
            parts.push(Part { scenario: part, spec: spec_number });
        }
    }
    Some(parts)
}

/// Run a scenario node by node; return `None` if it cannot be split.
pub(crate) fn run_apart(
    scenario: &Scenario,
    cancel: &AtomicBool,
    progress: &mut (dyn FnMut(Nanos, u64) + Send),
) -> Option<Result<Outcome, ScenarioError>> {
    let parts = parts(scenario)?;
    let progress = Mutex::new(progress);
    let worlds: Result<Vec<(World, bool)>, ScenarioError> = parts
        .par_iter()
        .map(|part| {
            let mut world = World::build(&part.scenario).map_err(|error| ScenarioError {
                path: error.path.replacen("nodes[0]", &format!("nodes[{}]", part.spec), 1),
                ..error
            })?;
            let complete = world.run(cancel, &mut |time, jobs| {
                if let Ok(mut progress) = progress.lock() {
                    progress(time, jobs);
                }
            });
            Ok((world, complete))
        })
        .collect();
    Some(worlds.map(|worlds| {
        // Every node is accounted for until the last one is done.
        let end = worlds.iter().map(|(world, _)| world.now).max().unwrap_or(0);
        let outcomes: Vec<Outcome> = worlds
            .into_par_iter()
            .map(|(mut world, complete)| {
                world.now = end;
                world.outcome(complete)
            })
            .collect();
        join(scenario, outcomes, end)
    }))
}

/// Combine the outcomes in the order of the scenario.
fn join(scenario: &Scenario, outcomes: Vec<Outcome>, end: Nanos) -> Outcome {
    let mut whole = Outcome { end_ns: end, ..Outcome::default() };
    for part in outcomes {
        whole.jobs.extend(part.jobs);
        whole.hosts.extend(part.hosts);
        whole.drives.extend(part.drives);
        whole.energy.nodes_j += part.energy.nodes_j;
        whole.energy.servers_j += part.energy.servers_j;
        whole.energy.drives_j += part.energy.drives_j;
        whole.counters.events += part.counters.events;
        whole.counters.requests += part.counters.requests;
        whole.counters.out_of_space += part.counters.out_of_space;
        whole.broken_off = whole.broken_off.or(part.broken_off);
    }
    let names: Vec<String> = scenario
        .nodes
        .iter()
        .chain(&scenario.servers)
        .flat_map(|spec| {
            let name = |number| {
                if spec.count == 1 {
                    spec.name.clone()
                } else {
                    format!("{}[{number}]", spec.name)
                }
            };
            (0..spec.count).map(name).collect::<Vec<_>>()
        })
        .collect();
    let position: std::collections::HashMap<&str, usize> =
        names.iter().enumerate().map(|(position, name)| (name.as_str(), position)).collect();
    let place = |name: &str| position.get(name).copied().unwrap_or(usize::MAX);
    whole.hosts.sort_by_key(|host| place(&host.name));
    whole.drives.sort_by_key(|drive| place(&drive.host));
    whole.jobs.sort_by_key(|job| (job.start_ns, place(&job.host), job.slot, job.number));
    for (number, job) in whole.jobs.iter_mut().enumerate() {
        job.number = number as u64;
    }
    let energy = &mut whole.energy;
    energy.switch_j = scenario.power.switch_w * end as f64 * 1e-9;
    energy.total_j = (energy.nodes_j + energy.servers_j + energy.drives_j + energy.switch_j)
        * scenario.power.pue;
    whole
}
