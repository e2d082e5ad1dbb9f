//! Counters of one process from /proc (proc(5)), in files that stay open.

use std::io::{ErrorKind, Result};

use crate::kept::{ended, KeptFile};
use crate::moved::Moved;
use crate::numbers::{after_name, next, number, numbers};

/// The files of one process.
pub struct ProcessFiles {
    stat: KeptFile,
    /// Of its first thread.
    schedstat: Option<KeptFile>,
    /// None where it may not be opened.
    io: Option<KeptFile>,
    /// When it started, in clock ticks since boot, as of the first reading.
    started: Option<u64>,
    last_schedstat: Vec<u8>,
    asleep: bool,
}

/// What a process has used since its start.
#[derive(Debug, PartialEq, Eq)]
pub struct Counts {
    pub letter: u8,
    pub parent: u64,
    pub threads: u64,
    /// User and system time of all its threads, and both of its children that it waited for.
    pub ticks: [u64; 3],
    /// Time on a CPU and on a run queue of its first thread, in ns, if it was wanted.
    pub sched_ns: Option<[u64; 2]>,
    /// None when not readable.
    pub moved: Option<Moved>,
}

impl ProcessFiles {
    /// Open the files. Fails when there is no such process.
    pub fn open(process: u32) -> Result<Self> {
        let open = |name| KeptFile::open(format!("/proc/{process}/{name}"));
        Ok(ProcessFiles {
            stat: open("stat".into())?,
            schedstat: open(format!("task/{process}/schedstat")).ok(),
            io: open("io".into()).ok(),
            started: None,
            last_schedstat: Vec::new(),
            asleep: false,
        })
    }

    /// Return the counters of now, or None if nothing has changed: its only thread slept at the
    /// last call, and was not on a CPU since. `alone`: it had one thread then, and its times are
    /// wanted.
    ///
    /// Fails when the process has ended.
    pub fn read(&mut self, alone: bool) -> Result<Option<Counts>> {
        let mut bytes = [0; 1024];
        let mut sched_ns = None;
        if let (true, Some(file)) = (alone, &self.schedstat) {
            let length = file.read(&mut bytes)?;
            let text = &bytes[..length];
            // A kernel without CONFIG_SCHED_INFO has zeros here.
            if self.asleep && text == self.last_schedstat && !text.starts_with(b"0 ") {
                return Ok(None);
            }
            self.last_schedstat.clear();
            self.last_schedstat.extend_from_slice(text);
            let mut numbers = numbers(text);
            sched_ns = Some([next(&mut numbers)?, next(&mut numbers)?]);
        } else {
            self.last_schedstat.clear();
        }
        let length = self.stat.read(&mut bytes)?;
        let (letter, rest) = after_name(&bytes[..length]).ok_or_else(ended)?;
        let mut fields = numbers(rest);
        // The first of these is field 4 of proc(5).
        let parent = next(&mut fields)?;
        let mut fields = fields.skip(9);
        let (user, system) = (next(&mut fields)?, next(&mut fields)?);
        let of_children = next(&mut fields)? + next(&mut fields)?;
        let mut fields = fields.skip(2);
        let threads = next(&mut fields)?;
        let started = next(&mut fields.skip(1))?;
        // Where files are opened at each reading, the number may be that of another process by now.
        if *self.started.get_or_insert(started) != started {
            return Err(ended());
        }
        self.asleep = matches!(letter, b'S' | b'D');
        let ticks = [user, system, of_children];
        Ok(Some(Counts { letter, parent, threads, ticks, sched_ns, moved: self.moved()? }))
    }

    fn moved(&self) -> Result<Option<Moved>> {
        let Some(file) = &self.io else { return Ok(None) };
        let mut bytes = [0; 512];
        let length = match file.read(&mut bytes) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error),
        };
        // rchar: N, wchar: N, …
        let mut found = Moved::default();
        let values = bytes[..length].split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            number(line.get(colon + 2..)?)
        });
        let mut counted = 0;
        for (place, value) in found.0.iter_mut().zip(values) {
            *place = value;
            counted += 1;
        }
        Ok((counted == found.0.len()).then_some(found))
    }

    /// Close the descriptors; files are opened at each reading from now on.
    #[cfg(test)]
    fn release(&mut self) {
        self.stat.release();
        self.schedstat.iter_mut().chain(&mut self.io).for_each(KeptFile::release);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_sleeps_has_not_changed() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        // The kernel counts what it ran when it goes to sleep.
        let state = format!("/proc/{}/stat", child.id());
        while !std::fs::read_to_string(&state).expect("it runs").contains(") S ") {}
        let mut files = ProcessFiles::open(child.id()).expect("it runs");
        let first = files.read(true).expect("it runs").expect("the first is never the same");
        assert_eq!(first.parent, u64::from(std::process::id()));
        assert_eq!(first.threads, 1);
        assert!(first.sched_ns.expect("it was wanted")[0] > 0);
        assert!(first.moved.expect("its owner may read it").0[2] > 0);
        // Until it sleeps, readings differ.
        while files.read(true).expect("it runs").is_some() {}
        assert!(files.read(false).expect("it runs").is_some());
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(files.read(true).is_err());
        assert!(files.read(false).is_err());
    }

    #[test]
    fn bytes_and_ticks_are_those_of_the_process() {
        let program = "while read -r line; do i=0; while [ $i -lt 300000 ]; do i=$((i+1)); done; \
                       echo done; done";
        let mut child = Command::new("sh")
            .args(["-c", program])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("sh starts");
        let mut files = ProcessFiles::open(child.id()).expect("it runs");
        let before = files.read(true).expect("it runs").expect("the first");
        let mut asks = child.stdin.take().expect("it is a pipe");
        std::io::Write::write_all(&mut asks, b"a line\n").expect("it reads");
        let mut told = [0; 5];
        let mut says = child.stdout.take().expect("it is a pipe");
        std::io::Read::read_exact(&mut says, &mut told).expect("it writes");
        let after = files.read(true).expect("it runs").expect("it has run");
        let io = |counts: &Counts, field: usize| counts.moved.expect("it is ours").0[field];
        assert_eq!(io(&after, 1) - io(&before, 1), 5);
        assert!(io(&after, 0) - io(&before, 0) >= 7);
        let ran_ns = after.sched_ns.expect("wanted")[0] - before.sched_ns.expect("wanted")[0];
        let ticks = after.ticks[0] + after.ticks[1] - before.ticks[0] - before.ticks[1];
        // SAFETY: sysconf has no preconditions.
        let per_s = unsafe { libc::sysconf(libc::_SC_CLK_TCK) }.cast_unsigned();
        let off_ns = ran_ns.abs_diff(ticks * 1_000_000_000 / per_s);
        assert!(ran_ns > 0 && off_ns <= 4 * 1_000_000_000 / per_s, "{ran_ns} {ticks}");
        drop(asks);
        child.wait().expect("it ends");
    }

    #[test]
    fn files_that_are_not_kept_give_the_same_but_no_other_process() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let mut files = ProcessFiles::open(child.id()).expect("it runs");
        while files.read(true).expect("it runs").is_some() {}
        let kept = files.read(false).expect("it runs");
        files.release();
        assert_eq!(files.read(false).expect("it runs"), kept);
        // As if another process had its number.
        let started = files.started.replace(1).expect("it was read");
        assert!(files.read(false).is_err());
        files.started = Some(started);
        child.kill().expect("it runs");
        child.wait().expect("it ends");
        assert!(files.read(false).is_err());
    }
}
