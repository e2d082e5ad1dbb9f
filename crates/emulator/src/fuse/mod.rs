//! The FUSE backend: a file system with one file, using /dev/fuse directly. A loop device with
//! direct I/O on that file is the block device.
//!
//! Every port has its own descriptor (FUSE_DEV_IOC_CLONE): a reply must be written to the
//! descriptor that its request was read from.

pub mod wire;

use std::ffi::CString;
use std::fs::File;
use std::io::{self, IoSlice, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::sync::Arc;

use crate::backend::{Answer, Arrival, Asked, Backend, Port, Ticket};
use wire::{bytes_of, init, op, open, take};

/// Maximum transfer size; the kernel's own limit (fs.fuse.max_pages_limit) is 256 pages.
pub const TRANSFER_BYTES: u32 = 1 << 20;
const HEADERS: usize = size_of::<wire::InHeader>() + size_of::<wire::TransferIn>();
/// Attributes and names never change.
const VALID_S: u64 = 1 << 30;
/// _IOR(229, 0, uint32_t)
const FUSE_DEV_IOC_CLONE: libc::c_ulong = 0x8004_e500;

pub struct Fuse {
    /// Unique per device: some programs (btrfs-progs) identify loop devices by the path of their
    /// file.
    file_name: String,
    ports: Vec<File>,
    size: u64,
    request_timeout_s: u16,
}

fn open_device() -> io::Result<File> {
    // Rust opens with O_CLOEXEC.
    File::options().read(true).write(true).open("/dev/fuse")
}

impl Fuse {
    /// Mount the file system on `directory` and open `ports` ports. `name` is its source and the
    /// name of its file.
    pub fn mount(
        directory: &Path,
        name: &str,
        ports: usize,
        size: u64,
        request_timeout_s: u16,
    ) -> io::Result<Arc<Self>> {
        let first = open_device()?;
        let fail = |_| io::Error::from(io::ErrorKind::InvalidInput);
        let target = CString::new(directory.as_os_str().as_bytes()).map_err(fail)?;
        let source = CString::new(name).map_err(fail)?;
        let options =
            CString::new(format!("fd={},rootmode=40000,user_id=0,group_id=0", first.as_raw_fd()))
                .map_err(fail)?;
        let flags = libc::MS_NOSUID | libc::MS_NODEV | libc::MS_NOATIME;
        // SAFETY: four strings that outlive the call.
        let status = unsafe {
            libc::mount(
                source.as_ptr(),
                target.as_ptr(),
                c"fuse".as_ptr(),
                flags,
                options.as_ptr().cast(),
            )
        };
        if status != 0 {
            return Err(io::Error::last_os_error());
        }
        let mut files = vec![first];
        for _ in 1..ports {
            let clone = open_device()?;
            let mut original = files[0].as_raw_fd() as u32;
            // SAFETY: the argument is a descriptor number.
            if unsafe { libc::ioctl(clone.as_raw_fd(), FUSE_DEV_IOC_CLONE, &mut original) } != 0 {
                return Err(io::Error::last_os_error());
            }
            files.push(clone);
        }
        Ok(Arc::new(Fuse { file_name: name.into(), ports: files, size, request_timeout_s }))
    }

    /// Return one port for each receiving thread.
    pub fn ports(self: &Arc<Self>) -> Vec<FusePort> {
        (0..self.ports.len()).map(|number| FusePort::new(Arc::clone(self), number)).collect()
    }

    fn send(&self, ticket: Ticket, error: i32, parts: &[IoSlice<'_>]) {
        let length: usize = parts.iter().map(|part| part.len()).sum();
        let header = wire::OutHeader {
            len: (size_of::<wire::OutHeader>() + length) as u32,
            error: -error,
            unique: ticket.unique,
        };
        let head = IoSlice::new(bytes_of(&header));
        // The kernel rejects a reply only if its request no longer exists (aborted, unmounted).
        let port = &mut &self.ports[ticket.port as usize];
        let _ = match parts {
            [] => port.write_vectored(&[head]),
            [one] => port.write_vectored(&[head, *one]),
            _ => {
                let mut all = Vec::with_capacity(parts.len() + 1);
                all.push(head);
                all.extend_from_slice(parts);
                port.write_vectored(&all)
            }
        };
    }

    fn attr(&self, node: u64) -> wire::Attr {
        let file = node == wire::FILE;
        wire::Attr {
            ino: node,
            size: if file { self.size } else { 0 },
            blocks: if file { self.size / 512 } else { 0 },
            mode: if file { libc::S_IFREG | 0o600 } else { libc::S_IFDIR | 0o700 },
            nlink: if file { 1 } else { 2 },
            blksize: 4096,
            ..wire::Attr::default()
        }
    }

    fn init(&self, ticket: Ticket, body: &[u8]) {
        let asked: wire::InitIn = take(body);
        let offered = u64::from(asked.flags) | u64::from(asked.flags2) << 32;
        let wanted = init::BIG_WRITES
            | init::ASYNC_DIO
            | init::MAX_PAGES
            | init::HANDLE_KILLPRIV_V2
            | init::INIT_EXT
            | init::REQUEST_TIMEOUT;
        let agreed = offered & wanted;
        let answer = wire::InitOut {
            major: 7,
            minor: asked.minor.min(45),
            max_readahead: asked.max_readahead,
            flags: agreed as u32,
            flags2: (agreed >> 32) as u32,
            max_background: 256,
            congestion_threshold: 256,
            max_write: TRANSFER_BYTES,
            time_gran: 1,
            max_pages: (TRANSFER_BYTES / 4096) as u16,
            request_timeout_s: self.request_timeout_s,
            ..wire::InitOut::default()
        };
        self.send(ticket, 0, &[IoSlice::new(bytes_of(&answer))]);
    }

    /// Reply to requests that do not concern the file's data.
    fn attend(&self, ticket: Ticket, head: &wire::InHeader, body: &[u8]) {
        match head.opcode {
            op::INIT => self.init(ticket, body),
            op::GETATTR | op::SETATTR => {
                let answer = wire::AttrOut {
                    valid_s: VALID_S,
                    attr: self.attr(head.nodeid),
                    ..wire::AttrOut::default()
                };
                self.send(ticket, 0, &[IoSlice::new(bytes_of(&answer))]);
            }
            op::LOOKUP if body.strip_suffix(b"\0") == Some(self.file_name.as_bytes()) => {
                let answer = wire::EntryOut {
                    nodeid: wire::FILE,
                    generation: 1,
                    entry_valid_s: VALID_S,
                    attr_valid_s: VALID_S,
                    attr: self.attr(wire::FILE),
                    ..wire::EntryOut::default()
                };
                self.send(ticket, 0, &[IoSlice::new(bytes_of(&answer))]);
            }
            op::LOOKUP => self.send(ticket, libc::ENOENT, &[]),
            op::OPEN if head.nodeid == wire::FILE => {
                let open_flags = open::DIRECT_IO | open::PARALLEL_DIRECT_WRITES | open::NOFLUSH;
                let answer = wire::OpenOut { fh: 1, open_flags, backing_id: 0 };
                self.send(ticket, 0, &[IoSlice::new(bytes_of(&answer))]);
            }
            op::STATFS => {
                let answer = wire::StatfsOut {
                    blocks: self.size / 4096,
                    bsize: 4096,
                    frsize: 4096,
                    namelen: 255,
                    ..wire::StatfsOut::default()
                };
                self.send(ticket, 0, &[IoSlice::new(bytes_of(&answer))]);
            }
            op::FORGET | op::BATCH_FORGET | op::INTERRUPT => {}
            op::RELEASE | op::FLUSH | op::DESTROY => self.send(ticket, 0, &[]),
            _ => self.send(ticket, libc::ENOSYS, &[]),
        }
    }
}

impl Backend for Fuse {
    fn answer(&self, ticket: Ticket, answer: Answer<'_>) {
        match answer {
            Answer::Data(slices) => self.send(ticket, 0, slices),
            Answer::Written(size) => {
                self.send(
                    ticket,
                    0,
                    &[IoSlice::new(bytes_of(&wire::WriteOut { size, padding: 0 }))],
                );
            }
            Answer::Done => self.send(ticket, 0, &[]),
            Answer::Failed(errno) => self.send(ticket, errno, &[]),
        }
    }
}

/// One descriptor and the receive buffer of its thread.
pub struct FusePort {
    fuse: Arc<Fuse>,
    number: usize,
    buffer: Vec<u8>,
    /// Offset of the message, chosen so that the data of a write is page-aligned.
    start: usize,
}

impl FusePort {
    fn new(fuse: Arc<Fuse>, number: usize) -> Self {
        let buffer = vec![0; TRANSFER_BYTES as usize + 3 * 4096];
        let to_page = buffer.as_ptr().align_offset(4096);
        FusePort { fuse, number, buffer, start: to_page + 4096 - HEADERS }
    }

    fn receive(&mut self) -> io::Result<Option<usize>> {
        loop {
            match (&self.fuse.ports[self.number]).read(&mut self.buffer[self.start..]) {
                Ok(length) => return Ok(Some(length)),
                Err(error) => match error.raw_os_error() {
                    // ENOENT: the request was cancelled before it was read.
                    Some(libc::EINTR | libc::EAGAIN | libc::ENOENT) => {}
                    // Unmounted or aborted.
                    Some(libc::ENODEV | libc::ECONNABORTED) => return Ok(None),
                    _ => return Err(error),
                },
            }
        }
    }
}

/// A request for the file's data; the data of a write follows the headers.
enum Meant {
    Read(u64, u32),
    Write(u64),
    Flush,
    Discard(u64, u64),
    WriteZeroes(u64, u64),
}

fn meaning(opcode: u32, body: &[u8]) -> Option<Meant> {
    match opcode {
        op::READ | op::WRITE => {
            let given: wire::TransferIn = take(body);
            Some(if opcode == op::READ {
                Meant::Read(given.offset, given.size)
            } else {
                Meant::Write(given.offset)
            })
        }
        op::FSYNC => Some(Meant::Flush),
        op::FALLOCATE => {
            let given: wire::FallocateIn = take(body);
            // The loop driver punches a hole if data may be discarded, and requests zeroes if the
            // space must stay allocated.
            Some(if given.mode as i32 & libc::FALLOC_FL_PUNCH_HOLE != 0 {
                Meant::Discard(given.offset, given.length)
            } else {
                Meant::WriteZeroes(given.offset, given.length)
            })
        }
        _ => None,
    }
}

impl Port for FusePort {
    fn next(&mut self) -> io::Result<Option<Arrival<'_>>> {
        loop {
            let Some(length) = self.receive()? else { return Ok(None) };
            let end = self.start + length;
            let head: wire::InHeader = take(&self.buffer[self.start..end]);
            let ticket = Ticket { port: self.number as u32, unique: head.unique };
            let body = self.start + size_of::<wire::InHeader>()..end;
            let asked = match meaning(head.opcode, &self.buffer[body.clone()]) {
                Some(Meant::Read(offset, length)) => Asked::Read { offset, length },
                Some(Meant::Write(offset)) => {
                    Asked::Write { offset, data: &self.buffer[self.start + HEADERS..end] }
                }
                Some(Meant::Flush) => Asked::Flush,
                Some(Meant::Discard(offset, length)) => Asked::Discard { offset, length },
                Some(Meant::WriteZeroes(offset, length)) => Asked::WriteZeroes { offset, length },
                None => {
                    self.fuse.attend(ticket, &head, &self.buffer[body]);
                    continue;
                }
            };
            return Ok(Some(Arrival { ticket, submitter: head.pid as i32, asked }));
        }
    }
}
