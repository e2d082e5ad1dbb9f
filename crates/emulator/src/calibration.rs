//! Measures what the way from an application through the kernel to the model and back takes, with a service of
//! known length, and how late this machine wakes a sleeper.

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;

use headrace_model::Nanos;
use serde::Serialize;

use crate::clock::{monotonic_ns, Bell};
use crate::engine::Engine;
use crate::fuse::TRANSFER_BYTES;
use crate::pacer::{Floor, Service};

const SMALL: usize = 4096;
const SMALL_DELAY_NS: Nanos = 200_000;
const LARGE_DELAY_NS: Nanos = 2_000_000;
const SMALL_TIMES: usize = 400;
const LARGE_TIMES: usize = 40;

/// What was found, nanoseconds, of the fastest twentieth: what other work on the machine adds is no floor.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Measured {
    pub request_ns: Nanos,
    pub read_ns_per_mib: Nanos,
    pub write_ns_per_mib: Nanos,
    pub wake_ns: Nanos,
}

/// How much later than asked a sleeping thread of ours wakes, at the median.
pub fn wake_lateness() -> Nanos {
    let bell = Bell::default();
    let mut late: Vec<Nanos> = (0..200)
        .map(|_| {
            let until = monotonic_ns() + 100_000;
            bell.wait(bell.listen(), until);
            monotonic_ns() - until
        })
        .collect();
    late.sort_unstable();
    late[late.len() / 2]
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

    /// Times of a transfer at the front of the device, shortest first.
    fn times(&self, write: bool, bytes: usize, times: usize) -> io::Result<Vec<Nanos>> {
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
        Ok(took)
    }
}

impl Drop for Device {
    fn drop(&mut self) {
        // SAFETY: our own mapping.
        unsafe { libc::munmap(self.buffer.cast(), TRANSFER_BYTES as usize) };
    }
}

/// Measures the floor through the block device at `path`, which nobody else uses yet and which holds nothing,
/// and has the engine subtract it.
pub fn measure(engine: &Engine, path: &Path) -> io::Result<Measured> {
    let wake_ns = wake_lateness_at_priority()?;
    engine.set_lead(wake_ns.clamp(2_000, 30_000));
    let device = Device::open(path)?;
    let drive = engine.with_pacer(|pacer, _| {
        pacer.set_floor(Floor::default());
        pacer.replace(Service::Fixed(SMALL_DELAY_NS))
    });
    let measured = (|| {
        device.times(false, SMALL, SMALL_TIMES / 4)?; // warms up
        let small = device.times(false, SMALL, SMALL_TIMES)?;
        engine.with_pacer(|pacer, _| pacer.replace(Service::Fixed(LARGE_DELAY_NS)));
        // Zeroes: the device holds nothing afterwards either. To the copy it makes no difference.
        let large = TRANSFER_BYTES as usize;
        let read = device.times(false, large, LARGE_TIMES)?;
        let write = device.times(true, large, LARGE_TIMES)?;
        let request_ns = small[SMALL_TIMES / 20].saturating_sub(SMALL_DELAY_NS);
        let copy = |took: &[Nanos]| took[LARGE_TIMES / 20].saturating_sub(LARGE_DELAY_NS + request_ns);
        Ok::<_, io::Error>(Measured {
            request_ns,
            read_ns_per_mib: copy(&read),
            write_ns_per_mib: copy(&write),
            wake_ns,
        })
    })();
    engine.with_pacer(|pacer, _| {
        pacer.replace(drive);
        if let Ok(found) = &measured {
            pacer.set_floor(Floor {
                request_ns: found.request_ns,
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
                Ok(wake_lateness())
            })
            .join()
            .unwrap_or_else(|_| Err(io::Error::other("the measuring thread panicked")))
    })
}
