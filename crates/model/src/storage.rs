//! What a host sees as one block device: a drive or a RAID of drives, faults included.

use crate::drive::{build, Drive};
use crate::faults::{FaultKind, FaultSpec, FaultyDevice};
use crate::raid::member::MemberDrive;
use crate::raid::spec::StorageSpec;
use crate::raid::Raid;
use crate::request::{Completion, Device, FaultCounts, Nanos, Request, SubmittedIo};
use crate::scheduler::{QueueSpec, SharedHabits};
use crate::spec::{refuse, DriveSpec, SpecError};
use crate::stream::Stream;

/// The drives of a storage.
pub enum Drives {
    Single(FaultyDevice<Drive>),
    Raid(Box<Raid<MemberDrive>>),
}

/// Where a fault of the storage counts.
enum Placed {
    /// (drive, number of the fault there).
    OnDrives(Vec<(usize, usize)>),
    /// Numbers of the RAID's changes; the first tells whether it took effect, the last ends it.
    InRaid(Vec<usize>),
}

/// A drive or a RAID, with its faults.
pub struct Storage {
    pub drives: Drives,
    members: Vec<DriveSpec>,
    /// The queue of each member, where they have one.
    queue: Option<QueueSpec>,
    habits: SharedHabits,
    faults: Vec<Placed>,
    seed: u64,
}

fn seed_of(seed: u64, drive: usize) -> u64 {
    Stream::numbered(seed, "storage/drive", drive as u64).bits()
}

impl Storage {
    /// Builds it; each drive has a seed of its own, so that platters don't turn in step.
    pub fn build(spec: &StorageSpec, seed: u64) -> Result<Self, SpecError> {
        Storage::build_queued(spec, seed, None)
    }

    /// As `build`; each member of a RAID behind a queue of its own, as Linux md has it.
    pub fn build_queued(spec: &StorageSpec, seed: u64, queue: Option<&QueueSpec>) -> Result<Self, SpecError> {
        let members: Vec<DriveSpec> = spec.members()?.into_iter().cloned().collect();
        let mut drives = Vec::with_capacity(members.len());
        for (number, member) in members.iter().enumerate() {
            let seed = seed_of(seed, number);
            drives.push(FaultyDevice::new(build(member, seed)?, &[], seed)?);
        }
        let habits = SharedHabits::default();
        let drives = match &spec.raid {
            Some(raid) => {
                let members =
                    drives.into_iter().map(|drive| MemberDrive::new(drive, queue, &habits)).collect();
                Drives::Raid(Box::new(Raid::new(raid, members)?))
            }
            None => Drives::Single(drives.swap_remove(0)),
        };
        let mut storage =
            Storage { drives, members, queue: queue.cloned(), habits, faults: Vec::new(), seed };
        for fault in &spec.faults {
            storage.inject(fault)?;
        }
        Ok(storage)
    }

    /// Follows every request, so that faults can be injected at any time. To be called before the first.
    pub fn watch(&mut self) {
        for number in 0..self.members.len() {
            self.drive_mut(number).watch();
        }
    }

    fn drive_mut(&mut self, number: usize) -> &mut FaultyDevice<Drive> {
        match &mut self.drives {
            Drives::Single(drive) => drive,
            Drives::Raid(raid) => raid.member_mut(number).drive_mut(),
        }
    }

    fn drive(&self, number: usize) -> &FaultyDevice<Drive> {
        match &self.drives {
            Drives::Single(drive) => drive,
            Drives::Raid(raid) => raid.member(number).drive(),
        }
    }

