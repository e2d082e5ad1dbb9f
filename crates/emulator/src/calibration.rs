//! Measures what the way from an application through the kernel to the model and back takes, with a service of
//! known length, and how late this machine wakes a sleeper.

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
use crate::pacer::{Floor, Service};

const SMALL: usize = 4096;
/// The pace at which the floor is measured, where the drive has none of its own: a CPU that has slept longer
/// wakes later.
const PACE_NS: Nanos = 200_000;
/// Within these.
const PACES_NS: (Nanos, Nanos) = (50_000, 200_000);
/// So often what was found is subtracted and what is left over is found.
const PASSES: usize = 3;
const LARGE_DELAY_NS: Nanos = 2_000_000;
/// Times of a round; the quietest of the rounds counts.
const SMALL_TIMES: usize = 50;
const LARGE_TIMES: usize = 11;
const ROUNDS: usize = 3;

/// What was found, nanoseconds: medians of the quietest round, for what other work on the machine adds is no floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    pub request_ns: Nanos,
    pub write_request_ns: Nanos,
    pub read_ns_per_mib: Nanos,
    pub write_ns_per_mib: Nanos,
    pub wake_ns: Nanos,
}

/// How much later than asked a sleeping thread of ours wakes, at the median.
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

impl Device {
    fn open(path: &Path) -> io::Result<Self> {
        let file = File::options().read(true).write(true).custom_flags(libc::O_DIRECT).open(path)?;
        // SAFETY: a new mapping; unmapped when dropped.
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

    /// The median time of a transfer at the front of the device, in the quietest round.
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
            let done = if write { self.file.write_at(buffer, 0)? } else { self.file.read_at(buffer, 0)? };
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

/// Measures the floor through the block device at `path`, which nobody else uses yet and which holds nothing,
/// and has the engine subtract it. `pace` is what the drive takes for a request at queue depth 1.
pub fn measure(engine: &Engine, path: &Path, pace: Option<Nanos>) -> io::Result<Measured> {
    let pace = pace.unwrap_or(PACE_NS).clamp(PACES_NS.0, PACES_NS.1);
    let wake_ns = wake_lateness_at_priority()?;
    engine.set_lead(wake_ns);
    let device = Device::open(path)?;
    let drive = engine.with_pacer(|pacer, _| {
        pacer.set_floor(Floor::default());
        pacer.replace(Service::Fixed(pace))
    });
    let measured = (|| {
        device.median(false, SMALL, SMALL_TIMES)?; // warms up
        let [request_ns, write_request_ns] = [false, true].map(|write| {
            let mut floor = 0;
            for _ in 0..PASSES {
                let of_both = Floor { request_ns: floor, write_request_ns: floor, ..Floor::default() };
                engine.with_pacer(|pacer, _| pacer.set_floor(of_both));
                floor = (floor + device.time(write, SMALL, SMALL_TIMES)?).saturating_sub(pace);
            }
            Ok::<_, io::Error>(floor)
        });
        let (request_ns, write_request_ns) = (request_ns?, write_request_ns?);
        engine.with_pacer(|pacer, _| pacer.set_floor(Floor::default()));
        engine.with_pacer(|pacer, _| pacer.replace(Service::Fixed(LARGE_DELAY_NS)));
        // Zeroes: the device holds nothing afterwards either. To the copy it makes no difference.
        let large = TRANSFER_BYTES as usize;
        let read = device.time(false, large, LARGE_TIMES)?;
        let write = device.time(true, large, LARGE_TIMES)?;
        let copy = |took: Nanos, floor| took.saturating_sub(LARGE_DELAY_NS + floor);
        Ok::<_, io::Error>(Measured {
            request_ns,
            write_request_ns,
            read_ns_per_mib: copy(read, request_ns),
            write_ns_per_mib: copy(write, write_request_ns),
            wake_ns,
        })
    })();
    engine.with_pacer(|pacer, _| {
        pacer.replace(drive);
        if let Ok(found) = &measured {
            pacer.set_floor(Floor {
                request_ns: found.request_ns,
                write_request_ns: found.write_request_ns,
                read_ns_per_byte: found.read_ns_per_mib as f64 / f64::from(TRANSFER_BYTES),
                write_ns_per_byte: found.write_ns_per_mib as f64 / f64::from(TRANSFER_BYTES),
            });
        }
    });
    engine.reset();
    measured
}

/// The wake of a thread like the timer's.
fn wake_lateness_at_priority() -> io::Result<Nanos> {
    std::thread::scope(|scope| {
        scope
            .spawn(|| {
                crate::process::prepare_thread(10)?;
                wake_lateness()
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the measuring thread panicked")))
    })
}
