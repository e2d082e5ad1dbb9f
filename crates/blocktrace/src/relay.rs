//! Records with the kernel's blktrace: ioctls start a trace, and its relay files in debugfs, one
//! per CPU, are written to disk as they fill (blktrace(8)).
//!
//! A CPU's buffer is a ring of sub-buffers. If a sub-buffer is not full, read(2) returns records
//! that are still being written, half of them zeros. Therefore only sub-buffers that poll(2)
//! reports as full are read, and never beyond their end (relay_file_read and relay_file_poll in
//! kernel/relay.c).

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Read, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use rustix::event::{poll, PollFd, PollFlags, Timespec};
use rustix::io::Errno;
use rustix::ioctl::{ioctl, opcode, NoArg, Opcode, Updater};
use serde::Deserialize;

use crate::blkrecord::Form;
use crate::formats::open;
use crate::recording::{Recorded, Recorder};
use crate::source::{plain, BATCH};

/// What to record.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RelayTask {
    /// Mount point of debugfs.
    pub debugfs: PathBuf,
    /// Output directory.
    pub out: PathBuf,
    pub disks: Vec<Disk>,
}

/// A disk, and the range of sectors to trace: the first, and the one after the last (0, 0: all).
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Disk {
    pub name: String,
    pub sectors: (u64, u64),
}

/// `struct blk_user_trace_setup` in include/uapi/linux/blktrace_api.h.
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

/// Queue and merge, requeue, issue, complete.
const CATEGORIES: u16 = 1 << 4 | 1 << 5 | 1 << 6 | 1 << 7;
/// 8 MB per CPU, as with tracefs.
const BUFFER_BYTES: u32 = 512 << 10;
const BUFFERS: u32 = 16;
/// A buffer ends when the next record does not fit. It is read in bulk up to this offset, then
/// record by record.
const BULK_BYTES: usize = BUFFER_BYTES as usize - 4096;

struct CpuFile {
    relay: File,
    path: PathBuf,
    out: Option<BufWriter<File>>,
    /// Bytes already read of the current buffer.
    place: usize,
    /// The start of a record whose end is not read yet.
    begun: Vec<u8>,
}

impl CpuFile {
    /// Return whether a full buffer is available.
    fn full(&self) -> Result<bool, String> {
        let mut asked = [PollFd::new(&self.relay, PollFlags::IN)];
        match poll(&mut asked, Some(&Timespec { tv_sec: 0, tv_nsec: 0 })) {
            Ok(_) => Ok(asked[0].revents().contains(PollFlags::IN)),
            Err(Errno::INTR) => Ok(false),
            Err(error) => Err(format!("{}: {error}", self.path.display())),
        }
    }

    /// Return how many bytes of the current (full) buffer can be read without reading beyond its
    /// end.
    fn next_bytes(&mut self) -> usize {
        let form = Form::of(&self.begun).unwrap_or_default();
        if self.begun.is_empty() {
            if self.place + form.bytes() > BUFFER_BYTES as usize {
                self.place = 0;
            }
            if self.place < BULK_BYTES {
                return BULK_BYTES - self.place;
            }
        }
        let whole = match self.begun.len() {
            have if have < form.bytes() => form.bytes(),
            _ => form.bytes() + form.payload(&self.begun),
        };
        whole - self.begun.len()
    }

    /// Write the complete records of the bytes read so far.
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.place += bytes.len();
        self.begun.extend_from_slice(bytes);
        let mut whole = 0;
        loop {
            let rest = &self.begun[whole..];
            let form = Form::of(rest).unwrap_or_default();
            if rest.len() < form.bytes() || rest.len() < form.bytes() + form.payload(rest) {
                break;
            }
            whole += form.bytes() + form.payload(rest);
        }
        if whole > 0 {
            let out = match &mut self.out {
                Some(out) => out,
                empty => empty.insert(BufWriter::new(File::create(&self.path)?)),
            };
            out.write_all(&self.begun[..whole])?;
            self.begun.drain(..whole);
        }
        Ok(())
    }
}

/// The kernel's trace of one disk. Dropping it ends the trace.
struct Trace {
    device: File,
    name: String,
    files: PathBuf,
    cpus: Vec<CpuFile>,
}

