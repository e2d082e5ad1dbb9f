//! A member of a RAID: a drive, behind a queue of its own where the kernel built the RAID (Linux md and dm put no
//! scheduler over the whole; each member has its own), bare where a controller did.

use crate::drive::Drive;
use crate::faults::FaultyDevice;
use crate::request::{Completion, Device, FaultCounts, Nanos, Request, SubmittedIo};
use crate::scheduler::{BlockQueue, QueueSpec, SharedHabits};

/// One drive of a RAID.
pub enum MemberDrive {
    Bare(FaultyDevice<Drive>),
    Queued(Box<BlockQueue<FaultyDevice<Drive>>>),
}

impl MemberDrive {
    /// The drive behind a queue if one is described; what is known of processes it shares with the other members.
    pub fn new(drive: FaultyDevice<Drive>, queue: Option<&QueueSpec>, habits: &SharedHabits) -> Self {
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

impl Device for MemberDrive {
    fn capacity_sectors(&self) -> u64 {
        self.drive().capacity_sectors()
    }

    fn submit(&mut self, now: Nanos, request: Request) {
        either!(self, device => device.submit(now, request));
    }

    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        either!(self, device => device.submit_io(now, io));
    }

    fn plug(&mut self) {
        either!(self, device => device.plug());
    }

    fn unplug(&mut self, now: Nanos) {
        either!(self, device => device.unplug(now));
    }

    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        either!(self, device => device.wake(now, out));
    }

    fn next_wake(&self) -> Option<Nanos> {
        either!(self, device => device.next_wake())
    }

    fn in_flight(&self) -> usize {
        either!(self, device => device.in_flight())
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        self.drive().energy_j(now)
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        either!(self, device => device.unflushed(now))
    }

    fn fault_counts(&self) -> FaultCounts {
        self.drive().fault_counts()
    }
}
