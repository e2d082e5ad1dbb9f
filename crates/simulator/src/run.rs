//! Run one or many scenarios and collect their results.

use std::panic::{catch_unwind, AssertUnwindSafe};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use headrace_model::link::tcp::Tcp;
use headrace_model::request::Medium;
use headrace_model::Nanos;
use rayon::prelude::*;

use crate::build::program;
use crate::ids::TaskId;
use crate::outcome::{
    DriveOutcome, EnergyOutcome, HostOutcome, LatencyOutcome, Outcome, ServiceOutcome,
};
use crate::packets::Packetiser;
use crate::scenario::{Feed, Load, Scenario, ScenarioError};
use crate::split::run_apart;
use crate::world::{Phase, State, World};

/// Progress of a batch of scenarios.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    pub scenarios_done: u64,
    pub scenarios: u64,
    /// The scenario that reports: its number, its simulated time, and its finished jobs.
    pub scenario: u64,
    pub simulated_ns: Nanos,
    pub jobs_done: u64,
}

/// Simulate one scenario.
///
/// # Errors
/// The first problem of the scenario.
pub fn run(scenario: &Scenario) -> Result<Outcome, ScenarioError> {
    run_watched(scenario, &AtomicBool::new(false), &mut |_, _| {})
}

/// As `run`. Reports simulated time and finished jobs to `progress`. Setting `cancel` aborts the
/// run; the outcome then says so.
///
/// # Errors
/// The first problem of the scenario.
pub fn run_watched(
    scenario: &Scenario,
    cancel: &AtomicBool,
    progress: &mut (dyn FnMut(Nanos, u64) + Send),
) -> Result<Outcome, ScenarioError> {
    scenario.check()?;
    if let Some(outcome) = run_apart(scenario, cancel, progress) {
        return outcome;
    }
    let mut world = World::build(scenario, &program(scenario), cancel)?;
    let complete = world.run(cancel, progress);
    Ok(world.outcome(complete))
}

/// Simulate many scenarios on `threads` threads (0: one per core). Outcomes are in the order of the
/// scenarios, independent of the number of threads. A scenario that fails returns its error; the
/// others continue.
pub fn run_many(
    scenarios: &[Scenario],
    threads: usize,
    progress: &(dyn Fn(Progress) + Sync),
    cancel: &AtomicBool,
) -> Vec<Result<Outcome, ScenarioError>> {
    let done = AtomicU64::new(0);
    let one = |(number, scenario): (usize, &Scenario)| {
        let report = |simulated_ns, jobs_done, done: u64| {
            progress(Progress {
                scenarios_done: done,
                scenarios: scenarios.len() as u64,
                scenario: number as u64,
                simulated_ns,
                jobs_done,
            });
        };
        let result = catch_unwind(AssertUnwindSafe(|| {
            run_watched(scenario, cancel, &mut |time, jobs| {
                report(time, jobs, done.load(Ordering::Relaxed))
            })
        }));
        let result = result.unwrap_or_else(|_| {
            Err(ScenarioError::new(
                format!("scenarios[{number}]"),
                format!("\"{}\", which broke the simulator", scenario.name),
                "a scenario that runs; please report this one",
            ))
        });
        let finished = done.fetch_add(1, Ordering::Relaxed) + 1;
        let (time, jobs) =
            result.as_ref().map_or((0, 0), |outcome| (outcome.end_ns, outcome.jobs.len() as u64));
        report(time, jobs, finished);
        result
    };
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build();
    match pool {
        Ok(pool) => pool.install(|| scenarios.par_iter().enumerate().map(one).collect()),
        // No threads available: run sequentially.
        Err(_) => scenarios.iter().enumerate().map(one).collect(),
    }
}

