//! What a host sees as one block device: a drive or a RAID of drives, faults included.

use crate::drive::{build, Drive};
use crate::faults::{FaultSpec, FaultyDevice};
use crate::raid::spec::StorageSpec;
use crate::raid::Raid;
use crate::request::{Completion, Device, Nanos, Request};
use crate::spec::{refuse, SpecError};
use crate::stream::Stream;

/// A drive or a RAID.
pub enum Storage {
    Single(FaultyDevice<Drive>),
    Raid(Box<Raid<FaultyDevice<Drive>>>),
}

impl Storage {
    /// Builds it; each drive has a seed of its own, so that platters don't turn in step.
    pub fn build(spec: &StorageSpec, seed: u64) -> Result<Self, SpecError> {
        let members = spec.members()?;
        if let Some(wrong) =
            spec.faults.iter().filter_map(|fault| fault.drive).find(|&d| d as usize >= members.len())
        {
            return refuse("fault.drive", wrong, &format!("0 to {}", members.len() - 1));
        }
        let mut drives = Vec::with_capacity(members.len());
        for (number, member) in members.iter().enumerate() {
            let seed = Stream::numbered(seed, "storage/drive", number as u64).bits();
            let mine = |fault: &&FaultSpec| fault.drive.is_none_or(|drive| drive as usize == number);
            let faults: Vec<FaultSpec> = spec.faults.iter().filter(mine).cloned().collect();
            drives.push(FaultyDevice::new(build(member, seed)?, &faults, seed)?);
        }
        match &spec.raid {
            Some(raid) => Ok(Storage::Raid(Box::new(Raid::new(raid, drives)?))),
            None => Ok(Storage::Single(drives.swap_remove(0))),
        }
    }

    /// How often the faults of each drive have fired.
    pub fn faults_fired(&self) -> Vec<Vec<u64>> {
        match self {
            Storage::Single(drive) => vec![drive.fired()],
            Storage::Raid(raid) => (0..raid.issued().len()).map(|index| raid.member(index).fired()).collect(),
        }
    }
}

impl Device for Storage {
    fn capacity_sectors(&self) -> u64 {
        match self {
            Storage::Single(drive) => drive.capacity_sectors(),
            Storage::Raid(raid) => raid.capacity_sectors(),
        }
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        match self {
            Storage::Single(drive) => drive.submit(now, request),
            Storage::Raid(raid) => raid.submit(now, request),
        }
    }

    #[inline]
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        match self {
            Storage::Single(drive) => drive.wake(now, out),
            Storage::Raid(raid) => raid.wake(now, out),
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        match self {
            Storage::Single(drive) => drive.next_wake(),
            Storage::Raid(raid) => raid.next_wake(),
        }
    }

    fn in_flight(&self) -> usize {
        match self {
            Storage::Single(drive) => drive.in_flight(),
            Storage::Raid(raid) => raid.in_flight(),
        }
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        match self {
            Storage::Single(drive) => drive.energy_j(now),
            Storage::Raid(raid) => raid.energy_j(now),
        }
    }
}
