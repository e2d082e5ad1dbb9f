//! A script of requests on a drive model that keeps its state between scripts, in virtual time.
//!
//! `headrace-directio` runs the same scripts on a real block device.

use crate::drive::{build, Drive};
use crate::request::{Device, Medium, Nanos, Op, Request, Status, StoredOrder, SECTOR_BYTES};
use crate::spec::{refuse, DriveSpec, SpecError};

/// One request of a script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Step {
    pub write: bool,
    /// A write is done when it is on the medium: the write cache is not used.
    pub through: bool,
    pub sector: u64,
    pub sectors: u32,
    /// Pause before the request is submitted.
    pub wait_ns: Nanos,
}

/// When a request was submitted and when it was done, since the drive was opened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Timing {
    pub start_ns: Nanos,
    pub end_ns: Nanos,
}

/// A drive model and its clock.
pub struct ScriptedDrive {
    drive: Drive,
    now: Nanos,
}

impl ScriptedDrive {
    /// Build the drive in the state of its table; `holds_data`: all of it holds data.
    pub fn new(spec: &DriveSpec, seed: u64, holds_data: bool) -> Result<Self, SpecError> {
        let mut drive = build(spec, seed)?;
        if holds_data {
            drive.preload(&[(0, drive.capacity_sectors())], StoredOrder::OfDrive);
        }
        Ok(ScriptedDrive { drive, now: 0 })
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.drive.capacity_sectors() * SECTOR_BYTES
    }

    /// Run the steps in order with at most `depth` requests in flight. No step starts after
    /// `limit_ns`, so there may be fewer timings than steps. All requests are done at the end.
    pub fn run(
        &mut self,
        steps: &[Step],
        depth: usize,
        limit_ns: Nanos,
    ) -> Result<Vec<Timing>, SpecError> {
        let begun = self.now;
        let mut timings = Vec::with_capacity(steps.len());
        let mut out = Vec::with_capacity(depth);
        loop {
            while self.drive.in_flight() < depth.max(1) && timings.len() < steps.len() {
                if self.now - begun > limit_ns {
                    break;
                }
                let step = steps[timings.len()];
                self.now += step.wait_ns;
                let op = if step.write { Op::Write } else { Op::Read };
                let tag = timings.len() as u64;
                timings.push(Timing { start_ns: self.now, end_ns: 0 });
                let request = Request {
                    tag,
                    op,
                    sector: step.sector,
                    sectors: step.sectors,
                    fua: step.through,
                };
                self.drive.submit(self.now, request);
            }
            let Some(next) = self.drive.next_wake() else { break };
            self.now = self.now.max(next);
            self.drive.wake(self.now, &mut out);
            for completion in out.drain(..) {
                let step = steps[completion.tag as usize];
                if completion.status != Status::Done {
                    let end = step.sector.saturating_add(u64::from(step.sectors));
                    return refuse("sector", end, "a range inside the drive, not empty");
                }
                timings[completion.tag as usize].end_ns = completion.time;
            }
        }
        Ok(timings)
    }
}