impl World<'_> {
    /// Compute the outcome at the end of the run.
    pub fn outcome(mut self, complete: bool) -> Outcome {
        let run = &self.scenario.run;
        let end = self.now;
        let mut broken_off = (!complete).then(|| "cancelled".to_owned());
        if complete
            && run.timeout_ns > 0
            && end >= run.timeout_ns
            && !self.feeder.slots.iter().all(|s| s.task.is_none())
        {
            broken_off = Some("timeout".to_owned());
        }
        let wanted = match (&run.feed, run.load) {
            (Feed::Files, Load::Batch { jobs }) => jobs,
            _ => 0,
        };
        if complete && broken_off.is_none() && self.feeder.finished < wanted {
            broken_off = Some(format!(
                "{} jobs wait for something that never comes",
                wanted - self.feeder.finished
            ));
        }
        self.end_unfinished_jobs(end);
        let (drives, drive_energy) = self.drive_outcomes(end);
        let (hosts, mut energy) = self.host_outcomes(end, &drive_energy);
        energy.switch_j = self.scenario.power.switch_w * end as f64 * 1e-9;
        energy.total_j = (energy.nodes_j + energy.servers_j + energy.drives_j + energy.switch_j)
            * self.scenario.power.pue;
        let services = self.service_outcomes();
        self.counters.tcp = self.tcp.as_ref().map(Tcp::counters);
        let packets = self.feeder.packetiser.as_ref().map(Packetiser::outcome);
        Outcome {
            jobs: self.jobs,
            hosts,
            drives,
            services,
            energy,
            counters: self.counters,
            end_ns: end,
            broken_off,
            packets,
        }
    }

    /// End the jobs that run when the run ends.
    fn end_unfinished_jobs(&mut self, end: Nanos) {
        for slot in self.feeder.slots.clone() {
            let Some(task) = slot.task else { continue };
            let job = self.tasks[task].job.index();
            let others = self.tasks[task].team.as_ref().map(|team| team.others.clone());
            for thread in others.into_iter().flatten() {
                self.end_unfinished_thread(thread, end);
            }
            self.end_unfinished_thread(task, end);
            self.end_team(task);
            self.jobs[job].end_ns = end;
            self.jobs[job].unfinished = true;
        }
    }

    /// Charge the time of a thread that runs when the run ends.
    fn end_unfinished_thread(&mut self, task: TaskId, end: Nanos) {
        if self.tasks[task].state == State::Cpu {
            // The completed part of unfinished work is unknown: estimate it from the share of the
            // cores.
            let t = &mut self.tasks[task];
            let span = end - t.since;
            t.since = end;
            let own = t.host;
            let host = &self.hosts[self.cores_of(own) as usize];
            let group = if host.is_node { &self.scenario.nodes } else { &self.scenario.servers };
            let cores = f64::from(group[host.spec as usize].cores);
            let share = (cores / host.cpu.runnable().max(1) as f64).min(1.0);
            let on_cpu = (span as f64 * share) as u64;
            let (ledger, _) = self.accounts(task);
            ledger.on_cpu_ns += on_cpu;
            ledger.wait_cpu_ns += span - on_cpu;
        }
        self.enter(task, State::Other, Phase::None);
    }

    /// Return the results of hosts, and the energy of machines and drives.
    fn host_outcomes(
        &mut self,
        end: Nanos,
        drive_energy: &[f64],
    ) -> (Vec<HostOutcome>, EnergyOutcome) {
        let mut energy = EnergyOutcome::default();
        let mut hosts = Vec::with_capacity(self.hosts.len());
        let mut slots = vec![0; self.hosts.len()];
        self.feeder.slots.iter().for_each(|slot| slots[slot.host as usize] += 1);
        for (index, host) in self.hosts.iter_mut().enumerate() {
            host.cpu.settle(end);
            let group = if host.is_node { &self.scenario.nodes } else { &self.scenario.servers };
            let spec = &group[host.spec as usize];
            let (busy, awake) = (host.cpu.busy_core_ns(), host.cpu.awake_ns());
            let machine_j =
                spec.power.energy_j(end, awake, busy, host.sent_bytes + host.received_bytes);
            let drives_j = drive_energy[index];
            if host.is_node {
                energy.nodes_j += machine_j;
            } else {
                energy.servers_j += machine_j;
            }
            energy.drives_j += drives_j;
            hosts.push(HostOutcome {
                name: host.name.clone(),
                cores: spec.cores,
                slots: slots[index],
                busy_core_ns: busy,
                awake_ns: awake,
                sent_bytes: host.sent_bytes,
                received_bytes: host.received_bytes,
                cache: host.cache.counters,
                machine_j,
                drives_j,
            });
        }
        (hosts, energy)
    }

    fn service_outcomes(&mut self) -> Vec<ServiceOutcome> {
        // Requests of a server to the upstream are reads of the upstream; clients of its own have
        // another service.
        let read_bytes: Vec<u64> =
            self.services.iter().map(|service| service.totals.outcome.read_bytes).collect();
        self.services
            .iter_mut()
            .zip(&self.scenario.services)
            .map(|(service, spec)| {
                let mut outcome = std::mem::take(&mut service.totals.outcome);
                outcome.name.clone_from(&spec.name);
                if let Some((upstream, number)) = outcome.upstream.as_mut().zip(service.upstream) {
                    upstream.read_bytes = read_bytes[number as usize];
                }
                outcome.latency_ns_mean = service.totals.latency.mean_ns();
                outcome.latency_ns_p99 = service.totals.latency.quantile_ns(0.99);
                outcome.stored_bytes = service.targets.iter().map(|t| t.stored_bytes).collect();
                outcome
            })
            .collect()
    }

    fn drive_outcomes(&mut self, end: Nanos) -> (Vec<DriveOutcome>, Vec<f64>) {
        let histograms = self.scenario.observe.histograms;
        let mut energies = vec![0.0; self.hosts.len()];
        for volume in 0..self.volumes.len() as u32 {
            self.sample(volume);
        }
        let mut outcomes = Vec::with_capacity(self.volumes.len());
        for volume in &mut self.volumes {
            volume.queue.settle(end);
            let counters = *volume.queue.counters();
            let series = volume.series.take().map(|mut sampler| {
                let rest = end - (sampler.next - sampler.interval_ns);
                if rest > 0 {
                    sampler.close(&counters, rest);
                }
                sampler.series
            });
            let energy_j = volume.queue.energy_j(end);
            energies[volume.host as usize] += energy_j;
            let faults = volume.queue.fault_counts();
            let flash = volume.queue.flash_writes();
            outcomes.push(DriveOutcome {
                host: self.hosts[volume.host as usize].name.clone(),
                volume: volume.name.clone(),
                reads: counters.reads,
                writes: counters.writes,
                read_bytes: counters.read_bytes,
                written_bytes: counters.written_bytes,
                merged: counters.merged,
                failed: counters.failed,
                busy_ns: counters.busy_ns,
                inside_ns: counters.inside_ns.min(u128::from(u64::MAX)) as u64,
                read_latency: LatencyOutcome::of(volume.queue.read_latency(), histograms),
                write_latency: LatencyOutcome::of(volume.queue.write_latency(), histograms),
                energy_j,
                flash_host_bytes: flash.host_bytes,
                flash_written_bytes: flash.flash_bytes,
                faults_fired: faults.fired,
                lost_bytes: faults.lost_bytes,
                rebuilt: faults.rebuilt,
                service: if histograms {
                    volume.queue.service().bins()
                } else {
                    Default::default()
                },
                series: series.unwrap_or_default(),
            });
        }
        (outcomes, energies)
    }
}
