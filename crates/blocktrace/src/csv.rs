//! CSV with a header: `time_ns,op,sector,sectors`, and any of `pid`, `process`, `device`,
//! `queue_ns`, `complete_ns`, `response_ns`.

use std::borrow::Cow;
use std::path::Path;

use crate::damage::Damage;
use crate::event::{note_name, Action, Event, Names};
use crate::lines::{check, device, op_of_word, Format, Heap, Lines, Wrong};

const COLUMNS: [&str; 10] = [
    "time_ns",
    "op",
    "sector",
    "sectors",
    "pid",
    "process",
    "device",
    "queue_ns",
    "complete_ns",
    "response_ns",
];

const LONGEST_NS: u64 = 86_400_000_000_000;

/// Column indices.
#[derive(Default)]
pub struct Csv {
    /// Number of columns; 0 before the header.
    columns: usize,
    time: usize,
    op: usize,
    sector: usize,
    sectors: usize,
    pid: Option<usize>,
    process: Option<usize>,
    device: Option<usize>,
    queue: Option<usize>,
    complete: Option<usize>,
    response: Option<usize>,
}

/// Return the cells of a line without the spaces around them. A cell in quotes may hold commas.
fn cells(line: &str) -> Result<Vec<Cow<'_, str>>, Wrong> {
    if !line.contains('"') {
        return Ok(line.split(',').map(|cell| Cow::Borrowed(cell.trim())).collect());
    }
    let (mut found, mut cell, mut quoted) = (Vec::new(), String::new(), false);
    let mut letters = line.chars().peekable();
    while let Some(letter) = letters.next() {
        match letter {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' => quoted = !quoted,
            ',' if !quoted => found.push(Cow::Owned(std::mem::take(&mut cell).trim().to_owned())),
            _ => cell.push(letter),
        }
    }
    found.push(Cow::Owned(cell.trim().to_owned()));
    if quoted {
        return Err(Wrong::new("line", line, "has a quote without an end"));
    }
    Ok(found)
}

/// Return the names of the columns if a line is a header of requests. People write capitals.
fn columns(line: &str) -> Option<Vec<String>> {
    let cells = cells(line).ok()?;
    let columns: Vec<String> = cells.iter().map(|cell| cell.to_ascii_lowercase()).collect();
    let known = |name: &str| columns.iter().any(|column| column == name);
    ["time_ns", "op", "sector", "sectors"].iter().all(|name| known(name)).then_some(columns)
}

pub fn is_header(line: &str) -> bool {
    columns(line).is_some()
}

/// Open a file whose first line with text is `header`, on line `number`.
pub fn open(file: &Path, header: &str, number: u64) -> Result<Lines<Csv>, Box<Damage>> {
    let columns = columns(header).unwrap_or_default();
    let twice = |name: &&str| columns.iter().filter(|column| column == name).count() > 1;
    if let Some(name) = COLUMNS.iter().find(|name| twice(name)) {
        return Err(Damage::line(file, number, name, "", "two columns have this name").into());
    }
    Lines::open(file, Csv::default())
}

impl Csv {
    fn read_header(&mut self, line: &str) {
        let columns = columns(line).unwrap_or_default();
        let at = |name: &str| columns.iter().position(|column| column == name);
        self.columns = columns.len();
        self.time = at("time_ns").unwrap_or(0);
        self.op = at("op").unwrap_or(1);
        self.sector = at("sector").unwrap_or(2);
        self.sectors = at("sectors").unwrap_or(3);
        (self.pid, self.process, self.device) = (at("pid"), at("process"), at("device"));
        (self.queue, self.complete, self.response) =
            (at("queue_ns"), at("complete_ns"), at("response_ns"));
    }

    /// Return the cells of a line that has as many as the header; more only if they are empty.
    fn parts<'a>(&self, line: &'a str) -> Result<Vec<Cow<'a, str>>, Wrong> {
        let mut parts = cells(line)?;
        if parts.len() < self.columns {
            return Err(Wrong::new("line", line, "has fewer columns than the header"));
        }
        if parts[self.columns..].iter().any(|cell| !cell.is_empty()) {
            return Err(Wrong::new("line", line, "has more columns than the header"));
        }
        parts.truncate(self.columns);
        Ok(parts)
    }

    /// Return when a request completed, if its line says so.
    fn completion(&self, parts: &[Cow<str>], time_ns: u64) -> Result<Option<u64>, Wrong> {
        const WHY: &str = "a request does not last longer than a day";
        let by_time = optional(parts, self.complete, "complete_ns")?;
        if let Some(complete_ns) = by_time {
            if complete_ns.saturating_sub(time_ns) > LONGEST_NS {
                return Err(Wrong::new("complete_ns", &complete_ns.to_string(), WHY));
            }
            return Ok(Some(complete_ns.max(time_ns)));
        }
        match optional(parts, self.response, "response_ns")? {
            Some(lasted_ns) if lasted_ns > LONGEST_NS => {
                Err(Wrong::new("response_ns", &lasted_ns.to_string(), WHY))
            }
            lasted => Ok(lasted.map(|lasted_ns| time_ns.saturating_add(lasted_ns))),
        }
    }
}

fn whole(parts: &[Cow<str>], at: usize, field: &'static str) -> Result<u64, Wrong> {
    let text = &*parts[at];
    text.parse().map_err(|_| Wrong::new(field, text, "must be a whole number, not negative"))
}

fn optional(
    parts: &[Cow<str>],
    at: Option<usize>,
    field: &'static str,
) -> Result<Option<u64>, Wrong> {
    match at {
        Some(at) if !parts[at].is_empty() => whole(parts, at, field).map(Some),
        _ => Ok(None),
    }
}

impl Format for Csv {
    const NAME: &'static str = "csv";

    fn completes(&self) -> bool {
        self.complete.is_some() || self.response.is_some()
    }

    fn line(&mut self, line: &str, names: &mut Names, out: &mut Heap) -> Result<(), Wrong> {
        if line.trim().is_empty() {
            return Ok(());
        }
        if self.columns == 0 {
            self.read_header(line);
            return Ok(());
        }
        let parts = self.parts(line)?;
        let word = &*parts[self.op];
        let op = op_of_word(&word.to_lowercase()).ok_or_else(|| Wrong {
            allowed: "read, write, flush, discard",
            ..Wrong::new("op", word, "unknown operation")
        })?;
        let time_ns = whole(&parts, self.time, "time_ns")?;
        let sector = whole(&parts, self.sector, "sector")?;
        let (sector, sectors) = check(op, sector, whole(&parts, self.sectors, "sectors")?)?;
        let pid = optional(&parts, self.pid, "pid")?.unwrap_or(0) as u32;
        if let Some(at) = self.process {
            note_name(names, pid, parts[at].as_bytes());
        }
        let device = match self.device.map(|at| &*parts[at]) {
            Some(text) if !text.is_empty() => device(&text.replace(':', ","))
                .ok_or_else(|| Wrong::new("device", text, "must be major:minor"))?,
            _ => 0,
        };
        let event = Event { time_ns, sector, sectors, pid, device, action: Action::Issue, op };
        // Before anything is given out: a line counts whole or not at all.
        let completion = self.completion(&parts, time_ns)?;
        if let Some(queue_ns) = optional(&parts, self.queue, "queue_ns")? {
            out.later(Event { time_ns: queue_ns.min(time_ns), action: Action::Queue, ..event });
        }
        out.push(event);
        if let Some(complete_ns) = completion {
            out.later(Event { time_ns: complete_ns, action: Action::Complete, ..event });
        }
        Ok(())
    }
}
