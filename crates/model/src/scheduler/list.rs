//! The list of schedulers, and their names in scenarios.

use serde::{Deserialize, Serialize};

use super::{anticipatory, bfq, cfq, cfq_2_6_18, deadline, kyber, noop};
use super::{
    AnticipatoryTunables, BfqTunables, CfqTunables, DeadlineTunables, EarlyCfqTunables,
    KyberTunables,
};

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
    /// `cfq` before 2.6.21, which idles at every change of process.
    #[serde(rename = "cfq-2.6.18")]
    EarlyCfq(#[serde(default)] EarlyCfqTunables),
    Bfq(#[serde(default)] BfqTunables),
    Kyber(#[serde(default)] KyberTunables),
}

impl SchedulerSpec {
    /// Names for scenarios.
    pub const NAMES: &'static [&'static str] = &[
        "noop",
        "none",
        "deadline",
        "mq-deadline",
        "anticipatory",
        "cfq",
        "cfq-2.6.18",
        "bfq",
        "kyber",
    ];

    /// Return the scheduler of that name with default tunables.
    pub fn named(name: &str) -> Option<Self> {
        Some(match name {
            "noop" => SchedulerSpec::Noop,
            "none" => SchedulerSpec::None,
            "deadline" => SchedulerSpec::Deadline(DeadlineTunables::default()),
            "mq-deadline" => SchedulerSpec::MqDeadline(DeadlineTunables::default()),
            "anticipatory" => SchedulerSpec::Anticipatory(AnticipatoryTunables::default()),
            "cfq" => SchedulerSpec::Cfq(CfqTunables::default()),
            "cfq-2.6.18" => SchedulerSpec::EarlyCfq(EarlyCfqTunables::default()),
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
    EarlyCfq(Box<cfq_2_6_18::EarlyCfq>),
    Bfq(Box<bfq::Bfq>),
    Kyber(Box<kyber::Kyber>),
}

impl Scheduler {
    /// `rotational`: the drive below is a disk.
    pub(super) fn new(spec: &SchedulerSpec, rotational: bool) -> Self {
        match spec {
            SchedulerSpec::Noop | SchedulerSpec::None => Scheduler::Noop(noop::Noop::default()),
            SchedulerSpec::Deadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::MqDeadline(t) => Scheduler::Deadline(deadline::Deadline::new(t.clone())),
            SchedulerSpec::Anticipatory(t) => {
                Scheduler::Anticipatory(anticipatory::Anticipatory::new(t.clone()))
            }
            SchedulerSpec::Cfq(t) => Scheduler::Cfq(Box::new(cfq::Cfq::new(t.clone(), rotational))),
            SchedulerSpec::EarlyCfq(t) => {
                Scheduler::EarlyCfq(Box::new(cfq_2_6_18::EarlyCfq::new(t.clone())))
            }
            SchedulerSpec::Bfq(t) => Scheduler::Bfq(Box::new(bfq::Bfq::new(t.clone(), rotational))),
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
            Scheduler::EarlyCfq($elevator) => $call,
            Scheduler::Bfq($elevator) => $call,
            Scheduler::Kyber($elevator) => $call,
        }
    };
}
pub(super) use each;
