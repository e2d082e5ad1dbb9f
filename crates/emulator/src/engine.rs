//! Connects backend, model and store: reader threads submit requests, one timer thread completes
//! them when they are due.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use headrace_model::request::FlashWrites;
use headrace_model::stream::Stream;
use headrace_model::{Medium, Nanos, Op, Status};

use crate::backend::{Answer, Arrival, Asked, Backend, Port, Ticket};
use crate::clock::{monotonic_ns, Alarm};
use crate::issues::{IssueEvent, Issues};
use crate::lateness::{Bound, KernelWake, Lateness, Meter, WakeMeter};
use crate::pacer::{errno, Due, Pacer, Service, Times};
use crate::process;
use crate::softirq::Softirq;
use crate::store::{Full, Store};
use crate::volatile::Volatile;
use crate::workers::{Raised, Workers, WORKER_PRIORITY};

/// The timer runs at least this often, so that the guard sees that it is alive.
const ROUND_NS: Nanos = 500_000_000;
/// Interval at which the wake-up delay of a thread like the kernel's worker is measured.
const WAKE_EVERY_NS: Nanos = 5_000_000;
/// Limits of the old data kept for unflushed writes; beyond them the model is queried for writes
/// that have become safe.
const SETTLE_BYTES: u64 = 32 << 20;
const SETTLE_WRITES: usize = 1 << 15;
/// A reply that is due within this time is sent at once: reading the clock again would take as
/// long.
const SLACK_NS: Nanos = 500;
/// Limits of the lead: how early the timer wakes to spin until the due time. The lead adapts to the
/// machine's wake-up delay.
const LEAST_LEAD_NS: Nanos = 2_000;
const MOST_LEAD_NS: Nanos = 100_000;
const LEAD_STEP_NS: Nanos = 100;
/// Replies due within this time are sent together: a sleep and wake-up between them would take
/// longer and use CPU time that jobs need.
const TOGETHER_NS: Nanos = 10_000;

#[derive(Clone, Copy)]
struct Pending {
    ticket: Ticket,
    op: Op,
    offset: u64,
    length: u64,
    /// Number of the write in [`Volatile`]; `None` if it cannot be lost.
    write: Option<u64>,
}

/// Requests received and completed since the last reset.
#[derive(Clone, Copy, Debug, Default, serde::Serialize)]
pub struct Counts {
    pub reads: u64,
    pub writes: u64,
    pub flushes: u64,
    pub discards: u64,
    pub write_zeroes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub failed: u64,
    /// Writes that failed because the memory limit was reached.
    pub full: u64,
}

impl Counts {
    /// Count a request of `length` bytes.
    fn note(&mut self, op: Op, length: u64) {
        match op {
            Op::Read => (self.reads, self.read_bytes) = (self.reads + 1, self.read_bytes + length),
            Op::Write => {
                (self.writes, self.written_bytes) = (self.writes + 1, self.written_bytes + length);
            }
            Op::Flush => self.flushes += 1,
            Op::Discard => self.discards += 1,
            Op::WriteZeroes => self.write_zeroes += 1,
        }
    }
}

struct State {
    pacer: Pacer,
    pending: Vec<Pending>,
    free: Vec<u64>,
    meter: Meter,
    submissions: WakeMeter,
    counts: Counts,
    /// Times of pending power losses.
    power: Vec<Nanos>,
    lost_bytes: u64,
    since: Nanos,
    busy_before: Nanos,
    flash_before: FlashWrites,
    chance: Stream,
    /// Whether the timer thread sleeps or is about to sleep.
    asleep: bool,
}

impl State {
    /// Store a request until its reply; return its tag.
    fn admit(&mut self, pending: Pending) -> u64 {
        match self.free.pop() {
            Some(tag) => {
                self.pending[tag as usize] = pending;
                tag
            }
            None => {
                self.pending.push(pending);
                self.pending.len() as u64 - 1
            }
        }
    }
}

