//! Follows requests: what was queued (Q), issued (D) and completed (C) is joined by device and sector.
//!
//! One request may carry several queued pieces of I/O (merges), one piece may be split over several requests, and a request may
//! complete in parts or be given back. What is open is kept, what is done is told and forgotten.

use std::collections::VecDeque;

use rustc_hash::FxHashMap;

use crate::event::{Action, Event, Op};

/// A piece of I/O that a process queued (the kernel's bio), or what is left of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub queue_ns: u64,
    pub sectors: u32,
    pub pid: u32,
    pub op: Op,
    /// Counted from 0 in the order of queueing.
    pub number: u64,
}

/// A request that the driver has.
#[derive(Clone, Debug)]
pub struct Request {
    pub issue_ns: u64,
    pub sector: u64,
    pub sectors: u32,
    pub device: u32,
    /// The process that queued its first piece; that which issued it when its queueing was not seen.
    pub pid: u32,
    pub op: Op,
    pub first: Option<Piece>,
    pub merged: Vec<Piece>,
    /// Counted from 0 in the order of issue.
    pub number: u64,
    left: u32,
}

impl Request {
    /// The pieces that it carries, as far as their queueing was seen.
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.first.iter().chain(self.merged.iter())
    }
}

/// Is told what happens. `piece` of a bio-based device (RAID, mapping) completes without a request.
pub trait Watcher {
    fn queued(&mut self, event: &Event, piece: &Piece);
    fn merged(&mut self, _event: &Event) {}
    fn issued(&mut self, request: &Request);
    fn requeued(&mut self, _request: &Request) {}
    fn completed(&mut self, request: &Request, complete_ns: u64);
    fn piece_completed(&mut self, event: &Event, piece: &Piece);
    /// A completion of which nothing is known.
    fn stray(&mut self, _event: &Event) {}
}

/// Open things by place; the first of each place lies in the table itself.
struct Open<T> {
    first: FxHashMap<u64, (T, bool)>,
    more: FxHashMap<u64, VecDeque<T>>,
    len: usize,
}

impl<T> Open<T> {
    fn new() -> Open<T> {
        Open { first: FxHashMap::default(), more: FxHashMap::default(), len: 0 }
    }

    fn add(&mut self, key: u64, item: T) {
        self.len += 1;
        match self.first.entry(key) {
            std::collections::hash_map::Entry::Vacant(place) => {
                place.insert((item, false));
            }
            std::collections::hash_map::Entry::Occupied(mut place) => {
                place.get_mut().1 = true;
                self.more.entry(key).or_default().push_back(item);
            }
        }
    }

    /// Takes the oldest at a place that fits.
    fn take(&mut self, key: u64, fits: impl Fn(&T) -> bool) -> Option<T> {
        let (item, more) = self.first.get(&key)?;
        if !more {
            if !fits(item) {
                return None;
            }
            self.len -= 1;
            return self.first.remove(&key).map(|(item, _)| item);
        }
        self.take_of_many(key, fits)
    }

    #[cold]
    fn take_of_many(&mut self, key: u64, fits: impl Fn(&T) -> bool) -> Option<T> {
        let (first, _) = self.first.remove(&key)?;
        let mut all = self.more.remove(&key).unwrap_or_default();
        all.push_front(first);
        let taken = all.iter().position(fits).and_then(|at| all.remove(at));
        self.len -= usize::from(taken.is_some());
        if let Some(first) = all.pop_front() {
            self.first.insert(key, (first, !all.is_empty()));
            if !all.is_empty() {
                self.more.insert(key, all);
            }
        }
        taken
    }

    /// Forgets what is too old to be open still. Returns how many.
    fn forget(&mut self, old: impl Fn(&T) -> bool) -> u64 {
        let all: Vec<(u64, T)> = {
            let firsts = self.first.drain().map(|(key, (item, _))| (key, item));
            let mut all: Vec<(u64, T)> = firsts.collect();
            for (key, items) in self.more.drain() {
                all.extend(items.into_iter().map(|item| (key, item)));
            }
            all
        };
        let before = self.len;
        self.len = 0;
        for (key, item) in all {
            if !old(&item) {
                self.add(key, item);
            }
        }
        (before - self.len) as u64
    }
}

/// What is open.
pub struct Join {
    pieces: Open<Piece>,
    requests: Open<Request>,
    devices: Vec<u32>,
    last_device: (u32, u64),
    /// When so many are open, old ones are looked for.
    limit: usize,
    now_ns: u64,
    queued: u64,
    issued: u64,
    /// What was queued or issued and never completed, as far as it was given up.
    pub unfinished: u64,
}

