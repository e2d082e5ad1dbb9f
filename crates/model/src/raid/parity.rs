//! Writes with parity (`drivers/md/raid5.c`). A stripe that is written completely, or whose old data
//! is in memory, is started at once. So is one with a synchronous write (`O_DIRECT`, `fsync`), which
//! `make_request` marks `STRIPE_PREREAD_ACTIVE`. Any other waits until no stripe is being read
//! (`preread_active_stripes < IO_THRESHOLD`), and meanwhile gathers further writes.

use super::layout::{Columns, Level, Piece};
use super::state::{Lists, OfStripe, Parent};
use super::stripes::Waiting;
use super::Raid;
use crate::request::{Op, Queue, Request};
use crate::slots::Id;

impl<D: Queue> Raid<D> {
    /// Plan a write with parity, stripe by stripe.
    pub(super) fn plan_parity_write(&mut self, parent: Id<Parent>, request: &Request) {
        let layout = self.layout;
        let stripe_sectors = layout.chunk * layout.data_chunks() as u64;
        let end = request.sector + u64::from(request.sectors);
        let mut at = request.sector;
        while at < end {
            let stripe = at / stripe_sectors;
            let sectors = ((stripe + 1) * stripe_sectors).min(end) - at;
            let index = self.stripes.gathering(stripe, request.op, request.fua);
            let waiting = &mut self.stripes.waiting[index];
            layout.for_each_chunk(at, sectors as u32, |_, i, within, n| waiting.add(i, within, n));
            waiting.parents.push(parent);
            waiting.sync |= self.parents[parent].sync;
            self.parents[parent].jobs += 1;
            let waiting = std::mem::take(&mut self.stripes.waiting[index]);
            let ready = self.list(&waiting);
            self.stripes.waiting[index] = Waiting { ready, ..waiting };
            let room = self.stripes.has_room(self.stripes.waiting[index].columns.sectors());
            if ready && room && !self.stripes.plugged {
                self.start_stripe(index);
            }
            at += sectors;
        }
        self.start_waiting();
    }

    /// Start the waiting stripes that may start: all if no stripe is being read, otherwise those
    /// that need no reads, and those with synchronous writes.
    pub(super) fn start_waiting(&mut self) {
        if self.stripes.plugged {
            return;
        }
        let may_read = self.stripes.reading == 0;
        let mut index = 0;
        while let Some(waiting) = self.stripes.waiting.get(index) {
            if !self.stripes.has_room(waiting.columns.sectors()) {
                return;
            }
            if may_read || waiting.ready || waiting.sync {
                self.start_stripe(index);
            } else {
                index += 1;
            }
        }
    }

    fn start_stripe(&mut self, index: usize) {
        let waiting = self.stripes.start(index);
        self.list(&waiting);
        let columns = waiting.columns;
        let first = waiting.parents.first().copied();
        let Some(op) = waiting.op else { return };
        let mut lists = std::mem::take(&mut self.lists);
        let all = lists.remade;
        lists.modify.retain(|piece| self.good(piece.member, piece.sector));
        let stripe = Some(OfStripe { number: waiting.stripe, columns, all });
        self.first.extend_from_slice(&lists.reads);
        if lists.reads.is_empty() {
            self.first.extend_from_slice(&lists.modify);
            self.run_job(first, waiting.parents.get(1..), stripe, op, None, waiting.fua);
        } else {
            self.then.extend_from_slice(&lists.modify);
            self.stripes.reading += 1;
            let more = waiting.parents.get(1..);
            self.run_job(first, more, stripe, Op::Read, Some(op), waiting.fua);
        }
        self.lists = lists;
        self.stripes.recycle(waiting);
    }

    /// Keep the data of a stripe that is now written in memory.
    pub(super) fn hold_stripe(&mut self, stripe: &OfStripe, written: &[Piece]) {
        let start = stripe.number * self.layout.chunk + stripe.columns.from;
        let sectors = stripe.columns.sectors();
        let spans = |member: usize| {
            let of = |p: &&Piece| p.member == member && p.sector == start;
            written.iter().find(of).is_some_and(|p| u64::from(p.sectors) == sectors)
        };
        let here = |member: usize| stripe.all || spans(member);
        self.stripes.hold(stripe.number, stripe.columns, self.layout.members, here);
    }

    /// List in `lists` what the writes of a stripe read and write; return whether they need no
    /// reads.
    ///
    /// Read-modify-write reads the old data and the parity, reconstruct-write the rest of the
    /// stripe. The one that reads less is chosen; if they read equally much, reconstruct-write
    /// (`handle_stripe_dirtying`).
    fn list(&mut self, waiting: &Waiting) -> bool {
        let layout = self.layout;
        let Level::Parity(parities) = layout.level else { return true };
        let mut lists = std::mem::take(&mut self.lists);
        lists.clear();
        let (stripe, columns) = (waiting.stripe, waiting.columns);
        let start = stripe * layout.chunk;
        let on = |member: usize, from: u64, n: u64| Piece {
            member,
            sector: start + from,
            sectors: n as u32,
        };
        let data = |index: usize| layout.data_member(stripe, index);
        let parity_members = || (0..parities).map(|parity| layout.parity_member(stripe, parity));
        let Lists { modify, remake, reads, remade } = &mut lists;
        let written = &waiting.written;
        modify.extend(written.iter().map(|&(i, from, n)| on(data(i), from, u64::from(n))));
        modify.extend(parity_members().map(|member| on(member, columns.from, columns.sectors())));
        let whole = |index: usize| {
            let spans = |&(i, from, n): &(usize, u64, u32)| {
                i == index && from <= columns.from && from + u64::from(n) >= columns.to
            };
            written.iter().any(spans)
        };
        let rest = (0..layout.data_chunks()).filter(|&index| !whole(index));
        remake.extend(rest.map(|index| on(data(index), columns.from, columns.sectors())));

        let parity_lost = parity_members().all(|member| !self.good(member, start));
        *remade = true;
        if !remake.is_empty() && !parity_lost {
            let held = self.stripes.held(stripe);
            let missing = |piece: &&Piece| {
                let from = piece.sector - start;
                let of = Columns { from, to: from + u64::from(piece.sectors) };
                !held.is_some_and(|held| held.has(piece.member, &of))
            };
            let cost = |pieces: &[Piece]| -> u64 {
                pieces.iter().filter(missing).map(|piece| u64::from(piece.sectors)).sum()
            };
            let can = |pieces: &[Piece]| {
                pieces.iter().filter(missing).all(|p| self.good(p.member, p.sector))
            };
            let modifies = cost(modify) < cost(remake);
            let orders = if modifies { [true, false] } else { [false, true] };
            let by = |modifies: bool| if modifies { &*modify } else { &*remake };
            match orders.into_iter().find(|&modifies| can(by(modifies))) {
                Some(modifies) => {
                    *remade = !modifies;
                    reads.extend(by(modifies).iter().filter(missing));
                }
                // Neither method is possible: read everything that is left.
                None => {
                    let left = (0..layout.members).filter(|&member| self.good(member, start));
                    reads.extend(left.map(|m| on(m, columns.from, columns.sectors())));
                }
            }
        }
        let ready = lists.reads.is_empty();
        self.lists = lists;
        ready
    }
}
