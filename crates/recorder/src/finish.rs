//! The last record of a process image.

use crate::arena::{self, Fact};
use crate::clocks::process_cpu;
use crate::descriptors;
use crate::maps;
use crate::names;
use crate::process::{self, end};
use crate::record::{begin, bytes_read, cpu_wait, Call, Op};
use crate::writer;

/// Record the end of the process or its image. `loaded`: objects loaded since the start.
pub fn finish(loaded: u64) {
    if !process::active() || process::is_borrowed() {
        return;
    }
    maps::write_down_all();
    note_rings();
    let (length, (_, asked)) = (cpu_wait(), bytes_read());
    let call =
        Call { file: loaded as u32, offset: process_cpu(), length, asked, ..Call::default() };
    end(begin(), Op::End, call);
    writer::give_back();
}

/// Record whether a descriptor is an io_uring, whose transfers are not recorded.
fn note_rings() {
    for fd in 0..(descriptors::highest() + 32).min(256) {
        if descriptors::known_file_of(fd).is_none() {
            names::with_link(&names::descriptor_link(fd), |path| {
                if path == Some(b"anon_inode:[io_uring]") {
                    arena::note(Fact::IoUring);
                }
            });
        }
    }
}
