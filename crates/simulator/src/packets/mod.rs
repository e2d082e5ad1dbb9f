//! Packets of events, handed out on request as PROOF's adaptive packetiser does.
//!
//! The rules are those of the master of real runs (`headrace/engine/measure/packets.py`): stretches
//! on the worker's own host come first (`files`), a packet takes about equal time (`sizes`), or each
//! worker has a share of its own from the start (`shares`). `handing` connects them with the
//! simulated processes. `fixed` is a simpler master.

mod files;
mod fixed;
mod handing;
mod shares;
mod sizes;
#[cfg(test)]
mod tests;

use std::collections::VecDeque;

use headrace_model::Nanos;

use files::{choose, Range, Readers};
pub(crate) use files::{FilePlace, QueryFile};
use sizes::{Rate, Sizes};

use crate::outcome::{PacketWorkerOutcome, PacketsOutcome};
use crate::scenario::{PacketRules, Split};

/// A packet is given up after this many workers failed while they held it.
const FAILURES: u32 = 2;

/// A range that was handed out and may be handed out again.
#[derive(Clone, Copy, Debug)]
struct Handed {
    range: Range,
    server: u32,
    local: bool,
    failures: u32,
    since: Nanos,
}

#[derive(Debug, Default)]
struct Worker {
    host: u32,
    rate: Rate,
    packet: Option<Handed>,
    file: Option<usize>,
    /// What only this worker gets, in a static split.
    share: VecDeque<Range>,
    done: PacketWorkerOutcome,
}

/// The answer to a worker that has finished its last packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Answer {
    Packet(Range),
    /// Every server with work left has its maximum number of readers: the worker must ask again
    /// after another has finished.
    Wait,
    /// There is no more work for it.
    Done,
}

/// The master of a query over a shared set of files.
#[derive(Debug)]
pub(crate) struct Packetiser {
    files: Vec<QueryFile>,
    /// Indices of the stretches with events left.
    open: Vec<usize>,
    left: u64,
    workers: Vec<Worker>,
    readers: Readers,
    sizes: Sizes,
    cluster: u64,
    /// Sum of the workers' mean rates in events per ns.
    events_per_ns: f64,
    /// Packets of failed workers, handed out before others, with the number of failures.
    again: Vec<(Range, u32)>,
    handed_out_again: u64,
    given_up: u64,
}

impl Packetiser {
    /// Prepare the packets of a query for one worker on each of `hosts`.
    pub fn new(files: Vec<QueryFile>, hosts: &[u32], first: u64, rules: &PacketRules) -> Self {
        let sizes = Sizes {
            first_events: first,
            shortest_ns: rules.shortest_ns,
            longest_ns: rules.longest_ns,
        };
        let mut made = Packetiser {
            open: (0..files.len()).filter(|&index| files[index].left() > 0).collect(),
            left: files.iter().map(QueryFile::left).sum(),
            files,
            workers: hosts.iter().map(|&host| Worker { host, ..Worker::default() }).collect(),
            readers: Readers::new(rules.workers_per_server),
            sizes,
            cluster: rules.cluster_events,
            events_per_ns: 0.0,
            again: Vec::new(),
            handed_out_again: 0,
            given_up: 0,
        };
        if rules.split == Split::Static {
            let shares = shares::shares(&made.files, hosts, made.cluster);
            for (worker, share) in made.workers.iter_mut().zip(shares) {
                worker.share = share;
            }
            made.files.iter_mut().for_each(|file| file.next = file.end);
            (made.open, made.left) = (Vec::new(), 0);
        }
        made
    }

    /// Return the number in its set of the file of a range.
    pub fn file(&self, range: Range) -> u32 {
        self.files[range.file].number
    }

    /// Return the next packet for a worker that holds none; the packet starts at `now`.
    pub fn next(&mut self, worker: usize, job: u64, now: Nanos) -> Answer {
        self.workers[worker].done.job = job;
        let found = self
            .next_again(worker)
            .or_else(|| self.next_of_share(worker))
            .or_else(|| self.next_new(worker));
        let Some(mut handed) = found else {
            let left = self.left > 0 || !self.again.is_empty();
            let own = !self.workers[worker].share.is_empty();
            return if left || own { Answer::Wait } else { Answer::Done };
        };
        handed.since = now;
        self.readers.begin(handed.server);
        self.files[handed.range.file].readers += 1;
        let w = &mut self.workers[worker];
        w.file = Some(handed.range.file);
        w.packet = Some(handed);
        w.done.handed_out += 1;
        Answer::Packet(handed.range)
    }

