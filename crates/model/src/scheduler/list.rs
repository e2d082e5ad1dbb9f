//! The list of schedulers, and their names in scenarios.

use serde::{Deserialize, Serialize};

use super::{anticipatory, bfq, cfq, deadline, kyber, noop};
use super::{AnticipatoryTunables, BfqTunables, CfqTunables, DeadlineTunables, KyberTunables};

/// Scheduler with its tunables (default: the kernel's defaults).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum SchedulerSpec {
    /// First in, first out, with merging (2.6 to 4.x).
    Noop,
    /// Multi-queue without a scheduler: like `Noop`, but merges only in the plug.
    None,
    Deadline(#[serde(default)] DeadlineTunables),
    MqDeadline(#[serde(default)] DeadlineTunables),
    Anticipatory(#[serde(default)] AnticipatoryTunables),
    Cfq(#[serde(default)] CfqTunables),
    Bfq(#[serde(default)] BfqTunables),
    Kyber(#[serde(default)] KyberTunables),
}

impl SchedulerSpec {
    /// Names for scenarios.
    pub const NAMES: &'static [&'static str] =
        &["noop", "none", "deadline", "mq-deadline", "anticipatory", "cfq", "bfq", "kyber"];

    /// Return the scheduler of that name with default tunables.
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

/// A scheduler of any kind.
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
