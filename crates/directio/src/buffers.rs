//! Buffers of direct I/O: aligned memory of one size for each request in flight.

use std::io;
use std::ptr::NonNull;

/// Alignment that every device accepts, and step of the sizes.
const ALIGNMENT: usize = 4096;

/// Anonymous memory, divided into equal buffers.
pub struct Buffers {
    memory: Option<(NonNull<u8>, usize)>,
    each: usize,
}

// SAFETY: the memory belongs to this value alone.
unsafe impl Send for Buffers {}
// SAFETY: `&Buffers` gives addresses, not access.
unsafe impl Sync for Buffers {}

impl Buffers {
    pub fn new() -> Self {
        Buffers { memory: None, each: 0 }
    }

    /// Have `count` buffers of at least `bytes` each. They hold data that do not compress, because
    /// some drives write less of data that do.
    pub fn provide(&mut self, count: usize, bytes: usize) -> io::Result<()> {
        let each = bytes.max(1).next_multiple_of(ALIGNMENT).max(self.each);
        let total = each * count;
        if self.memory.is_some_and(|(_, held)| held >= total) && each == self.each {
            return Ok(());
        }
        self.free();
        let (protection, flags) =
            (libc::PROT_READ | libc::PROT_WRITE, libc::MAP_PRIVATE | libc::MAP_ANONYMOUS);
        // SAFETY: a new anonymous mapping touches no other memory.
        let at = unsafe { libc::mmap(std::ptr::null_mut(), total, protection, flags, -1, 0) };
        if at == libc::MAP_FAILED {
            return Err(io::Error::last_os_error());
        }
        let Some(at) = NonNull::new(at.cast::<u8>()) else {
            return Err(io::ErrorKind::OutOfMemory.into());
        };
        self.memory = Some((at, total));
        self.each = each;
        // SAFETY: the mapping has `total` bytes, and is aligned to a page.
        let words = unsafe { std::slice::from_raw_parts_mut(at.as_ptr().cast::<u64>(), total / 8) };
        let mut state = 0x9e37_79b9_7f4a_7c15_u64; // xorshift64 (Marsaglia 2003)
        for word in words {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            *word = state;
        }
        Ok(())
    }

    /// Return the address of a buffer; `provide` was called for it.
    pub fn address(&self, index: usize) -> *mut u8 {
        let (at, total) = self.memory.expect("buffers are provided before they are used");
        assert!((index + 1) * self.each <= total, "buffer {index} was not provided");
        // SAFETY: inside the mapping, as checked.
        unsafe { at.as_ptr().add(index * self.each) }
    }

    /// Return the first bytes of a buffer.
    pub fn slice(&mut self, index: usize, bytes: usize) -> &mut [u8] {
        assert!(bytes <= self.each, "the buffer is too small");
        // SAFETY: inside the mapping, and borrowed with `self`.
        unsafe { std::slice::from_raw_parts_mut(self.address(index), bytes) }
    }

    fn free(&mut self) {
        if let Some((at, total)) = self.memory.take() {
            // SAFETY: mapped with this size, and no slice of it is left.
            unsafe { libc::munmap(at.as_ptr().cast(), total) };
        }
    }
}

impl Drop for Buffers {
    fn drop(&mut self) {
        self.free();
    }
}
