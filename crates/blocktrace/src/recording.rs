//! Records block events from a tracefs instance: reads the raw pages of every CPU and writes
//! blktrace files, one set per device.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;
use serde::{Deserialize, Serialize};

use crate::blktrace::Writer;
use crate::event::{device_number, Action, Event, Op};
use crate::pages::{decode, field, Layout};

/// What to record, as written by the caller.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Task {
    /// The instance's directory in tracefs.
    pub instance: PathBuf,
    /// Output directory.
    pub out: PathBuf,
    pub devices: Vec<Device>,
}

/// A disk, and the device numbers of its events (its own and those of its partitions).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Device {
    pub name: String,
    pub number: (u32, u32),
    pub also: Vec<(u32, u32)>,
}

/// A recorder that runs until it is finished.
pub trait Recorder {
    /// Read available events. Return true if there were any.
    fn take(&mut self) -> Result<bool, String>;
    /// Read the remaining events; return what was recorded and how many events were lost.
    fn finish(self: Box<Self>) -> Result<Recorded, String>;
}

/// Summary of a recording.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Recorded {
    pub events: u64,
    /// Events lost because buffers were full, as counted by the kernel.
    pub lost: u64,
    /// Pages that could not be decoded.
    pub broken_pages: u64,
    /// CPU time used by the recording.
    pub cpu_s: f64,
    pub files: Vec<String>,
}

/// Tracepoints and their event types. `block_bio_complete` comes only from drivers without requests
/// (RAID, device mapper).
pub const TRACEPOINTS: [(&str, Action); 7] = [
    ("block_bio_queue", Action::Queue),
    ("block_bio_backmerge", Action::Merge),
    ("block_bio_frontmerge", Action::Merge),
    ("block_rq_issue", Action::Issue),
    ("block_rq_requeue", Action::Requeue),
    ("block_rq_complete", Action::Complete),
    ("block_bio_complete", Action::Complete),
];

/// Positions of the fields in a tracepoint's events.
#[derive(Clone, Copy, Debug)]
struct Shape {
    action: Action,
    device: usize,
    sector: usize,
    sectors: usize,
    rwbs: (usize, usize),
    name: Option<(usize, usize)>,
}

/// The field positions of every tracepoint, by tracepoint ID.
#[derive(Debug)]
pub struct Shapes(FxHashMap<u16, Shape>);

impl Shapes {
    pub fn read(instance: &Path) -> Result<Shapes, String> {
        let mut shapes = FxHashMap::default();
        for (tracepoint, action) in TRACEPOINTS {
            let path = instance.join("events/block").join(tracepoint).join("format");
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            let (number, shape) = shape_of(&text, action)
                .ok_or_else(|| format!("{} is not as Headrace knows it", path.display()))?;
            shapes.insert(number, shape);
        }
        Ok(Shapes(shapes))
    }

    /// Decode an event and the name of its process; return `None` for other events.
    fn event<'a>(&self, time_ns: u64, bytes: &'a [u8]) -> Option<(Event, &'a [u8])> {
        let four = |at: usize| Some(u32::from_ne_bytes(bytes.get(at..at + 4)?.try_into().ok()?));
        let number = u16::from_ne_bytes(bytes.get(..2)?.try_into().ok()?);
        let shape = self.0.get(&number)?;
        let sector =
            u64::from_ne_bytes(bytes.get(shape.sector..shape.sector + 8)?.try_into().ok()?);
        let sectors = four(shape.sectors)?;
        let rwbs = bytes.get(shape.rwbs.0..shape.rwbs.0 + shape.rwbs.1)?;
        let rwbs = &rwbs[..rwbs.iter().position(|&letter| letter == 0).unwrap_or(rwbs.len())];
        let op = Op::of_rwbs(rwbs, sectors)?;
        if sectors == 0 && op != Op::Flush {
            return None;
        }
        let event = Event {
            time_ns,
            // A request without a position (a flush) has all bits set.
            sector: if sectors == 0 { 0 } else { sector },
            sectors,
            pid: four(4)?,
            device: four(shape.device)?,
            action: shape.action,
            op,
        };
        let name = shape.name.and_then(|(at, size)| bytes.get(at..at + size)).unwrap_or_default();
        Some((event, name))
    }
}

fn shape_of(text: &str, action: Action) -> Option<(u16, Shape)> {
    let number = text.lines().find_map(|line| line.strip_prefix("ID:"))?.trim().parse().ok()?;
    let shape = Shape {
        action,
        device: field(text, "dev")?.0,
        sector: field(text, "sector")?.0,
        sectors: field(text, "nr_sector")?.0,
        rwbs: field(text, "rwbs")?,
        name: field(text, "comm"),
    };
    Some((number, shape))
}

/// Read in a single call: the kernel returns `header_page` in one piece or not at all.
fn read_at_once(path: &Path) -> std::io::Result<String> {
    let mut bytes = vec![0; 1 << 14];
    let count = File::open(path)?.read(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes[..count]).into_owned())
}

