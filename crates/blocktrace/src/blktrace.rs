//! blktrace's binary files, version 7: read CPU by CPU and merged by time, and written.
//!
//! A record is 48 bytes and its payload: magic, sequence, time, sector, bytes, action, pid, device, cpu, error, payload length
//! (`struct blk_io_trace` in the kernel's include/uapi/linux/blktrace_api.h), in the byte order of the machine that traced.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::damage::{Damage, Damages};
use crate::event::{note_name, Action, Event, Names, Op};
use crate::source::{plain, Source, BATCH};

const MAGIC: u32 = 0x6561_7400;
const VERSION: u32 = 7;
const RECORD: usize = 48;
const SECTOR_BYTES: u32 = 512;

/// Categories, in the upper half of `action`.
const READ: u32 = 1 << 16;
const WRITE: u32 = 1 << 17;
const FLUSH: u32 = 1 << 18;
const QUEUE: u32 = 1 << 20;
const REQUEUE: u32 = 1 << 21;
const ISSUE: u32 = 1 << 22;
const COMPLETE: u32 = 1 << 23;
const PASSED_THROUGH: u32 = 1 << 25;
const NOTIFY: u32 = 1 << 26;
const DISCARD: u32 = 1 << 29;

const NOTE_PROCESS: u32 = 0;
const NOTE_TIME: u32 = 1;

/// What is read of a file at once.
const CHUNK: usize = 1 << 20;

struct Cpu {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// Where `buffer` begins in the file.
    base: u64,
    swapped: bool,
    events: Vec<Event>,
    next: usize,
}

/// The files of one run.
pub struct Blktrace {
    cpus: Vec<Cpu>,
    names: Names,
    damages: Damages,
}

fn u32_at(bytes: &[u8], at: usize, swapped: bool) -> u32 {
    let value = u32::from_le_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]]);
    if swapped {
        value.swap_bytes()
    } else {
        value
    }
}

fn u64_at(bytes: &[u8], at: usize, swapped: bool) -> u64 {
    let (low, high) = (u32_at(bytes, at, swapped), u32_at(bytes, at + 4, swapped));
    if swapped {
        u64::from(low) << 32 | u64::from(high)
    } else {
        u64::from(high) << 32 | u64::from(low)
    }
}

/// (version, whether the bytes are the other way round) of a record that begins here.
fn magic(bytes: &[u8]) -> Option<(u32, bool)> {
    let value = u32::from_le_bytes(bytes.get(..4)?.try_into().ok()?);
    for (value, swapped) in [(value, false), (value.swap_bytes(), true)] {
        if value & 0xffff_ff00 == MAGIC {
            return Some((value & 0xff, swapped));
        }
    }
    None
}

impl Blktrace {
    /// Whether the first bytes of a file are a record.
    pub fn is_one(head: &[u8]) -> bool {
        magic(head).is_some()
    }

    pub fn open(files: &[PathBuf]) -> Result<Blktrace, Box<Damage>> {
        let mut cpus = Vec::new();
        for path in files {
            let file = File::open(path)
                .map_err(|error| Damage::file(path, &format!("cannot be read: {}", plain(&error))))?;
            let mut cpu = Cpu {
                path: path.clone(),
                file: Some(file),
                buffer: vec![0; CHUNK],
                begin: 0,
                end: 0,
                base: 0,
                swapped: false,
                events: Vec::with_capacity(BATCH),
                next: 0,
            };
            cpu.read_on(&mut Damages::default());
            match magic(&cpu.buffer[..cpu.end]) {
                Some((VERSION, swapped)) => cpu.swapped = swapped,
                Some((version, _)) => {
                    let problem = "this version of blktrace's format is not known";
                    let damage = Damage { given: version.to_string(), ..Damage::file(path, problem) };
                    return Err(damage.allowing("7").into());
                }
                None => {} // empty: a CPU that saw nothing
            }
            cpus.push(cpu);
        }
        Ok(Blktrace { cpus, names: Names::default(), damages: Damages::default() })
    }
}

impl Cpu {
    /// Reads more behind what is left in the buffer. False when there is no more.
    fn read_on(&mut self, damages: &mut Damages) -> bool {
        self.buffer.copy_within(self.begin..self.end, 0);
        self.base += self.begin as u64;
        self.end -= self.begin;
        self.begin = 0;
        let Some(file) = self.file.as_mut() else { return false };
        match file.read(&mut self.buffer[self.end..]) {
            Ok(0) => self.file = None,
            Ok(count) => {
                self.end += count;
                return true;
            }
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => return true,
            Err(error) => {
                let problem = format!("cannot be read further: {}", plain(&error));
                damages.add(Damage::offset(&self.path, self.base + self.end as u64, problem));
                self.file = None;
            }
        }
        false
    }

