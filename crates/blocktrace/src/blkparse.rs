//! Default text output of blkparse: `8,0  3  11  0.009507758  697  C  W 223490 + 8 [kjournald]`.

use std::path::Path;

use crate::damage::Damage;
use crate::event::{note_name, Action, Event, Names, Op};
use crate::lines::{check, device, first_number, seconds, Format, Heap, Lines, Wrong};

#[derive(Default)]
pub struct Blkparse {
    missing: u64,
}

pub fn open(file: &Path) -> Result<Lines<Blkparse>, Box<Damage>> {
    Lines::open(file, Blkparse::default())
}

/// Return whether a line is an event: device, CPU, sequence, time, process, action.
pub fn is_event(line: &str) -> bool {
    let mut words = line.split_whitespace();
    words.next().is_some_and(|word| device(word).is_some())
        && words.next().is_some_and(|word| word.parse::<u32>().is_ok())
        && words.next().is_some_and(|word| word.parse::<u64>().is_ok())
        && words.next().is_some_and(|word| word.contains('.') && seconds(word).is_some())
}

/// Return how many events a line of the totals says are missing: `Skips: 2 forward (1,234 - 0.5%)`
/// of blkparse, `Total: 99 events (dropped 12), 5 KiB data` of blktrace, which may be printed to the
/// same file.
fn said_missing(line: &str) -> u64 {
    let line = line.trim_start();
    let after = if line.starts_with("Skips:") {
        line.split_once("forward (")
    } else if line.starts_with("Total:") {
        line.split_once("(dropped ")
    } else {
        None
    };
    after.and_then(|(_, count)| first_number(count)).unwrap_or(0)
}

impl Format for Blkparse {
    const NAME: &'static str = "blkparse-text";

    fn missing(&self) -> u64 {
        self.missing
    }

    fn line(&mut self, line: &str, names: &mut Names, out: &mut Heap) -> Result<(), Wrong> {
        if !is_event(line) {
            // Totals at the end and messages are plain text; a line that starts like an event but
            // is none was truncated or overwritten.
            self.missing += said_missing(line);
            let begun = line.split_whitespace().next().is_some_and(|word| device(word).is_some());
            return if begun {
                Err(Wrong::new("line", line, "is not an event of blkparse"))
            } else {
                Ok(())
            };
        }
        let broken = || Wrong::new("line", line, "is not an event of blkparse");
        let words: Vec<&str> = line.split_whitespace().collect();
        let device = device(words[0]).ok_or_else(broken)?;
        let time_ns = seconds(words[3]).ok_or_else(broken)?;
        let pid: u32 = words.get(4).and_then(|word| word.parse().ok()).ok_or_else(broken)?;
        let letter = words.get(5).ok_or_else(broken)?;
        let Some(action) = Action::of_letter(letter) else { return Ok(()) };
        let rwbs = words.get(6).ok_or_else(broken)?;
        let (sector, sectors) = if words.get(8) == Some(&"+") {
            let number = |at: usize| {
                words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or_else(broken)
            };
            (number(7)?, number(9)?)
        } else if words.get(7).is_some_and(|word| word.parse::<u64>().is_ok())
            && !line.contains('[')
        {
            return Err(broken());
        } else {
            (0, 0)
        };
        let op = Op::of_rwbs(rwbs.as_bytes(), u32::try_from(sectors).map_err(|_| broken())?);
        let Some(op) = op else { return Ok(()) };
        if op != Op::Flush && sectors == 0 {
            return Ok(()); // a passthrough command
        }
        let (sector, sectors) = check(op, sector, sectors)?;
        if action != Action::Complete {
            if let (Some(begin), Some(end)) = (line.rfind('['), line.rfind(']')) {
                note_name(names, pid, line.get(begin + 1..end).unwrap_or("").as_bytes());
            }
        }
        out.push(Event { time_ns, sector, sectors, pid, device, action, op });
        Ok(())
    }
}
