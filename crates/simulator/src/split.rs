//! Simulates nodes that share nothing separately, on all cores.
//!
//! A scenario can be split if no service connects its nodes and jobs are not pulled from a common
//! queue (static assignment or a sustained load). The split depends only on the scenario, never on
//! the number of threads.
//!
//! Nodes share one compiled program. A node's world is reduced to its part of the outcome when it
//! ends, so that memory is needed for one world per thread and for the outcome.

use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::Mutex;

use headrace_model::stream::name_hash;
use headrace_model::Nanos;
use rayon::prelude::*;

use crate::build::{program, Compiled};
use crate::outcome::Outcome;
use crate::scenario::{Assign, Feed, HostSpec, Load, Scenario, ScenarioError};
use crate::world::World;

/// A scenario with a single node and without the steps of its jobs, and its origin in the full
/// scenario.
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
        || scenario.one_machine
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
    let common = common(scenario);
    let mut parts = Vec::new();
    for (spec_number, spec) in scenario.nodes.iter().enumerate().filter(|(_, spec)| used(spec)) {
        for number in 0..spec.count {
            let name = if spec.count == 1 {
                spec.name.clone()
            } else {
                format!("{}[{number}]", spec.name)
            };
            let mut part = common.clone();
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

/// Return what the parts have in common: no hosts, and no steps, which are compiled once for all.
fn common(scenario: &Scenario) -> Scenario {
    let mut common = Scenario { nodes: Vec::new(), servers: Vec::new(), ..scenario.clone() };
    common.run.nodes = Vec::new();
    for profile in &mut common.profiles {
        profile.steps = Vec::new();
    }
    common
}

/// How many worlds are in memory at once.
#[derive(Debug, Default)]
struct Worlds {
    alive: AtomicUsize,
    most: AtomicUsize,
}

impl Worlds {
    fn begin(&self) -> Alive<'_> {
        let alive = self.alive.fetch_add(1, Ordering::Relaxed) + 1;
        self.most.fetch_max(alive, Ordering::Relaxed);
        Alive(self)
    }
}

/// One of them, until it is dropped.
struct Alive<'a>(&'a Worlds);

impl Drop for Alive<'_> {
    fn drop(&mut self) {
        self.0.alive.fetch_sub(1, Ordering::Relaxed);
    }
}

/// What remains of a node's world when it has ended.
enum Ended<'a> {
    Done(Box<Outcome>),
    /// Other nodes may run longer, for which its drives and cores must be accounted.
    Early {
        world: Box<World<'a>>,
        complete: bool,
    },
}

impl Ended<'_> {
    fn end_ns(&self) -> Nanos {
        match self {
            Ended::Done(outcome) => outcome.end_ns,
            Ended::Early { world, .. } => world.now,
        }
    }

    /// Return the node's part of the outcome of a run that ends at `end`.
    fn outcome(self, end: Nanos) -> Outcome {
        match self {
            Ended::Done(outcome) => *outcome,
            Ended::Early { mut world, complete } => {
                world.now = end;
                world.outcome(complete)
            }
        }
    }
}

/// Return the time at which a run ends at the latest, if it is known beforehand.
fn latest_end(scenario: &Scenario) -> Option<Nanos> {
    let run = &scenario.run;
    let timeout = (run.timeout_ns > 0).then_some(run.timeout_ns);
    match run.load {
        Load::Sustained { duration_ns } => Some(timeout.unwrap_or(duration_ns).min(duration_ns)),
        Load::Batch { .. } => timeout,
    }
}

/// Run a scenario node by node; return `None` if it cannot be split.
pub(crate) fn run_apart(
    scenario: &Scenario,
    cancel: &AtomicBool,
    progress: &mut (dyn FnMut(Nanos, u64) + Send),
) -> Option<Result<Outcome, ScenarioError>> {
    let parts = parts(scenario)?;
    let program = program(scenario);
    Some(run_parts(&parts, &program, cancel, progress, &Worlds::default()).map(|ended| {
        // Every node is accounted for until the last one is done.
        let end = ended.iter().map(Ended::end_ns).max().unwrap_or(0);
        let outcomes = ended.into_par_iter().map(|ended| ended.outcome(end)).collect();
        join(scenario, outcomes, end)
    }))
}

/// Run the parts, as many at once as there are threads.
fn run_parts<'a>(
    parts: &'a [Part],
    program: &Compiled,
    cancel: &AtomicBool,
    progress: &mut (dyn FnMut(Nanos, u64) + Send),
    worlds: &Worlds,
) -> Result<Vec<Ended<'a>>, ScenarioError> {
    let progress = Mutex::new(progress);
    let one = |part: &'a Part| {
        let alive = worlds.begin();
        let world = World::build(&part.scenario, program, cancel).map_err(|error| ScenarioError {
            path: error.path.replacen("nodes[0]", &format!("nodes[{}]", part.spec), 1),
            ..error
        });
        let mut world = world?;
        let complete = world.run(cancel, &mut |time, jobs| {
            if let Ok(mut progress) = progress.lock() {
                progress(time, jobs);
            }
        });
        let ended = if complete && Some(world.now) == latest_end(&part.scenario) {
            // No other node runs longer.
            Ended::Done(Box::new(world.outcome(complete)))
        } else {
            world.reduce();
            Ended::Early { world: Box::new(world), complete }
        };
        drop(alive);
        Ok(ended)
    };
    parts.par_iter().map(one).collect()
}

/// Combine the outcomes in the order of the scenario.
fn join(scenario: &Scenario, outcomes: Vec<Outcome>, end: Nanos) -> Outcome {
    let mut whole = Outcome { end_ns: end, ..Outcome::default() };
    whole.jobs.reserve_exact(outcomes.iter().map(|part| part.jobs.len()).sum());
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
    // No two jobs have the same key: the sort needs no memory of its own to be stable.
    whole.jobs.sort_unstable_by_key(|job| (job.start_ns, place(&job.host), job.slot, job.number));
    for (number, job) in whole.jobs.iter_mut().enumerate() {
        job.number = number as u64;
    }
    let energy = &mut whole.energy;
    energy.switch_j = scenario.power.switch_w * end as f64 * 1e-9;
    energy.total_j = (energy.nodes_j + energy.servers_j + energy.drives_j + energy.switch_j)
        * scenario.power.pue;
    whole
}

#[cfg(test)]
mod tests;