/// Published statistics of the device.
#[derive(Debug, serde::Serialize)]
pub struct Snapshot {
    #[serde(flatten)]
    pub counts: Counts,
    pub lateness_ns: Lateness,
    pub kernel_wake_ns: KernelWake,
    /// Time from the issue of a request to its arrival; `None` if no time of issue is known.
    pub submission_ns: Option<KernelWake>,
    /// Whether the kernel's worker has real-time priority.
    pub worker_raised: bool,
    pub service_ns_mean: f64,
    pub elapsed_s: f64,
    pub busy_s: f64,
    pub in_flight: usize,
    pub faults_fired: Vec<u64>,
    pub lost_bytes: u64,
    pub energy_j: f64,
    /// Bytes written to a flash drive, and bytes that its flash wrote for them, since the reset.
    pub flash_host_bytes: u64,
    pub flash_written_bytes: u64,
    pub data_bytes: u64,
    pub volatile_bytes: u64,
}

pub struct Engine {
    backend: Arc<dyn Backend>,
    store: Store,
    volatile: Mutex<Volatile>,
    /// Taken by threads of real-time priority: one of ordinary priority that holds it can be kept
    /// off the CPUs by jobs, and they with it.
    state: Mutex<State>,
    wakes: Mutex<WakeMeter>,
    workers: Workers,
    issues: OnceLock<Mutex<Issues>>,
    alarm: Alarm,
    softirq: Softirq,
    /// The time of the timer's next work; changed while holding the lock of `state`.
    armed: AtomicU64,
    /// How early the timer wakes, to spin the remaining time.
    lead: AtomicU64,
    /// Whether writes can be lost: without a drive there is no power loss.
    volatile_writes: bool,
    takes_discards: bool,
    /// CLOCK_MONOTONIC at the model's time 0.
    zero: Nanos,
    settle_bytes: AtomicU64,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    // A thread that panics ends the process (`main`), so a poisoned lock need not be handled.
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Return how early a reply may be sent.
fn slack_ns(pacer: &Pacer) -> Nanos {
    if pacer.in_flight() > 1 {
        TOGETHER_NS
    } else {
        SLACK_NS
    }
}

/// Replies to send after the lock is released.
type Batch = Vec<(Pending, Due)>;

impl Engine {
    pub fn new(
        backend: Arc<dyn Backend>,
        store: Store,
        service: Service,
        rotational: bool,
        takes_discards: bool,
        seed: u64,
        raised: &'static Raised,
    ) -> std::io::Result<Self> {
        let alarm = Alarm::new()?;
        let volatile_writes = matches!(service, Service::Drive(_));
        Ok(Engine {
            backend,
            store,
            volatile_writes,
            takes_discards,
            volatile: Mutex::default(),
            state: Mutex::new(State {
                pacer: Pacer::new(service),
                pending: Vec::with_capacity(512),
                free: Vec::with_capacity(512),
                meter: Meter::new(Bound::of(rotational)),
                submissions: WakeMeter::default(),
                counts: Counts::default(),
                power: Vec::new(),
                lost_bytes: 0,
                since: 0,
                busy_before: 0,
                flash_before: FlashWrites::default(),
                chance: Stream::new(seed, "emulator/torn"),
                asleep: false,
            }),
            wakes: Mutex::default(),
            workers: Workers::new(raised),
            issues: OnceLock::new(),
            alarm,
            softirq: Softirq::new()?,
            armed: AtomicU64::new(0),
            lead: AtomicU64::new(0),
            zero: monotonic_ns(),
            settle_bytes: AtomicU64::new(SETTLE_BYTES),
        })
    }

    /// Return the current model time.
    #[inline]
    pub fn now(&self) -> Nanos {
        monotonic_ns() - self.zero
    }

    pub fn store(&self) -> &Store {
        &self.store
    }

    /// Learn from now on when the kernel issued each request.
    pub fn watch_issues(&self, event: &IssueEvent) -> std::io::Result<()> {
        let issues = Issues::open(event)?;
        self.issues.get_or_init(|| Mutex::new(issues));
        Ok(())
    }

    /// Return the model time at which the request at `offset` was issued; `None` is a flush.
    fn issued(&self, offset: Option<u64>) -> Option<Nanos> {
        let issued = lock(self.issues.get()?).take(offset)?;
        Some(issued.saturating_sub(self.zero))
    }

