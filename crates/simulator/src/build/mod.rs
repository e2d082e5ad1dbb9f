//! Builds the world of a scenario.
//!
//! First hosts with their volumes (`hosts`, `block_layer`), then `services` on these, job slots,
//! and `files` on both.

mod block_layer;
mod files;
mod hosts;
mod services;

use rustc_hash::FxHashMap;
use std::sync::atomic::AtomicBool;
use std::sync::Arc;

use headrace_model::link::tcp::Tcp;
use headrace_model::link::{Leaves, Network, Port};
use headrace_model::slots::Slab;

use crate::outcome::Counters;
use crate::program::{compile, Instruction};
use crate::queue::EventQueue;
use crate::scenario::{Feed, HostSpec, Scenario, ScenarioError};
use crate::world::{Event, Feeder, Host, Slot, World};

pub(crate) use hosts::port;

/// Return the leaf switch of each node.
fn leaves(scenario: &Scenario) -> Leaves {
    let Some(spec) = scenario.leaves else { return Leaves::default() };
    let nodes: u32 = scenario.nodes.iter().map(|node| node.count).sum();
    Leaves {
        of_host: (0..nodes).map(|node| Some(node / spec.nodes)).collect(),
        uplink_bytes_per_s: vec![spec.uplink_bytes_per_s; nodes.div_ceil(spec.nodes) as usize],
    }
}

/// A program, or what is wrong with its steps.
pub(crate) type Compiled = Result<Arc<[Instruction]>, ScenarioError>;

/// Compile the profile that the jobs run.
pub(crate) fn program(scenario: &Scenario) -> Compiled {
    let run = &scenario.run;
    let number = scenario.profiles.iter().position(|p| p.name == run.profile).unwrap_or_default();
    let packets = run.feed != Feed::Files;
    let mut program = Vec::new();
    if packets {
        // Request a packet, process it, repeat until the master has no more.
        program.push(Instruction::Loop { times: u64::MAX, end: 0 });
        program.push(Instruction::Packet);
    }
    let steps = &scenario.profiles[number].steps;
    compile(steps, &scenario.files, &format!("profiles[{number}]"), &mut program)?;
    if packets {
        program.push(Instruction::Again { start: 0 });
    }
    Ok(program.into())
}

impl<'a> World<'a> {
    /// Build the initial state, for jobs with this program. Once `cancel` is set, drives stay empty:
    /// the world is only good for `run`, which then ends at once.
    pub fn build(
        scenario: &'a Scenario,
        program: &Compiled,
        cancel: &AtomicBool,
    ) -> Result<Self, ScenarioError> {
        let specs: Vec<(bool, usize, &HostSpec)> = scenario
            .nodes
            .iter()
            .enumerate()
            .map(|(i, spec)| (true, i, spec))
            .chain(scenario.servers.iter().enumerate().map(|(i, spec)| (false, i, spec)))
            .collect();
        let ports: Vec<Port> =
            specs.iter().flat_map(|(_, _, spec)| vec![port(spec); spec.count as usize]).collect();
        let mut world = World {
            scenario,
            now: 0,
            events: EventQueue::default(),
            hosts: Vec::new(),
            volumes: Vec::new(),
            mounts: Vec::new(),
            services: Vec::new(),
            instances: Slab::default(),
            ios: Slab::default(),
            ops: Slab::default(),
            rpcs: Slab::default(),
            vectors: Slab::default(),
            fetches: Slab::default(),
            tasks: Slab::default(),
            network: Network::with_leaves(&ports, leaves(scenario)),
            tcp: scenario.tcp.map(|spec| Tcp::new(spec, ports.len(), scenario.seed)),
            network_timer: None,
            client_instances: FxHashMap::default(),
            lustre: FxHashMap::default(),
            program: Arc::default(),
            feeder: Feeder::default(),
            jobs: Vec::new(),
            counters: Counters::default(),
            over: false,
            completions: Vec::new(),
        };
        for (is_node, spec_number, spec) in specs {
            for number in 0..spec.count {
                world.add_host(is_node, spec_number, spec, number)?;
            }
        }
        world.add_services();
        world.add_slots();
        world.add_files(cancel)?;
        world.program = program.clone()?;
        if let Feed::Packets(spec) = &scenario.run.feed {
            world.prepare_packets(spec);
        }
        world.schedule_faults();
        world.release_jobs();
        Ok(world)
    }

    fn schedule_faults(&mut self) {
        for (number, fault) in self.scenario.faults.iter().enumerate() {
            let number = number as u32;
            self.events.schedule(fault.at_ns, 0, Event::Fault { number, ends: false });
            if fault.for_ns > 0 {
                self.events.schedule(
                    fault.at_ns + fault.for_ns,
                    0,
                    Event::Fault { number, ends: true },
                );
            }
        }
    }

    fn uses(&self, spec: &HostSpec) -> bool {
        let run = &self.scenario.run;
        run.nodes.is_empty() || run.nodes.contains(&spec.name)
    }

    /// Return the hosts with this name (without index).
    pub(super) fn hosts_named(&self, name: &str) -> Vec<u32> {
        let plain = |host: &Host| host.name.split('[').next() == Some(name);
        (0..self.hosts.len() as u32).filter(|&h| plain(&self.hosts[h as usize])).collect()
    }

    fn add_slots(&mut self) {
        let run = &self.scenario.run;
        for host in 0..self.hosts.len() as u32 {
            let h = &self.hosts[host as usize];
            if !h.is_node || !self.uses(&self.scenario.nodes[h.spec as usize]) {
                continue;
            }
            for number in 0..run.slots_per_node {
                self.feeder.slots.push(Slot { host, number, task: None });
            }
        }
    }
}
