//! Linux native asynchronous I/O: io_setup(2), io_submit(2), io_getevents(2).

use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;

/// `struct iocb` in include/uapi/linux/aio_abi.h, of a little-endian machine.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Control {
    data: u64,
    key: u32,
    rw_flags: u32,
    opcode: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: i64,
    reserved: u64,
    flags: u32,
    event_file: u32,
}

/// `struct io_event`.
#[repr(C)]
#[derive(Clone, Copy, Default)]
struct Event {
    data: u64,
    control: u64,
    result: i64,
    result2: i64,
}

const PREAD: u16 = 0;
const PWRITE: u16 = 1;

/// One transfer between a buffer and a file.
pub struct Transfer {
    /// Number below the depth of the queue, which no transfer in flight has.
    pub slot: usize,
    pub write: bool,
    /// Past the write cache of the device.
    pub through: bool,
    pub at: *mut u8,
    pub bytes: usize,
    pub offset: u64,
}

/// Transfers in flight.
pub struct Queue {
    context: libc::c_ulong,
    in_flight: usize,
    events: Vec<Event>,
    done: Vec<(usize, i64)>,
}

impl Queue {
    pub fn new(depth: usize) -> io::Result<Self> {
        let mut context: libc::c_ulong = 0;
        // SAFETY: `context` is a zero word that the kernel writes.
        let set_up =
            unsafe { libc::syscall(libc::SYS_io_setup, depth as libc::c_long, &mut context) };
        if set_up < 0 {
            return Err(io::Error::last_os_error());
        }
        let events = vec![Event::default(); depth];
        Ok(Queue { context, in_flight: 0, events, done: Vec::with_capacity(depth) })
    }

    /// Start a transfer. Its buffer must stay valid until `wait` returns its slot.
    pub fn submit(&mut self, file: &File, transfer: &Transfer) -> io::Result<()> {
        let control = Control {
            data: transfer.slot as u64,
            rw_flags: if transfer.through { libc::RWF_DSYNC as u32 } else { 0 },
            opcode: if transfer.write { PWRITE } else { PREAD },
            file: file.as_raw_fd() as u32,
            buffer: transfer.at as u64,
            bytes: transfer.bytes as u64,
            offset: transfer.offset as i64,
            ..Control::default()
        };
        let controls = [&control as *const Control];
        // SAFETY: the kernel copies the control block; the caller keeps the buffer valid.
        let submitted = unsafe {
            libc::syscall(libc::SYS_io_submit, self.context, 1 as libc::c_long, controls.as_ptr())
        };
        if submitted != 1 {
            return Err(io::Error::last_os_error());
        }
        self.in_flight += 1;
        Ok(())
    }

    /// Wait for at least one transfer; return the slots and results (bytes, or an error number
    /// below zero) of those that are done.
    pub fn wait(&mut self) -> io::Result<&[(usize, i64)]> {
        self.done.clear();
        while self.done.is_empty() && self.in_flight > 0 {
            // SAFETY: `events` has room for as many events as the queue is deep.
            let found = unsafe {
                libc::syscall(
                    libc::SYS_io_getevents,
                    self.context,
                    1 as libc::c_long,
                    self.events.len() as libc::c_long,
                    self.events.as_mut_ptr(),
                    std::ptr::null_mut::<libc::timespec>(),
                )
            };
            if found < 0 {
                let error = io::Error::last_os_error();
                if error.kind() == io::ErrorKind::Interrupted {
                    continue;
                }
                return Err(error);
            }
            self.in_flight -= found as usize;
            let events = &self.events[..found as usize];
            self.done.extend(events.iter().map(|event| (event.data as usize, event.result)));
        }
        Ok(&self.done)
    }
}

impl Drop for Queue {
    /// Wait for the transfers in flight, whose buffers the caller frees next.
    fn drop(&mut self) {
        // SAFETY: the context is this queue's own; io_destroy(2) returns when no transfer is left.
        unsafe { libc::syscall(libc::SYS_io_destroy, self.context) };
    }
}
