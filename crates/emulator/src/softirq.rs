//! Has the kernel end the block requests that were just answered.
//!
//! A loop device ends a request in a softirq (blk_mq_complete_request_remote, block/blk-mq.c: one hardware queue), and a
//! softirq that a system call leaves behind waits for ksoftirqd on the same CPU: an ordinary thread, which does not
//! run before a thread of ours, of real-time priority, sleeps. The kernel runs what is pending whenever bottom
//! halves are allowed again (local_bh_enable, kernel/softirq.c), as at the end of a call that locks a socket.
//! Measured: 128 000 instead of 92 000 requests a second at queue depth 32.

use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd};

pub struct Softirq {
    /// Never bound or connected.
    socket: OwnedFd,
}

impl Softirq {
    pub fn new() -> io::Result<Self> {
        // SAFETY: no pointers; the descriptor is ours alone.
        unsafe {
            let descriptor = libc::socket(libc::AF_UNIX, libc::SOCK_DGRAM | libc::SOCK_CLOEXEC, 0);
            if descriptor < 0 {
                return Err(io::Error::last_os_error());
            }
            Ok(Softirq { socket: OwnedFd::from_raw_fd(descriptor) })
        }
    }

    /// Runs what is pending on this CPU.
    pub fn run(&self) {
        let off: libc::c_int = 0;
        // What it has been set to anyway; that it locks the socket is what counts.
        // SAFETY: `off` lives through the call, and its size is given.
        unsafe {
            libc::setsockopt(
                self.socket.as_raw_fd(),
                libc::SOL_SOCKET,
                libc::SO_BROADCAST,
                (&raw const off).cast(),
                size_of::<libc::c_int>() as libc::socklen_t,
            )
        };
    }
}