    /// Set the initial lead of the timer, which then adapts by itself.
    pub fn set_lead(&self, lead: Nanos) {
        self.lead.store(lead.clamp(LEAST_LEAD_NS, MOST_LEAD_NS), Ordering::Relaxed);
    }

    /// Adapt the lead: with these step sizes the timer wakes in time in nine of ten cases.
    fn learn_lead(&self, in_time: bool) {
        let lead = self.lead.load(Ordering::Relaxed);
        let lead = if in_time { lead - LEAD_STEP_NS } else { lead + 9 * LEAD_STEP_NS };
        self.set_lead(lead);
    }

    /// Call `work` with the pacer while holding the lock.
    pub fn with_pacer<R>(&self, work: impl FnOnce(&mut Pacer, Nanos) -> R) -> R {
        let mut state = lock(&self.state);
        let now = self.now();
        let result = work(&mut state.pacer, now);
        self.arm(&state, now);
        result
    }

    /// Schedule a power loss at model time `at`.
    pub fn schedule_power_loss(&self, at: Nanos) {
        let mut state = lock(&self.state);
        state.power.push(at);
        self.arm(&state, self.now());
    }

    /// Schedule the timer's next work at `next`. A timer that is not asleep sees the value of
    /// `armed`.
    fn arm(&self, state: &State, next: Nanos) {
        self.armed.store(next, Ordering::Release);
        if state.asleep {
            let lead = self.lead.load(Ordering::Relaxed);
            self.alarm.set(self.zero + next.saturating_sub(lead));
        }
    }

    /// Serve one port until the device is removed.
    pub fn serve(&self, port: &mut dyn Port) -> std::io::Result<()> {
        let mut batch: Batch = Vec::with_capacity(256);
        while let Some(arrival) = port.next()? {
            self.take(&arrival, &mut batch);
            self.workers.submitted_by(arrival.submitter);
        }
        Ok(())
    }

    fn take(&self, arrival: &Arrival<'_>, batch: &mut Batch) {
        let (op, offset, length) = match arrival.asked {
            Asked::Read { offset, length } => (Op::Read, offset, u64::from(length)),
            Asked::Write { offset, data } => (Op::Write, offset, data.len() as u64),
            Asked::Flush => (Op::Flush, 0, 0),
            Asked::Discard { offset, length } => (Op::Discard, offset, length),
            Asked::WriteZeroes { offset, length } => (Op::WriteZeroes, offset, length),
        };
        if op == Op::Discard && !self.takes_discards {
            // The loop driver then offers no more discards.
            self.backend.answer(arrival.ticket, Answer::Failed(libc::EOPNOTSUPP));
            return;
        }
        if op != Op::Flush && offset.checked_add(length).is_none_or(|end| end > self.store.size()) {
            self.backend.answer(arrival.ticket, Answer::Failed(libc::EIO));
            return;
        }
        let issued = self.issued((op != Op::Flush).then_some(offset));
        let arrived = self.now();
        let mut write = None;
        match arrival.asked {
            Asked::Write { offset, data } => match self.keep(offset, data) {
                Ok(number) => write = number,
                Err(Full) => {
                    let counts = &mut lock(&self.state).counts;
                    counts.full += 1;
                    counts.failed += 1;
                    self.backend.answer(arrival.ticket, Answer::Failed(libc::ENOSPC));
                    return;
                }
            },
            Asked::Discard { offset, length } | Asked::WriteZeroes { offset, length } => {
                self.store.discard(offset, length);
            }
            _ => {}
        }
        let mut state = lock(&self.state);
        let tag = state.admit(Pending { ticket: arrival.ticket, op, offset, length, write });
        state.counts.note(op, length);
        let now = self.now();
        state.pacer.submit(Times { arrived: now, issued }, tag, op, offset, length);
        if let Some(issued) = issued {
            state.submissions.note(arrived.saturating_sub(issued));
        }
        state.pacer.collect(now);
        self.pop(&mut state, now, batch);
        if let Some(next) = state.pacer.next() {
            if next < self.armed.load(Ordering::Acquire) {
                self.arm(&state, next);
            }
        }
        drop(state);
        self.send(batch);
    }

