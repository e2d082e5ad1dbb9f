//! The elevators between merging and dispatch: what a scheduler does for its block queue, which there are, and how a
//! scenario names them.

use serde::{Deserialize, Serialize};

use super::requests::{Queued, Requests};
use super::{anticipatory, bfq, cfq, deadline, kyber, noop};
use super::{AnticipatoryTunables, BfqTunables, CfqTunables, DeadlineTunables, KyberTunables};
use crate::request::Nanos;

/// Which scheduler, with its tunables (the kernel's defaults where none are given).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulerSpec {
    /// First in, first out, with merging (2.6 to 4.x).
    Noop,
    /// Multi-queue without a scheduler: as `Noop`, merging in the plug alone.
    None,
    Deadline(#[serde(default)] DeadlineTunables),
    MqDeadline(#[serde(default)] DeadlineTunables),
    Anticipatory(#[serde(default)] AnticipatoryTunables),
    Cfq(#[serde(default)] CfqTunables),
    Bfq(#[serde(default)] BfqTunables),
    Kyber(#[serde(default)] KyberTunables),
}

impl SchedulerSpec {
    /// The names a scenario may use.
    pub const NAMES: &'static [&'static str] =
        &["noop", "none", "deadline", "mq-deadline", "anticipatory", "cfq", "bfq", "kyber"];

    /// The scheduler of that name with default tunables.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "noop" => SchedulerSpec::Noop,
            "none" => SchedulerSpec::None,
            "deadline" => SchedulerSpec::Deadline(DeadlineTunables::default()),
            "mq-deadline" => SchedulerSpec::MqDeadline(DeadlineTunables::default()),
            "anticipatory" => SchedulerSpec::Anticipatory(AnticipatoryTunables::default()),
            "cfq" => SchedulerSpec::Cfq(CfqTunables::default()),
            "bfq" => SchedulerSpec::Bfq(BfqTunables::default()),
            "kyber" => SchedulerSpec::Kyber(KyberTunables::default()),
            _ => return None,
        })
    }
}

/// What a scheduler answers when asked for the next request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Choice {
    /// Dispatch this one.
    Dispatch(u32),
    /// Nothing now; ask again at that time (or when something arrives or completes).
    Idle(Nanos),
    /// Nothing to dispatch.
    Empty,
}

/// What every scheduler does. `table` holds the requests that the indices name.
pub(super) trait Elevator {
    fn insert(&mut self, now: Nanos, index: u32, table: &Requests);
    /// A queued request grew at its front: it starts at `sector` now, no longer at `old_sector`.
    fn moved(&mut self, _index: u32, _old_sector: u64, _table: &Requests) {}
    /// The next request to dispatch, which leaves the scheduler by this call.
    fn next(&mut self, now: Nanos, in_drive: u32, table: &Requests) -> Choice;
    fn completed(&mut self, _now: Nanos, _request: &Queued) {}
    /// May an I/O of `process` join that request?
    fn may_merge(&self, _request: &Queued, _process: u32, _sync: bool) -> bool {
        true
    }
}

pub(super) enum Scheduler {
    Noop(noop::Noop),
    Deadline(deadline::Deadline),
    Anticipatory(anticipatory::Anticipatory),
    Cfq(Box<cfq::Cfq>),
    Bfq(Box<bfq::Bfq>),
    Kyber(Box<kyber::Kyber>),
}

impl Scheduler {
    pub(super) fn new(spec: &SchedulerSpec) -> Self {
        match spec {
            SchedulerSpec::Noop | SchedulerSpec::None => Scheduler::Noop(noop::Noop::default()),
            SchedulerSpec::Deadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::MqDeadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::Anticipatory(t) => {
                Scheduler::Anticipatory(anticipatory::Anticipatory::new(t.clone()))
            }
            SchedulerSpec::Cfq(t) => Scheduler::Cfq(Box::new(cfq::Cfq::new(t.clone()))),
            SchedulerSpec::Bfq(t) => Scheduler::Bfq(Box::new(bfq::Bfq::new(t.clone()))),
            SchedulerSpec::Kyber(t) => Scheduler::Kyber(Box::new(kyber::Kyber::new(t.clone()))),
        }
    }
}

macro_rules! each {
    ($scheduler:expr, $elevator:ident => $call:expr) => {
        match $scheduler {
            Scheduler::Noop($elevator) => $call,
            Scheduler::Deadline($elevator) => $call,
            Scheduler::Anticipatory($elevator) => $call,
            Scheduler::Cfq($elevator) => $call,
            Scheduler::Bfq($elevator) => $call,
            Scheduler::Kyber($elevator) => $call,
        }
    };
}
pub(super) use each;