/// What is open for longer never completes: its completion was not recorded.
const OLD_NS: u64 = 60_000_000_000;
const LIMIT: usize = 1 << 14;

impl Default for Join {
    fn default() -> Self {
        Join {
            pieces: Open::new(),
            requests: Open::new(),
            devices: Vec::new(),
            last_device: (u32::MAX, 0),
            limit: LIMIT,
            now_ns: 0,
            queued: 0,
            issued: 0,
            unfinished: 0,
        }
    }
}

impl Join {
    /// Devices are few and sectors need 55 bits: both in one key.
    fn key(&mut self, device: u32, sector: u64) -> u64 {
        if self.last_device.0 != device {
            let at = match self.devices.iter().position(|&known| known == device) {
                Some(at) => at,
                None => {
                    self.devices.push(device);
                    self.devices.len() - 1
                }
            };
            self.last_device = (device, (at as u64 & 0xff) << 55);
        }
        self.last_device.1 | sector
    }

    pub fn open_requests(&self) -> usize {
        self.requests.len
    }

    pub fn open_pieces(&self) -> usize {
        self.pieces.len
    }

    /// Takes the next event.
    #[inline]
    pub fn take<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let event = &Event { time_ns: event.time_ns.max(self.now_ns), ..*event };
        self.now_ns = event.time_ns;
        match event.action {
            Action::Queue => {
                let key = self.key(event.device, event.sector);
                let Event { time_ns, sectors, pid, op, .. } = *event;
                let piece = Piece { queue_ns: time_ns, sectors, pid, op, number: self.queued };
                self.queued += 1;
                self.pieces.add(key, piece);
                watcher.queued(event, &piece);
                if self.pieces.len + self.requests.len > self.limit {
                    self.give_up();
                }
            }
            Action::Merge => watcher.merged(event),
            Action::Issue => self.issue(event, watcher),
            Action::Requeue => self.requeue(event, watcher),
            Action::Complete => self.complete(event, watcher),
        }
    }

    fn issue<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let mut request = Request {
            issue_ns: event.time_ns,
            sector: event.sector,
            sectors: event.sectors,
            device: event.device,
            pid: event.pid,
            op: event.op,
            first: None,
            merged: Vec::new(),
            number: self.issued,
            left: event.sectors,
        };
        self.issued += 1;
        let end = event.sector + u64::from(event.sectors);
        let mut place = event.sector;
        loop {
            let key = self.key(event.device, place);
            let Some(piece) = self.pieces.take(key, |piece| piece.op == event.op) else { break };
            let room = end.saturating_sub(place);
            if u64::from(piece.sectors) > room {
                // Split: the rest of it comes with another request.
                let rest = self.key(event.device, end);
                self.pieces.add(rest, Piece { sectors: piece.sectors - room as u32, ..piece });
            }
            let carried = Piece { sectors: u64::from(piece.sectors).min(room) as u32, ..piece };
            if request.first.is_none() {
                request.first = Some(carried);
                request.pid = piece.pid;
            } else {
                request.merged.push(carried);
            }
            place += u64::from(piece.sectors);
            if place >= end && event.sectors > 0 {
                break;
            }
        }
        watcher.issued(&request);
        let key = self.key(event.device, event.sector);
        self.requests.add(key, request);
        if self.pieces.len + self.requests.len > self.limit {
            self.give_up();
        }
    }

    fn requeue<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let key = self.key(event.device, event.sector);
        if let Some(request) = self.requests.take(key, |request| request.op == event.op) {
            let mut place = request.sector;
            for piece in request.pieces() {
                let key = self.key(event.device, place);
                self.pieces.add(key, *piece);
                place += u64::from(piece.sectors);
            }
            watcher.requeued(&request);
        }
    }

    fn complete<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let key = self.key(event.device, event.sector);
        if let Some(mut request) = self.requests.take(key, |request| request.op == event.op) {
            if event.sectors < request.left {
                // In part: the rest is waited for at its own place.
                request.left -= event.sectors;
                let rest = self.key(event.device, event.sector + u64::from(event.sectors));
                self.requests.add(rest, request);
            } else {
                watcher.completed(&request, event.time_ns);
            }
        } else if let Some(piece) = self.pieces.take(key, |piece| piece.op == event.op) {
            watcher.piece_completed(event, &piece);
        } else {
            watcher.stray(event);
        }
    }

    #[cold]
    fn give_up(&mut self) {
        let before_ns = self.now_ns.saturating_sub(OLD_NS);
        self.unfinished += self.pieces.forget(|piece| piece.queue_ns < before_ns);
        self.unfinished += self.requests.forget(|request| request.issue_ns < before_ns);
        self.limit = (2 * (self.pieces.len + self.requests.len)).max(LIMIT);
    }
}