    /// Store the data of a write; return its number in [`Volatile`] if it can be lost. If there is
    /// no room for it, the previous contents are restored.
    fn keep(&self, offset: u64, data: &[u8]) -> Result<Option<u64>, Full> {
        if !self.volatile_writes {
            return self.store.write(offset, data).map(|()| None);
        }
        let mut volatile = lock(&self.volatile);
        let write = volatile.note(&self.store, offset, data.len() as u64);
        let result = self.store.write(offset, data);
        if result.is_err() {
            volatile.revert(&self.store, write);
        }
        result.map(|()| Some(write))
    }

    /// Move the replies due at `now` to `batch`.
    fn pop(&self, state: &mut State, now: Nanos, batch: &mut Batch) {
        let until = now + slack_ns(&state.pacer);
        while let Some(due) = state.pacer.pop(until) {
            let pending = state.pending[due.tag as usize];
            state.free.push(due.tag);
            state.counts.failed += u64::from(due.status != Status::Done);
            match (pending.op, pending.write) {
                (Op::Write, Some(write)) if due.status == Status::Done => {
                    // Use `now`, not the completion time of the model: after the reply, the
                    // application may issue a flush at once and rely on it.
                    lock(&self.volatile).acknowledge(write, now);
                }
                (Op::Write, Some(write)) => lock(&self.volatile).revert(&self.store, write),
                (Op::Flush, _) if due.status == Status::Done => {
                    lock(&self.volatile).flushed(due.submitted)
                }
                _ => {}
            }
            batch.push((pending, due));
        }
    }

    /// Send replies, then record their completion delays.
    fn send(&self, batch: &mut Batch) {
        if batch.is_empty() {
            return;
        }
        let mut times = [0; 16];
        for chunk in batch.chunks(times.len()) {
            for ((pending, due), time) in chunk.iter().zip(&mut times) {
                *time = self.now();
                self.answer(pending, due.status);
            }
            let mut state = lock(&self.state);
            for ((_, due), &time) in chunk.iter().zip(&times) {
                state.meter.note(due.at, time, due.end.saturating_sub(due.submitted));
            }
        }
        batch.clear();
        self.softirq.run();
    }

    fn answer(&self, pending: &Pending, status: Status) {
        let ticket = pending.ticket;
        match (status, pending.op) {
            (Status::Failed(fault), _) => self.backend.answer(ticket, Answer::Failed(errno(fault))),
            (Status::Done, Op::Read) => self.store.read(pending.offset, pending.length, |slices| {
                self.backend.answer(ticket, Answer::Data(slices));
            }),
            (Status::Done, Op::Write) => {
                self.backend.answer(ticket, Answer::Written(pending.length as u32))
            }
            (Status::Done, _) => self.backend.answer(ticket, Answer::Done),
        }
    }

    /// Run the timer thread. `alive` is called in every iteration.
    pub fn keep_time(&self, alive: impl Fn()) -> ! {
        let mut batch: Batch = Vec::with_capacity(256);
        loop {
            alive();
            let mut state = lock(&self.state);
            let now = self.now();
            state.pacer.collect(now);
            // Requests completed now ended before the power loss.
            self.pop(&mut state, now, &mut batch);
            self.lose_power(&mut state, now);
            let power = state.power.iter().copied().min();
            let next =
                [state.pacer.next(), power, Some(now + ROUND_NS)].into_iter().flatten().min();
            let next = next.unwrap_or(now + ROUND_NS);
            let slack = slack_ns(&state.pacer);
            let lead = self.lead.load(Ordering::Relaxed);
            // Sending replies takes time, too.
            state.asleep = batch.is_empty() && next > self.now() + lead;
            let asleep = state.asleep;
            self.arm(&state, next);
            drop(state);
            if !batch.is_empty() {
                self.send(&mut batch);
                self.settle();
                continue;
            }
            if asleep {
                self.alarm.wait();
                // Iterations without a reply give no information about the lead.
                if next < now + ROUND_NS {
                    self.learn_lead(self.now() <= self.armed.load(Ordering::Acquire));
                }
            }
            // The remaining time is too short to sleep. Another thread may set `armed` to an
            // earlier time meanwhile.
            loop {
                let (now, next) = (self.now(), self.armed.load(Ordering::Acquire));
                if next <= now + slack || next > now + lead {
                    break;
                }
                std::hint::spin_loop();
            }
        }
    }

