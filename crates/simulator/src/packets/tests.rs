//! Farms of workers of different speeds: what every query must keep to, whatever is drawn.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};

use proptest::prelude::*;

use super::files::Range;
use super::{Answer, FilePlace, Packetiser, QueryFile};
use crate::scenario::{PacketRules, Split};

/// Hosts with their workers' time for an event, files, and the rules.
#[derive(Clone, Debug)]
struct Farm {
    event_ns: Vec<u64>,
    workers_per_host: u32,
    files: Vec<(u64, FilePlace)>,
    limit: Option<u32>,
    cluster: u64,
    /// Numbers of the requests for packets whose worker fails afterwards.
    failures: Vec<u64>,
}

/// What happened: the ranges of each file, the end, the longest packet, and the events not done.
struct Ran {
    ranges: BTreeMap<u32, Vec<(u64, u64)>>,
    end: u64,
    longest: u64,
    not_processed: u64,
}

fn place(hosts: u32) -> impl Strategy<Value = FilePlace> {
    prop_oneof![
        Just(FilePlace::Unknown),
        Just(FilePlace::Everywhere),
        proptest::collection::btree_set(0..hosts, 1..=2)
            .prop_map(|hosts| FilePlace::On(hosts.into_iter().collect())),
    ]
}

fn farm() -> impl Strategy<Value = Farm> {
    (2u32..5).prop_flat_map(|hosts| {
        (
            proptest::collection::vec(1_000u64..50_000, hosts as usize),
            1u32..4,
            proptest::collection::vec((0u64..3_000, place(hosts)), 1..6),
            proptest::option::of(1u32..4),
            1u64..100,
            proptest::collection::vec(0u64..40, 0..4),
        )
            .prop_map(|(event_ns, workers_per_host, files, limit, cluster, failures)| {
                Farm { event_ns, workers_per_host, files, limit, cluster, failures }
            })
    })
}

impl Farm {
    fn run(&self, split: Split) -> Ran {
        let rules = PacketRules {
            split,
            shortest_ns: 100_000,
            longest_ns: 10_000_000,
            cluster_events: self.cluster,
            workers_per_server: self.limit,
        };
        let hosts: Vec<u32> = (0..self.event_ns.len() as u32)
            .flat_map(|host| vec![host; self.workers_per_host as usize])
            .collect();
        let files = self.files.iter().zip(0..);
        let files = files.map(|((events, place), n)| QueryFile::new(n, 0, *events, place.clone()));
        let mut master = Packetiser::new(files.collect(), &hosts, 50, &rules);
        let mut ran = Ran { ranges: BTreeMap::new(), end: 0, longest: 0, not_processed: 0 };
        let mut held: BTreeMap<usize, Range> = BTreeMap::new();
        let mut queue: BinaryHeap<Reverse<(u64, usize)>> =
            (0..hosts.len()).map(|worker| Reverse((0, worker))).collect();
        let (mut waiting, mut requests) = (Vec::new(), 0);
        while let Some(Reverse((now, worker))) = queue.pop() {
            if let Some(range) = held.remove(&worker) {
                requests += 1;
                queue.extend(waiting.drain(..).map(|other| Reverse((now, other))));
                if self.failures.contains(&requests) {
                    master.failed(worker);
                    continue;
                }
                master.finished(worker, now);
                let done = ran.ranges.entry(master.file(range)).or_default();
                done.push((range.first, range.first + range.count));
                ran.end = now;
            }
            match master.next(worker, worker as u64, now) {
                Answer::Done => {}
                Answer::Wait => {
                    assert!(!held.is_empty(), "a worker waits though nobody reads");
                    waiting.push(worker);
                }
                Answer::Packet(range) => {
                    assert_eq!(range.first % self.cluster, 0, "whole clusters");
                    let took = range.count * self.event_ns[hosts[worker] as usize];
                    ran.longest = ran.longest.max(took);
                    held.insert(worker, range);
                    queue.push(Reverse((now + took, worker)));
                }
            }
            self.keeps_the_limit(&held);
        }
        assert!(waiting.is_empty());
        ran.not_processed = master.outcome().events_not_processed;
        ran
    }

    /// Check the readers of files that are on one server.
    fn keeps_the_limit(&self, held: &BTreeMap<usize, Range>) {
        let Some(limit) = self.limit else { return };
        let mut readers: BTreeMap<u32, u32> = BTreeMap::new();
        for range in held.values() {
            match &self.files[range.file].1 {
                FilePlace::On(hosts) if hosts.len() == 1 => {
                    *readers.entry(hosts[0]).or_default() += 1;
                }
                FilePlace::Unknown => *readers.entry(u32::MAX).or_default() += 1,
                _ => {}
            }
        }
        assert!(readers.values().all(|&count| count <= limit), "{readers:?}");
    }

    fn events(&self) -> u64 {
        self.files.iter().map(|(events, _)| events).sum()
    }
}

/// Return the number of events in ranges that must not overlap.
fn counted(ran: &mut Ran) -> u64 {
    let mut count = 0;
    for ranges in ran.ranges.values_mut() {
        ranges.sort_unstable();
        assert!(ranges.windows(2).all(|pair| pair[0].1 <= pair[1].0), "an event is done twice");
        count += ranges.iter().map(|(first, end)| end - first).sum::<u64>();
    }
    count
}

proptest! {
    #[test]
    fn every_event_is_processed_once_within_the_servers_limits(farm in farm()) {
        for split in [Split::Adaptive, Split::Static] {
            let mut ran = farm.run(split);
            prop_assert_eq!(counted(&mut ran) + ran.not_processed, farm.events());
            if farm.failures.is_empty() {
                prop_assert_eq!(ran.not_processed, 0);
            }
        }
    }

    /// A worker that asks gets a packet as long as there are any: all are busy until the last
    /// packets begin.
    #[test]
    fn packets_on_request_are_at_most_one_packet_slower_than_fixed_shares(farm in farm()) {
        let farm = Farm { limit: None, failures: Vec::new(), ..farm };
        let (adaptive, fixed) = (farm.run(Split::Adaptive), farm.run(Split::Static));
        prop_assert!(
            adaptive.end <= fixed.end + adaptive.longest,
            "{} {} {}", adaptive.end, fixed.end, adaptive.longest
        );
    }
}

#[test]
fn a_slow_host_is_helped_by_the_others() {
    let on = |host| (4_000, FilePlace::On(vec![host]));
    let farm = Farm {
        event_ns: vec![10_000, 1_000],
        workers_per_host: 1,
        files: vec![on(0), on(1)],
        limit: None,
        cluster: 10,
        failures: Vec::new(),
    };
    assert_eq!(farm.run(Split::Static).end, 40_000_000);
    let ideal = 8_000 * 10_000 / 11;
    let end = farm.run(Split::Adaptive).end;
    assert!((ideal..ideal * 11 / 10).contains(&end), "{end}");
}
