//! A block device of a host: a drive or a RAID of drives, including faults.

use crate::drive::{build, Drive};
use crate::faults::{FaultKind, FaultSpec, FaultyDevice};
use crate::moment::Moment;
use crate::raid::controller::Controller;
use crate::raid::member::MemberDrive;
use crate::raid::spec::StorageSpec;
use crate::raid::Raid;
use crate::request::{
    Completion, Device, FaultCounts, Medium, Nanos, Queue, Request, SubmittedIo, Wrapper,
};
use crate::scheduler::{QueueSpec, SchedulerSpec, SharedHabits};
use crate::spec::{refuse, DriveSpec, SpecError};
use crate::stream::Stream;

/// The drives of a storage device.
pub enum Drives {
    Single(FaultyDevice<Drive>),
    Raid(Box<Raid<MemberDrive>>),
    /// A RAID behind a controller with a cache.
    Controlled(Box<Controller<MemberDrive>>),
}

impl Drives {
    fn raid(&self) -> Option<&Raid<MemberDrive>> {
        match self {
            Drives::Single(_) => None,
            Drives::Raid(raid) => Some(raid),
            Drives::Controlled(controller) => Some(controller.raid()),
        }
    }

    fn raid_mut(&mut self) -> Option<&mut Raid<MemberDrive>> {
        match self {
            Drives::Single(_) => None,
            Drives::Raid(raid) => Some(raid),
            Drives::Controlled(controller) => Some(controller.raid_mut()),
        }
    }
}

/// Which component counts a fault of the storage device.
enum Placed {
    /// (drive, index of the fault in that drive).
    OnDrives(Vec<(usize, usize)>),
    /// Indices of the RAID's changes: the first shows whether the fault took effect, the last ends
    /// it.
    InRaid(Vec<usize>),
}

/// A drive or a RAID with its faults.
pub struct Storage {
    pub drives: Drives,
    /// The drives that can get a replacement: those of a RAID.
    members: Vec<DriveSpec>,
    number_of_drives: usize,
    flushes_alone: bool,
    /// The queue of each member, if members have queues.
    queue: Option<QueueSpec>,
    habits: SharedHabits,
    faults: Vec<Placed>,
    seed: u64,
}

fn seed_of(seed: u64, drive: usize) -> u64 {
    Stream::numbered(seed, "storage/drive", drive as u64).bits()
}

/// Return the queue that a controller has for each drive: in order of arrival, as many commands at
/// once as the drive takes.
fn queue_of_controller(members: &[&DriveSpec]) -> QueueSpec {
    let depth = members.iter().map(|drive| drive.queue_depth()).min().unwrap_or(1);
    QueueSpec { scheduler: SchedulerSpec::Noop, queue_depth: depth, ..QueueSpec::default() }
}

impl Storage {
    /// Build the storage device. Each drive has its own seed, so that platters do not rotate in
    /// phase.
    pub fn build(spec: &StorageSpec, seed: u64) -> Result<Self, SpecError> {
        Storage::build_queued(spec, seed, None)
    }

    /// Like `build`, but each RAID member has its own queue, as in Linux md.
    pub fn build_queued(
        spec: &StorageSpec,
        seed: u64,
        queue: Option<&QueueSpec>,
    ) -> Result<Self, SpecError> {
        let members = spec.members()?;
        let mut drives = Vec::with_capacity(members.len());
        for (number, &member) in members.iter().enumerate() {
            let seed = seed_of(seed, number);
            drives.push(FaultyDevice::new(build(member, seed)?, &[], seed)?);
        }
        let habits = SharedHabits::default();
        let queue = match spec.raid.and_then(|raid| raid.controller) {
            Some(_) => Some(queue_of_controller(&members)),
            None => queue.cloned(),
        };
        let drives = match &spec.raid {
            Some(raid) => {
                let members = drives
                    .into_iter()
                    .map(|drive| MemberDrive::new(drive, queue.as_ref(), &habits))
                    .collect();
                let has_ssd = !spec.drives.iter().all(DriveSpec::rotational);
                let array = Raid::new(raid, members)?.with_ssd(has_ssd);
                match raid.controller {
                    Some(controller) => {
                        Drives::Controlled(Box::new(Controller::new(array, controller)))
                    }
                    None => Drives::Raid(Box::new(array)),
                }
            }
            None => Drives::Single(drives.swap_remove(0)),
        };
        let number_of_drives = members.len();
        let replaceable = if spec.raid.is_some() { members } else { Vec::new() };
        let mut storage = Storage {
            drives,
            members: replaceable.into_iter().cloned().collect(),
            number_of_drives,
            flushes_alone: spec.raid.is_none() && spec.drives.iter().all(DriveSpec::flushes_alone),
            queue,
            habits,
            faults: Vec::new(),
            seed,
        };
        for fault in &spec.faults {
            storage.inject(fault)?;
        }
        Ok(storage)
    }

    /// Return whether it is one drive that takes no command while it flushes.
    pub fn flushes_alone(&self) -> bool {
        self.flushes_alone
    }

    /// Track every request, so that faults can be injected at any time. Call before the first
    /// request.
    pub fn watch(&mut self) {
        for number in 0..self.number_of_drives {
            self.drive_mut(number).watch();
        }
    }

    fn drive_mut(&mut self, number: usize) -> &mut FaultyDevice<Drive> {
        match &mut self.drives {
            Drives::Single(drive) => drive,
            Drives::Raid(raid) => raid.member_mut(number).drive_mut(),
            Drives::Controlled(controller) => controller.raid_mut().member_mut(number).drive_mut(),
        }
    }

