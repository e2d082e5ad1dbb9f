//! A drive of either kind, built from its table.

use crate::hdd::Hdd;
use crate::request::{Completion, Device, Nanos, Request};
use crate::spec::{DriveSpec, SpecError};
use crate::ssd::Ssd;

/// A drive model.
pub enum Drive {
    Hdd(Box<Hdd>),
    Ssd(Box<Ssd>),
}

/// Builds the model of a drive, or says which field cannot be true.
pub fn build(spec: &DriveSpec, seed: u64) -> Result<Drive, SpecError> {
    Ok(match spec {
        DriveSpec::Hdd(spec) => Drive::Hdd(Box::new(Hdd::new(spec, seed)?)),
        DriveSpec::Ssd(spec) => Drive::Ssd(Box::new(Ssd::new(spec)?)),
    })
}

impl Device for Drive {
    fn capacity_sectors(&self) -> u64 {
        match self {
            Drive::Hdd(drive) => drive.capacity_sectors(),
            Drive::Ssd(drive) => drive.capacity_sectors(),
        }
    }

    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        match self {
            Drive::Hdd(drive) => drive.submit(now, request),
            Drive::Ssd(drive) => drive.submit(now, request),
        }
    }

    #[inline]
    fn wake(&mut self, now: Nanos, out: &mut Vec<Completion>) {
        match self {
            Drive::Hdd(drive) => drive.wake(now, out),
            Drive::Ssd(drive) => drive.wake(now, out),
        }
    }

    fn wake_ahead(&mut self, now: Nanos, until: Nanos, out: &mut Vec<Completion>) {
        match self {
            Drive::Hdd(drive) => drive.wake_ahead(now, until, out),
            Drive::Ssd(drive) => drive.wake_ahead(now, until, out),
        }
    }

    #[inline]
    fn next_wake(&self) -> Option<Nanos> {
        match self {
            Drive::Hdd(drive) => drive.next_wake(),
            Drive::Ssd(drive) => drive.next_wake(),
        }
    }

    #[inline]
    fn in_flight(&self) -> usize {
        match self {
            Drive::Hdd(drive) => drive.in_flight(),
            Drive::Ssd(drive) => drive.in_flight(),
        }
    }

    fn energy_j(&self, now: Nanos) -> f64 {
        match self {
            Drive::Hdd(drive) => drive.energy_j(now),
            Drive::Ssd(drive) => drive.energy_j(now),
        }
    }

    fn unflushed(&mut self, now: Nanos) -> Vec<(u64, u64)> {
        match self {
            Drive::Hdd(drive) => Hdd::unflushed(drive, now),
            Drive::Ssd(drive) => Ssd::unflushed(drive, now),
        }
    }
}
