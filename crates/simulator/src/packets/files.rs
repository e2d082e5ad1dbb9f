//! Stretches of files and where they are: which one a worker's next packet is from.

use std::collections::BTreeMap;

/// Name of the server of files whose location is not known.
const UNKNOWN: u32 = u32::MAX;

/// Where a stretch of a file is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum FilePlace {
    /// Not known: all such files count as those of one server.
    Unknown,
    /// Each host has a copy on a drive of its own.
    Everywhere,
    /// On these hosts.
    On(Vec<u32>),
}

impl FilePlace {
    pub fn is_local(&self, host: u32) -> bool {
        match self {
            FilePlace::Unknown => false,
            FilePlace::Everywhere => true,
            FilePlace::On(hosts) => hosts.contains(&host),
        }
    }
}

/// A stretch of a file, and how much of it was handed out.
#[derive(Clone, Debug)]
pub(crate) struct QueryFile {
    /// Number of the file in its set.
    pub number: u32,
    /// First event that was not handed out, and the end of the stretch.
    pub next: u64,
    pub end: u64,
    pub place: FilePlace,
    pub readers: u32,
}

impl QueryFile {
    pub fn new(number: u32, first: u64, end: u64, place: FilePlace) -> Self {
        QueryFile { number, next: first, end, place, readers: 0 }
    }

    /// Return the number of events that were not handed out.
    pub fn left(&self) -> u64 {
        self.end - self.next
    }
}

/// A range of events of one stretch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub file: usize,
    pub first: u64,
    pub count: u64,
}

/// How many workers read from each server, and the limit.
#[derive(Debug, Default)]
pub(crate) struct Readers {
    limit: Option<u32>,
    of: BTreeMap<u32, u32>,
}

impl Readers {
    pub fn new(limit: Option<u32>) -> Self {
        Readers { limit, of: BTreeMap::new() }
    }

    /// Return the server from which a worker on a host reads a stretch; `None` if all are full.
    ///
    /// That of its own host first, then that with the fewest readers.
    pub fn server(&self, place: &FilePlace, host: u32) -> Option<u32> {
        let found = match place {
            FilePlace::Unknown => UNKNOWN,
            FilePlace::Everywhere => host,
            FilePlace::On(hosts) if hosts.contains(&host) && self.has_room(host) => host,
            FilePlace::On(hosts) => *hosts.iter().min_by_key(|&&server| self.count(server))?,
        };
        self.has_room(found).then_some(found)
    }

    pub fn count(&self, server: u32) -> u32 {
        self.of.get(&server).copied().unwrap_or(0)
    }

    fn has_room(&self, server: u32) -> bool {
        self.limit.is_none_or(|limit| self.count(server) < limit)
    }

    pub fn begin(&mut self, server: u32) {
        *self.of.entry(server).or_default() += 1;
    }

    pub fn end(&mut self, server: u32) {
        if let Some(count) = self.of.get_mut(&server) {
            *count -= 1;
        }
    }
}

/// Return the index of the stretch for the next packet of a worker on a host, if there is one.
///
/// `open`: the stretches with events left, in order.
pub(crate) fn choose(
    files: &[QueryFile],
    open: &[usize],
    readers: &Readers,
    host: u32,
    current: Option<usize>,
) -> Option<usize> {
    let ready: Vec<(usize, u32)> = open
        .iter()
        .filter_map(|&index| Some((index, readers.server(&files[index].place, host)?)))
        .collect();
    let is_local = |index: usize| files[index].place.is_local(host);
    let any_local = ready.iter().any(|&(index, _)| is_local(index));
    if let Some(current) = current {
        let usable = files[current].readers == 0 && (is_local(current) || !any_local);
        if usable && ready.iter().any(|&(index, _)| index == current) {
            return Some(current);
        }
    }
    let rest = |index: usize| u64::MAX - files[index].left();
    if any_local {
        let local = ready.iter().map(|&(index, _)| index).filter(|&index| is_local(index));
        return local.min_by_key(|&index| (files[index].readers, rest(index)));
    }
    let left = left_by_server(files, &ready);
    let need = |&(index, server): &(usize, u32)| {
        let most = u64::MAX - left.get(&server).copied().unwrap_or(0);
        (readers.count(server), most, files[index].readers, rest(index))
    };
    ready.iter().min_by_key(|entry| need(entry)).map(|&(index, _)| index)
}

fn left_by_server(files: &[QueryFile], ready: &[(usize, u32)]) -> BTreeMap<u32, u64> {
    let mut left = BTreeMap::new();
    for &(index, server) in ready {
        let file = &files[index];
        match &file.place {
            FilePlace::On(hosts) => {
                for &host in hosts {
                    *left.entry(host).or_default() += file.left();
                }
            }
            _ => *left.entry(server).or_default() += file.left(),
        }
    }
    left
}