    fn drive(&self, number: usize) -> &FaultyDevice<Drive> {
        match &self.drives {
            Drives::Single(drive) => drive,
            Drives::Raid(raid) => raid.member(number).drive(),
            Drives::Controlled(controller) => controller.raid().member(number).drive(),
        }
    }

    /// Add a fault and return its index. Its times are on the device's timeline.
    pub fn inject(&mut self, spec: &FaultSpec) -> Result<usize, SpecError> {
        spec.check()?;
        if let Some(wrong) = spec.drive.filter(|&drive| drive as usize >= self.number_of_drives) {
            return refuse("fault.drive", wrong, &format!("0 to {}", self.number_of_drives - 1));
        }
        let placed = if spec.fault.of_the_raid() {
            Placed::InRaid(self.inject_into_raid(spec)?)
        } else {
            let which = match spec.drive {
                Some(drive) => drive as usize..drive as usize + 1,
                None => 0..self.number_of_drives,
            };
            let mut places = Vec::with_capacity(which.len());
            for drive in which {
                places.push((drive, self.drive_mut(drive).inject(spec)?));
            }
            Placed::OnDrives(places)
        };
        self.faults.push(placed);
        Ok(self.faults.len() - 1)
    }

    fn inject_into_raid(&mut self, spec: &FaultSpec) -> Result<Vec<usize>, SpecError> {
        let number = spec.drive.unwrap_or(0) as usize;
        if self.drives.raid().is_none() {
            return Self::not_redundant();
        }
        let seed =
            Stream::numbered(seed_of(self.seed, number), "spare", self.faults.len() as u64).bits();
        let mut spare = FaultyDevice::new(build(&self.members[number], seed)?, &[], seed)?;
        spare.watch();
        let spare = MemberDrive::new(spare, self.queue.as_ref(), &self.habits);
        let Some(raid) = self.drives.raid_mut().filter(|raid| raid.is_redundant()) else {
            return Self::not_redundant();
        };
        let start = Moment::at(spec.from());
        let mut changes = vec![raid.schedule_failure(start, number)];
        if spec.fault == FaultKind::Rebuild {
            changes.push(raid.schedule_replacement(start, number, spare));
        } else {
            // A fault without an end gets the replacement when the fault is lifted.
            changes.push(raid.schedule_replacement(spec.until(), number, spare));
        }
        Ok(changes)
    }

    fn not_redundant<T>() -> Result<T, SpecError> {
        refuse("fault.kind", "a storage without redundancy", "RAID 1, 5, 6 or 10")
    }

    /// End a fault at `now`: a drive returns, a degraded RAID gets its replacement drive. A rebuild
    /// continues until it is complete.
    pub fn lift(&mut self, fault: usize, now: Nanos) {
        match &self.faults[fault] {
            Placed::OnDrives(places) => {
                for (drive, number) in places.clone() {
                    self.drive_mut(drive).lift(number, now);
                }
            }
            Placed::InRaid(changes) => {
                let last = changes.last().copied();
                if let (Some(raid), Some(change)) = (self.drives.raid_mut(), last) {
                    raid.hasten(change, now);
                }
            }
        }
    }

    /// Return how many times each fault took effect, summed over the drives.
    pub fn fired(&self) -> Vec<u64> {
        let of_raid = self.drives.raid().map_or(Vec::new(), |raid| raid.fault_counts().fired);
        let one = |placed: &Placed| match placed {
            Placed::OnDrives(places) => {
                places.iter().map(|&(drive, number)| self.drive(drive).fired()[number]).sum()
            }
            Placed::InRaid(changes) => of_raid.get(changes[0]).copied().unwrap_or(0),
        };
        self.faults.iter().map(one).collect()
    }
}

macro_rules! either {
    ($storage:expr, $device:ident => $call:expr) => {
        match $storage.drives {
            Drives::Single(ref $device) => $call,
            Drives::Raid(ref $device) => $call,
            Drives::Controlled(ref $device) => $call,
        }
    };
    (mut $storage:expr, $device:ident => $call:expr) => {
        match $storage.drives {
            Drives::Single(ref mut $device) => $call,
            Drives::Raid(ref mut $device) => $call,
            Drives::Controlled(ref mut $device) => $call,
        }
    };
}

impl Wrapper for Storage {
    type Below = dyn Medium;

    fn below(&self) -> &Self::Below {
        either!(self, device => device)
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        either!(mut self, device => device)
    }

    fn pass_down(&mut self, _now: Nanos) {}

    fn with_own_faults(&self, below: FaultCounts) -> FaultCounts {
        FaultCounts { fired: self.fired(), ..below }
    }
}

impl Device for Storage {
    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        either!(mut self, device => device.submit(now, request));
    }

    #[inline]
    fn submit_direct(&mut self, now: Nanos, request: Request) {
        either!(mut self, device => device.submit_direct(now, request));
    }

    #[inline]
    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        either!(mut self, device => device.wake_ahead(now, until, out));
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        either!(self, device => device.next_wake())
    }

    fn in_flight(&self) -> usize {
        either!(self, device => device.in_flight())
    }
}

impl Queue for Storage {
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        either!(mut self, device => device.submit_io(now, io));
    }

    fn plug(&mut self) {
        either!(mut self, device => device.plug());
    }

    fn unplug(&mut self, now: Nanos) {
        either!(mut self, device => device.unplug(now));
    }
}