    /// Run a thread that measures how late threads wake that have the priority of the kernel's
    /// worker.
    pub fn watch_wakes(&self) {
        let Ok(alarm) = Alarm::new() else { return };
        let mut raised = false;
        loop {
            if !raised && self.workers.any() {
                raised = process::prepare_thread(WORKER_PRIORITY).is_ok();
            }
            let until = monotonic_ns() + WAKE_EVERY_NS;
            alarm.set(until);
            alarm.wait();
            let late = monotonic_ns().saturating_sub(until);
            lock(&self.wakes).note(late);
        }
    }

    /// Discard old data of writes that have reached the medium, once enough has accumulated.
    fn settle(&self) {
        let volatile = lock(&self.volatile);
        let limit = self.settle_bytes.load(Ordering::Relaxed);
        if volatile.bytes() < limit && volatile.len() < SETTLE_WRITES {
            return;
        }
        drop(volatile);
        let mut state = lock(&self.state);
        let now = state.pacer.model_time(self.now());
        let unflushed = match state.pacer.storage() {
            Some(storage) => storage.unflushed(now),
            None => Vec::new(),
        };
        let mut volatile = lock(&self.volatile);
        volatile.settle(&unflushed);
        // Allow as much again before the next query, so that queries stay rare.
        self.settle_bytes.store(SETTLE_BYTES.max(2 * volatile.bytes()), Ordering::Relaxed);
    }

    fn lose_power(&self, state: &mut State, now: Nanos) {
        let before = state.power.len();
        state.power.retain(|&at| at > now);
        if state.power.len() == before {
            return;
        }
        let at = state.pacer.model_time(now);
        let unflushed = match state.pacer.storage() {
            Some(storage) => storage.unflushed(at),
            None => Vec::new(),
        };
        state.pacer.fail_after(at);
        let mut volatile = lock(&self.volatile);
        state.lost_bytes += volatile.lose(&self.store, &unflushed, &mut state.chance);
    }

    pub fn reset(&self) {
        lock(&self.wakes).reset();
        let mut state = lock(&self.state);
        let now = self.now();
        state.counts = Counts::default();
        state.meter.reset();
        state.submissions.reset();
        state.since = now;
        state.busy_before = state.pacer.busy_ns(now);
        state.flash_before = flash_writes(&mut state.pacer);
    }

    pub fn snapshot(&self) -> Snapshot {
        let volatile_bytes = lock(&self.volatile).bytes();
        let kernel_wake_ns = lock(&self.wakes).kernel_wake();
        let mut state = lock(&self.state);
        let now = self.now();
        let (since, busy_before) = (state.since, state.busy_before);
        let at = state.pacer.model_time(now);
        let (faults_fired, energy_j) = match state.pacer.storage() {
            Some(storage) => (storage.fired(), storage.energy_j(at)),
            None => (Vec::new(), 0.0),
        };
        let flash = flash_writes(&mut state.pacer);
        let before = state.flash_before;
        Snapshot {
            counts: state.counts,
            lateness_ns: state.meter.lateness(),
            kernel_wake_ns,
            submission_ns: self.issues.get().map(|_| state.submissions.kernel_wake()),
            worker_raised: self.workers.any() && !self.workers.refused(),
            service_ns_mean: state.meter.service_ns_mean(),
            elapsed_s: (now - since) as f64 * 1e-9,
            busy_s: state.pacer.busy_ns(now).saturating_sub(busy_before) as f64 * 1e-9,
            in_flight: state.pacer.in_flight(),
            faults_fired,
            lost_bytes: state.lost_bytes,
            energy_j,
            flash_host_bytes: flash.host_bytes - before.host_bytes,
            flash_written_bytes: flash.flash_bytes - before.flash_bytes,
            data_bytes: self.store.held_bytes(),
            volatile_bytes,
        }
    }
}

fn flash_writes(pacer: &mut Pacer) -> FlashWrites {
    pacer.storage().map_or(FlashWrites::default(), |storage| storage.flash_writes())
}