impl Drop for Trace {
    fn drop(&mut self) {
        // SAFETY: both take no argument and affect only the kernel's trace of this disk, which we
        // set up.
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
    /// Start recording. The error says what is missing.
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
    let device =
        File::open(&path).map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
    let mut setup = Setup {
        categories: CATEGORIES,
        buffer_bytes: BUFFER_BYTES,
        buffers: BUFFERS,
        first_sector: disk.sectors.0,
        last_sector: disk.sectors.1.saturating_sub(1),
        ..Setup::default()
    };
    // SAFETY: the kernel reads and writes a `struct blk_user_trace_setup`, which `Setup` is.
    unsafe { ioctl(&device, Updater::<SETUP, Setup>::new(&mut setup)) }.map_err(
        |error| match error {
            Errno::BUSY => format!("{}: another blktrace is at work on it", disk.name),
            Errno::NOTTY => "this kernel has no blktrace (CONFIG_BLK_DEV_IO_TRACE)".to_owned(),
            error => format!("{}: blktrace cannot be set up: {error}", disk.name),
        },
    )?;
    let files = task.debugfs.join("block").join(&disk.name);
    let mut trace = Trace { device, name: disk.name.clone(), files, cpus: Vec::new() };
    for cpu in 0.. {
        let path = trace.files.join(format!("trace{cpu}"));
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(rustix::fs::OFlags::NONBLOCK.bits() as i32);
        match options.open(&path) {
            Ok(relay) => {
                let path = task.out.join(format!("{}.blktrace.{cpu}", trace.name));
                trace.cpus.push(CpuFile { relay, path, out: None, place: 0, begun: Vec::new() });
            }
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && cpu > 0 => break,
            Err(error) if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) => {
                // What a lockdown says, and some security modules and sandboxes.
                return Err(format!(
                    "{}: {}; a kernel that is locked down (secure boot) lets no process read \
                     blktrace's files, tracefs works there",
                    path.display(),
                    plain(&error)
                ));
            }
            Err(error) => return Err(format!("{}: {}", path.display(), plain(&error))),
        }
    }
    Ok(trace)
}

impl Relay {
    /// Read full buffers; after the trace has stopped, read everything.
    fn read(&mut self, stopped: bool) -> Result<bool, String> {
        let mut any = false;
        for cpu in self.traces.iter_mut().flat_map(|trace| &mut trace.cpus) {
            while stopped || cpu.full()? {
                let wanted = if stopped { self.chunk.len() } else { cpu.next_bytes() };
                match cpu.relay.read(&mut self.chunk[..wanted]) {
                    Ok(0) => break,
                    Ok(count) => {
                        any = true;
                        cpu.write(&self.chunk[..count]).map_err(|error| {
                            format!("{} cannot be written: {error}", cpu.path.display())
                        })?;
                    }
                    Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => break,
                    Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                    Err(error) => return Err(format!("{}: {}", cpu.path.display(), plain(&error))),
                }
            }
        }
        Ok(any)
    }
}

impl Recorder for Relay {
    fn take(&mut self) -> Result<bool, String> {
        self.read(false)
    }

    fn finish(mut self: Box<Self>) -> Result<Recorded, String> {
        for trace in &self.traces {
            // SAFETY: takes no argument.
            unsafe { ioctl(&trace.device, NoArg::<STOP>::new()) }
                .map_err(|error| format!("{}: blktrace does not stop: {error}", trace.name))?;
        }
        while self.read(true)? {}
        let mut recorded = Recorded::default();
        for trace in &mut self.traces {
            for cpu in &mut trace.cpus {
                recorded.broken_pages += u64::from(!cpu.begun.is_empty());
                if let Some(out) = &mut cpu.out {
                    out.flush().map_err(|error| {
                        format!("{} cannot be written: {error}", cpu.path.display())
                    })?;
                }
            }
            let path = trace.files.join("dropped");
            let text = std::fs::read_to_string(&path)
                .map_err(|error| format!("{}: {}", path.display(), plain(&error)))?;
            recorded.lost += text.trim().parse::<u64>().unwrap_or(0);
            let written: Vec<PathBuf> = trace
                .cpus
                .iter()
                .filter(|cpu| cpu.out.is_some())
                .map(|cpu| cpu.path.clone())
                .collect();
            recorded.events += count_events(&written)?;
            let name =
                |path: &PathBuf| path.file_name().map(|name| name.to_string_lossy().into_owned());
            recorded.files.extend(written.iter().filter_map(name));
        }
        recorded.files.sort();
        Ok(recorded)
    }
}

/// Count the request events in the files of a disk; blktrace also writes other events.
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
