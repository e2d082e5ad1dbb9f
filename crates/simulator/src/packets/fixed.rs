//! Packets of a fixed duration from the files of the worker's own node, as some profiles describe
//! their master.

use headrace_model::Nanos;

use crate::ids::TaskId;
use crate::scenario::PacketSpec;
use crate::world::{Packet, PacketSource, SetPlace, World};

impl World<'_> {
    /// Fill the master's lists of files.
    pub(super) fn prepare_fixed_packets(&mut self, spec: &PacketSpec) {
        let set = self.feeder.packet_set as usize;
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
    pub(super) fn next_fixed_packet(
        &mut self,
        task: TaskId,
        spec: &PacketSpec,
    ) -> Option<(Packet, Nanos)> {
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
        let answered = self.answer_ns(spec);
        self.feeder.master_free = answered;
        Some((packet, answered + spec.round_trip_ns / 2))
    }
}
