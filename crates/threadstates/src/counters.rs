//! Counters of one process from /proc (proc(5)), in files that stay open.
//!
//! A descriptor of /proc/PID belongs to the process, not to its number: after its end a read fails,
//! also when the number is used again.

use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::FileExt;

const NUMBER_OF_BYTES_COUNTS: usize = 6;

/// The files of one process.
pub struct ProcessFiles {
    stat: File,
    /// Of its first thread.
    schedstat: Option<File>,
    /// None where it may not be opened.
    io: Option<File>,
    last_schedstat: Vec<u8>,
    asleep: bool,
}

/// What a process has used since its start.
#[derive(Debug, PartialEq, Eq)]
pub struct Reading {
    pub letter: u8,
    pub parent: u64,
    pub threads: u64,
    /// User and system time of all its threads, and both of its children that it waited for.
    pub ticks: [u64; 3],
    /// Time on a CPU and on a run queue of its first thread, in ns, if it was wanted.
    pub sched_ns: Option<[u64; 2]>,
    /// `rchar`, `wchar`, `syscr`, `syscw`, `read_bytes`, `write_bytes`; None when not readable.
    pub io: Option<[u64; NUMBER_OF_BYTES_COUNTS]>,
}

impl ProcessFiles {
    /// Open the files. Fails when there is no such process.
    pub fn open(process: u32) -> Result<Self> {
        Ok(ProcessFiles {
            stat: File::open(format!("/proc/{process}/stat"))?,
            schedstat: File::open(format!("/proc/{process}/task/{process}/schedstat")).ok(),
            io: File::open(format!("/proc/{process}/io")).ok(),
            last_schedstat: Vec::new(),
            asleep: false,
        })
    }

    /// Return the counters of now, or None if nothing has changed: its only thread slept at the last
    /// call, and was not on a CPU since. `alone`: it had one thread then, and its times are wanted.
    ///
    /// Fails when the process has ended.
    pub fn read(&mut self, alone: bool) -> Result<Option<Reading>> {
        let mut bytes = [0; 1024];
        let mut sched_ns = None;
        if let (true, Some(file)) = (alone, &self.schedstat) {
            let length = file.read_at(&mut bytes, 0)?;
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
        let length = self.stat.read_at(&mut bytes, 0)?;
        // The name in brackets may hold anything.
        let end = bytes[..length].iter().rposition(|&byte| byte == b')').ok_or_else(cut)?;
        let letter = *bytes[..length].get(end + 2).ok_or_else(cut)?;
        let mut fields = numbers(bytes[..length].get(end + 4..).ok_or_else(cut)?);
        // The first of these is field 4 of proc(5).
        let parent = next(&mut fields)?;
        let mut ticks = fields.skip(9);
        let (user, system) = (next(&mut ticks)?, next(&mut ticks)?);
        let ended = next(&mut ticks)? + next(&mut ticks)?;
        let mut rest = ticks.skip(2);
        let threads = next(&mut rest)?;
        self.asleep = matches!(letter, b'S' | b'D');
        let ticks = [user, system, ended];
        Ok(Some(Reading { letter, parent, threads, ticks, sched_ns, io: self.read_io()? }))
    }

    fn read_io(&self) -> Result<Option<[u64; NUMBER_OF_BYTES_COUNTS]>> {
        let Some(file) = &self.io else { return Ok(None) };
        let mut bytes = [0; 512];
        let length = match file.read_at(&mut bytes, 0) {
            Ok(length) => length,
            Err(error) if error.kind() == ErrorKind::PermissionDenied => return Ok(None),
            Err(error) => return Err(error),
        };
        // rchar: N, wchar: N, …
        let mut found = [0; NUMBER_OF_BYTES_COUNTS];
        let values = bytes[..length].split(|&byte| byte == b'\n').filter_map(|line| {
            let colon = line.iter().position(|&byte| byte == b':')?;
            number(line.get(colon + 2..)?)
        });
        let mut counted = 0;
        for (place, value) in found.iter_mut().zip(values) {
            *place = value;
            counted += 1;
        }
        Ok((counted == NUMBER_OF_BYTES_COUNTS).then_some(found))
    }
}

fn cut() -> Error {
    Error::from_raw_os_error(libc::ESRCH)
}

fn next(numbers: &mut impl Iterator<Item = u64>) -> Result<u64> {
    numbers.next().ok_or_else(cut)
}

/// Words as numbers; of negative ones, which no field that is used has, nothing.
fn numbers(text: &[u8]) -> impl Iterator<Item = u64> + '_ {
    text.split(u8::is_ascii_whitespace)
        .filter(|word| !word.is_empty())
        .map(|word| number(word).unwrap_or(0))
}

fn number(word: &[u8]) -> Option<u64> {
    let mut found = 0_u64;
    for byte in word {
        let digit = byte.checked_sub(b'0').filter(|&digit| digit < 10)?;
        found = found.checked_mul(10)?.checked_add(u64::from(digit))?;
    }
    (!word.is_empty()).then_some(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::{Command, Stdio};

    #[test]
    fn a_process_that_sleeps_has_not_changed() {
        let mut child = Command::new("sleep").arg("60").spawn().expect("sleep starts");
        let mut files = ProcessFiles::open(child.id()).expect("it runs");
        let first = files.read(true).expect("it runs").expect("the first is never the same");
        assert_eq!(first.parent, u64::from(std::process::id()));
        assert_eq!(first.threads, 1);
        assert!(first.sched_ns.expect("it was wanted")[0] > 0);
        assert!(first.io.expect("its owner may read it")[2] > 0);
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
        let io = |reading: &Reading, field: usize| reading.io.expect("it is ours")[field];
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
}
