//! CSV with a header: `time_ns,op,sector,sectors`, and any of `pid`, `process`, `device`,
//! `queue_ns`, `complete_ns`, `response_ns`.

use std::path::Path;

use crate::damage::Damage;
use crate::event::{note_name, Action, Event, Names};
use crate::lines::{check, device, op_of_word, Format, Heap, Lines, Wrong};

/// Column indices.
#[derive(Default)]
pub struct Csv {
    header: bool,
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

pub fn is_header(line: &str) -> bool {
    let columns: Vec<&str> = line.split(',').map(str::trim).collect();
    ["time_ns", "op", "sector", "sectors"].iter().all(|name| columns.contains(name))
}

pub fn open(file: &Path) -> Result<Lines<Csv>, Box<Damage>> {
    Lines::open(file, Csv::default())
}

impl Csv {
    fn read_header(&mut self, line: &str) {
        let columns: Vec<&str> = line.split(',').map(str::trim).collect();
        let at = |name: &str| columns.iter().position(|column| *column == name);
        self.header = true;
        self.time = at("time_ns").unwrap_or(0);
        self.op = at("op").unwrap_or(1);
        self.sector = at("sector").unwrap_or(2);
        self.sectors = at("sectors").unwrap_or(3);
        (self.pid, self.process, self.device) = (at("pid"), at("process"), at("device"));
        (self.queue, self.complete, self.response) =
            (at("queue_ns"), at("complete_ns"), at("response_ns"));
    }
}

fn whole(parts: &[&str], at: usize, field: &'static str) -> Result<u64, Wrong> {
    let text = parts.get(at).copied().unwrap_or("");
    text.parse().map_err(|_| Wrong::new(field, text, "must be a whole number, not negative"))
}

fn optional(parts: &[&str], at: Option<usize>, field: &'static str) -> Result<Option<u64>, Wrong> {
    match at {
        Some(at) if !parts.get(at).copied().unwrap_or("").is_empty() => {
            whole(parts, at, field).map(Some)
        }
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
        if !self.header {
            self.read_header(line);
            return Ok(());
        }
        let parts: Vec<&str> = line.split(',').map(str::trim).collect();
        let word = parts.get(self.op).copied().unwrap_or("");
        let op = op_of_word(&word.to_lowercase()).ok_or_else(|| Wrong {
            allowed: "read, write, flush, discard",
            ..Wrong::new("op", word, "is no operation")
        })?;
        let time_ns = whole(&parts, self.time, "time_ns")?;
        let sector = whole(&parts, self.sector, "sector")?;
        let sectors = check(op, sector, whole(&parts, self.sectors, "sectors")?)?;
        let pid = optional(&parts, self.pid, "pid")?.unwrap_or(0) as u32;
        if let Some(name) = self.process.and_then(|at| parts.get(at)) {
            note_name(names, pid, name.as_bytes());
        }
        let device = match self.device.and_then(|at| parts.get(at)) {
            Some(text) if !text.is_empty() => device(&text.replace(':', ","))
                .ok_or_else(|| Wrong::new("device", text, "must be major:minor"))?,
            _ => 0,
        };
        let event = Event { time_ns, sector, sectors, pid, device, action: Action::Issue, op };
        if let Some(queue_ns) = optional(&parts, self.queue, "queue_ns")? {
            out.later(Event { time_ns: queue_ns.min(time_ns), action: Action::Queue, ..event });
        }
        out.push(event);
        let complete = match optional(&parts, self.complete, "complete_ns")? {
            Some(complete_ns) => Some(complete_ns),
            None => {
                optional(&parts, self.response, "response_ns")?.map(|ns| time_ns.saturating_add(ns))
            }
        };
        if let Some(complete_ns) = complete {
            out.later(Event {
                time_ns: complete_ns.max(time_ns),
                action: Action::Complete,
                ..event
            });
        }
        Ok(())
    }
}
