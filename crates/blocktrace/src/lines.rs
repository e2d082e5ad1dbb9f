//! Text traces: each line gives at most two events, which a small heap sorts by time.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};

use crate::damage::{Damage, Damages};
use crate::event::{Action, Event, Names, Op, OPS};
use crate::source::{plain, Source, BATCH};

/// Parser for the lines of one format.
pub trait Format {
    const NAME: &'static str;
    /// Push the events of a line to `out`; lines unrelated to requests give none. Return an error
    /// if the line is invalid.
    fn line(&mut self, line: &str, names: &mut Names, out: &mut Heap) -> Result<(), Wrong>;
    /// Return whether lines can contain completion times.
    fn completes(&self) -> bool {
        true
    }
    /// Return the number of events that the lines so far say are missing.
    fn missing(&self) -> u64 {
        0
    }
}

/// Describes what is wrong with a line.
#[derive(Debug)]
pub struct Wrong {
    pub field: &'static str,
    pub given: String,
    pub problem: &'static str,
    pub allowed: &'static str,
}

impl Wrong {
    pub fn new(field: &'static str, given: &str, problem: &'static str) -> Wrong {
        Wrong { field, given: given.to_owned(), problem, allowed: "" }
    }
}

/// Events that wait until no earlier one can follow: text is written CPU by CPU and is not always
/// in order.
#[derive(Default)]
pub struct Heap {
    events: BinaryHeap<Reverse<(u64, u64, Packed)>>,
    sequence: u64,
    last_ns: u64,
    /// The latest time of a line, excluding completion times computed from it.
    now_ns: u64,
}

type Packed = (u64, u32, u32, u32, u8, u8);

/// Events out of order by more than this number of events get the time of the preceding event.
const WINDOW: usize = 16_384;

impl Heap {
    /// Add an event at the time of its line.
    pub fn push(&mut self, event: Event) {
        self.now_ns = self.now_ns.max(event.time_ns);
        self.later(event);
    }

    /// Add an event whose time is later than its line.
    pub fn later(&mut self, event: Event) {
        self.sequence += 1;
        let packed = (
            event.sector,
            event.sectors,
            event.pid,
            event.device,
            event.action as u8,
            event.op as u8,
        );
        self.events.push(Reverse((event.time_ns, self.sequence, packed)));
    }

    fn pop(&mut self) -> Option<Event> {
        let Reverse((time_ns, _, (sector, sectors, pid, device, action, op))) =
            self.events.pop()?;
        self.last_ns = self.last_ns.max(time_ns);
        Some(Event {
            time_ns: self.last_ns,
            sector,
            sectors,
            pid,
            device,
            action: ACTIONS[action as usize],
            op: OPS[op as usize],
        })
    }
}

const ACTIONS: [Action; 5] =
    [Action::Queue, Action::Merge, Action::Issue, Action::Requeue, Action::Complete];

/// A text file in some format.
pub struct Lines<F> {
    format: F,
    file: PathBuf,
    reader: BufReader<File>,
    number: u64,
    text: Vec<u8>,
    ended: bool,
    heap: Heap,
    names: Names,
    damages: Damages,
}

impl<F: Format> Lines<F> {
    pub fn open(file: &Path, format: F) -> Result<Lines<F>, Box<Damage>> {
        let opened = File::open(file)
            .map_err(|error| Damage::file(file, &format!("cannot be read: {}", plain(&error))))?;
        Ok(Lines {
            format,
            file: file.to_owned(),
            reader: BufReader::with_capacity(1 << 18, opened),
            number: 0,
            text: Vec::new(),
            ended: false,
            heap: Heap::default(),
            names: Names::default(),
            damages: Damages::default(),
        })
    }

    fn read_line(&mut self) {
        self.text.clear();
        // A binary file without line ends must not be read into memory as one line.
        let mut limited = std::io::Read::take(&mut self.reader, 1 << 16);
        match limited.read_until(b'\n', &mut self.text) {
            Ok(0) => self.ended = true,
            Ok(_) => {
                self.number += 1;
                let line = String::from_utf8_lossy(&self.text);
                let line = if self.number == 1 { unmarked(&line) } else { &line };
                if let Err(wrong) =
                    self.format.line(line.trim_end(), &mut self.names, &mut self.heap)
                {
                    let damage = Damage::line(
                        &self.file,
                        self.number,
                        wrong.field,
                        &wrong.given,
                        wrong.problem,
                    );
                    self.damages.add(damage.allowing(wrong.allowed));
                }
            }
            Err(error) => {
                let problem = format!("cannot be read further: {}", plain(&error));
                self.damages.add(Damage::line(&self.file, self.number, "file", "", &problem));
                self.ended = true;
            }
        }
    }

