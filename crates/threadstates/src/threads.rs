//! The threads of a process: their times, their children, and what they do, in files of
//! /proc/PID/task that stay open.

use std::fs::read_dir;
use std::io::Result;

use crate::kept::{ended, KeptFile};
use crate::numbers::{after_name, next, numbers};

/// A file of a thread.
#[derive(Clone, Copy, Debug)]
pub enum ThreadFile {
    Schedstat,
    Stat,
    Children,
    Syscall,
    Wchan,
}

const NAMES: [&str; 5] = ["schedstat", "stat", "children", "syscall", "wchan"];
/// Field 42 of proc(5), counted from field 4.
const BLOCK_DELAY: usize = 38;
/// The kernel hands out at most a page of children at once.
const PAGE: usize = 4096;

/// The threads, as of the last `refresh`, by number.
pub struct Threads {
    process: u32,
    threads: Vec<Thread>,
}

struct Thread {
    id: u32,
    files: [Option<KeptFile>; NAMES.len()],
}

impl Threads {
    pub fn new(process: u32) -> Self {
        Threads { process, threads: Vec::new() }
    }

    pub fn ids(&self) -> impl Iterator<Item = u32> + '_ {
        self.threads.iter().map(|thread| thread.id)
    }

    /// List the threads anew, unless there is only the one known; return whether they are others.
    ///
    /// Fails when the process has ended.
    pub fn refresh(&mut self, count: u64) -> Result<bool> {
        if count == 1 && matches!(&self.threads[..], [only] if only.id == self.process) {
            return Ok(false);
        }
        let mut now = Vec::with_capacity(self.threads.len());
        for entry in read_dir(format!("/proc/{}/task", self.process))? {
            now.extend(entry?.file_name().to_str().and_then(|name| name.parse::<u32>().ok()));
        }
        now.sort_unstable();
        if now.iter().copied().eq(self.ids()) {
            return Ok(false);
        }
        self.threads.retain(|thread| now.binary_search(&thread.id).is_ok());
        for id in now {
            if let Err(place) = self.threads.binary_search_by_key(&id, |thread| thread.id) {
                self.threads.insert(place, Thread { id, files: Default::default() });
            }
        }
        Ok(true)
    }

    /// Return the time on a CPU, on a run queue and, if wanted, in block I/O of the living threads,
    /// in ns.
    pub fn times_ns(&mut self, delays: bool, tick_ns: u64) -> [u64; 3] {
        let mut sum = [0; 3];
        for thread in &mut self.threads {
            // One that has ended since they were listed counts as far as it was read.
            let _ = thread.add_times(self.process, delays.then_some(tick_ns), &mut sum);
        }
        sum
    }

    /// Return the living children of all threads.
    pub fn children(&mut self) -> Vec<u32> {
        let mut found = Vec::new();
        for thread in &mut self.threads {
            let _ = thread.add_children(self.process, &mut found);
        }
        found
    }

    /// Read a file of a thread; return its length. Fails when it has ended or may not be read.
    pub fn read(&mut self, thread: u32, file: ThreadFile, bytes: &mut [u8]) -> Result<usize> {
        let known = self.threads.binary_search_by_key(&thread, |each| each.id);
        self.threads[known.map_err(|_| ended())?].read(self.process, file, bytes, 0)
    }
}

impl Thread {
    fn read(
        &mut self,
        process: u32,
        file: ThreadFile,
        bytes: &mut [u8],
        offset: usize,
    ) -> Result<usize> {
        let place = &mut self.files[file as usize];
        if place.is_none() {
            let name = NAMES[file as usize];
            *place = Some(KeptFile::open(format!("/proc/{process}/task/{}/{name}", self.id))?);
        }
        let Some(kept) = place else { return Err(ended()) };
        kept.read_from(bytes, offset as u64)
    }

    fn add_times(&mut self, process: u32, tick_ns: Option<u64>, sum: &mut [u64; 3]) -> Result<()> {
        let mut bytes = [0; 1024];
        let length = self.read(process, ThreadFile::Schedstat, &mut bytes, 0)?;
        for (place, value) in sum.iter_mut().zip(numbers(&bytes[..length]).take(2)) {
            *place += value;
        }
        if let Some(tick_ns) = tick_ns {
            let length = self.read(process, ThreadFile::Stat, &mut bytes, 0)?;
            let (_, rest) = after_name(&bytes[..length]).ok_or_else(ended)?;
            sum[2] += next(&mut numbers(rest).skip(BLOCK_DELAY))? * tick_ns;
        }
        Ok(())
    }

    fn add_children(&mut self, process: u32, found: &mut Vec<u32>) -> Result<()> {
        let mut bytes = [0; PAGE];
        let mut offset = 0;
        loop {
            let length = self.read(process, ThreadFile::Children, &mut bytes, offset)?;
            found.extend(numbers(&bytes[..length]).filter_map(|id| u32::try_from(id).ok()));
            offset += length;
            if length < PAGE / 2 {
                return Ok(());
            }
        }
    }
}
