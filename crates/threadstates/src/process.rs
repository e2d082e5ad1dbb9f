//! What a process has used and waited, all its threads together.

use std::io::Result;

use crate::counters::ProcessFiles;
use crate::kept::ended;
use crate::moved::Moved;
use crate::threads::{ThreadFile, Threads};

/// One process that is looked at again and again.
pub struct Process {
    files: ProcessFiles,
    threads: Threads,
    /// Of the last reading; 1 before the first.
    count: u64,
    changed: bool,
    tick_ns: u64,
}

/// What a process has used and waited since its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    pub parent: u64,
    pub threads: u64,
    /// User and system time of all its threads, and both of its children that it waited for.
    pub ticks: [u64; 3],
    /// Time on a CPU, on a run queue and in block I/O, in ns; None where another source tells more.
    pub times_ns: Option<[u64; 3]>,
    /// None when not readable.
    pub moved: Option<Moved>,
}

impl Process {
    /// Open its files and list its threads. Fails when it does not exist.
    pub fn open(process: u32) -> Result<Self> {
        let mut threads = Threads::new(process);
        let files = ProcessFiles::open(process)?;
        threads.refresh(0)?;
        // SAFETY: sysconf has no preconditions.
        let ticks_per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
        let tick_ns = 1_000_000_000 / u64::try_from(ticks_per_s).unwrap_or(100);
        Ok(Process { files, threads, count: 1, changed: true, tick_ns })
    }

    /// Return the counters of now, or None if they are those of the last call. Fails when the
    /// process has ended.
    ///
    /// `delays`: waits for block I/O are counted, and wanted. `elsewhere`: the times of a process
    /// with several threads, and waits for block I/O, have another source.
    pub fn read(&mut self, delays: bool, elsewhere: bool) -> Result<Option<Reading>> {
        let Some(counts) = self.files.read(!delays && self.count == 1)? else { return Ok(None) };
        // Its first thread may have ended before the others (`pthread_exit` in `main`).
        if matches!(counts.letter, b'Z' | b'X') && counts.threads <= 1 {
            return Err(ended());
        }
        self.changed |= self.threads.refresh(counts.threads)?;
        self.count = counts.threads;
        let times_ns = match counts.sched_ns {
            Some([run, wait]) if counts.threads == 1 => Some([run, wait, 0]),
            _ if elsewhere && (delays || counts.threads > 1) => None,
            _ => Some(self.threads.times_ns(delays, self.tick_ns)),
        };
        Ok(Some(Reading {
            parent: counts.parent,
            threads: counts.threads,
            ticks: counts.ticks,
            times_ns,
            moved: counts.moved,
        }))
    }

    /// Return its threads if they are others than at the last call.
    pub fn other_threads(&mut self) -> Option<Vec<u32>> {
        std::mem::take(&mut self.changed).then(|| self.threads.ids().collect())
    }

    /// Return the living children of all its threads.
    pub fn children(&mut self) -> Vec<u32> {
        self.threads.children()
    }

    /// Read a file of a thread; return its length. Fails when it has ended or may not be read.
    pub fn read_thread(&mut self, id: u32, file: ThreadFile, bytes: &mut [u8]) -> Result<usize> {
        self.threads.read(id, file, bytes)
    }
}

/// Return the time of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    crate::moments::clock_ns(libc::CLOCK_MONOTONIC)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn a_process_with_a_child_and_its_end() {
        let mut child = Command::new("sh").args(["-c", "sleep 60; :"]).spawn().expect("sh starts");
        let mut process = Process::open(child.id()).expect("it runs");
        let children = loop {
            let found = process.children();
            if !found.is_empty() {
                break found;
            }
        };
        // The kernel counts what it ran when it goes to sleep.
        let state = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&state).expect("it runs").contains(") S ") {}
        let first = process.read(false, false).expect("it runs").expect("the first");
        assert_eq!((first.parent, first.threads), (u64::from(std::process::id()), 1));
        assert!(first.times_ns.expect("no other source")[0] > 0);
        assert!(process.read(true, true).expect("it runs").expect("all").times_ns.is_none());
        assert_eq!(process.other_threads(), Some(vec![child.id()]));
        assert_eq!(process.other_threads(), None);
        let mut bytes = [0; 64];
        let length = process.read_thread(child.id(), ThreadFile::Wchan, &mut bytes);
        assert!(length.is_ok(), "{length:?}");
        assert!(process.read_thread(1, ThreadFile::Wchan, &mut bytes).is_err());
        let mut sleeper = Process::open(children[0]).expect("it runs");
        // Until it is reaped it is a zombie: it has ended all the same.
        child.kill().expect("it runs");
        while process.read(false, false).is_ok() {}
        child.wait().expect("it ends");
        assert!(process.read(false, false).is_err());
        assert!(sleeper.read(false, false).is_ok());
        // SAFETY: kill has no preconditions; the process is the one started here.
        unsafe { libc::kill(children[0].cast_signed(), libc::SIGKILL) };
        while sleeper.read(false, false).is_ok() {}
    }

    #[test]
    fn the_times_of_all_threads_are_added() {
        let mut process = Process::open(std::process::id()).expect("it is this one");
        let (tells, told) = std::sync::mpsc::channel();
        let (ends, end) = std::sync::mpsc::channel::<()>();
        let thread = std::thread::spawn(move || {
            // SAFETY: gettid has no arguments and does not fail.
            let own = unsafe { libc::gettid() }.cast_unsigned();
            let began_ns = crate::moments::thread_cpu_ns();
            while crate::moments::thread_cpu_ns() - began_ns < 50_000_000 {}
            tells.send(own).expect("it is heard");
            end.recv()
        });
        let id = told.recv().expect("it says its number");
        let reading = process.read(false, false).expect("it runs").expect("the first");
        assert!(reading.threads > 1);
        assert!(process.other_threads().expect("there are more").contains(&id));
        assert!(reading.times_ns.expect("no other source")[0] >= 50_000_000);
        assert!(process.read(false, true).expect("it runs").expect("all").times_ns.is_none());
        drop(ends);
        thread.join().expect("no panic").expect_err("no message");
    }
}
