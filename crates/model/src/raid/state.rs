//! The parts of a RAID's state: requests, their jobs and pieces, members, and the rebuild.

use super::layout::{Columns, Piece};
use crate::moment::Moment;
use crate::request::{Nanos, Op, Status};
use crate::slots::Id;

/// A request of the caller.
#[derive(Clone, Copy)]
pub(super) struct Parent {
    pub(super) tag: u64,
    pub(super) seq: u64,
    pub(super) jobs: usize,
    pub(super) status: Status,
    pub(super) process: u32,
    pub(super) sync: bool,
    /// Bits of the bitmap that a write needs: the first, and past the last.
    pub(super) bits: (u64, u64),
}

/// Pieces that complete together; the pieces in `then` are issued after them.
#[derive(Default)]
pub(super) struct Job {
    /// `None`: a step of the rebuild, or of the bitmap, which belongs to no request.
    pub(super) parent: Option<Id<Parent>>,
    /// Further requests, whose writes the stripe has gathered.
    pub(super) more: Vec<Id<Parent>>,
    /// The stripe that it writes with parity.
    pub(super) stripe: Option<OfStripe>,
    pub(super) pending: usize,
    pub(super) then: Vec<Piece>,
    pub(super) then_op: Option<Op>,
    pub(super) fua: bool,
    /// It writes pages of the bitmap.
    pub(super) of_bitmap: bool,
}

/// The part of a stripe that a job writes.
#[derive(Clone, Copy)]
pub(super) struct OfStripe {
    pub(super) number: u64,
    pub(super) columns: Columns,
    /// The data of all members is in memory when it is written.
    pub(super) all: bool,
}

/// A piece in flight.
#[derive(Clone, Copy)]
pub(super) struct Child {
    pub(super) job: Id<Job>,
    pub(super) op: Op,
    pub(super) piece: Piece,
    /// Read because another piece failed: if this one fails too, no other copy is tried.
    pub(super) instead: bool,
}

pub(super) struct Member<D> {
    pub(super) device: D,
    pub(super) next_wake: Moment,
    /// Absent, or being filled by `Raid::rebuild`.
    pub(super) failed: bool,
    pub(super) pending: usize,
    /// End of its last piece.
    pub(super) last_end: u64,
    pub(super) issued: u64,
}

/// A rebuild in progress.
pub(super) struct Rebuild {
    pub(super) member: usize,
    /// Filled up to this sector.
    pub(super) position: u64,
    /// When the next step starts; never while a step is in progress.
    pub(super) due: Moment,
    pub(super) step: u64,
    pub(super) started: Nanos,
}

/// A scheduled failure or replacement of a member.
pub(super) struct Change<D> {
    pub(super) member: usize,
    pub(super) due: Moment,
    /// The replacement device; `None` for a failure.
    pub(super) spare: Option<D>,
    pub(super) replaces: bool,
    pub(super) done: bool,
}

/// Lists that the plan of a stripe fills, kept to avoid allocations.
#[derive(Default)]
pub(super) struct Lists {
    /// Data and parity that the write changes.
    pub(super) modify: Vec<Piece>,
    /// The rest of the stripe, from which parity can be recomputed (reconstruct-write).
    pub(super) remake: Vec<Piece>,
    /// What must be read first.
    pub(super) reads: Vec<Piece>,
    /// Parity is computed from the data of all members.
    pub(super) remade: bool,
}

impl Lists {
    pub(super) fn clear(&mut self) {
        self.modify.clear();
        self.remake.clear();
        self.reads.clear();
    }
}
