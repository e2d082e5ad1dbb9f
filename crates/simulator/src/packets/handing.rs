//! The master of a query and the simulated processes: requests, answers, and where files are.

use headrace_model::Nanos;

use super::{Answer, FilePlace, Packetiser, QueryFile};
use crate::ids::TaskId;
use crate::layout::Layout;
use crate::scenario::{Feed, PacketRules, PacketSpec};
use crate::world::{Event, Flow, Packet, Phase, Progress, SetPlace, State, World};

impl World<'_> {
    /// Fill the master's lists of files.
    pub fn prepare_packets(&mut self, spec: &PacketSpec) {
        let set = self.scenario.files.iter().position(|f| f.name == spec.file).unwrap_or_default();
        self.feeder.packet_set = set as u32;
        let Some(rules) = &spec.rules else { return self.prepare_fixed_packets(spec) };
        let hosts: Vec<u32> = self.feeder.slots.iter().map(|slot| slot.host).collect();
        let files = self.query_files(spec, rules);
        self.feeder.packetiser = Some(Packetiser::new(files, &hosts, spec.first_events, rules));
    }

    /// Return the stretches of the files of the query, and where they are.
    fn query_files(&self, spec: &PacketSpec, rules: &PacketRules) -> Vec<QueryFile> {
        let files = &self.feeder.sets[self.feeder.packet_set as usize];
        let count = match &files.place {
            SetPlace::Volumes(local) => local.iter().map(Vec::len).max().unwrap_or(0),
            SetPlace::Service { files, .. } => files.len(),
        } as u64;
        let mut found = Vec::new();
        for number in 0..count {
            let wanted = spec.events / count + u64::from(number < spec.events % count);
            let events = match spec.events {
                0 => spec.events_per_file,
                _ => wanted.min(spec.events_per_file),
            };
            let places = match &files.place {
                SetPlace::Volumes(_) => vec![(spec.events_per_file, FilePlace::Everywhere)],
                SetPlace::Service { service, files } => {
                    self.stretches(*service, files[number as usize], spec, rules)
                }
            };
            let mut first = 0;
            for (end, place) in places {
                let end = end.min(events);
                if end > first {
                    found.push(QueryFile::new(number as u32, first, end, place));
                    first = end;
                }
            }
        }
        found
    }

    /// Return the place of each stretch of a service's file, with the event at its end.
    ///
    /// A cluster belongs to the block that holds most of its bytes.
    fn stretches(
        &self,
        service: u32,
        file: u32,
        spec: &PacketSpec,
        rules: &PacketRules,
    ) -> Vec<(u64, FilePlace)> {
        let s = &self.services[service as usize];
        let f = &s.files[file as usize];
        let targets = s.targets.len() as u32;
        let place = |part: u32| {
            let replicas = part..part + s.replicas;
            let target = |part| s.layout.target(f, part, s.replicas, targets, None);
            let mut hosts: Vec<u32> =
                replicas.map(|part| s.targets[target(part) as usize].host).collect();
            hosts.sort_unstable();
            hosts.dedup();
            FilePlace::On(hosts)
        };
        let whole = spec.events_per_file;
        match s.layout {
            _ if s.upstream.is_some() => vec![(whole, FilePlace::Unknown)],
            Layout::Striped { .. } => vec![(whole, FilePlace::Unknown)],
            Layout::Whole => vec![(whole, place(0))],
            Layout::Blocks { block_bytes } => {
                let clusters = whole.div_ceil(rules.cluster_events);
                let mut found: Vec<(u64, FilePlace)> = Vec::new();
                for block in 0..f.bytes.div_ceil(block_bytes) {
                    let bytes = ((block + 1) * block_bytes).min(f.bytes);
                    let end = (2 * u128::from(bytes) * u128::from(clusters) + u128::from(f.bytes))
                        / (2 * u128::from(f.bytes));
                    let end = (end as u64 * rules.cluster_events).min(whole);
                    let here = place(block as u32 * s.replicas);
                    match found.last_mut() {
                        Some(last) if last.1 == here => last.0 = end,
                        _ => found.push((end, here)),
                    }
                }
                found
            }
        }
    }

    /// Report a completed packet and its processing time to the master and request the next packet.
    pub fn ask_for_packet(&mut self, task: TaskId) -> Flow {
        let now = self.now;
        let t = &mut self.tasks[task];
        let slot = t.slot as usize;
        if let Some(packet) = t.packet.take() {
            t.worked_events += packet.count;
            t.worked_ns += now - t.packet_since;
            if let Some(master) = &mut self.feeder.packetiser {
                master.finished(slot, now);
                self.wake_waiting();
            }
        }
        let Feed::Packets(spec) = &self.scenario.run.feed else { return self.end_program(task) };
        let found = if spec.rules.is_some() {
            match self.next_packet(task, spec) {
                Some(answer) => answer,
                None => {
                    self.tasks[task].progress = Progress::Begun;
                    self.enter(task, State::Network, Phase::None);
                    self.feeder.waiting.push(task);
                    return Flow::Blocked;
                }
            }
        } else {
            self.next_fixed_packet(task, spec)
        };
        let Some((packet, until)) = found else { return self.end_program(task) };
        let set = self.feeder.packet_set;
        self.release(task, set);
        let host = self.tasks[task].host;
        let instance = self.set_instance(host, set, packet.file);
        self.hold(task, set, instance);
        let t = &mut self.tasks[task];
        t.same_file = t.packet_file.replace(packet.file) == Some(packet.file);
        t.packet = Some(packet);
        t.packet_since = until;
        self.pause(task, until, State::Network, Phase::None)
    }

    /// Return the next packet for a worker and the time at which it receives it, or that nothing is
    /// left for it; `None` if it must wait for another worker.
    fn next_packet(&mut self, task: TaskId, spec: &PacketSpec) -> Option<Option<(Packet, Nanos)>> {
        let answered = self.answer_ns(spec);
        let until = answered + spec.round_trip_ns / 2;
        let (slot, job) = (self.tasks[task].slot as usize, self.tasks[task].job.tag());
        let Some(master) = &mut self.feeder.packetiser else { return Some(None) };
        match master.next(slot, job, until) {
            Answer::Wait => None,
            Answer::Done => Some(None),
            Answer::Packet(range) => {
                let file = master.file(range);
                self.feeder.master_free = answered;
                Some(Some((Packet { file, first: range.first, count: range.count }, until)))
            }
        }
    }

    /// Return when the master has handled a request that is sent now.
    pub(super) fn answer_ns(&self, spec: &PacketSpec) -> Nanos {
        self.feeder.master_free.max(self.now + spec.round_trip_ns / 2) + spec.master_ns
    }

    /// Take back the packet of a process that ended early.
    pub fn packet_failed(&mut self, task: TaskId) {
        let t = &mut self.tasks[task];
        let Some(master) = &mut self.feeder.packetiser else { return };
        if t.packet.take().is_some() {
            self.jobs[t.job.index()].events = master.failed(t.slot as usize);
            self.wake_waiting();
        }
    }

    /// Let the workers that wait for a server ask again.
    fn wake_waiting(&mut self) {
        for task in std::mem::take(&mut self.feeder.waiting) {
            self.events.schedule(self.now, 1, Event::Timer(task));
        }
    }

    fn end_program(&mut self, task: TaskId) -> Flow {
        let end = self.program.len() as u32;
        let t = &mut self.tasks[task];
        t.pc = end;
        t.progress = Progress::Begun;
        Flow::On
    }
}
