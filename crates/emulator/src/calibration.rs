//! Measures the latency of the path from an application through the kernel to the model and back,
//! using a fixed service time, and the wake-up delay of this machine.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use headrace_model::Nanos;
use serde::Serialize;

use crate::clock::{monotonic_ns, Alarm};
use crate::engine::Engine;
use crate::fuse::TRANSFER_BYTES;
use crate::pacer::{Floor, Service, Way, QUICK_NS, SLOW_NS};
use crate::process::{self, TIMER_PRIORITY};
use crate::workers::WORKER_PRIORITY;

const SMALL: usize = 4096;
/// Limits of the service time at which the floor is measured, which is the drive's service time at
/// queue depth 1.
const PACES_NS: (Nanos, Nanos) = (50_000, QUICK_NS);
/// Number of calibration passes: each measures what remains after the floor found so far is
/// subtracted.
const PASSES: usize = 2;
const LARGE_DELAY_NS: Nanos = 2_000_000;
/// Repetitions per round; the round with the smallest median counts.
const SMALL_TIMES: usize = 50;
const SLOW_TIMES: usize = 15;
const LARGE_TIMES: usize = 11;
const ROUNDS: usize = 2;
/// Other programs that want the CPUs are no part of the floor.
const MEASURING_PRIORITY: i32 = WORKER_PRIORITY - 1;

/// Measured floor, nanoseconds: medians of the quietest round, because load from other work is not
/// part of the floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    /// For 4 KiB.
    pub read: Way,
    pub write: Way,
    pub read_ns_per_mib: Nanos,
    pub write_ns_per_mib: Nanos,
    pub wake_ns: Nanos,
}

impl From<Measured> for Floor {
    fn from(found: Measured) -> Self {
        let per_byte = |per_mib: Nanos| per_mib as f64 / f64::from(TRANSFER_BYTES);
        Floor {
            read: found.read,
            write: found.write,
            read_ns_per_byte: per_byte(found.read_ns_per_mib),
            write_ns_per_byte: per_byte(found.write_ns_per_mib),
        }
    }
}

/// Return the median wake-up delay of a sleeping thread of this process.
pub fn wake_lateness() -> io::Result<Nanos> {
    let alarm = Alarm::new()?;
    let mut late: Vec<Nanos> = (0..200)
        .map(|_| {
            let until = monotonic_ns() + 100_000;
            alarm.set(until);
            alarm.wait();
            monotonic_ns().saturating_sub(until)
        })
        .collect();
    late.sort_unstable();
    Ok(late[late.len() / 2])
}

struct Device {
    file: File,
    buffer: *mut u8,
}

// SAFETY: the mapping belongs to this value; one thread at a time fills it.
unsafe impl Sync for Device {}

impl Device {
    fn open(path: &Path) -> io::Result<Self> {
        let file =
            File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)?;
        // SAFETY: a new mapping; unmapped on drop.
        let buffer = unsafe {
            libc::mmap(
                std::ptr::null_mut(),
                TRANSFER_BYTES as usize,
                libc::PROT_READ | libc::PROT_WRITE,
                libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_POPULATE,
                -1,
                0,
            )
        };
        if buffer == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        Ok(Device { file, buffer: buffer.cast() })
    }

    /// Return the median time of a transfer at the start of the device, in the quietest round.
    fn time(&self, write: bool, bytes: usize, times: usize) -> io::Result<Nanos> {
        let mut least = Nanos::MAX;
        for _ in 0..ROUNDS {
            least = least.min(self.median(write, bytes, times)?);
        }
        Ok(least)
    }

    fn median(&self, write: bool, bytes: usize, times: usize) -> io::Result<Nanos> {
        // SAFETY: our own mapping of that size.
        let buffer = unsafe { std::slice::from_raw_parts_mut(self.buffer, bytes) };
        let mut took = Vec::with_capacity(times);
        for _ in 0..times {
            let before = monotonic_ns();
            let done = if write {
                self.file.write_at(buffer, 0)?
            } else {
                self.file.read_at(buffer, 0)?
            };
            took.push(monotonic_ns() - before);
            if done != bytes {
                return Err(io::Error::other(format!(
                    "{done} of {bytes} bytes by {}",
                    self.file.as_raw_fd()
                )));
            }
        }
        took.sort_unstable();
        Ok(took[times / 2])
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.buffer.cast(), TRANSFER_BYTES as usize) };
    }
}