    /// Decodes the next events; none are left when `events` stays empty.
    fn refill(&mut self, names: &mut Names, damages: &mut Damages) {
        self.events.clear();
        self.next = 0;
        while self.events.len() < BATCH {
            let bytes = &self.buffer[self.begin..self.end];
            if bytes.len() < RECORD {
                if self.read_on(damages) {
                    continue;
                }
                if self.end > self.begin {
                    self.cut(damages);
                }
                return;
            }
            if magic(bytes) != Some((VERSION, self.swapped)) {
                if !self.find_next(damages) {
                    return;
                }
                continue;
            }
            let payload = u32_at(bytes, 44, self.swapped);
            let payload = if self.swapped { payload & 0xffff } else { payload >> 16 } as usize;
            if bytes.len() < RECORD + payload {
                if self.read_on(damages) {
                    continue;
                }
                self.cut(damages);
                return;
            }
            let (record, rest) = bytes.split_at(RECORD);
            let action = u32_at(record, 28, self.swapped);
            if action & NOTIFY != 0 {
                if action & 0xff == NOTE_PROCESS {
                    note_name(names, u32_at(record, 32, self.swapped), &rest[..payload]);
                }
            } else if let Some(event) = event_of(record, action, self.swapped) {
                // Interrupts come between the reading of the clock and the record: a record may be older than the one before.
                self.events.push(event);
                let mut at = self.events.len() - 1;
                while at > 0 && self.events[at - 1].time_ns > event.time_ns {
                    self.events.swap(at - 1, at);
                    at -= 1;
                }
            }
            self.begin += RECORD + payload;
        }
    }

    fn cut(&mut self, damages: &mut Damages) {
        let left = self.end - self.begin;
        let problem = format!("the file ends within a record ({left} bytes of it are there)");
        damages.add(Damage::offset(&self.path, self.base + self.begin as u64, problem));
        self.begin = self.end;
    }

    /// Goes to the next record after bytes that are none. False at the end of the file.
    fn find_next(&mut self, damages: &mut Damages) -> bool {
        let start = self.base + self.begin as u64;
        let wanted =
            if self.swapped { (MAGIC | VERSION).to_be_bytes() } else { (MAGIC | VERSION).to_le_bytes() };
        loop {
            let found = self.buffer[self.begin..self.end].windows(4).position(|four| four == wanted);
            if let Some(at) = found {
                self.begin += at;
                break;
            }
            self.begin = self.end.saturating_sub(3).max(self.begin);
            if !self.read_on(damages) {
                self.begin = self.end;
                break;
            }
        }
        let skipped = self.base + self.begin as u64 - start;
        damages.add(Damage::offset(&self.path, start, format!("{skipped} bytes are no records of blktrace")));
        self.end > self.begin
    }
}

fn event_of(record: &[u8], action: u32, swapped: bool) -> Option<Event> {
    let kind = match action & 0xff {
        1 => Action::Queue,
        2 | 3 => Action::Merge,
        6 => Action::Requeue,
        7 => Action::Issue,
        8 => Action::Complete,
        _ => return None,
    };
    let sectors = u32_at(record, 24, swapped) / SECTOR_BYTES;
    let op = if action & DISCARD != 0 {
        Op::Discard
    } else if sectors == 0 && action & FLUSH != 0 {
        Op::Flush
    } else if action & WRITE != 0 {
        Op::Write
    } else {
        Op::Read
    };
    if action & PASSED_THROUGH != 0 || (sectors == 0 && op != Op::Flush) {
        return None;
    }
    Some(Event {
        time_ns: u64_at(record, 8, swapped),
        sector: u64_at(record, 16, swapped) & ((1 << 55) - 1),
        sectors,
        pid: u32_at(record, 32, swapped),
        device: u32_at(record, 36, swapped),
        action: kind,
        op,
    })
}

impl Source for Blktrace {
    fn fill(&mut self, batch: &mut Vec<Event>) {
        while batch.len() < BATCH {
            // The CPU with the oldest event, and how far it goes before another has an older one.
            let mut oldest: Option<(u64, usize)> = None;
            let mut limit = u64::MAX;
            for at in 0..self.cpus.len() {
                let cpu = &mut self.cpus[at];
                if cpu.next == cpu.events.len() {
                    if cpu.file.is_some() || cpu.begin < cpu.end {
                        cpu.refill(&mut self.names, &mut self.damages);
                    }
                    if cpu.next == cpu.events.len() {
                        continue;
                    }
                }
                let time_ns = cpu.events[cpu.next].time_ns;
                match oldest {
                    Some((before, _)) if before <= time_ns => limit = limit.min(time_ns),
                    Some((before, _)) => {
                        limit = limit.min(before);
                        oldest = Some((time_ns, at));
                    }
                    None => oldest = Some((time_ns, at)),
                }
            }
            let Some((_, at)) = oldest else { return };
            let cpu = &mut self.cpus[at];
            let first = cpu.next;
            let room = BATCH - batch.len();
            let last = cpu.events.len().min(first + room);
            let mut until = first + 1;
            while until < last && cpu.events[until].time_ns <= limit {
                until += 1;
            }
            batch.extend_from_slice(&cpu.events[first..until]);
            cpu.next = until;
        }
    }

