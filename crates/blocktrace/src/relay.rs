//! Records through the kernel's blktrace: its ioctls switch a trace on, its relay files in debugfs give whole records, a file a CPU,
//! which are written down as they come (Documentation/trace/blktrace in the kernel's tree; blktrace(8)).

use std::fs::{File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, NoArg, Opcode, Updater};
use serde::Deserialize;

use crate::recording::{Recorded, Recorder};
use crate::source::{open, plain, BATCH};

/// What is to be recorded.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayTask {
    /// Where debugfs is mounted.
    pub debugfs: PathBuf,
    /// Where the files go.
    pub out: PathBuf,
    pub disks: Vec<Disk>,
}

/// A disk, and which of its sectors are looked at: the first, and the one past the last (0, 0: all).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub name: String,
    pub sectors: (u64, u64),
}

/// `struct blk_user_trace_setup` of include/uapi/linux/blktrace_api.h.
#[repr(C)]
#[derive(Default)]
struct Setup {
    name: [u8; 32],
    categories: u16,
    buffer_bytes: u32,
    buffers: u32,
    first_sector: u64,
    last_sector: u64,
    pid: u32,
}

const SETUP: Opcode = opcode::read_write::<Setup>(0x12, 115);
const START: Opcode = opcode::none(0x12, 116);
const STOP: Opcode = opcode::none(0x12, 117);
const TEARDOWN: Opcode = opcode::none(0x12, 118);

/// Queued and merged, given back, issued, completed.
const CATEGORIES: u16 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// 8 MB a CPU, as tracefs has it.
const BUFFER_BYTES: u32 = 512 << 10;
const BUFFERS: u32 = 16;

struct CpuFile {
    relay: File,
    path: PathBuf,
    out: Option<File>,
}

/// A trace that the kernel keeps of a disk. It ends with this.
struct Trace {
    device: File,
    name: String,
    files: PathBuf,
    cpus: Vec<CpuFile>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        // SAFETY: both take no argument and change the kernel's trace of this disk alone, which we set up.
        unsafe {
            let _ = ioctl(&self.device, NoArg::<STOP>::new());
            let _ = ioctl(&self.device, NoArg::<TEARDOWN>::new());
        }
    }
}

/// A recording in progress.
pub struct Relay {
    traces: Vec<Trace>,
    chunk: Vec<u8>,
}

impl Relay {
    /// Begins to record. Says what is missing.
    pub fn open(task: RelayTask) -> Result<Relay, String> {
        let mut traces = Vec::new();
        for disk in &task.disks {
            traces.push(set_up(&task, disk)?);
        }
        for trace in &traces {
            // SAFETY: takes no argument.
            unsafe { ioctl(&trace.device, NoArg::<START>::new()) }
                .map_err(|error| format!("{}: blktrace does not start: {error}", trace.name))?;
        }
        Ok(Relay { traces, chunk: vec![0; BUFFER_BYTES as usize] })
    }
}

fn set_up(task: &RelayTask, disk: &Disk) -> Result<Trace, String> {
    let path = Path::new("/dev").join(&disk.name);
    let device = File::open(&path).map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
    let mut setup = Setup {
        categories: CATEGORIES,
        buffer_bytes: BUFFER_BYTES,
        buffers: BUFFERS,
        first_sector: disk.sectors.0,
        last_sector: disk.sectors.1.saturating_sub(1),
        ..Setup::default()
    };
    // SAFETY: the kernel reads and writes a `struct blk_user_trace_setup`, which `Setup` is.
    unsafe { ioctl(&device, Updater::<SETUP, Setup>::new(&mut setup)) }.map_err(|error| match error {
        Errno::BUSY => format!("{}: another blktrace is at work on it", disk.name),
        Errno::NOTTY => "this kernel has no blktrace (CONFIG_BLK_DEV_IO_TRACE)".to_owned(),
        error => format!("{}: blktrace cannot be set up: {error}", disk.name),
    })?;
    let files = task.debugfs.join("block").join(&disk.name);
    let mut trace = Trace { device, name: disk.name.clone(), files, cpus: Vec::new() };
    for cpu in 0.. {
        let path = trace.files.join(format!("trace{cpu}"));
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        match options.open(&path) {
            Ok(relay) => {
                let path = task.out.join(format!("{}.blktrace.{cpu}", trace.name));
                trace.cpus.push(CpuFile { relay, path, out: None });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && cpu > 0 => break,
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {
                return Err("the kernel is locked down (secure boot): it does not let blktrace's files in debugfs be read".to_owned());
            }
            Err(error) => return Err(format!("{}: {}", path.display(), plain(&error))),
        }
    }
    Ok(trace)
}

impl Recorder for Relay {
    fn take(&mut self) -> Result<bool, String> {
        let mut any = false;
        for cpu in self.traces.iter_mut().flat_map(|trace| &mut trace.cpus) {
            loop {
                match cpu.relay.read(&mut self.chunk) {
                    Ok(0) => break,
                    Ok(count) => {
                        any = true;
                        let written = match &mut cpu.out {
                            Some(out) => out.write_all(&self.chunk[..count]),
                            empty => File::create(&cpu.path)
                                .and_then(|out| empty.insert(out).write_all(&self.chunk[..count])),
                        };
                        written
                            .map_err(|error| format!("{} cannot be written: {error}", cpu.path.display()))?;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(format!("{}: {}", cpu.path.display(), plain(&error))),
                }
            }
        }
        Ok(any)
    }

    fn finish(mut self: Box<Self>) -> Result<Recorded, String> {
        for trace in &self.traces {
            // SAFETY: takes no argument.
            unsafe { ioctl(&trace.device, NoArg::<STOP>::new()) }
                .map_err(|error| format!("{}: blktrace does not stop: {error}", trace.name))?;
        }
        while self.take()? {}
        let mut recorded = Recorded::default();
        for trace in &self.traces {
            let path = trace.files.join("dropped");
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
            recorded.lost += text.trim().parse::<u64>().unwrap_or(0);
            let written: Vec<PathBuf> =
                trace.cpus.iter().filter(|cpu| cpu.out.is_some()).map(|cpu| cpu.path.clone()).collect();
            recorded.events += count_events(&written)?;
            let name = |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
            recorded.files.extend(written.iter().filter_map(name));
        }
        recorded.files.sort();
        Ok(recorded)
    }
}

/// Events of requests in the files of a disk; blktrace writes others, too.
fn count_events(files: &[PathBuf]) -> Result<u64, String> {
    if files.is_empty() {
        return Ok(0);
    }
    let mut source = open(files).map_err(|damage| damage.problem.clone())?;
    let (mut batch, mut events) = (Vec::with_capacity(BATCH), 0);
    loop {
        batch.clear();
        source.fill(&mut batch);
        if batch.is_empty() {
            return Ok(events);
        }
        events += batch.len() as u64;
    }
}