/// Return the latency of a 4 KiB transfer beyond a service time of `pace`.
fn way(
    engine: &Engine,
    device: &Device,
    write: bool,
    pace: Nanos,
    times: usize,
) -> io::Result<Nanos> {
    engine.with_pacer(|pacer, _| pacer.replace(Service::Fixed(pace)));
    device.median(write, SMALL, times)?; // warm-up
    let mut found = 0;
    for _ in 0..PASSES {
        let both = Way { quick_ns: found, slow_ns: found };
        engine.with_pacer(|pacer, _| {
            pacer.set_floor(Floor { read: both, write: both, ..Floor::default() })
        });
        found = (found + device.time(write, SMALL, times)?).saturating_sub(pace);
    }
    engine.with_pacer(|pacer, _| pacer.set_floor(Floor::default()));
    Ok(found)
}

fn find(
    engine: &Engine,
    device: &Device,
    pace: Nanos,
    slow: bool,
    wake_ns: Nanos,
) -> io::Result<Measured> {
    let both_ways = |write| {
        let quick_ns = way(engine, device, write, pace, SMALL_TIMES)?;
        let slow_ns =
            if slow { way(engine, device, write, SLOW_NS, SLOW_TIMES)? } else { quick_ns };
        Ok::<_, io::Error>(Way { quick_ns, slow_ns })
    };
    let (read, write) = (both_ways(false)?, both_ways(true)?);
    engine.with_pacer(|pacer, _| pacer.replace(Service::Fixed(LARGE_DELAY_NS)));
    // Zeroes, so that the device stays empty; the copy takes the same time.
    let copy = |write, way: Way| {
        let took = device.time(write, TRANSFER_BYTES as usize, LARGE_TIMES)?;
        Ok::<_, io::Error>(took.saturating_sub(LARGE_DELAY_NS + way.slow_ns))
    };
    Ok(Measured {
        read,
        write,
        read_ns_per_mib: copy(false, read)?,
        write_ns_per_mib: copy(true, write)?,
        wake_ns,
    })
}

/// Measure the floor through the block device at `path`, which must be empty and unused, and make
/// the engine subtract it. `pace` is the drive's shortest service time at queue depth 1; `slow`
/// means that other requests take milliseconds.
pub fn measure(
    engine: &Engine,
    path: &Path,
    pace: Option<Nanos>,
    slow: bool,
) -> io::Result<Measured> {
    let pace = pace.unwrap_or(QUICK_NS).clamp(PACES_NS.0, PACES_NS.1);
    let wake_ns = at_priority(TIMER_PRIORITY, wake_lateness)?;
    engine.set_lead(wake_ns);
    let device = Device::open(path)?;
    let drive = engine.with_pacer(|pacer, _| {
        pacer.set_floor(Floor::default());
        pacer.replace(Service::Fixed(pace))
    });
    let measured = at_priority(MEASURING_PRIORITY, || find(engine, &device, pace, slow, wake_ns));
    engine.with_pacer(|pacer, _| {
        pacer.replace(drive);
        if let Ok(found) = measured {
            pacer.set_floor(found.into());
        }
    });
    engine.reset();
    measured
}

/// Call `work` on a thread of its own with real-time priority.
fn at_priority<R: Send>(
    priority: i32,
    work: impl FnOnce() -> io::Result<R> + Send,
) -> io::Result<R> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                process::prepare_thread(priority)?;
                work()
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the measuring thread panicked")))
    })
}
