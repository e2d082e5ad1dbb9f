//! Texts of the recording: the meaning of the numbers in records.
//!
//! A text has a letter, a number and fields separated by tabs. The last field, a path, can contain
//! any byte except NUL.
//!
//! | letter | number of | fields |
//! |---|---|---|
//! | `I` | a program image | process, image that it was forked from or 0, program |
//! | `T` | a thread | image, thread number of the kernel |
//! | `C` | a working directory | path |
//! | `F` | an opened file | open flags, bytes, path |
//! | `P` | a path used in a call | working directory's number, path |
//! | `X` | an image | process, time, working directory's number, program to be executed |
//! | `Y` | an image | process, time, working directory's number, empty: the exec failed |
//! | `S` | an image | spawned process, time, working directory's number, its program |

use crate::arena;
use crate::kernel;
use crate::process;
use crate::segment::{self, Slot, MORE, TEXT};

const IN_FIRST: usize = 56;
const IN_MORE: usize = 63;
/// Longer texts are truncated.
const LONGEST: usize = 4096 + 128;
/// A longer path is read into separately mapped memory, because hooks can run on a small stack.
const SHORT: usize = 512;

/// Decimal digits of a number.
pub struct Digits {
    bytes: [u8; 20],
    from: usize,
}

impl Digits {
    pub fn of(mut value: u64) -> Self {
        let mut digits = Digits { bytes: [b'0'; 20], from: 20 };
        loop {
            digits.from -= 1;
            digits.bytes[digits.from] = b'0' + (value % 10) as u8;
            value /= 10;
            if value == 0 || digits.from == 0 {
                return digits;
            }
        }
    }

    pub fn text(&self) -> &[u8] {
        &self.bytes[self.from..]
    }
}

/// Writes into consecutive slots.
struct Pen {
    slot: *mut Slot,
    at: usize,
}

impl Pen {
    /// # Safety
    /// The caller owns enough slots.
    unsafe fn put(&mut self, bytes: &[u8]) {
        for &byte in bytes {
            if self.at == 64 {
                self.slot = self.slot.add(1);
                segment::complete(self.slot, MORE);
                self.at = 1;
            }
            self.slot.cast::<u8>().add(self.at).write(byte);
            self.at += 1;
        }
    }
}

/// # Safety
/// `slot` and the following slots that the text needs belong to the caller.
unsafe fn fill(slot: *mut Slot, letter: u8, number: u32, fields: &[&[u8]]) {
    let length = length_of(fields).min(LONGEST);
    let bytes = slot.cast::<u8>();
    bytes.add(1).write(letter);
    bytes.add(2).cast::<u16>().write(length as u16);
    bytes.add(4).cast::<u32>().write(number);
    let mut pen = Pen { slot, at: 8 };
    let mut left = length;
    for (index, field) in fields.iter().enumerate() {
        for part in [if index > 0 { &b"\t"[..] } else { b"" }, field] {
            let part = &part[..part.len().min(left)];
            pen.put(part);
            left -= part.len();
        }
    }
    segment::complete(slot, TEXT);
}

fn length_of(fields: &[&[u8]]) -> usize {
    fields.iter().map(|field| field.len() + 1).sum::<usize>().saturating_sub(1)
}

/// Write a text.
pub fn write(letter: u8, number: u32, fields: &[&[u8]]) {
    let length = length_of(fields).min(LONGEST);
    let slots = 1 + length.saturating_sub(IN_FIRST).div_ceil(IN_MORE);
    // SAFETY: there are as many slots as the text needs.
    segment::with_slots(slots as u64, |slot, _| unsafe { fill(slot, letter, number, fields) });
}

/// Write the text of a new thread, which takes one slot.
///
/// # Safety
/// The slot belongs to the caller.
pub unsafe fn fill_thread(slot: *mut Slot, thread: u32) {
    let (image, kernel_s) =
        (Digits::of(process::image().into()), Digits::of(kernel::thread_id() as u64));
    fill(slot, b'T', thread, &[image.text(), kernel_s.text()]);
}

/// Write the text of a path that is used but not opened; return its number.
pub fn path(path: &[u8]) -> u32 {
    let (number, directory) = (arena::new_file(), Digits::of(process::directory().into()));
    write(b'P', number, &[directory.text(), path]);
    number
}

/// Like `path`, for a path relative to an open directory.
pub fn path_in(folder: &[u8], path: &[u8]) -> u32 {
    let (number, directory) = (arena::new_file(), Digits::of(process::directory().into()));
    let mut joined = [0u8; SHORT];
    let length = folder.len() + 1 + path.len();
    if length > SHORT {
        write(b'P', number, &[directory.text(), path]);
        return number;
    }
    joined[..folder.len()].copy_from_slice(folder);
    joined[folder.len()] = b'/';
    joined[folder.len() + 1..length].copy_from_slice(path);
    write(b'P', number, &[directory.text(), &joined[..length]]);
    number
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

/// Return `/proc/self/fd/N`, terminated by NUL.
pub fn descriptor_link(fd: i32) -> [u8; 32] {
    let mut link = [0u8; 32];
    let digits = Digits::of(fd as u64);
    let start = b"/proc/self/fd/";
    link[..start.len()].copy_from_slice(start);
    let text = digits.text();
    let end = (start.len() + text.len()).min(31);
    link[start.len()..end].copy_from_slice(&text[..end - start.len()]);
    link
}
