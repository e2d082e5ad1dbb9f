//! blktrace's binary files, one per CPU: reading, merging by time, and writing.
//! [`crate::blkrecord`] defines a record's bytes.

use std::fs::File;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

use crate::blkrecord::{Form, Head as Record, Said, VERSIONS};
use crate::damage::{Damage, Damages};
use crate::event::{note_name, Event, Names};
use crate::gaps::Gaps;
use crate::source::{plain, Source, BATCH};

/// Read size: the bytes are still in the second cache when they are decoded.
const CHUNK: usize = 1 << 17;

struct Cpu {
    path: PathBuf,
    file: Option<File>,
    buffer: Vec<u8>,
    begin: usize,
    end: usize,
    /// File offset of the start of `buffer`.
    base: u64,
    form: Form,
    events: Vec<Event>,
    next: usize,
    gaps: Gaps,
}

/// A CPU with events, and the time of its next one.
struct Head {
    time_ns: u64,
    cpu: usize,
}

/// The files of one run.
pub struct Blktrace {
    cpus: Vec<Cpu>,
    /// The CPUs with events, in order. `None`: nothing was decoded.
    heads: Option<Vec<Head>>,
    names: Names,
    damages: Damages,
}

impl Blktrace {
    /// Return whether a file starts with a record.
    pub fn is_one(head: &[u8]) -> bool {
        Form::of(head).is_some()
    }

    pub fn open(files: &[PathBuf]) -> Result<Blktrace, Box<Damage>> {
        let mut cpus = Vec::new();
        for path in files {
            let file = File::open(path).map_err(|error| {
                Damage::file(path, &format!("cannot be read: {}", plain(&error)))
            })?;
            let mut cpu = Cpu {
                path: path.clone(),
                file: Some(file),
                buffer: vec![0; CHUNK],
                begin: 0,
                end: 0,
                base: 0,
                form: Form::default(),
                events: Vec::with_capacity(BATCH),
                next: 0,
                gaps: Gaps::default(),
            };
            cpu.read_on(&mut Damages::default());
            match Form::of(&cpu.buffer[..cpu.end]) {
                Some(form) if form.is_read() => cpu.form = form,
                Some(form) => {
                    let problem = "this version of blktrace's format is not known";
                    let damage =
                        Damage { given: form.version.to_string(), ..Damage::file(path, problem) };
                    return Err(damage.allowing(VERSIONS).into());
                }
                None => {} // empty: a CPU without events
            }
            cpus.push(cpu);
        }
        Ok(Blktrace { cpus, heads: None, names: Names::default(), damages: Damages::default() })
    }
}

impl Cpu {
    /// Append to the rest of the buffer. Return false at the end of the file.
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

    /// Decode the next events. Return the time of the first, `None` at the end of the file.
    fn refill(&mut self, names: &mut Names, damages: &mut Damages) -> Option<u64> {
        self.events.clear();
        self.next = 0;
        match (self.form.is_wide(), self.form.swapped) {
            (false, false) => self.decode::<false, false>(names, damages),
            (false, true) => self.decode::<false, true>(names, damages),
            (true, false) => self.decode::<true, false>(names, damages),
            (true, true) => self.decode::<true, true>(names, damages),
        }
        self.events.first().map(|event| event.time_ns)
    }

    /// Compiled separately for each form, so that the form costs nothing per record.
    fn decode<const WIDE: bool, const SWAPPED: bool>(
        &mut self,
        names: &mut Names,
        damages: &mut Damages,
    ) {
        let form = Form { version: if WIDE { 8 } else { 7 }, swapped: SWAPPED };
        while self.events.len() < BATCH {
            self.begin += self.decode_buffer(form, names);
            if self.events.len() >= BATCH {
                return;
            }
            let left = &self.buffer[self.begin..self.end];
            if left.len() >= form.bytes() && left[..4] != form.magic() {
                if !self.find_next(damages) {
                    return;
                }
            } else if !self.read_on(damages) {
                if self.end > self.begin {
                    self.cut(damages);
                }
                return;
            }
        }
    }

    /// Decode the whole records of the buffer, up to bytes that are none. Return their length.
    #[inline(always)]
    fn decode_buffer(&mut self, form: Form, names: &mut Names) -> usize {
        let (magic, length) = (form.magic(), form.bytes());
        let bytes = &self.buffer[self.begin..self.end];
        let mut at = 0;
        let mut last_ns = self.events.last().map_or(0, |event| event.time_ns);
        let mut expected = self.gaps.expected();
        while self.events.len() < BATCH {
            let Some((record, rest)) = bytes[at..].split_at_checked(length) else { break };
            let payload = form.payload(record);
            if record[..4] != magic || rest.len() < payload {
                break;
            }
            let number = form.number(record);
            if number == expected {
                expected = number.next();
            } else if !form.is_note(record) {
                expected = self.gaps.odd(expected, number);
            }
            match form.said(record) {
                Said::Event(event) => {
                    let late = event.time_ns < last_ns;
                    last_ns = last_ns.max(event.time_ns);
                    self.events.push(event);
                    if late {
                        put_late(&mut self.events);
                    }
                }
                Said::Name(pid) => note_name(names, pid, &rest[..payload]),
                Said::Other => {}
            }
            at += length + payload;
        }
        self.gaps.keep(expected);
        at
    }

    fn cut(&mut self, damages: &mut Damages) {
        let left = self.end - self.begin;
        let problem = format!("the file ends within a record ({left} bytes of it are there)");
        damages.add(Damage::offset(&self.path, self.base + self.begin as u64, problem));
        self.begin = self.end;
    }

