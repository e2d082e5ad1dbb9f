//! Synchronises the clients of all processes through a file mapped in shared memory: a barrier,
//! each client's progress, and the message of the first failure.
//!
//! Every process locks one byte per client with a lock of its open file, so that the kernel
//! releases it however the process ends. Waiting clients periodically check that the bytes of all
//! others are still locked, so nobody waits for a dead process.

use std::ffi::c_void;
use std::fs::{File, OpenOptions};
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use rustix::mm::{mmap, munmap, MapFlags, ProtFlags};

use crate::Failure;

const PHASES: usize = 16;
const MESSAGE_BYTES: usize = 1024;
const PAGE: u64 = 4096;
/// Offset of the locked bytes: beyond any content.
const LOCKS_AT: i64 = 1 << 40;
/// Interval between checks of the other clients while waiting.
const LOOK: Duration = Duration::from_millis(200);

// States of a client.
const ABSENT: u32 = 0;
const PRESENT: u32 = 1;
const GONE: u32 = 2;

// States of the test.
const SOUND: u32 = 0;
/// A client failed and writes its message.
const FAILING: u32 = 1;
/// The message is complete.
const FAILED: u32 = 2;

#[repr(C)]
struct Head {
    agreement: AtomicU64,
    arrived: AtomicU32,
    generation: AtomicU32,
    /// State of the test.
    failed: AtomicU32,
    message_bytes: AtomicU32,
    starts_ns: [AtomicU64; PHASES],
    stonewalls_ns: [AtomicU64; PHASES],
    stonewall_operations: [AtomicU64; PHASES],
    message: [AtomicU32; MESSAGE_BYTES / 4],
}

/// State of one client, aligned to a pair of cache lines to avoid false sharing.
#[repr(C, align(128))]
struct Seat {
    done: AtomicU64,
    state: AtomicU32,
}

/// Return the monotonic time of this machine in ns; it is the same for all processes.
pub fn now_ns() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::Monotonic);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// State shared by all clients.
pub struct Step {
    head: *const Head,
    seats: *const Seat,
    mapped_bytes: usize,
    file: File,
    total: u32,
    own: std::ops::Range<u32>,
    patience: Duration,
}

// The pointers refer to memory that lives as long as the value and is accessed only through
// atomics.
unsafe impl Send for Step {}
unsafe impl Sync for Step {}

impl Step {
    /// Join the other processes in `directory`; `None`: use private memory. `own`: clients of this
    /// process.
    pub fn join(
        directory: Option<&Path>,
        name: &str,
        agreement: u64,
        total: u32,
        own: std::ops::Range<u32>,
        patience: Duration,
    ) -> Result<Step, Failure> {
        let head_bytes = (std::mem::size_of::<Head>() as u64).next_multiple_of(PAGE);
        let bytes = head_bytes + u64::from(total) * std::mem::size_of::<Seat>() as u64;
        let file = shared_file(directory, name, bytes)?;
        let size = file
            .metadata()
            .map_err(|error| Failure(format!("the clients' meeting place: {error}")))?
            .len();
        if size != bytes {
            return Err(Failure(disagreement()));
        }
        let mapped_bytes = bytes as usize;
        let at = map(&file, mapped_bytes)?;
        let step = Step {
            head: at.cast(),
            // SAFETY: inside the mapping, and page-aligned.
            seats: unsafe { at.cast::<u8>().add(head_bytes as usize) }.cast(),
            mapped_bytes,
            file,
            total,
            own: own.clone(),
            patience,
        };
        let before = step.head().agreement.compare_exchange(
            0,
            agreement,
            Ordering::AcqRel,
            Ordering::Acquire,
        );
        if matches!(before, Err(other) if other != agreement) {
            step.fail(&disagreement());
            return Err(Failure(disagreement()));
        }
        for client in own {
            if !step.lock(client) {
                let text = format!("two processes both want to be client {client}");
                step.fail(&text);
                return Err(Failure(text));
            }
            step.seat(client).state.store(PRESENT, Ordering::Release);
        }
        Ok(step)
    }

    fn head(&self) -> &Head {
        // SAFETY: points to the start of a mapping that is at least as large.
        unsafe { &*self.head }
    }

    fn seat(&self, client: u32) -> &Seat {
        assert!(client < self.total);
        // SAFETY: one of `total` seats in the mapping.
        unsafe { &*self.seats.add(client as usize) }
    }

