//! Segments of the recording: their layout. Usually one thread at a time writes to a segment, but
//! any number can (`writer`).
//!
//! A segment is an array of slots of 64 bytes. A writer reserves slots by an atomic addition to the
//! segment's count, fills them, and writes the first byte, which holds their kind, last. Therefore
//! a signal handler that does I/O during a write reserves its own slots, a child of a raw `fork`
//! can share its parent's segment, and a killed process leaves slots that are either complete or
//! empty. No function blocks, allocates memory or changes `errno`.

use core::sync::atomic::{AtomicU64, AtomicU8, Ordering};

/// Size of a segment.
pub const BYTES: usize = 64 << 10;
const SLOT_BYTES: usize = 64;
pub const SLOTS: u64 = (BYTES / SLOT_BYTES) as u64;

/// Kind of a slot that is not the record of a call (`record::Op`). The numbers are part of the file
/// format.
pub const TEXT: u8 = 64;
/// Continues the text of the previous slot.
pub const MORE: u8 = 65;
const HEADER: u8 = 66;

pub type Slot = [u8; SLOT_BYTES];

/// The first slot of a segment.
#[repr(C)]
pub struct Segment {
    kind: AtomicU8,
    spare: [u8; 7],
    /// Reserved slots, including this one; can exceed the number of slots.
    pub used: AtomicU64,
    /// Bytes transferred through descriptors that are not recorded (pipes, terminals), as the
    /// kernel counts them.
    pub other_read: AtomicU64,
    pub other_written: AtomicU64,
    more: [u64; 4],
}

const _: () = assert!(core::mem::size_of::<Segment>() == SLOT_BYTES);

impl Segment {
    pub fn begin(&self) {
        self.used.store(1, Ordering::Relaxed);
        self.kind.store(HEADER, Ordering::Release);
    }

    /// Reserve `slots` consecutive slots and return the first.
    pub fn take(&self, slots: u64) -> Option<*mut Slot> {
        let first = self.used.fetch_add(slots, Ordering::Relaxed);
        // SAFETY: the slots are inside the mapping.
        (first + slots <= SLOTS).then(|| unsafe {
            core::ptr::from_ref(self).cast::<Slot>().cast_mut().add(first as usize)
        })
    }
}

/// Write a slot's first byte, which marks it as complete.
///
/// # Safety
/// The slot belongs to the caller.
pub unsafe fn complete(slot: *mut Slot, kind: u8) {
    AtomicU8::from_ptr(slot.cast()).store(kind, Ordering::Release);
}