    fn names(&self) -> &Names {
        &self.names
    }

    fn damages(&self) -> &Damages {
        &self.damages
    }

    fn format(&self) -> &'static str {
        "blktrace"
    }
}

/// Writes one CPU's file, in this machine's byte order.
pub struct Writer<W: Write> {
    out: W,
    sequence: u32,
    cpu: u32,
    names: Names,
}

impl<W: Write> Writer<W> {
    pub fn new(out: W, cpu: u32) -> Writer<W> {
        Writer { out, sequence: 0, cpu, names: Names::default() }
    }

    fn record(&mut self, head: Head, payload: &[u8]) -> std::io::Result<()> {
        self.sequence += 1;
        let mut bytes = [0u8; RECORD];
        bytes[0..4].copy_from_slice(&(MAGIC | VERSION).to_ne_bytes());
        bytes[4..8].copy_from_slice(&self.sequence.to_ne_bytes());
        bytes[8..16].copy_from_slice(&head.time_ns.to_ne_bytes());
        bytes[16..24].copy_from_slice(&head.sector.to_ne_bytes());
        bytes[24..28].copy_from_slice(&head.bytes.to_ne_bytes());
        bytes[28..32].copy_from_slice(&head.action.to_ne_bytes());
        bytes[32..36].copy_from_slice(&head.pid.to_ne_bytes());
        bytes[36..40].copy_from_slice(&head.device.to_ne_bytes());
        bytes[40..44].copy_from_slice(&self.cpu.to_ne_bytes());
        bytes[46..48].copy_from_slice(&(payload.len() as u16).to_ne_bytes());
        self.out.write_all(&bytes)?;
        self.out.write_all(payload)
    }

    /// Notes when the trace began by the wall clock (seconds since 1970, nanoseconds).
    pub fn clock(&mut self, device: u32, time_ns: u64, wall_s: u32, wall_ns: u32) -> std::io::Result<()> {
        let mut payload = [0u8; 8];
        payload[..4].copy_from_slice(&wall_s.to_ne_bytes());
        payload[4..].copy_from_slice(&wall_ns.to_ne_bytes());
        let head = Head { time_ns, sector: 0, bytes: 0, action: NOTIFY | NOTE_TIME, pid: 0, device };
        self.record(head, &payload)
    }

    /// Writes an event, and before it the name of its process when that is new.
    pub fn event(&mut self, event: &Event, name: &[u8]) -> std::io::Result<()> {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let head = Head {
            time_ns: event.time_ns,
            sector: event.sector,
            bytes: event.sectors.saturating_mul(SECTOR_BYTES),
            action: action_code(event),
            pid: event.pid,
            device: event.device,
        };
        if end > 0 && self.names.get(&event.pid).map(String::as_bytes) != Some(&name[..end]) {
            note_name(&mut self.names, event.pid, name);
            let mut payload = [0u8; 16];
            let length = end.min(15);
            payload[..length].copy_from_slice(&name[..length]);
            self.record(Head { sector: 0, bytes: 0, action: NOTIFY | NOTE_PROCESS, ..head }, &payload)?;
        }
        self.record(head, &[])
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

#[derive(Clone, Copy)]
struct Head {
    time_ns: u64,
    sector: u64,
    bytes: u32,
    action: u32,
    pid: u32,
    device: u32,
}

fn action_code(event: &Event) -> u32 {
    let kind = match event.action {
        Action::Queue => 1 | QUEUE,
        Action::Merge => 2 | QUEUE,
        Action::Requeue => 6 | REQUEUE,
        Action::Issue => 7 | ISSUE,
        Action::Complete => 8 | COMPLETE,
    };
    let op = match event.op {
        Op::Read => READ,
        Op::Write => WRITE,
        Op::Flush => WRITE | FLUSH,
        Op::Discard => WRITE | DISCARD,
    };
    kind | op
}

/// The files of the run that a path names: one file, `NAME.blktrace.N` of all CPUs, or `NAME` as `blkparse -i` takes it.
pub fn files_of_run(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = match name.rsplit_once(".blktrace.") {
        Some((stem, cpu)) if cpu.bytes().all(|byte| byte.is_ascii_digit()) => stem.to_owned(),
        _ if path.is_file() => return vec![path.to_owned()],
        _ => name,
    };
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let prefix = format!("{stem}.blktrace.");
    let mut found: Vec<(u32, PathBuf)> = std::fs::read_dir(directory)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| {
            let name = entry.file_name().to_string_lossy().into_owned();
            Some((name.strip_prefix(&prefix)?.parse().ok()?, entry.path()))
        })
        .collect();
    found.sort();
    found.into_iter().map(|(_, path)| path).collect()
}
