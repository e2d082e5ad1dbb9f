//! The write-intent bitmap of Linux md (`drivers/md/md-bitmap.c`), on the members themselves.
//!
//! Before a write changes a chunk whose bit is not set, the bit's page is written to every member
//! and flushed there (`md_bitmap_unplug`, `md_super_write`: PREFLUSH and FUA); writes that arrive
//! meanwhile share the next such update. A bit is cleared at the second pass of the daemon (5 s
//! apart) after the last write to its chunk (`md_bitmap_daemon_work`). A bit stands for sectors of
//! the array, with parity for sectors of each member (`resync_max_sectors`).

use super::bits::{Waiting, FIRST_SECTOR, PAGE_SECTORS};
use super::layout::{Level, Piece};
use super::state::Parent;
use super::Raid;
use crate::request::{Op, Queue, Request};
use crate::slots::Id;

impl<D: Queue> Raid<D> {
    /// Return whether a request is a write that has to wait for the bitmap, which then starts it.
    pub(super) fn waits_for_bits(&mut self, parent: Id<Parent>, request: &Request) -> bool {
        let changes = match request.op {
            Op::Read | Op::Flush => false,
            // Over parity it does nothing (`planning.rs`).
            Op::Discard => !matches!(self.layout.level, Level::Parity(_)),
            Op::Write | Op::WriteZeroes => true,
        };
        let Some(bitmap) = self.bitmap.as_mut().filter(|_| changes) else { return false };
        let bits = bitmap.bits_of(&self.layout, request);
        self.parents[parent].bits = bits;
        if bitmap.begin(bits, self.clock) {
            return false;
        }
        bitmap.waiting.push(Waiting { parent, request: *request, bits });
        self.update_bitmap();
        true
    }

    /// Write the pages that waiting writes need, unless pages are being written or the submitter
    /// collects requests in a plug.
    pub(super) fn update_bitmap(&mut self) {
        let plugged = self.stripes.plugged;
        let Some(bitmap) = &mut self.bitmap else { return };
        if bitmap.writing || bitmap.waiting.is_empty() || plugged {
            return;
        }
        bitmap.collect_pages();
        bitmap.writing = true;
        for member in 0..self.members.len() {
            if !self.members[member].failed {
                self.first.push(Piece { member, sector: 0, sectors: 0 });
                self.then.extend(bitmap.pages.iter().map(|page| Piece {
                    member,
                    sector: FIRST_SECTOR + page * PAGE_SECTORS,
                    sectors: PAGE_SECTORS as u32,
                }));
            }
        }
        if self.first.is_empty() {
            // No member is left: the waiting writes fail.
            return self.bitmap_written();
        }
        let job = self.run_job(None, None, None, Op::Flush, Some(Op::Write), true);
        self.jobs[job].of_bitmap = true;
    }

    /// Start the writes whose bits are now stored, and the next update.
    pub(super) fn bitmap_written(&mut self) {
        let Some(bitmap) = &mut self.bitmap else { return };
        bitmap.written();
        let mut ready = std::mem::take(&mut bitmap.ready);
        // They gather in stripes, as writes of one plug do.
        let plugged = std::mem::replace(&mut self.stripes.plugged, true);
        for Waiting { parent, request, .. } in ready.drain(..) {
            self.start(parent, &request);
        }
        self.stripes.plugged = plugged;
        if let Some(bitmap) = &mut self.bitmap {
            bitmap.ready = ready;
        }
        self.start_waiting();
        self.update_bitmap();
    }

    /// Note that a write to the chunks of these bits has ended.
    pub(super) fn bits_ended(&mut self, bits: (u64, u64)) {
        if let Some(bitmap) = self.bitmap.as_mut().filter(|_| bits.0 < bits.1) {
            for bit in bitmap.slice(bits) {
                (bit.writes, bit.ended) = (bit.writes - 1, self.clock);
            }
        }
    }
}