    /// Skip invalid bytes up to the next record. Return false at the end of the file.
    fn find_next(&mut self, damages: &mut Damages) -> bool {
        let start = self.base + self.begin as u64;
        let wanted = self.form.magic();
        loop {
            let found =
                self.buffer[self.begin..self.end].windows(4).position(|four| four == wanted);
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
        damages.add(Damage::offset(
            &self.path,
            start,
            format!("{skipped} bytes are not records of blktrace"),
        ));
        self.end > self.begin
    }
}

impl Blktrace {
    /// Decode the first events of all CPUs.
    fn first_heads(&mut self) -> Vec<Head> {
        let Blktrace { cpus, names, damages, .. } = self;
        let mut heads = Vec::new();
        for (cpu, file) in cpus.iter_mut().enumerate() {
            heads.extend(file.refill(names, damages).map(|time_ns| Head { time_ns, cpu }));
        }
        heads
    }

    /// Pass the next events of all CPUs to `each`, in time order. Return their number, at most
    /// `BATCH`.
    #[inline(always)]
    fn merge(&mut self, mut each: impl FnMut(&[Event])) -> usize {
        let mut heads = self.heads.take().unwrap_or_else(|| self.first_heads());
        let mut passed = 0;
        while passed < BATCH {
            let Some((found, limit_ns)) = oldest(&heads) else { break };
            let head = &mut heads[found];
            let cpu = &mut self.cpus[head.cpu];
            let left = &cpu.events[cpu.next..];
            let left = &left[..left.len().min(BATCH - passed)];
            let others = left.get(1..).unwrap_or_default();
            let run = others.iter().take_while(|event| event.time_ns <= limit_ns).count() + 1;
            each(&left[..run]);
            passed += run;
            cpu.next += run;
            let next_ns = match cpu.events.get(cpu.next) {
                Some(event) => Some(event.time_ns),
                None => cpu.refill(&mut self.names, &mut self.damages),
            };
            match next_ns {
                Some(time_ns) => head.time_ns = time_ns,
                None => {
                    heads.remove(found);
                }
            }
        }
        self.heads = Some(heads);
        passed
    }
}

/// Move the last event to its place by time. An interrupt can occur between reading the clock and
/// writing the record, so a record can be older than the previous one.
#[cold]
fn put_late(events: &mut [Event]) {
    let mut at = events.len() - 1;
    while at > 0 && events[at - 1].time_ns > events[at].time_ns {
        events.swap(at - 1, at);
        at -= 1;
    }
}

/// Return the CPU with the oldest event, and the time up to which no other CPU has an older one.
/// Of two at one time, the first.
#[inline]
fn oldest(heads: &[Head]) -> Option<(usize, u64)> {
    let (first, others) = heads.split_first()?;
    let (mut found, mut oldest_ns, mut limit_ns) = (0, first.time_ns, u64::MAX);
    for (at, Head { time_ns, .. }) in others.iter().enumerate() {
        if *time_ns < oldest_ns {
            (found, limit_ns, oldest_ns) = (at + 1, oldest_ns, *time_ns);
        } else {
            limit_ns = limit_ns.min(*time_ns);
        }
    }
    Some((found, limit_ns))
}

impl Source for Blktrace {
    fn fill(&mut self, batch: &mut Vec<Event>) {
        self.merge(|events| batch.extend_from_slice(events));
    }

    /// The events are not copied.
    fn pass(&mut self, _: &mut Vec<Event>, take: &mut dyn FnMut(bool, &[Event])) -> bool {
        self.merge(|events| take(true, events)) > 0
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

    fn missing(&self) -> u64 {
        self.cpus.iter().map(|cpu| cpu.gaps.missing()).sum()
    }
}

/// Writes one CPU's file in this machine's byte order.
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

    fn record(&mut self, head: Record, payload: &[u8]) -> std::io::Result<()> {
        self.sequence += 1;
        self.out.write_all(&head.encoded(self.sequence, self.cpu, payload.len()))?;
        self.out.write_all(payload)
    }

    /// Record the wall-clock time of the start of the trace (seconds since 1970, nanoseconds).
    pub fn clock(
        &mut self,
        device: u32,
        time_ns: u64,
        wall_s: u32,
        wall_ns: u32,
    ) -> std::io::Result<()> {
        let mut payload = [0u8; 8];
        payload[..4].copy_from_slice(&wall_s.to_ne_bytes());
        payload[4..].copy_from_slice(&wall_ns.to_ne_bytes());
        self.record(Record::wall(device, time_ns), &payload)
    }

    /// Write an event, preceded by the name of its process if that is new.
    pub fn event(&mut self, event: &Event, name: &[u8]) -> std::io::Result<()> {
        let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
        let head = Record::event(event);
        if end > 0 && self.names.get(&event.pid).map(String::as_bytes) != Some(&name[..end]) {
            note_name(&mut self.names, event.pid, name);
            let mut payload = [0u8; 16];
            let length = end.min(15);
            payload[..length].copy_from_slice(&name[..length]);
            self.record(head.name(), &payload)?;
        }
        self.record(head, &[])
    }

    pub fn flush(&mut self) -> std::io::Result<()> {
        self.out.flush()
    }
}

/// Return the files of the run that a path names: one file, `NAME.blktrace.N` of all CPUs, or
/// `NAME` as in `blkparse -i`.
pub fn files_of_run(path: &Path) -> Vec<PathBuf> {
    let name = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    let stem = match name.rsplit_once(".blktrace.") {
        Some((stem, cpu)) if cpu.bytes().all(|byte| byte.is_ascii_digit()) => stem.to_owned(),
        _ if path.is_file() => return vec![path.to_owned()],
        _ => name,
    };
    let directory =
        path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
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
