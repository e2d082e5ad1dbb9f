//! A member of a RAID. In a RAID of the kernel, the drive has its own queue (Linux md and dm have
//! no scheduler for the whole RAID; each member has its own). In a RAID of a controller, the drive
//! has no queue.

use crate::drive::Drive;
use crate::faults::FaultyDevice;
use crate::request::{Completion, Device, Medium, Nanos, Queue, Request, SubmittedIo, Wrapper};
use crate::scheduler::{BlockQueue, QueueSpec, SharedHabits};

/// One drive of a RAID.
pub enum MemberDrive {
    Bare(FaultyDevice<Drive>),
    Queued(Box<BlockQueue<FaultyDevice<Drive>>>),
}

impl MemberDrive {
    /// Create a member, with a queue if `queue` is given. All members share the process statistics.
    pub fn new(
        drive: FaultyDevice<Drive>,
        queue: Option<&QueueSpec>,
        habits: &SharedHabits,
    ) -> Self {
        match queue {
            Some(spec) => {
                let mut queue = BlockQueue::new(drive, spec);
                queue.share_habits(habits);
                MemberDrive::Queued(Box::new(queue))
            }
            None => MemberDrive::Bare(drive),
        }
    }

    pub fn drive(&self) -> &FaultyDevice<Drive> {
        match self {
            MemberDrive::Bare(drive) => drive,
            MemberDrive::Queued(queue) => queue.device(),
        }
    }

    pub fn drive_mut(&mut self) -> &mut FaultyDevice<Drive> {
        match self {
            MemberDrive::Bare(drive) => drive,
            MemberDrive::Queued(queue) => queue.device_mut(),
        }
    }
}

macro_rules! either {
    ($member:expr, $device:ident => $call:expr) => {
        match $member {
            MemberDrive::Bare($device) => $call,
            MemberDrive::Queued($device) => $call,
        }
    };
}

impl Wrapper for MemberDrive {
    type Below = dyn Medium;

    fn below(&self) -> &Self::Below {
        either!(self, device => device)
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        either!(self, device => device)
    }

    fn pass_down(&mut self, _now: Nanos) {}
}

impl Device for MemberDrive {
    fn submit(&mut self, now: Nanos, request: Request) {
        either!(self, device => device.submit(now, request));
    }

    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        either!(self, device => device.wake_ahead(now, until, out));
    }

    fn next_wake(&self) -> Option<Nanos> {
        either!(self, device => device.next_wake())
    }

    fn in_flight(&self) -> usize {
        either!(self, device => device.in_flight())
    }
}

impl Queue for MemberDrive {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        either!(self, device => device.submit_io(now, io));
    }

    fn plug(&mut self) {
        either!(self, device => device.plug());
    }

    fn unplug(&mut self, now: Nanos) {
        either!(self, device => device.unplug(now));
    }
}
