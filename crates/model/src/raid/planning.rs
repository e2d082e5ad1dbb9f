//! Planning of requests: striping, read balancing and reads with a missing member. Writes with parity
//! are in `parity`.

use super::layout::{join, Level, Piece};
use super::state::Parent;
use super::Raid;
use crate::request::{Op, Queue, Request};
use crate::slots::Id;

impl<D: Queue> Raid<D> {
    /// Return whether all data is still available.
    pub(super) fn survives(&self) -> bool {
        let failed = |index: usize| self.members[index].failed;
        let count = (0..self.members.len()).filter(|&index| failed(index)).count();
        match self.layout.level {
            Level::Striped => count == 0,
            Level::Mirrored => count < self.members.len(),
            Level::Parity(parities) => count <= parities,
            Level::MirroredPairs => {
                (0..self.members.len()).step_by(2).all(|i| !(failed(i) && failed(i + 1)))
            }
        }
    }

    /// Return whether a member has valid data at `sector`: it is in service, or rebuilt beyond that
    /// sector.
    pub(super) fn good(&self, member: usize, sector: u64) -> bool {
        !self.members[member].failed
            || self
                .rebuild
                .as_ref()
                .is_some_and(|rebuild| rebuild.member == member && sector < rebuild.position)
    }

    /// Start the jobs of a request.
    pub(super) fn plan(&mut self, parent: Id<Parent>, request: &Request) {
        match (request.op, self.layout.level) {
            (Op::Flush, _) => {
                for member in 0..self.members.len() {
                    if !self.members[member].failed {
                        self.first.push(Piece { member, sector: 0, sectors: 0 });
                    }
                }
                self.start_job(Some(parent), Op::Flush, None, false);
            }
            (Op::Read, _) => self.plan_read(parent, request),
            // md does not send discards to members with parity, because data and parity would then
            // disagree.
            (Op::Discard, Level::Parity(_)) => {}
            (_, Level::Parity(_)) => self.plan_parity_write(parent, request),
            (op, _) => {
                self.plan_copies(request);
                self.start_job(Some(parent), op, None, request.fua);
            }
        }
    }

    fn plan_read(&mut self, parent: Id<Parent>, request: &Request) {
        let mut pieces = std::mem::take(&mut self.first);
        if self.layout.level == Level::Mirrored {
            let member = self.balance(0..self.members.len(), request.sector);
            pieces.push(Piece { member, sector: request.sector, sectors: request.sectors });
        } else {
            let layout = self.layout;
            layout.for_each_chunk(
                request.sector,
                request.sectors,
                |stripe, index, within, sectors| {
                    let sector = stripe * layout.chunk + within;
                    let first = layout.data_member(stripe, index);
                    let member = match layout.level {
                        Level::MirroredPairs => self.balance(first..first + 2, sector),
                        _ => first,
                    };
                    let piece = Piece { member, sector, sectors };
                    if self.good(member, sector) {
                        join(&mut pieces, piece);
                    } else {
                        self.plan_instead(piece, &mut pieces);
                    }
                },
            );
        }
        self.first = pieces;
        self.start_job(Some(parent), Op::Read, None, false);
    }

    /// Return the mirror that serves a read: one whose last piece ended at `sector`, else an idle
    /// one, else the one whose head is nearest; with SSDs, the one with the fewest requests
    /// (`read_balance` of md's raid1, since 3.6).
    fn balance(&self, mirrors: std::ops::Range<usize>, sector: u64) -> usize {
        let good = mirrors.clone().filter(|&index| self.good(index, sector));
        if let Some(index) =
            good.clone().find(|&index| self.members[index].last_end == sector && sector > 0)
        {
            return index;
        }
        let idle = good.clone().any(|index| self.members[index].pending == 0);
        let far = |index: usize| self.members[index].last_end.abs_diff(sector);
        let best = if idle || self.has_ssd {
            good.min_by_key(|&index| (self.members[index].pending, far(index)))
        } else {
            good.min_by_key(|&index| (far(index), self.members[index].pending))
        };
        best.unwrap_or(mirrors.start)
    }

    /// Plan a write of striped and mirrored levels: all copies.
    fn plan_copies(&mut self, request: &Request) {
        let mut pieces = std::mem::take(&mut self.first);
        let layout = self.layout;
        if layout.level == Level::Mirrored {
            for member in 0..self.members.len() {
                if self.good(member, request.sector) {
                    pieces.push(Piece { member, sector: request.sector, sectors: request.sectors });
                }
            }
        } else {
            let copies = if layout.level == Level::MirroredPairs { 2 } else { 1 };
            layout.for_each_chunk(
                request.sector,
                request.sectors,
                |stripe, index, within, sectors| {
                    let first = layout.data_member(stripe, index);
                    let sector = stripe * layout.chunk + within;
                    for member in first..first + copies {
                        if self.good(member, sector) {
                            join(&mut pieces, Piece { member, sector, sectors });
                        }
                    }
                },
            );
        }
        self.first = pieces;
    }

    /// Add the pieces to read instead of one that its member cannot provide; return false if the
    /// data is lost.
    pub(super) fn plan_instead(&self, piece: Piece, pieces: &mut Vec<Piece>) -> bool {
        let same = |member| Piece { member, ..piece };
        let others = (0..self.members.len())
            .filter(|&index| index != piece.member && self.good(index, piece.sector));
        match self.layout.level {
            Level::Striped => false,
            Level::Mirrored => others.map(same).take(1).map(|p| pieces.push(p)).count() == 1,
            Level::MirroredPairs => {
                let twin = piece.member ^ 1;
                let good = self.good(twin, piece.sector);
                if good {
                    join(pieces, same(twin));
                }
                good
            }
            Level::Parity(_) => {
                let needed = self.layout.data_chunks();
                let enough = others.clone().count() >= needed;
                if enough {
                    others.map(same).take(needed).for_each(|p| join(pieces, p));
                }
                enough
            }
        }
    }
}
