//! The segment that a thread writes into: taken at its first record, replaced when it is full.
//!
//! A writer that interrupted another one does not unmap a full segment, because the interrupted
//! writer may still use it.

use core::sync::atomic::{compiler_fence, AtomicBool, AtomicPtr, AtomicU32, Ordering};

use crate::arena;
use crate::identity;
use crate::kernel;
use crate::segment::{Segment, Slot, BYTES, SLOTS};
use crate::text;

/// A segment with fewer free slots is not reused after its thread has ended.
const ROOM: u64 = 128;

/// State of a thread.
struct Own {
    segment: AtomicPtr<Segment>,
    number: AtomicU32,
    /// Generation of the process when the segment was mapped.
    generation: AtomicU32,
    thread: AtomicU32,
    /// A write is in progress: a writer that interrupts it must keep its segment mapped.
    busy: AtomicBool,
}

thread_local! {
    static OWN: Own = const {
        Own {
            segment: AtomicPtr::new(core::ptr::null_mut()),
            number: AtomicU32::new(0),
            generation: AtomicU32::new(0),
            thread: AtomicU32::new(0),
            busy: AtomicBool::new(false),
        }
    };
}

/// Segments kept mapped because an interrupted write may still use them. Usually these writes end
/// soon; one that a signal handler leaves by a jump never does.
static ABANDONED: AtomicU32 = AtomicU32::new(0);
const ABANDONED_MOST: u32 = 4096;

static KEY: AtomicU32 = AtomicU32::new(u32::MAX);

/// Register the destructor for ending threads.
pub fn start() {
    let mut key = 0;
    // SAFETY: the destructor stays loaded. A key created this early needs no memory later.
    if unsafe { libc::pthread_key_create(&mut key, Some(thread_ends)) } == 0 {
        KEY.store(key, Ordering::Relaxed);
    }
}

unsafe extern "C" fn thread_ends(_: *mut libc::c_void) {
    let held = kernel::hold_signals();
    OWN.with(|own| {
        let segment = own.segment.swap(core::ptr::null_mut(), Ordering::Relaxed);
        if !segment.is_null() {
            // In a forked child that has not written yet, the segment belongs to the parent.
            if own.generation.load(Ordering::Relaxed) == identity::generation() {
                arena::give_back(own.number.load(Ordering::Relaxed));
            }
            kernel::unmap(segment.cast(), BYTES);
        }
    });
    kernel::release_signals(held);
}

/// Release this thread's segment for other threads before the process ends. The thread can still
/// write.
pub fn give_back() {
    OWN.with(|own| {
        let number = own.number.swap(0, Ordering::Relaxed);
        if number != 0 && !own.segment.load(Ordering::Relaxed).is_null() {
            arena::give_back(number);
        }
    });
}

impl Own {
    fn take(&self, slots: u64, interrupts: bool) -> Option<*mut Slot> {
        for _ in 0..4 {
            // SAFETY: the segment stays mapped at least as long as this thread's `segment` points
            // to it.
            if let Some(segment) = unsafe { self.segment.load(Ordering::Relaxed).as_ref() } {
                if self.generation.load(Ordering::Relaxed) == identity::generation() {
                    if let Some(slot) = segment.take(slots) {
                        return Some(slot);
                    }
                }
            }
            let held = kernel::hold_signals();
            let found = self.renew(interrupts);
            kernel::release_signals(held);
            found?;
        }
        None
    }

    /// Replace the segment by a new one. The caller must block signals.
    fn renew(&self, interrupts: bool) -> Option<()> {
        let (segment, number) = loop {
            let (segment, number) = arena::take_segment()?;
            // SAFETY: mapped, and used by this thread only.
            if unsafe { (*segment).used.load(Ordering::Relaxed) } + ROOM <= SLOTS {
                break (segment, number);
            }
            // SAFETY: same as above.
            unsafe { kernel::unmap(segment.cast(), BYTES) };
        };
        let old = self.segment.swap(segment, Ordering::Relaxed);
        self.number.store(number, Ordering::Relaxed);
        if !old.is_null() && !interrupts {
            // SAFETY: no write of this thread is in progress.
            unsafe { kernel::unmap(old.cast(), BYTES) };
        } else if !old.is_null() && ABANDONED.fetch_add(1, Ordering::Relaxed) >= ABANDONED_MOST {
            arena::note(arena::Fact::Unmapped);
            identity::stop();
        }
        let generation = identity::generation();
        if self.generation.swap(generation, Ordering::Relaxed) != generation {
            let thread = arena::new_thread();
            self.thread.store(thread, Ordering::Relaxed);
            // SAFETY: the segment has free slots.
            if let Some(slot) = unsafe { (*segment).take(1) } {
                // SAFETY: the slot belongs to this thread.
                unsafe { text::fill_thread(slot, thread) };
            }
        }
        let key = KEY.load(Ordering::Relaxed);
        if key != u32::MAX {
            // SAFETY: the key belongs to the recorder; any value but null enables the destructor.
            unsafe { libc::pthread_setspecific(key, core::ptr::without_provenance(1)) };
        }
        Some(())
    }
}

/// Reserve `slots` consecutive slots and call `fill` with the first one and this thread's number.
/// Do nothing if no segment is available.
pub fn with_slots(slots: u64, fill: impl FnOnce(*mut Slot, u32)) {
    // A thread whose thread-local storage is destroyed records nothing.
    let _ = OWN.try_with(|own| {
        let interrupts = own.busy.swap(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        if let Some(slot) = own.take(slots, interrupts) {
            fill(slot, own.thread.load(Ordering::Relaxed));
        }
        compiler_fence(Ordering::SeqCst);
        own.busy.store(interrupts, Ordering::Relaxed);
    });
}

/// Count bytes that the kernel counts but that are not a step of the profile; negative for the
/// opposite case.
pub fn count_other(read: i64, written: i64) {
    let _ = OWN.try_with(|own| {
        let interrupts = own.busy.swap(true, Ordering::Relaxed);
        compiler_fence(Ordering::SeqCst);
        let mut segment = own.segment.load(Ordering::Relaxed);
        if segment.is_null() || own.generation.load(Ordering::Relaxed) != identity::generation() {
            let held = kernel::hold_signals();
            segment = own
                .renew(interrupts)
                .map_or(core::ptr::null_mut(), |()| own.segment.load(Ordering::Relaxed));
            kernel::release_signals(held);
        }
        // SAFETY: mapped or null.
        if let Some(segment) = unsafe { segment.as_ref() } {
            if read != 0 {
                segment.other_read.fetch_add(read as u64, Ordering::Relaxed);
            }
            if written != 0 {
                segment.other_written.fetch_add(written as u64, Ordering::Relaxed);
            }
        }
        compiler_fence(Ordering::SeqCst);
        own.busy.store(interrupts, Ordering::Relaxed);
    });
}
