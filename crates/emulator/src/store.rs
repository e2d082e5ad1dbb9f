//! Contents of the sectors: sparse, in memory, limited in size.
//!
//! One private mapping of the device's size; a bitmap records which pages contain anything but
//! zeroes. Only these use memory: zeroes written to an empty page stay a hole, a discard releases
//! pages.

use std::io::{self, IoSlice};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering};

pub const PAGE: u64 = 4096;
static ZEROES: [u8; 1 << 16] = [0; 1 << 16];
/// From linux/mman.h: like MADV_DONTNEED, also where memory is locked (Linux 5.18).
const MADV_DONTNEED_LOCKED: libc::c_int = 24;

/// The memory limit is reached.
#[derive(Debug, PartialEq, Eq)]
pub struct Full;

pub struct Store {
    base: *mut u8,
    size: u64,
    held: Mapped,
    pages: AtomicU64,
    limit_pages: u64,
}

/// The bitmap, in its own mapping: for a large device it is large, and most of it is never touched.
struct Mapped {
    words: *mut AtomicU64,
    bytes: usize,
}

// SAFETY: data is accessed by raw copies inside the mapping. Concurrent copies of the same sectors
// occur only if users of the block device read and write them concurrently; they must then expect
// either value.
unsafe impl Send for Store {}
unsafe impl Sync for Store {}

fn map(bytes: u64) -> io::Result<*mut u8> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping at an address chosen by the kernel.
    let base = unsafe {
        libc::mmap(
            std::ptr::null_mut(),
            bytes as usize,
            libc::PROT_READ | libc::PROT_WRITE,
            flags,
            -1,
            0,
        )
    };
    if base == libc::MAP_FAILED {
        return Err(io::Error::last_os_error());
    }
    // Huge pages would use 2 MiB for an isolated 4 KiB.
    // SAFETY: our own mapping.
    unsafe { libc::madvise(base, bytes as usize, libc::MADV_NOHUGEPAGE) };
    Ok(base.cast())
}

fn is_zero(data: &[u8]) -> bool {
    let (before, middle, after) = {
        // SAFETY: any bytes are a valid u128.
        unsafe { data.align_to::<u128>() }
    };
    before.iter().chain(after).all(|&byte| byte == 0) && middle.iter().all(|&word| word == 0)
}

impl Store {
    /// Create an empty store of `size` bytes that holds at most `limit` bytes of data.
    pub fn new(size: u64, limit: u64) -> io::Result<Self> {
        let pages = size.div_ceil(PAGE);
        let bytes = pages.div_ceil(64) * 8;
        let words = map(bytes)?.cast::<AtomicU64>();
        Ok(Store {
            base: map(pages * PAGE)?,
            size,
            held: Mapped { words, bytes: bytes as usize },
            pages: AtomicU64::new(0),
            limit_pages: limit / PAGE,
        })
    }

    pub fn size(&self) -> u64 {
        self.size
    }

    /// Return the memory used by data.
    pub fn held_bytes(&self) -> u64 {
        self.pages.load(Ordering::Relaxed) * PAGE
    }

    fn word(&self, page: u64) -> &AtomicU64 {
        debug_assert!(page < self.size.div_ceil(PAGE));
        // SAFETY: there is a bit for every page.
        unsafe { &*self.held.words.add((page / 64) as usize) }
    }

    fn holds(&self, page: u64) -> bool {
        self.word(page).load(Ordering::Relaxed) >> (page % 64) & 1 == 1
    }

    /// Return whether `page` is held, and the end of the run of pages up to `end` in the same
    /// state.
    fn run(&self, page: u64, end: u64) -> (bool, u64) {
        let held = self.holds(page);
        let mut at = page;
        while at < end {
            let word = self.word(at).load(Ordering::Relaxed);
            let same = (if held { word } else { !word }) >> (at % 64);
            let ones = u64::from((!same).trailing_zeros()).min(64 - at % 64);
            at += ones;
            if ones == 0 || !at.is_multiple_of(64) {
                break;
            }
        }
        (held, at.min(end))
    }

    /// Call `each(held, bytes)` for each run in a range.
    pub fn runs(&self, offset: u64, length: u64, mut each: impl FnMut(bool, Range<u64>)) {
        let end = (offset + length).min(self.size);
        let mut at = offset;
        while at < end {
            let (held, until) = self.run(at / PAGE, end.div_ceil(PAGE));
            let until = (until * PAGE).min(end);
            each(held, at..until);
            at = until;
        }
    }