    /// Wait until every client has arrived. `last` is called by the last client before all
    /// continue.
    pub fn wait(&self, client: u32, last: impl FnOnce()) -> Result<(), Failure> {
        let head = self.head();
        let generation = head.generation.load(Ordering::Acquire);
        self.check()?;
        if head.arrived.fetch_add(1, Ordering::AcqRel) + 1 == self.total {
            last();
            head.arrived.store(0, Ordering::Release);
            head.generation.fetch_add(1, Ordering::AcqRel);
            wake(&head.generation);
            return Ok(());
        }
        let begun = Instant::now();
        while head.generation.load(Ordering::Acquire) == generation {
            sleep(&head.generation, generation, LOOK);
            if head.generation.load(Ordering::Acquire) != generation {
                break;
            }
            self.check()?;
            // One client of each process checks the others.
            if client == self.own.start {
                self.look_after(begun.elapsed())?;
            }
        }
        Ok(())
    }

    /// Check the other clients until `done`, so that no client continues a test that cannot
    /// complete.
    pub fn watch(&self, done: &AtomicBool) {
        let begun = Instant::now();
        while !done.load(Ordering::Acquire) && self.look_after(begun.elapsed()).is_ok() {
            std::thread::park_timeout(LOOK);
        }
    }

    fn look_after(&self, waited: Duration) -> Result<(), Failure> {
        let mut absent = 0;
        for client in (0..self.total).filter(|client| !self.own.contains(client)) {
            match self.seat(client).state.load(Ordering::Acquire) {
                ABSENT => absent += 1,
                // Checked twice: the client may have left normally between the two.
                PRESENT
                    if !self.locked(client)
                        && self.seat(client).state.load(Ordering::Acquire) == PRESENT =>
                {
                    return self.give_up(&format!(
                        "client {client} of {} died; the others stopped",
                        self.total
                    ));
                }
                // Left normally, after the last barrier.
                _ => {}
            }
        }
        if absent > 0 && waited > self.patience {
            return self.give_up(&format!(
                "{absent} of {} clients did not come within {:.0} s",
                self.total,
                self.patience.as_secs_f64()
            ));
        }
        Ok(())
    }

    fn give_up(&self, text: &str) -> Result<(), Failure> {
        self.fail(text);
        self.check()
    }

    /// Return whether any client failed: cheap enough for a call before every operation.
    #[inline]
    pub fn failing(&self) -> bool {
        self.head().failed.load(Ordering::Relaxed) != SOUND
    }

    /// Return the first failure of any client as an error.
    pub fn check(&self) -> Result<(), Failure> {
        if !self.failing() {
            return Ok(());
        }
        let head = self.head();
        let begun = Instant::now();
        let patience = Duration::from_secs(1);
        while head.failed.load(Ordering::Acquire) == FAILING && begun.elapsed() < patience {
            std::thread::yield_now();
        }
        let length = (head.message_bytes.load(Ordering::Acquire) as usize).min(MESSAGE_BYTES);
        let mut bytes = Vec::with_capacity(MESSAGE_BYTES);
        for word in &head.message {
            bytes.extend(word.load(Ordering::Relaxed).to_ne_bytes());
        }
        bytes.truncate(length);
        if bytes.is_empty() {
            bytes.extend(b"another client died while it failed");
        }
        Err(Failure(String::from_utf8_lossy(&bytes).into_owned()))
    }

    /// Stop all clients with a reason; only the first reason is kept.
    pub fn fail(&self, text: &str) {
        let head = self.head();
        let first =
            head.failed.compare_exchange(SOUND, FAILING, Ordering::AcqRel, Ordering::Acquire);
        if first.is_err() {
            return;
        }
        let mut end = text.len().min(MESSAGE_BYTES);
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        let mut bytes = text.as_bytes()[..end].to_vec();
        bytes.resize(MESSAGE_BYTES, 0);
        for (word, four) in head.message.iter().zip(bytes.chunks_exact(4)) {
            word.store(u32::from_ne_bytes([four[0], four[1], four[2], four[3]]), Ordering::Relaxed);
        }
        head.message_bytes.store(end as u32, Ordering::Release);
        head.failed.store(FAILED, Ordering::Release);
        // Wake waiting clients so that they see the failure at once.
        wake(&head.generation);
    }

    // -- counting --

    /// Reset a client's count before a phase.
    pub fn reset(&self, client: u32) {
        self.seat(client).done.store(0, Ordering::Relaxed);
    }

    /// Set the number of operations that a client has completed in this phase.
    #[inline]
    pub fn progress(&self, client: u32, operations: u64) {
        self.seat(client).done.store(operations, Ordering::Relaxed);
    }

    /// Return the operations completed by all clients in this phase.
    pub fn all_done(&self) -> u64 {
        (0..self.total).map(|client| self.seat(client).done.load(Ordering::Relaxed)).sum()
    }

    /// Record the start of phase `index`; called by the last client at its barrier.
    pub fn begin(&self, index: usize) {
        self.head().starts_ns[index].store(now_ns(), Ordering::Release);
    }

    /// Return the start time of phase `index`.
    pub fn begun_ns(&self, index: usize) -> u64 {
        self.head().starts_ns[index].load(Ordering::Acquire)
    }