    /// Return whether the earliest event can be emitted because no earlier one is expected.
    fn ripe(&self) -> bool {
        match self.heap.events.peek() {
            None => false,
            // Computed completions of long requests do not count for the window.
            Some(Reverse((time_ns, sequence, _))) => {
                *time_ns <= self.heap.now_ns && self.heap.sequence - sequence >= WINDOW as u64
            }
        }
    }
}

impl<F: Format> Source for Lines<F> {
    fn fill(&mut self, batch: &mut Vec<Event>) {
        while batch.len() < BATCH {
            if self.ended || self.ripe() {
                match self.heap.pop() {
                    Some(event) => batch.push(event),
                    None => return,
                }
            } else {
                self.read_line();
            }
        }
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn damages(&self) -> &Damages {
        &self.damages
    }

    fn format(&self) -> &'static str {
        F::NAME
    }

    fn completes(&self) -> bool {
        self.format.completes()
    }

    fn missing(&self) -> u64 {
        self.format.missing()
    }
}

/// Return a text without the byte order mark that editors and PowerShell write at its start.
pub fn unmarked(text: &str) -> &str {
    text.trim_start_matches('\u{feff}')
}

/// Parse the first number in a text, whose thousands may be separated by commas, points, or narrow
/// spaces as the language of the program has them.
pub fn first_number(text: &str) -> Option<u64> {
    let digits = text.trim_start_matches(|letter: char| !letter.is_ascii_digit());
    let separators = [',', '.', '\'', '\u{a0}', '\u{202f}', '\u{fffd}'];
    let end = digits.find(|letter: char| !letter.is_ascii_digit() && !separators.contains(&letter));
    let number: String =
        digits[..end.unwrap_or(digits.len())].chars().filter(char::is_ascii_digit).collect();
    number.parse().ok()
}

/// Parse seconds with a fraction (`12.000345678`) to nanoseconds.
pub fn seconds(text: &str) -> Option<u64> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut nanos: u64 = 0;
    for digit in fraction.bytes().chain(std::iter::repeat(b'0')).take(9) {
        nanos = nanos * 10 + u64::from(digit.is_ascii_digit().then(|| digit - b'0')?);
    }
    whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)
}

/// Parse a device number such as `8,16`.
pub fn device(text: &str) -> Option<u32> {
    let (major, minor) = text.split_once(',')?;
    Some(crate::event::device_number(major.trim().parse().ok()?, minor.trim().parse().ok()?))
}

/// Parse an operation in fio's or Headrace's notation.
pub fn op_of_word(word: &str) -> Option<Op> {
    Some(match word {
        "read" | "r" => Op::Read,
        "write" | "w" => Op::Write,
        "sync" | "datasync" | "flush" | "f" => Op::Flush,
        "trim" | "discard" | "d" => Op::Discard,
        _ => return None,
    })
}

/// Maximum sectors of a read or a write: the kernel has 32 bits for its bytes.
const MOST_SECTORS: u64 = u32::MAX as u64 / 512;

/// Check a request and return its sector and sectors: they must be possible for a device, and it
/// must transfer something. A flush has no position; the kernel prints one with all bits set.
pub fn check(op: Op, sector: u64, sectors: u64) -> Result<(u64, u32), Wrong> {
    if op == Op::Flush && sectors == 0 {
        return Ok((0, 0));
    }
    let most = if matches!(op, Op::Read | Op::Write) { MOST_SECTORS } else { u64::from(u32::MAX) };
    if op != Op::Flush && sectors < 1 {
        return Err(Wrong::new(
            "sectors",
            &sectors.to_string(),
            "a request moves at least one sector",
        ));
    }
    if sectors > most {
        return Err(Wrong {
            allowed: match op {
                Op::Read | Op::Write => "1 to 8388607 for a read or a write",
                _ => "at most 4294967295",
            },
            ..Wrong::new("sectors", &sectors.to_string(), "larger than a request can be")
        });
    }
    if sector >= 1 << 55 {
        return Err(Wrong::new("sector", &sector.to_string(), "beyond the end of any device"));
    }
    Ok((sector, sectors as u32))
}
