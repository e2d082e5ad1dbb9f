//! Distribution of work: slots and jobs, files of sets, packets of events, and the nodes' pCaches.

use headrace_model::stream::Stream;
use headrace_model::Nanos;

use crate::ids::{InstanceId, JobId, TaskId};
use crate::outcome::JobOutcome;
use crate::scenario::{Assign, Feed, Load, PacketSpec, Share};
use crate::world::{Content, Event, Mounted, Packet, PacketSource, SetPlace, Slot, World};

impl World<'_> {
    // ---- Slots ----

    /// Schedule the start of the first jobs.
    pub fn release_jobs(&mut self) {
        let run = &self.scenario.run;
        let mut stream = Stream::new(self.scenario.seed, "run/stagger");
        if let (Assign::Static, Load::Batch { jobs }) = (run.assign, run.load) {
            let mut hosts: Vec<u32> = self.feeder.slots.iter().map(|slot| slot.host).collect();
            hosts.dedup();
            let n = hosts.len() as u64;
            for (number, host) in hosts.into_iter().enumerate() {
                let share = jobs / n + u64::from((number as u64) < jobs % n);
                self.feeder.quota.insert(host, share);
            }
        }
        self.feeder.workers_left = self.feeder.slots.len() as u32;
        // Slot by slot over the nodes, so that a small number of jobs spreads over all nodes.
        let mut order: Vec<u32> = (0..self.feeder.slots.len() as u32).collect();
        order.sort_by_key(|&slot| self.feeder.slots[slot as usize].number);
        for slot in order {
            let delay = if run.stagger_ns > 0 { stream.below(run.stagger_ns) } else { 0 };
            self.events.schedule(delay, 2, Event::Slot(slot));
        }
        if let (Load::Sustained { duration_ns }, Feed::Files) = (run.load, &run.feed) {
            self.events.schedule(duration_ns, 0, Event::End);
        }
        if run.timeout_ns > 0 {
            self.events.schedule(run.timeout_ns, 0, Event::End);
        }
    }

    /// Start the next job in a slot, if there is one.
    pub fn slot_free(&mut self, slot: u32) {
        let run = &self.scenario.run;
        let Slot { host, number, .. } = self.feeder.slots[slot as usize];
        if run.feed == Feed::Files {
            if let Load::Batch { jobs } = run.load {
                if self.feeder.next_job >= jobs {
                    return;
                }
                if let Some(quota) = self.feeder.quota.get_mut(&host) {
                    if *quota == 0 {
                        return;
                    }
                    *quota -= 1;
                }
            }
        }
        let job = JobId::at(self.jobs.len());
        self.feeder.next_job += 1;
        self.jobs.push(JobOutcome {
            number: job.tag(),
            host: self.hosts[host as usize].name.clone(),
            slot: number,
            start_ns: self.now,
            ..JobOutcome::default()
        });
        let task = self.new_task(host, number, job, 1 + 2 * number);
        self.tasks[task].slot = slot;
        self.feeder.slots[slot as usize].task = Some(task);
        self.feeder.task_of_job.push(Some(task));
        self.run_task(task);
    }

    pub fn job_finished(&mut self, slot: u32) {
        self.feeder.finished += 1;
        self.feeder.slots[slot as usize].task = None;
        let run = &self.scenario.run;
        if run.feed != Feed::Files {
            self.feeder.workers_left -= 1;
            self.over = self.feeder.workers_left == 0;
            return;
        }
        if let Load::Batch { jobs } = run.load {
            if self.feeder.finished >= jobs {
                self.over = true;
                return;
            }
        }
        self.events.schedule(self.now + run.dispatch_ns, 2, Event::Slot(slot));
    }

    // ---- Files of sets ----

    /// Return the number of the next file of a set for a host.
    pub fn next_in_set(&mut self, host: u32, set: u32) -> u32 {
        let files = &mut self.feeder.sets[set as usize];
        let (turn, count) = match &files.place {
            SetPlace::Volumes(local) => {
                (&mut files.turn[host as usize], local[host as usize].len())
            }
            SetPlace::Service { files: remote, .. } => (&mut files.turn[0], remote.len()),
        };
        let number = (*turn % count.max(1) as u64) as u32;
        *turn += 1;
        number
    }

    /// Return the instance of the `number`-th file of a set on a host.
    pub fn set_instance(&mut self, host: u32, set: u32, number: u32) -> InstanceId {
        let files = &self.feeder.sets[set as usize];
        match &files.place {
            SetPlace::Volumes(local) => local[host as usize][number as usize],
            SetPlace::Service { service, files: remote } => {
                let (service, file) = (*service, remote[number as usize]);
                let mount = self.mount_of_set(host, set);
                self.client_instance(mount, service, file)
            }
        }
    }

    fn mount_of_set(&self, host: u32, set: u32) -> u32 {
        let mount = self.feeder.sets[set as usize].mount[host as usize];
        mount.expect("checked: each node has the volume or service of the set")
    }

    /// Create a new, empty file of a set.
    pub fn new_file_in_set(&mut self, host: u32, set: u32) -> InstanceId {
        let mount = self.mount_of_set(host, set);
        match self.mounts[mount as usize].mounted {
            Mounted::Volume(volume) => {
                let file = self.volumes[volume as usize].fs.create();
                self.new_instance(mount, Content::File(file), 0)
            }
            Mounted::Service(service) => {
                let file = self.new_service_file(service);
                self.client_instance(mount, service, file)
            }
        }
    }

    /// Assign a file of a set to a process that uses the set for the first time.
    pub fn assign_file(&mut self, task: TaskId, set: u32) -> InstanceId {
        let host = self.tasks[task].host;
        match self.scenario.files[set as usize].share {
            Share::New => self.new_file_in_set(host, set),
            Share::Shared => {
                let number = self.tasks[task].packet.map_or(0, |packet| packet.file);
                self.set_instance(host, set, number)
            }
            Share::Each => {
                let number = self.next_in_set(host, set);
                self.set_instance(host, set, number)
            }
        }
    }

    // ---- Packets ----

    /// Fill the master's lists of files.
    pub fn prepare_packets(&mut self, spec: &PacketSpec) {
        let set = self.scenario.files.iter().position(|f| f.name == spec.file).unwrap_or_default();
        self.feeder.packet_set = set as u32;
        let mut hosts: Vec<u32> = self.feeder.slots.iter().map(|slot| slot.host).collect();
        hosts.sort_unstable();
        hosts.dedup();
        let files = &self.feeder.sets[set];
        let lists: Vec<(Option<u32>, usize)> = match &files.place {
            SetPlace::Service { files: remote, .. } => vec![(None, remote.len())],
            SetPlace::Volumes(local) => {
                hosts.iter().map(|&host| (Some(host), local[host as usize].len())).collect()
            }
        };
        let sources = lists.len() as u64;
        for (number, (key, count)) in lists.into_iter().enumerate() {
            let all = count as u64 * spec.events_per_file;
            let left = if spec.events == 0 {
                all
            } else {
                let share =
                    spec.events / sources + u64::from((number as u64) < spec.events % sources);
                share.min(all)
            };
            let files = (0..count as u32).map(|file| (file, 0, 0)).collect();
            self.feeder.sources.insert(key, PacketSource { files, left });
        }
    }

    /// Return the next packet for a worker and the time at which the worker receives it; `None` if
    /// no events are left.
    pub fn next_packet(&mut self, task: TaskId) -> Option<(Packet, Nanos)> {
        let Feed::Packets(spec) = &self.scenario.run.feed else { return None };
        let t = &self.tasks[task];
        let (host, worked_events, worked_ns) = (t.host, t.worked_events, t.worked_ns);
        let own = (!self.feeder.sources.contains_key(&None)).then_some(host);
        let on = t.files[self.feeder.packet_set as usize].instance;
        let rate_events_per_ns =
            if worked_ns > 0 { worked_events as f64 / worked_ns as f64 } else { 0.0 };
        let wanted = if worked_events == 0 {
            spec.first_events
        } else {
            let fair = (rate_events_per_ns * spec.target_ns as f64) as u64;
            fair.clamp(spec.min_events, spec.max_events)
        };
        // The worker's current file, else the file with the fewest workers (the first of these).
        let set = &self.feeder.sets[self.feeder.packet_set as usize];
        let current = match (&set.place, on) {
            (SetPlace::Volumes(local), Some(on)) => {
                local[host as usize].iter().position(|&instance| instance == on)
            }
            _ => None,
        };
        let source = self.feeder.sources.get_mut(&own)?;
        if source.left == 0 {
            return None;
        }
        let has_more = |entry: &(u32, u64, u32)| entry.1 < spec.events_per_file;
        let index = match current.filter(|&i| source.files.get(i).is_some_and(has_more)) {
            Some(index) => index,
            None => {
                let open = source.files.iter().enumerate().filter(|(_, entry)| has_more(entry));
                let (index, _) = open.min_by_key(|(index, entry)| (entry.2, *index))?;
                if let Some(old) = current {
                    source.files[old].2 = source.files[old].2.saturating_sub(1);
                }
                source.files[index].2 += 1;
                index
            }
        };
        let entry = &mut source.files[index];
        let count = wanted.max(1).min(spec.events_per_file - entry.1).min(source.left);
        let packet = Packet { file: entry.0, first: entry.1, count };
        entry.1 += count;
        source.left -= count;
        let asked = self.now + spec.round_trip_ns / 2;
        let answered = self.feeder.master_free.max(asked) + spec.master_ns;
        self.feeder.master_free = answered;
        Some((packet, answered + spec.round_trip_ns / 2))
    }
}
