//! Follows requests: joins queue (Q), issue (D) and complete (C) events by device and sector.
//!
//! One request can contain several queued bios (merges), one bio can be split over several
//! requests, and a request can complete in parts or be requeued. Open requests are kept; completed
//! ones are reported and dropped.

use rustc_hash::FxHashMap;

use crate::event::{Action, Event, Op};
use crate::open::{At, Open};

/// A piece of I/O queued by a process (the kernel's bio), or its remainder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    pub queue_ns: u64,
    pub sectors: u32,
    pub pid: u32,
    pub op: Op,
    /// Numbered from 0 in order of queueing.
    pub number: u64,
}

/// A request that was issued to the driver.
#[derive(Clone, Debug, Default)]
pub struct Request {
    pub issue_ns: u64,
    pub sector: u64,
    pub sectors: u32,
    pub device: u32,
    /// The process that queued its first piece; the issuing process if the queueing was not
    /// recorded.
    pub pid: u32,
    pub op: Op,
    pub first: Option<Piece>,
    pub merged: Vec<Piece>,
    /// Numbered from 0 in order of issue.
    pub number: u64,
    left: u32,
    /// A request of the same position, length and operation was open: this may be the same one,
    /// issued again without a requeue event.
    again: bool,
}

impl Request {
    /// Return the pieces of the request whose queueing was recorded.
    #[inline]
    pub fn pieces(&self) -> impl Iterator<Item = &Piece> {
        self.first.iter().chain(self.merged.iter())
    }
}

/// Receives the joined events. A `piece` of a bio-based device (RAID, device mapper) completes
/// without a request.
pub trait Watcher {
    fn queued(&mut self, event: &Event, piece: &Piece);
    fn merged(&mut self, _event: &Event) {}
    fn issued(&mut self, request: &Request);
    fn requeued(&mut self, _request: &Request, _requeue_ns: u64) {}
    fn completed(&mut self, request: &Request, complete_ns: u64);
    fn piece_completed(&mut self, event: &Event, piece: &Piece);
    /// A completion that matches no open request.
    fn stray(&mut self, _event: &Event) {}
    /// A request that will not complete. `again`: it was the second issue of another request, not a
    /// request of its own.
    fn dropped(&mut self, _request: &Request, _again: bool) {}
}

/// The open pieces and requests of a trace.
pub struct Join {
    pieces: Open<Piece>,
    requests: Open<Request>,
    devices: Devices,
    /// Number of open items at which old ones are dropped.
    limit: usize,
    now_ns: u64,
    queued: u64,
    issued: u64,
    completed: u64,
    /// False for a trace without completions: no request is kept open.
    completes: bool,
    /// The request of the last issue, when none is kept open.
    passing: Request,
    /// Moving average of the requests' latency.
    latency_ns: u64,
    /// Requests that never completed (queued pieces, in a trace without issues), as far as they
    /// were given up.
    pub unfinished: u64,
    /// Requests that were issued a second time without a requeue event, as far as decided.
    pub reissues: u64,
}

/// Items open for longer than this never complete: the completion was not recorded.
const OLD_NS: u64 = 60_000_000_000;
const LIMIT: usize = 1 << 14;
/// Items that stay open while this many others start never complete either; this also covers traces
/// without times.
const OPEN_AT_MOST: u64 = 1 << 16;
/// When another request starts at the position of an open one, the open one is dropped if it has
/// waited longer than this multiple of the usual latency plus this constant: otherwise a completion
/// would be assigned to a request whose own completion was not recorded.
const PATIENCE: u64 = 64;
const PATIENCE_NS: u64 = 1_000_000;
/// Pieces can wait long before they are issued.
const PATIENCE_QUEUED_NS: u64 = 1_000_000_000;

impl Default for Join {
    fn default() -> Self {
        Join {
            pieces: Open::default(),
            requests: Open::default(),
            devices: Devices::default(),
            limit: LIMIT,
            now_ns: 0,
            queued: 0,
            issued: 0,
            completed: 0,
            completes: true,
            passing: Request::default(),
            latency_ns: 0,
            unfinished: 0,
            reissues: 0,
        }
    }
}

/// The devices of a trace.
#[derive(Default)]
struct Devices {
    /// Index of each device.
    known: FxHashMap<u32, usize>,
    last: u32,
    /// The part of a key that stands for the last device.
    last_key: u64,
}

impl Devices {
    /// Return the key of a position. There are few devices, and sectors need 55 bits: both fit in
    /// one key.
    #[inline]
    fn key(&mut self, device: u32, sector: u64) -> u64 {
        if self.last != device || self.known.is_empty() {
            self.change(device);
        }
        self.last_key | sector
    }

