//! The names file: what numbers in records stand for, and facts. One entry is one `write`: whole, or not there.
//!
//! Entries end with NUL and have fields between tabs; the path, which may hold anything but NUL, is the last:
//! `F number flags size path` (an opened file), `P number path` (a path asked for), `X pid path` (exec), `N fact` (a note),
//! `I path` (this image), `C path` (its working directory).

use std::sync::atomic::{AtomicU32, Ordering};

use crate::process;

const LONGEST: usize = 4096 + 128;

static NUMBER: AtomicU32 = AtomicU32::new(1);

/// An entry under construction, on the stack.
pub struct Entry {
    bytes: [u8; LONGEST],
    used: usize,
}

impl Entry {
    pub fn new(letter: u8) -> Self {
        let mut entry = Entry { bytes: [0; LONGEST], used: 0 };
        entry.push(&[letter]);
        entry
    }

    fn push(&mut self, bytes: &[u8]) {
        let room = LONGEST - 1 - self.used;
        let taken = bytes.len().min(room);
        self.bytes[self.used..self.used + taken].copy_from_slice(&bytes[..taken]);
        self.used += taken;
    }

    pub fn text(mut self, bytes: &[u8]) -> Self {
        self.push(b"\t");
        self.push(bytes);
        self
    }

    pub fn number(self, value: u64) -> Self {
        let mut digits = [0u8; 20];
        let mut at = digits.len();
        let mut rest = value;
        loop {
            at -= 1;
            digits[at] = b'0' + (rest % 10) as u8;
            rest /= 10;
            if rest == 0 {
                break;
            }
        }
        self.text(&digits[at..])
    }

    pub fn write(mut self) {
        self.bytes[self.used] = 0;
        // SAFETY: the bytes are valid; the descriptor is our own.
        unsafe {
            libc::syscall(libc::SYS_write, process::names_file(), self.bytes.as_ptr(), self.used + 1);
        }
    }
}

/// A number for a file or path that has not had one.
pub fn new_number() -> u32 {
    NUMBER.fetch_add(1, Ordering::Relaxed)
}

/// A path that was asked for without being opened; its number.
pub fn path(path: &[u8]) -> u32 {
    let number = new_number();
    Entry::new(b'P').number(u64::from(number)).text(path).write();
    number
}

/// A fact worth telling.
pub fn note(what: &str, more: &[u8]) {
    let entry = Entry::new(b'N').text(what.as_bytes());
    (if more.is_empty() { entry } else { entry.text(more) }).write();
}

/// The target of a link in /proc/self, without its NUL.
pub fn link<'a>(of: &[u8], buffer: &'a mut [u8; 4096]) -> Option<&'a [u8]> {
    // SAFETY: `of` ends with NUL, the buffer is valid.
    let length = unsafe {
        libc::syscall(libc::SYS_readlinkat, libc::AT_FDCWD, of.as_ptr(), buffer.as_mut_ptr(), buffer.len())
    };
    (length > 0).then(|| &buffer[..length as usize])
}
