//! Texts of the recording: the meaning of the numbers in records. `text` defines their layout.

use crate::arena;
use crate::identity;
use crate::kernel;
use crate::text::{fill, slots_of, Digits};
use crate::writer;

/// A longer path is read into separately mapped memory, because hooks can run on a small stack.
const SHORT: usize = 512;

/// Write a text.
pub fn write(letter: u8, number: u32, fields: &[&[u8]]) {
    // SAFETY: there are as many slots as the text needs.
    writer::with_slots(slots_of(fields), |slot, _| unsafe { fill(slot, letter, number, fields) });
}

/// Write the text of a path that is used but not opened; return its number.
pub fn path(path: &[u8]) -> u32 {
    let (number, directory) = (arena::new_file(), Digits::of(identity::directory().into()));
    write(b'P', number, &[directory.text(), path]);
    number
}

/// Call `then` with a path below the directory of a descriptor; of a long one with `below` alone.
pub fn with_path<T>(at: i32, below: &[u8], then: impl FnOnce(&[u8]) -> T) -> T {
    if at == libc::AT_FDCWD || below.starts_with(b"/") {
        return then(below);
    }
    with_link(&descriptor_link(at), |folder| {
        let folder = folder.unwrap_or(b"");
        if below.is_empty() {
            return then(folder);
        }
        let mut joined = [0u8; SHORT];
        let length = folder.len() + 1 + below.len();
        if folder.is_empty() || length > SHORT {
            return then(below);
        }
        joined[..folder.len()].copy_from_slice(folder);
        joined[folder.len()] = b'/';
        joined[folder.len() + 1..length].copy_from_slice(below);
        then(&joined[..length])
    })
}

/// Call `then` with the target of a link in /proc, or with `None` if it cannot be read.
///
/// `of` ends with NUL.
pub fn with_link<T>(of: &[u8], then: impl FnOnce(Option<&[u8]>) -> T) -> T {
    debug_assert!(of.last() == Some(&0));
    let mut short = [0u8; SHORT];
    // SAFETY: the buffers are valid for their lengths.
    unsafe {
        let length = kernel::read_link(of, short.as_mut_ptr(), SHORT);
        if length < SHORT as isize {
            return then(short.get(..length.max(0) as usize).filter(|text| !text.is_empty()));
        }
        let Some(room) = kernel::map_private(2 * kernel::PAGE_BYTES) else {
            return then(Some(&short));
        };
        let length = kernel::read_link(of, room, 2 * kernel::PAGE_BYTES).max(0) as usize;
        let found = then(Some(core::slice::from_raw_parts(room, length)));
        kernel::unmap(room, 2 * kernel::PAGE_BYTES);
        found
    }
}

/// Return `/proc/thread-self/fd/N`, terminated by NUL. That of the process is empty when its first
/// thread has ended and others go on.
pub fn descriptor_link(fd: i32) -> [u8; 32] {
    let mut link = [0u8; 32];
    let digits = Digits::of(fd as u64);
    let start = b"/proc/thread-self/fd/";
    link[..start.len()].copy_from_slice(start);
    let text = digits.text();
    let end = (start.len() + text.len()).min(31);
    link[start.len()..end].copy_from_slice(&text[..end - start.len()]);
    link
}