    /// Mark a worker's packet as finished.
    pub fn finished(&mut self, worker: usize, now: Nanos) {
        let Some(packet) = self.taken_back(worker) else { return };
        let number = self.file(packet.range);
        let took_ns = now.saturating_sub(packet.since);
        let w = &mut self.workers[worker];
        let before = w.rate.mean();
        w.rate.finished(number, packet.range.count, took_ns);
        self.events_per_ns += w.rate.mean() - before;
        w.done.busy_ns += took_ns;
        w.done.events += packet.range.count;
        if packet.local {
            w.done.events_local += packet.range.count;
        }
    }

    /// Hand out again what a worker held that ended early, and its share. Its finished packets
    /// count. Return the events that count.
    pub fn failed(&mut self, worker: usize) -> u64 {
        if let Some(packet) = self.taken_back(worker) {
            if packet.failures + 1 < FAILURES {
                self.again.push((packet.range, packet.failures + 1));
            } else {
                self.given_up += packet.range.count;
            }
        }
        let w = &mut self.workers[worker];
        self.events_per_ns -= w.rate.mean();
        self.again.extend(w.share.drain(..).map(|range| (range, 0)));
        w.done.events
    }

    /// Return what each worker was given.
    pub fn outcome(&self) -> PacketsOutcome {
        let again: u64 = self.again.iter().map(|(range, _)| range.count).sum();
        let held = self.workers.iter().filter_map(|w| w.packet).map(|packet| packet.range.count);
        let shares = self.workers.iter().flat_map(|w| &w.share).map(|range| range.count);
        PacketsOutcome {
            placed: self.files.iter().any(|file| file.place != FilePlace::Unknown),
            handed_out_again: self.handed_out_again,
            events_not_processed: self.left
                + again
                + self.given_up
                + held.sum::<u64>()
                + shares.sum::<u64>(),
            workers: self.workers.iter().map(|worker| worker.done).collect(),
        }
    }

    fn taken_back(&mut self, worker: usize) -> Option<Handed> {
        let packet = self.workers[worker].packet.take()?;
        self.readers.end(packet.server);
        self.files[packet.range.file].readers -= 1;
        Some(packet)
    }

    /// Return a packet of a failed worker that may be read now.
    fn next_again(&mut self, worker: usize) -> Option<Handed> {
        let host = self.workers[worker].host;
        let is_remote = |index: usize| {
            let (range, _) = self.again[index];
            !self.files[range.file].place.is_local(host)
        };
        let mut order: Vec<usize> = (0..self.again.len()).collect();
        order.sort_by_key(|&index| is_remote(index));
        let (index, mut handed) = order
            .into_iter()
            .find_map(|index| Some((index, self.handed(worker, self.again[index].0)?)))?;
        let (_, failures) = self.again.remove(index);
        handed.failures = failures;
        self.handed_out_again += u64::from(failures > 0);
        Some(handed)
    }

    /// Return the next range of a worker's own share.
    fn next_of_share(&mut self, worker: usize) -> Option<Handed> {
        let range = *self.workers[worker].share.front()?;
        let handed = self.handed(worker, range)?;
        self.workers[worker].share.pop_front();
        Some(handed)
    }

    fn next_new(&mut self, worker: usize) -> Option<Handed> {
        let w = &self.workers[worker];
        let current = w.file.filter(|&file| self.files[file].left() > 0);
        let file = choose(&self.files, &self.open, &self.readers, w.host, current)?;
        let range = Range { file, first: self.files[file].next, count: self.size(worker, file) };
        let handed = self.handed(worker, range)?;
        self.files[file].next += range.count;
        self.left -= range.count;
        if self.files[file].left() == 0 {
            self.open.retain(|&index| index != file);
        }
        Some(handed)
    }

    /// Return a range as a packet for a worker, unless its servers have no room.
    fn handed(&self, worker: usize, range: Range) -> Option<Handed> {
        let (host, place) = (self.workers[worker].host, &self.files[range.file].place);
        let server = self.readers.server(place, host)?;
        Some(Handed { range, server, local: place.is_local(host), failures: 0, since: 0 })
    }

    /// Return the number of events of a new packet, extended to the end of a cluster.
    fn size(&self, worker: usize, file: usize) -> u64 {
        let f = &self.files[file];
        let rate = self.workers[worker].rate.in_file(f.number);
        let events = if rate > 0.0 {
            (rate * self.sizes.time_ns(self.left, self.events_per_ns)) as u64
        } else {
            self.sizes.first_events
        };
        let stop = (f.next + events.max(1)).div_ceil(self.cluster) * self.cluster;
        stop.min(f.end) - f.next
    }
}