    /// Record that a client has completed phase `index`: the first call also counts the operations
    /// of all clients (stonewall).
    pub fn finished(&self, index: usize, end_ns: u64) {
        let head = self.head();
        if head.stonewalls_ns[index]
            .compare_exchange(0, end_ns, Ordering::AcqRel, Ordering::Acquire)
            .is_ok()
        {
            head.stonewall_operations[index].store(self.all_done(), Ordering::Release);
        }
    }

    /// Return the time at which the first client completed the phase, and the operations of all
    /// clients at that time.
    pub fn stonewall(&self, index: usize) -> (u64, u64) {
        let head = self.head();
        (
            head.stonewalls_ns[index].load(Ordering::Acquire),
            head.stonewall_operations[index].load(Ordering::Acquire),
        )
    }

    /// Record that the clients of this process have completed the test.
    pub fn leave(&self) {
        for client in self.own.clone() {
            self.seat(client).state.store(GONE, Ordering::Release);
        }
    }

    // -- locks --

    fn lock(&self, client: u32) -> bool {
        let mut wanted = byte_lock(client);
        // SAFETY: fcntl only reads the lock.
        unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_SETLK, &mut wanted) == 0 }
    }

    fn locked(&self, client: u32) -> bool {
        let mut asked = byte_lock(client);
        // SAFETY: fcntl writes to the lock.
        let answer = unsafe { libc::fcntl(self.file.as_raw_fd(), libc::F_OFD_GETLK, &mut asked) };
        answer != 0 || asked.l_type != libc::F_UNLCK as libc::c_short
    }
}

impl Drop for Step {
    fn drop(&mut self) {
        // SAFETY: the mapping created in `join`; no reference to it outlives the value.
        let _ = unsafe { munmap(self.head.cast_mut().cast(), self.mapped_bytes) };
    }
}

fn byte_lock(client: u32) -> libc::flock {
    // SAFETY: a plain structure of integers.
    let mut lock: libc::flock = unsafe { std::mem::zeroed() };
    lock.l_type = libc::F_WRLCK as libc::c_short;
    lock.l_whence = libc::SEEK_SET as libc::c_short;
    lock.l_start = LOCKS_AT + i64::from(client);
    lock.l_len = 1;
    lock
}

fn disagreement() -> String {
    "the processes of this test were not all asked for the same".to_string()
}

fn shared_file(directory: Option<&Path>, name: &str, bytes: u64) -> Result<File, Failure> {
    let Some(directory) = directory else {
        let handle = rustix::fs::memfd_create("headrace-metadata", rustix::fs::MemfdFlags::CLOEXEC)
            .map_err(|error| Failure(format!("memory for the clients' meeting: {error}")))?;
        rustix::fs::ftruncate(handle.as_fd(), bytes)
            .map_err(|error| Failure(format!("memory for the clients' meeting: {error}")))?;
        return Ok(File::from(handle));
    };
    let failed = |error: std::io::Error| {
        Failure(format!("{}: the clients cannot meet there: {error}", directory.display()))
    };
    let path = directory.join(name);
    let mut options = OpenOptions::new();
    options.read(true).write(true).mode(0o600);
    // Give the file its full size before its name, so that no process finds it too short.
    let draft = directory.join(format!("{name}.{}", std::process::id()));
    let made = options.clone().create_new(true).open(&draft).map_err(failed)?;
    made.set_len(bytes).map_err(failed)?;
    let linked = std::fs::hard_link(&draft, &path);
    let _ = std::fs::remove_file(&draft);
    match linked {
        Ok(()) => Ok(made),
        Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
            options.open(&path).map_err(failed)
        }
        Err(error) => Err(failed(error)),
    }
}

/// Map a whole file, which is never shrunk.
fn map(file: &File, bytes: usize) -> Result<*mut c_void, Failure> {
    let protection = ProtFlags::READ | ProtFlags::WRITE;
    // SAFETY: a new mapping at an address that the kernel chooses.
    unsafe { mmap(std::ptr::null_mut(), bytes, protection, MapFlags::SHARED, file, 0) }
        .map_err(|error| Failure(format!("the clients' meeting place: {error}")))
}

fn sleep(word: &AtomicU32, value: u32, patience: Duration) {
    let timeout = libc::timespec {
        tv_sec: patience.as_secs() as libc::time_t,
        tv_nsec: libc::c_long::from(patience.subsec_nanos() as i32),
    };
    // SAFETY: futex on an aligned word that lives in the mapping; shared between processes, so not
    // PRIVATE.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAIT, value, &timeout);
    }
}

fn wake(word: &AtomicU32) {
    // SAFETY: as in `sleep`.
    unsafe {
        libc::syscall(libc::SYS_futex, word.as_ptr(), libc::FUTEX_WAKE, i32::MAX);
    }
}
