//! Layout of the texts of the recording.
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

use crate::identity;
use crate::kernel;
use crate::segment::{self, Slot, MORE, TEXT};

const IN_FIRST: usize = 56;
const IN_MORE: usize = 63;
/// Longer texts are truncated.
const LONGEST: usize = 4096 + 128;

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

/// Write a text into its slots.
///
/// # Safety
/// `slot` and the following slots that the text needs belong to the caller.
pub unsafe fn fill(slot: *mut Slot, letter: u8, number: u32, fields: &[&[u8]]) {
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

/// Return how many slots a text needs.
pub fn slots_of(fields: &[&[u8]]) -> u64 {
    let length = length_of(fields).min(LONGEST);
    1 + length.saturating_sub(IN_FIRST).div_ceil(IN_MORE) as u64
}

/// Write the text of a new thread, which takes one slot.
///
/// # Safety
/// The slot belongs to the caller.
pub unsafe fn fill_thread(slot: *mut Slot, thread: u32) {
    let (image, kernel_s) =
        (Digits::of(identity::image().into()), Digits::of(kernel::thread_id() as u64));
    fill(slot, b'T', thread, &[image.text(), kernel_s.text()]);
}
