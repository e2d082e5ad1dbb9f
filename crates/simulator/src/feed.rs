//! Distribution of work: slots and jobs, files of sets, and the nodes' pCaches.

use headrace_model::stream::Stream;

use crate::ids::{InstanceId, JobId, TaskId};
use crate::outcome::JobOutcome;
use crate::scenario::{Assign, Feed, Load, Share};
use crate::world::{Content, Event, Mounted, SetPlace, Slot, World};

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
        self.enter_group(task);
        self.feeder.slots[slot as usize].task = Some(task);
        self.feeder.task_of_job.push(Some(task));
        self.start_system_work(host, self.hosts[host as usize].beside_job_ns);
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
}
