//! Text of tracefs (`trace`, `trace_pipe`), trace-cmd and perf script. They differ in the notation
//! of the process before the event.
//!
//! ```text
//!     fio-1234    [001] ..... 12345.678901: block_rq_issue: 7,0 R 4096 () 8 + 8 none,0,0 [fio]
//!     fio  1234 [001] 12345.678901: block:block_rq_issue: 7,0 R 4096 () 8 + 8 [fio]
//! ```

use std::path::Path;

use crate::damage::Damage;
use crate::event::{note_name, Action, Event, Names, Op};
use crate::lines::{check, device, first_number, seconds, Format, Heap, Lines, Wrong};

#[derive(Default)]
pub struct Ftrace {
    missing: u64,
}

pub fn open(file: &Path) -> Result<Lines<Ftrace>, Box<Damage>> {
    Lines::open(file, Ftrace::default())
}

/// Return the text before an event's name, the name, and the text after it.
fn split(line: &str) -> Option<(&str, &str, &str)> {
    let at = line
        .find(": block_")
        .map(|at| at + 2)
        .or_else(|| line.find(": block:block_").map(|at| at + 8))?;
    let end = at + line[at..].find(':')?;
    Some((
        line[..at].trim_end_matches("block:").trim_end().trim_end_matches(':'),
        &line[at..end],
        &line[end + 1..],
    ))
}

pub fn is_event(line: &str) -> bool {
    split(line).is_some_and(|(before, ..)| {
        before
            .rsplit(char::is_whitespace)
            .next()
            .is_some_and(|word| word.contains('.') && seconds(word).is_some())
    })
}

fn action_of(name: &str) -> Option<Action> {
    Some(match name {
        "block_bio_queue" => Action::Queue,
        "block_bio_backmerge" | "block_bio_frontmerge" => Action::Merge,
        "block_rq_issue" => Action::Issue,
        "block_rq_requeue" => Action::Requeue,
        "block_rq_complete" | "block_bio_complete" => Action::Complete,
        _ => return None,
    })
}

/// Return the process ID and name before the CPU in brackets: `name-id` (tracefs, optionally
/// followed by a group `(id)`) or `name id` (perf).
fn process(before: &str) -> Option<(u32, &str)> {
    let end = before.rfind('[')?;
    let mut left = before[..end].trim();
    if left.ends_with(')') {
        left = left[..left.rfind('(')?].trim_end();
    }
    let digits = left.len() - left.bytes().rev().take_while(u8::is_ascii_digit).count();
    let name = left[..digits]
        .trim_end_matches(|letter: char| letter == '-' || letter == '/' || letter.is_whitespace());
    Some((left[digits..].parse().ok()?, name))
}

/// Return how many events a line says were lost: `CPU:1 [LOST 12 EVENTS]` of tracefs,
/// `CPU:1 [12 EVENTS DROPPED]` of trace-cmd, where the number may be missing, and
/// `PERF_RECORD_LOST lost 12` of `perf script --show-lost-events`.
fn said_lost(line: &str) -> Option<u64> {
    let after = |mark: &str| line.split_once(mark).map(|(_, rest)| rest);
    let count = if line.contains("EVENTS]") {
        after("[LOST ")?
    } else if line.contains("EVENTS DROPPED]") {
        after("[")?
    } else {
        after("PERF_RECORD_LOST")?
    };
    Some(first_number(count).unwrap_or(0))
}

impl Format for Ftrace {
    const NAME: &'static str = "ftrace-text";

    fn missing(&self) -> u64 {
        self.missing
    }

    fn line(&mut self, line: &str, names: &mut Names, out: &mut Heap) -> Result<(), Wrong> {
        if line.starts_with('#') || line.trim().is_empty() {
            return Ok(());
        }
        if let Some(count) = said_lost(line) {
            self.missing += count;
            return Err(Wrong::new("line", line.trim(), "events were lost here"));
        }
        let Some((before, name, after)) = split(line) else { return Ok(()) };
        let Some(action) = action_of(name) else { return Ok(()) };
        let broken = || Wrong::new("line", line, "is incomplete");
        let time_ns =
            before.rsplit(char::is_whitespace).next().and_then(seconds).ok_or_else(broken)?;
        let (pid, comm) = process(before).ok_or_else(broken)?;
        let plus = after.find(" + ").ok_or_else(broken)?;
        let sector = after[..plus].rsplit(' ').next().and_then(|word| word.parse::<u64>().ok());
        let sectors =
            after[plus + 3..].split([' ', '\n']).next().and_then(|word| word.parse::<u64>().ok());
        let mut words = after.split_whitespace();
        let device = words.next().and_then(device).ok_or_else(broken)?;
        let rwbs = words.next().ok_or_else(broken)?;
        let (sector, sectors) = sector.zip(sectors).ok_or_else(broken)?;
        let op = Op::of_rwbs(rwbs.as_bytes(), u32::try_from(sectors).map_err(|_| broken())?);
        let Some(op) = op else { return Ok(()) };
        if op != Op::Flush && sectors == 0 {
            return Ok(()); // a passthrough command
        }
        let (sector, sectors) = check(op, sector, sectors)?;
        if action != Action::Complete && !comm.is_empty() {
            note_name(names, pid, comm.as_bytes());
        }
        out.push(Event { time_ns, sector, sectors, pid, device, action, op });
        Ok(())
    }
}