    fn change(&mut self, device: u32) {
        let next = self.known.len();
        let at = *self.known.entry(device).or_insert(next);
        (self.last, self.last_key) = (device, (at as u64 & 0xff) << 55);
    }
}

impl Request {
    /// Start as the request that an event issues.
    #[inline]
    fn begin(&mut self, event: &Event, number: u64) {
        self.issue_ns = event.time_ns;
        self.sector = event.sector;
        self.sectors = event.sectors;
        self.device = event.device;
        self.pid = event.pid;
        self.op = event.op;
        self.first = None;
        self.merged.clear();
        self.number = number;
        self.left = event.sectors;
        self.again = false;
    }

    #[inline]
    fn add(&mut self, piece: Piece) {
        if self.first.is_none() {
            self.first = Some(piece);
            self.pid = piece.pid;
        } else {
            self.merged.push(piece);
        }
    }
}

impl Join {
    /// Set whether the trace contains completions; if not, no request is kept open.
    pub fn expect_completions(&mut self, completes: bool) {
        self.completes = completes;
    }

    pub fn open_requests(&self) -> usize {
        self.requests.len()
    }

    /// Process the next event.
    #[inline]
    pub fn take<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        if event.time_ns < self.now_ns {
            return self.take_late(event, watcher);
        }
        self.now_ns = event.time_ns;
        match event.action {
            Action::Queue => {
                let key = self.devices.key(event.device, event.sector);
                let Event { time_ns, sectors, pid, op, .. } = *event;
                let piece = Piece { queue_ns: time_ns, sectors, pid, op, number: self.queued };
                self.queued += 1;
                if self.pieces.add(key, piece) {
                    self.weed_pieces(key, &piece);
                }
                watcher.queued(event, &piece);
                if self.pieces.len() + self.requests.len() > self.limit {
                    self.give_up(watcher);
                }
            }
            Action::Merge => watcher.merged(event),
            Action::Issue => self.issue(event, watcher),
            Action::Requeue => self.requeue(event, watcher),
            Action::Complete => self.complete(event, watcher),
        }
    }

    /// Time never goes back.
    #[cold]
    fn take_late<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        self.take(&Event { time_ns: self.now_ns, ..*event }, watcher);
    }

    #[inline]
    fn issue<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let key = self.devices.key(event.device, event.sector);
        let (request, others) = if self.completes {
            self.requests.put(key)
        } else {
            self.unfinished += 1;
            (&mut self.passing, false)
        };
        request.begin(event, self.issued);
        self.issued += 1;
        let end = event.sector + u64::from(event.sectors);
        let mut place = event.sector;
        loop {
            let key = self.devices.key(event.device, place);
            let Some(piece) = self.pieces.take(key, |piece| piece.op == event.op) else { break };
            let room = end.saturating_sub(place);
            if u64::from(piece.sectors) > room {
                // Split: the remainder belongs to another request.
                let rest = self.devices.key(event.device, end);
                self.pieces.add(rest, Piece { sectors: piece.sectors - room as u32, ..piece });
            }
            request.add(Piece { sectors: u64::from(piece.sectors).min(room) as u32, ..piece });
            place += u64::from(piece.sectors);
            if place >= end && event.sectors > 0 {
                break;
            }
        }
        let number = request.number;
        watcher.issued(request);
        if others {
            self.weed_requests(key, number, watcher);
        }
        if self.pieces.len() + self.requests.len() > self.limit {
            self.give_up(watcher);
        }
    }

    /// Handle a request that starts at the position of open ones: drop those that never complete,
    /// and mark the new one if it may be a second issue.
    #[cold]
    fn weed_requests<W: Watcher>(&mut self, key: u64, number: u64, watcher: &mut W) {
        let before_ns = self.now_ns.saturating_sub(PATIENCE * self.latency_ns + PATIENCE_NS);
        // A second issue still open when the first has completed was not a request of its own.
        let left_over = self.requests.oldest(key).is_some_and(|oldest| oldest.again);
        let never = |open: &Request| open.issue_ns < before_ns || (left_over && open.again);
        for gone in self.requests.weed(key, |open| open.number != number && never(open)) {
            self.drop_request(&gone, watcher);
        }
        // If the others were dropped, it is the only one, and a request of its own.
        let other = self.requests.oldest(key).filter(|open| open.number != number);
        let oldest = other.map(|open| (open.op, open.left));
        if let Some(request) = self.requests.newest(key) {
            // A request with pieces of its own is not a second issue.
            request.again = request.first.is_none() && oldest == Some((request.op, request.left));
        }
    }

    #[cold]
    fn weed_pieces(&mut self, key: u64, piece: &Piece) {
        let patience_ns = PATIENCE * self.latency_ns + PATIENCE_QUEUED_NS;
        let before_ns = piece.queue_ns.saturating_sub(patience_ns);
        let gone = self.pieces.weed(key, |open| {
            open.queue_ns < before_ns && open.op == piece.op && open.sectors == piece.sectors
        });
        self.unfinished += if self.issued == 0 { gone.len() as u64 } else { 0 };
    }

    fn drop_request<W: Watcher>(&mut self, request: &Request, watcher: &mut W) {
        // If nothing ever completes, a missing completion proves nothing.
        let again = request.again && self.completed > 0;
        self.reissues += u64::from(again);
        self.unfinished += u64::from(!again);
        watcher.dropped(request, again);
    }

    fn requeue<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let key = self.devices.key(event.device, event.sector);
        if let Some(at) = self.find_request(key, event) {
            let request = self.requests.get(at).clone();
            self.requests.remove(at);
            let mut place = request.sector;
            for piece in request.pieces() {
                let key = self.devices.key(event.device, place);
                self.pieces.add(key, *piece);
                place += u64::from(piece.sectors);
            }
            watcher.requeued(&request, event.time_ns);
        }
    }

    /// Find the oldest request that an event can refer to: one of equal length, else a longer one.
    #[inline(always)]
    fn find_request(&mut self, key: u64, event: &Event) -> Option<At> {
        let Event { op, sectors, .. } = *event;
        let at = self.requests.find(key, |open| open.op == op && open.left >= sectors)?;
        if self.requests.get(at).left == sectors {
            return Some(at);
        }
        Some(self.prefer_exact(key, event, at))
    }

    /// If several requests match, prefer the one with exactly this length to a part of a longer
    /// one, which then counts as the newest at its position.
    #[cold]
    fn prefer_exact(&mut self, key: u64, event: &Event, longer: At) -> At {
        let exact = |open: &Request| open.op == event.op && open.left == event.sectors;
        if self.requests.find(key, exact).is_none() {
            return longer;
        }
        let request = self.requests.get(longer).clone();
        self.requests.remove(longer);
        self.requests.add(key, request);
        self.requests.find(key, exact).unwrap_or(longer)
    }

    #[inline]
    fn complete<W: Watcher>(&mut self, event: &Event, watcher: &mut W) {
        let key = self.devices.key(event.device, event.sector);
        if let Some(at) = self.find_request(key, event) {
            let request = self.requests.get(at);
            if event.sectors < request.left {
                self.complete_part(at, event);
                return;
            }
            self.completed += 1;
            let taken_ns = event.time_ns - request.issue_ns;
            self.latency_ns = match self.latency_ns {
                0 => taken_ns,
                usual => usual - usual / 64 + taken_ns / 64,
            };
            watcher.completed(request, event.time_ns);
            self.requests.remove(at);
        } else if let Some(piece) = self.pieces.take(key, |piece| piece.op == event.op) {
            watcher.piece_completed(event, &piece);
        } else {
            watcher.stray(event);
        }
    }

    /// Keep the remainder of a request that completes in part open, at its own position.
    #[cold]
    fn complete_part(&mut self, at: At, event: &Event) {
        let mut request = self.requests.get(at).clone();
        self.requests.remove(at);
        request.left -= event.sectors;
        let rest = self.devices.key(event.device, event.sector + u64::from(event.sectors));
        self.requests.add(rest, request);
    }

    #[cold]
    fn give_up<W: Watcher>(&mut self, watcher: &mut W) {
        let before_ns = self.now_ns.saturating_sub(OLD_NS);
        let (issued, queued) = (self.issued, self.queued);
        let mut pieces = 0;
        let old = |time_ns: u64, number: u64, all: u64| {
            time_ns < before_ns || number + OPEN_AT_MOST < all
        };
        self.pieces.forget(|piece| old(piece.queue_ns, piece.number, queued), |_| pieces += 1);
        self.unfinished += if issued == 0 { pieces } else { 0 };
        let mut gone = Vec::new();
        self.requests.forget(
            |request| old(request.issue_ns, request.number, issued),
            |request| gone.push(request),
        );
        for request in gone {
            self.drop_request(&request, watcher);
        }
        let open = self.pieces.len() + self.requests.len();
        self.limit = (open + open / 2).max(LIMIT);
    }

    /// End of the trace: open requests never complete.
    pub fn finish<W: Watcher>(&mut self, watcher: &mut W) {
        if self.issued == 0 {
            self.unfinished += self.pieces.len() as u64;
        }
        let mut gone = Vec::new();
        self.requests.forget(|_| true, |request| gone.push(request));
        for request in gone {
            self.drop_request(&request, watcher);
        }
    }
}
