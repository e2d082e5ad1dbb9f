//! A static split: the events of a query divided among its workers before they start.
//!
//! Where every stretch is local to some worker's host, the workers of each host share those of
//! their host; otherwise all workers share all. Shares are equal in events, up to whole clusters.

use std::collections::{BTreeMap, VecDeque};

use super::files::{QueryFile, Range};

/// Return the ranges of each worker; `hosts`: the host of each.
pub(super) fn shares(files: &[QueryFile], hosts: &[u32], cluster: u64) -> Vec<VecDeque<Range>> {
    let mut found = vec![VecDeque::new(); hosts.len()];
    for (host, group) in by_host(files, hosts) {
        let is_of_group = |&worker: &usize| host.is_none_or(|host| hosts[worker] == host);
        let workers: Vec<usize> = (0..hosts.len()).filter(is_of_group).collect();
        for (range, share) in cut(files, &group, workers.len(), cluster) {
            found[workers[share]].push_back(range);
        }
    }
    found
}

/// Return the stretches that the workers of each host share; `None`: those of all hosts.
fn by_host(files: &[QueryFile], hosts: &[u32]) -> BTreeMap<Option<u32>, Vec<usize>> {
    let mut once = Vec::new();
    let mut seen = std::collections::BTreeSet::new();
    for &host in hosts {
        if seen.insert(host) {
            once.push(host);
        }
    }
    let at_home = files.iter().all(|file| once.iter().any(|&host| file.place.is_local(host)));
    let mut found: BTreeMap<Option<u32>, Vec<usize>> = BTreeMap::new();
    let mut given: BTreeMap<u32, u64> = BTreeMap::new();
    for (index, file) in files.iter().enumerate() {
        let able = once.iter().filter(|&&host| file.place.is_local(host));
        let host = if at_home {
            able.min_by_key(|host| given.get(host).copied().unwrap_or(0)).copied()
        } else {
            None
        };
        if let Some(host) = host {
            *given.entry(host).or_default() += file.left();
        }
        found.entry(host).or_default().push(index);
    }
    found
}

/// Return equal shares of consecutive events: ranges, and the number of the share of each.
fn cut(files: &[QueryFile], group: &[usize], workers: usize, cluster: u64) -> Vec<(Range, usize)> {
    let total: u64 = group.iter().map(|&index| files[index].left()).sum();
    let bound = |share: usize| (u128::from(total) * share as u128 / workers as u128) as u64;
    let mut found = Vec::new();
    let mut before = 0;
    for &file in group {
        let (first, events) = (files[file].next, files[file].left());
        let mut start = 0;
        for share in 0..workers {
            let stop = if share + 1 == workers {
                events
            } else {
                whole(bound(share + 1).saturating_sub(before), cluster, events)
            };
            if stop > start {
                found.push((Range { file, first: first + start, count: stop - start }, share));
            }
            start = start.max(stop);
        }
        before += events;
    }
    found
}

/// Return the nearest end of a cluster, at most the end of the stretch.
fn whole(events: u64, cluster: u64, most: u64) -> u64 {
    let wanted = events.min(most);
    let below = wanted / cluster * cluster;
    let above = below.saturating_add(cluster).min(most); // a stretch may end with a shorter cluster
    if wanted - below >= above - wanted {
        above
    } else {
        below
    }
}