    /// Mark a page as held; return false if the limit is reached.
    fn take(&self, page: u64) -> bool {
        let bit = 1 << (page % 64);
        if self.word(page).load(Ordering::Relaxed) & bit != 0 {
            return true;
        }
        if self.pages.fetch_add(1, Ordering::Relaxed) >= self.limit_pages {
            self.pages.fetch_sub(1, Ordering::Relaxed);
            return false;
        }
        if self.word(page).fetch_or(bit, Ordering::Relaxed) & bit != 0 {
            self.pages.fetch_sub(1, Ordering::Relaxed);
        }
        true
    }

    /// Write data. On failure, the data before the page that exceeded the limit is written.
    pub fn write(&self, offset: u64, data: &[u8]) -> Result<(), Full> {
        let mut rest = data;
        let mut at = offset;
        while !rest.is_empty() && at < self.size {
            let length = ((PAGE - at % PAGE) as usize).min(rest.len());
            let (piece, after) = rest.split_at(length);
            if self.holds(at / PAGE) || !is_zero(piece) {
                if !self.take(at / PAGE) {
                    return Err(Full);
                }
                // SAFETY: the range is inside the mapping, which consists of whole pages.
                unsafe {
                    std::ptr::copy_nonoverlapping(
                        piece.as_ptr(),
                        self.base.add(at as usize),
                        length,
                    )
                };
            }
            at += length as u64;
            rest = after;
        }
        Ok(())
    }

    /// Call `with` with the slices that make up a range.
    pub fn read<R>(&self, offset: u64, length: u64, with: impl FnOnce(&[IoSlice<'_>]) -> R) -> R {
        let mut slices: Vec<IoSlice<'_>> = Vec::with_capacity(4);
        self.runs(offset, length, |held, bytes| {
            let size = (bytes.end - bytes.start) as usize;
            if held {
                // SAFETY: inside the mapping; for concurrent writes see `impl Send` above.
                let slice = unsafe {
                    std::slice::from_raw_parts(self.base.add(bytes.start as usize), size)
                };
                slices.push(IoSlice::new(slice));
            } else {
                let mut left = size;
                while left > 0 {
                    let piece = left.min(ZEROES.len());
                    slices.push(IoSlice::new(&ZEROES[..piece]));
                    left -= piece;
                }
            }
        });
        with(&slices)
    }

    /// Zero a range, and release the pages that lie entirely inside it.
    pub fn discard(&self, offset: u64, length: u64) {
        let end = (offset + length).min(self.size);
        if offset >= end {
            return;
        }
        // The last page counts as whole if the device ends in it.
        let first = offset.div_ceil(PAGE);
        let last = if end == self.size { end.div_ceil(PAGE) } else { end / PAGE };
        if first >= last {
            // No whole page: part of one page, or of two adjacent pages.
            let border = (first * PAGE).min(end);
            self.blank(offset..border);
            self.blank(border..end);
            return;
        }
        self.blank(offset..first * PAGE);
        self.blank(last * PAGE..end);
        self.runs(first * PAGE, (last - first) * PAGE, |held, bytes| {
            if held {
                self.give_back(bytes.start / PAGE, bytes.end.div_ceil(PAGE));
            }
        });
    }

    fn blank(&self, bytes: Range<u64>) {
        if bytes.start < bytes.end && self.holds(bytes.start / PAGE) {
            let size = (bytes.end - bytes.start) as usize;
            // SAFETY: inside one page of the mapping.
            unsafe { std::ptr::write_bytes(self.base.add(bytes.start as usize), 0, size) };
        }
    }

    fn give_back(&self, first: u64, last: u64) {
        // SAFETY: whole pages of our own mapping; they read as zeroes afterwards.
        let status = unsafe {
            let start = self.base.add((first * PAGE) as usize).cast();
            libc::madvise(start, ((last - first) * PAGE) as usize, MADV_DONTNEED_LOCKED)
        };
        if status != 0 {
            // A kernel that cannot release locked memory: the pages stay allocated and are zeroed.
            for page in first..last {
                self.blank(page * PAGE..(page + 1) * PAGE);
            }
            return;
        }
        for page in first..last {
            self.word(page).fetch_and(!(1 << (page % 64)), Ordering::Relaxed);
        }
        self.pages.fetch_sub(last - first, Ordering::Relaxed);
    }
}

impl Drop for Store {
    fn drop(&mut self) {
        // SAFETY: both mappings are ours, and no references to them remain.
        unsafe {
            libc::munmap(self.base.cast(), (self.size.div_ceil(PAGE) * PAGE) as usize);
            libc::munmap(self.held.words.cast(), self.held.bytes);
        }
    }
}