    /// Adds a fault, whose times are the device's own; gives its number.
    pub fn inject(&mut self, spec: &FaultSpec) -> Result<usize, SpecError> {
        spec.check()?;
        if let Some(wrong) = spec.drive.filter(|&drive| drive as usize >= self.members.len()) {
            return refuse("fault.drive", wrong, &format!("0 to {}", self.members.len() - 1));
        }
        let placed = if spec.fault.of_the_raid() {
            Placed::InRaid(self.inject_into_raid(spec)?)
        } else {
            let which = match spec.drive {
                Some(drive) => drive as usize..drive as usize + 1,
                None => 0..self.members.len(),
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
        let seed = Stream::numbered(seed_of(self.seed, number), "spare", self.faults.len() as u64).bits();
        let mut spare = FaultyDevice::new(build(&self.members[number], seed)?, &[], seed)?;
        spare.watch();
        let spare = MemberDrive::new(spare, self.queue.as_ref(), &self.habits);
        let raid = match &mut self.drives {
            Drives::Raid(raid) if raid.is_redundant() => raid,
            _ => return refuse("fault.kind", "a storage without redundancy", "RAID 1, 5, 6 or 10"),
        };
        let mut changes = vec![raid.schedule_failure(spec.from(), number)];
        if spec.fault == FaultKind::Rebuild {
            changes.push(raid.schedule_replacement(spec.from(), number, spare));
        } else {
            // Without an end it comes when the fault is lifted.
            changes.push(raid.schedule_replacement(spec.until(), number, spare));
        }
        Ok(changes)
    }

    /// Ends a fault at `now`: a drive comes back, a degraded RAID gets its new drive. A rebuild goes on to its end.
    pub fn lift(&mut self, fault: usize, now: Nanos) {
        match &self.faults[fault] {
            Placed::OnDrives(places) => {
                for (drive, number) in places.clone() {
                    self.drive_mut(drive).lift(number, now);
                }
            }
            Placed::InRaid(changes) => {
                let last = changes.last().copied();
                if let (Drives::Raid(raid), Some(change)) = (&mut self.drives, last) {
                    raid.hasten(change, now);
                }
            }
        }
    }

    /// How often each fault has taken effect, all drives together.
    pub fn fired(&self) -> Vec<u64> {
        let of_raid = match &self.drives {
            Drives::Raid(raid) => raid.fault_counts().fired,
            Drives::Single(_) => Vec::new(),
        };
        let one = |placed: &Placed| match placed {
            Placed::OnDrives(places) => {
                places.iter().map(|&(drive, number)| self.drive(drive).fired()[number]).sum()
            }
            Placed::InRaid(changes) => of_raid.get(changes[0]).copied().unwrap_or(0),
        };
        self.faults.iter().map(one).collect()
    }
}

impl Device for Storage {
    fn capacity_sectors(&self) -> u64 {
        match &self.drives {
            Drives::Single(drive) => drive.capacity_sectors(),
            Drives::Raid(raid) => raid.capacity_sectors(),
        }
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        match &mut self.drives {
            Drives::Single(drive) => drive.submit(now, request),
            Drives::Raid(raid) => raid.submit(now, request),
        }
    }

    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        match &mut self.drives {
            Drives::Single(drive) => drive.submit_io(now, io),
            Drives::Raid(raid) => raid.submit_io(now, io),
        }
    }

    fn plug(&mut self) {
        if let Drives::Raid(raid) = &mut self.drives {
            raid.plug();
        }
    }

    fn unplug(&mut self, now: Nanos) {
        if let Drives::Raid(raid) = &mut self.drives {
            raid.unplug(now);
        }
    }

    #[inline]
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        match &mut self.drives {
            Drives::Single(drive) => drive.wake(now, out),
            Drives::Raid(raid) => raid.wake(now, out),
        }
    }

    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        match &mut self.drives {
            Drives::Single(drive) => drive.wake_ahead(now, until, out),
            Drives::Raid(raid) => raid.wake_ahead(now, until, out),
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        match &self.drives {
            Drives::Single(drive) => drive.next_wake(),
            Drives::Raid(raid) => raid.next_wake(),
        }
    }

    fn in_flight(&self) -> usize {
        match &self.drives {
            Drives::Single(drive) => drive.in_flight(),
            Drives::Raid(raid) => raid.in_flight(),
        }
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        match &self.drives {
            Drives::Single(drive) => drive.energy_j(now),
            Drives::Raid(raid) => raid.energy_j(now),
        }
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        match &mut self.drives {
            Drives::Single(drive) => drive.unflushed(now),
            Drives::Raid(raid) => raid.unflushed(now),
        }
    }

    fn fault_counts(&self) -> FaultCounts {
        let counts = match &self.drives {
            Drives::Single(drive) => drive.fault_counts(),
            Drives::Raid(raid) => raid.fault_counts(),
        };
        FaultCounts { fired: self.fired(), ..counts }
    }
}
