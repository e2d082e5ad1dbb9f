//! A drive (hard disk or SSD), built from its catalog table.

use crate::hdd::Hdd;
use crate::request::{Completion, Device, Medium, Nanos, Queue, Request, SubmittedIo, Wrapper};
use crate::spec::{DriveSpec, SpecError};
use crate::ssd::Ssd;

/// A drive model.
pub enum Drive {
    Hdd(Box<Hdd>),
    Ssd(Box<Ssd>),
}

/// Build the model of a drive; the error names the invalid field.
pub fn build(spec: &DriveSpec, seed: u64) -> Result<Drive, SpecError> {
    Ok(match spec {
        DriveSpec::Hdd(spec) => Drive::Hdd(Box::new(Hdd::new(spec, seed)?)),
        DriveSpec::Ssd(spec) => Drive::Ssd(Box::new(Ssd::new(spec)?)),
    })
}

impl Wrapper for Drive {
    type Below = dyn Medium;

    fn below(&self) -> &Self::Below {
        match self {
            Drive::Hdd(drive) => &**drive,
            Drive::Ssd(drive) => &**drive,
        }
    }

    fn below_mut(&mut self) -> &mut Self::Below {
        match self {
            Drive::Hdd(drive) => &mut **drive,
            Drive::Ssd(drive) => &mut **drive,
        }
    }

    fn pass_down(&mut self, _now: Nanos) {}
}

impl Device for Drive {
    #[inline]
    fn submit(&mut self, now: Nanos, request: Request) {
        match self {
            Drive::Hdd(drive) => drive.submit(now, request),
            Drive::Ssd(drive) => drive.submit(now, request),
        }
    }

    #[inline]
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
}

/// A drive has no scheduler: it serves I/Os in the order of arrival.
impl Queue for Drive {
    #[inline]
    fn submit_io(&mut self, now: Nanos, io: SubmittedIo) {
        self.submit(now, io.request);
    }

    fn plug(&mut self) {}

    fn unplug(&mut self, _now: Nanos) {}
}
