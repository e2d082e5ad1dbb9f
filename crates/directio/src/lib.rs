//! Timed direct requests on a block device: the same scripts that `drive_script` of the model runs
//! in virtual time.
//!
//! One request at a time is `pread` or `pwrite`, which has the least overhead. Several are Linux
//! native asynchronous I/O (io_submit(2)): system administrators disable io_uring more often.

mod aio;
mod buffers;

use std::fs::{File, OpenOptions};
use std::io::{self, Seek, SeekFrom};
use std::os::fd::AsRawFd;
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::Path;
use std::time::{Duration, Instant};

use headrace_model::drive_script::{Step, Timing};
use headrace_model::SECTOR_BYTES;

use aio::{Queue, Transfer};
use buffers::Buffers;

/// The last part of a pause is spent in a loop, since a sleep ends late.
const SPIN: Duration = Duration::from_micros(80);

/// An open block device (or file), accessed past the page cache.
pub struct BlockDevice {
    file: File,
    capacity_bytes: u64,
    opened: Instant,
    buffers: Buffers,
}

impl BlockDevice {
    /// Open for reads, or for reads and writes. Writes need exclusive use: the kernel refuses a
    /// block device that is mounted or part of another.
    pub fn open(path: &Path, writable: bool) -> io::Result<Self> {
        let exclusive = if writable { libc::O_EXCL } else { 0 };
        let mut file = OpenOptions::new()
            .read(true)
            .write(writable)
            .custom_flags(libc::O_DIRECT | libc::O_CLOEXEC | exclusive)
            .open(path)?;
        let capacity_bytes = file.seek(SeekFrom::End(0))?;
        let buffers = Buffers::new();
        Ok(BlockDevice { file, capacity_bytes, opened: Instant::now(), buffers })
    }

    pub fn capacity_bytes(&self) -> u64 {
        self.capacity_bytes
    }

    fn now_ns(&self) -> u64 {
        self.opened.elapsed().as_nanos() as u64
    }

    /// Run the steps in order with at most `depth` requests in flight. No step starts after
    /// `limit_ns`, so there may be fewer timings than steps. All requests are done at the end.
    pub fn run(&mut self, steps: &[Step], depth: usize, limit_ns: u64) -> io::Result<Vec<Timing>> {
        let longest = steps.iter().map(|step| step.sectors).max().unwrap_or(1);
        self.buffers.provide(depth.max(1), longest as usize * SECTOR_BYTES as usize)?;
        if depth <= 1 {
            self.run_one_at_a_time(steps, limit_ns)
        } else {
            self.run_queue(steps, depth, limit_ns)
        }
    }

    fn run_one_at_a_time(&mut self, steps: &[Step], limit_ns: u64) -> io::Result<Vec<Timing>> {
        let last_ns = self.now_ns().saturating_add(limit_ns);
        let mut timings = Vec::with_capacity(steps.len());
        for step in steps {
            if self.now_ns() > last_ns {
                break;
            }
            pause(step.wait_ns);
            let (offset, bytes) = place(step);
            let start_ns = self.now_ns();
            let buffer = self.buffers.slice(0, bytes);
            if step.write {
                write_all(&self.file, buffer, offset, step.through)?;
            } else {
                self.file.read_exact_at(buffer, offset)?;
            }
            timings.push(Timing { start_ns, end_ns: self.now_ns() });
        }
        Ok(timings)
    }

    fn run_queue(
        &mut self,
        steps: &[Step],
        depth: usize,
        limit_ns: u64,
    ) -> io::Result<Vec<Timing>> {
        let last_ns = self.now_ns().saturating_add(limit_ns);
        let mut queue = Queue::new(depth)?;
        let mut free: Vec<usize> = (0..depth).collect();
        let mut steps_of_slots = vec![0; depth];
        let mut timings: Vec<Timing> = Vec::with_capacity(steps.len());
        let mut failed = None;
        loop {
            while failed.is_none() && timings.len() < steps.len() && self.now_ns() <= last_ns {
                let Some(slot) = free.pop() else { break };
                let step = &steps[timings.len()];
                pause(step.wait_ns);
                let (offset, bytes) = place(step);
                let at = self.buffers.address(slot);
                let start_ns = self.now_ns();
                let transfer =
                    Transfer { slot, write: step.write, through: step.through, at, bytes, offset };
                if let Err(error) = queue.submit(&self.file, &transfer) {
                    free.push(slot);
                    failed = Some(error);
                    break;
                }
                steps_of_slots[slot] = timings.len();
                timings.push(Timing { start_ns, end_ns: 0 });
            }
            if free.len() == depth {
                break;
            }
            let done = queue.wait()?;
            let end_ns = self.now_ns();
            for &(slot, moved) in done {
                let step = steps_of_slots[slot];
                timings[step].end_ns = end_ns;
                free.push(slot);
                if moved != place(&steps[step]).1 as i64 {
                    failed = Some(match moved {
                        0.. => io::ErrorKind::UnexpectedEof.into(),
                        _ => io::Error::from_raw_os_error(-moved as i32),
                    });
                }
            }
        }
        match failed {
            Some(error) => Err(error),
            None => Ok(timings),
        }
    }
}

/// Write a buffer; `through`: past the write cache of the device, or with a flush of it after.
fn write_all(file: &File, buffer: &[u8], offset: u64, through: bool) -> io::Result<()> {
    if !through {
        return file.write_all_at(buffer, offset);
    }
    let part =
        libc::iovec { iov_base: buffer.as_ptr() as *mut libc::c_void, iov_len: buffer.len() };
    // SAFETY: the kernel reads the buffer, which is borrowed until it is done.
    let written =
        unsafe { libc::pwritev2(file.as_raw_fd(), &part, 1, offset as i64, libc::RWF_DSYNC) };
    match usize::try_from(written) {
        Ok(bytes) if bytes == buffer.len() => Ok(()),
        Ok(_) => Err(io::ErrorKind::WriteZero.into()),
        Err(_) => Err(io::Error::last_os_error()),
    }
}

/// Return offset and length of a step in bytes.
fn place(step: &Step) -> (u64, usize) {
    (step.sector * SECTOR_BYTES, step.sectors as usize * SECTOR_BYTES as usize)
}

fn pause(wait_ns: u64) {
    if wait_ns == 0 {
        return;
    }
    let begun = Instant::now();
    let wait = Duration::from_nanos(wait_ns);
    if let Some(sleep) = wait.checked_sub(SPIN) {
        std::thread::sleep(sleep);
    }
    while begun.elapsed() < wait {
        std::hint::spin_loop();
    }
}