struct CpuPipe {
    pipe: File,
    writers: Vec<Option<Writer<BufWriter<File>>>>,
    cpu: u32,
}

/// A recording in progress.
pub struct Recording {
    task: Task,
    shapes: Shapes,
    layout: Layout,
    page: Vec<u8>,
    pipes: Vec<CpuPipe>,
    of_number: FxHashMap<u32, usize>,
    recorded: Recorded,
    wall: (u32, u32),
}

impl Recording {
    /// Open the pipes of all CPUs. The error says what is missing.
    pub fn open(task: Task, wall: (u32, u32)) -> Result<Recording, String> {
        let shapes = Shapes::read(&task.instance)?;
        let header = task.instance.join("events/header_page");
        let text =
            read_at_once(&header).map_err(|error| format!("{}: {error}", header.display()))?;
        let layout =
            Layout::parse(&text).ok_or("events/header_page is not as Headrace knows it")?;
        let (_, size) = field(&text, "data").unwrap_or((0, 4080));
        let mut pipes = Vec::new();
        for cpu in 0.. {
            let path = task.instance.join(format!("per_cpu/cpu{cpu}/trace_pipe_raw"));
            if !path.exists() {
                break;
            }
            let pipe = OpenOptions::new()
                .read(true)
                .custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32)
                .open(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            pipes.push(CpuPipe { pipe, writers: task.devices.iter().map(|_| None).collect(), cpu });
        }
        let mut of_number = FxHashMap::default();
        for (at, device) in task.devices.iter().enumerate() {
            for number in std::iter::once(&device.number).chain(&device.also) {
                of_number.insert(device_number(number.0, number.1), at);
            }
        }
        let page = vec![0; (layout.data_offset + size).next_power_of_two().max(1 << 16)];
        let recorded = Recorded::default();
        Ok(Recording { task, shapes, layout, page, pipes, of_number, recorded, wall })
    }

    fn page_of(&mut self, at: usize, count: usize) -> Result<(), String> {
        let Recording { task, shapes, layout, page, pipes, of_number, recorded, wall } = self;
        let CpuPipe { writers, cpu, .. } = &mut pipes[at];
        let mut failed = None;
        let lost = decode(&page[..count], *layout, |time_ns, bytes| {
            let Some((mut event, name)) = shapes.event(time_ns, bytes) else { return };
            let Some(&device) = of_number.get(&event.device) else { return };
            let number = task.devices[device].number;
            event.device = device_number(number.0, number.1);
            recorded.events += 1;
            let written = match &mut writers[device] {
                Some(writer) => writer.event(&event, name),
                empty => {
                    let file = format!("{}.blktrace.{cpu}", task.devices[device].name);
                    recorded.files.push(file.clone());
                    File::create(task.out.join(file)).and_then(|file| {
                        let writer = empty
                            .insert(Writer::new(BufWriter::with_capacity(1 << 20, file), *cpu));
                        writer.clock(event.device, time_ns, wall.0, wall.1)?;
                        writer.event(&event, name)
                    })
                }
            };
            if let Err(error) = written {
                failed.get_or_insert(error);
            }
        });
        if lost.is_none() {
            recorded.broken_pages += 1;
        }
        match failed {
            Some(error) => Err(format!("{} cannot be written: {error}", task.out.display())),
            None => Ok(()),
        }
    }
}

impl Recorder for Recording {
    fn take(&mut self) -> Result<bool, String> {
        let mut any = false;
        for at in 0..self.pipes.len() {
            loop {
                let pipe = &mut self.pipes[at];
                match pipe.pipe.read(&mut self.page) {
                    Ok(0) => break,
                    Ok(count) => {
                        any = true;
                        self.page_of(at, count)?;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => {
                        return Err(format!("trace_pipe_raw of CPU {}: {error}", pipe.cpu))
                    }
                }
            }
        }
        Ok(any)
    }

    fn finish(mut self: Box<Self>) -> Result<Recorded, String> {
        while self.take()? {}
        for pipe in &mut self.pipes {
            for writer in pipe.writers.iter_mut().flatten() {
                writer.flush().map_err(|error| {
                    format!("{} cannot be written: {error}", self.task.out.display())
                })?;
            }
            let path = self.task.instance.join(format!("per_cpu/cpu{}/stats", pipe.cpu));
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {error}", path.display()))?;
            self.recorded.lost += lost_of(&text);
        }
        self.recorded.files.sort();
        Ok(self.recorded)
    }
}

/// Return the number of events that a CPU's buffer lost, from its `stats`.
fn lost_of(stats: &str) -> u64 {
    let lines = stats.lines().filter_map(|line| line.split_once(':'));
    lines
        .filter(|(name, _)| matches!(name.trim(), "overrun" | "commit overrun" | "dropped events"))
        .filter_map(|(_, count)| count.trim().parse::<u64>().ok())
        .sum()
}
