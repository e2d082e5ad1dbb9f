//! The flash dies, each with its own timeline of reads, programs and erases.
//!
//! Programs, erases and copies of a die are done in the order of acceptance. A read that has
//! priority goes before those that have not begun; what is in progress ends first, or is suspended
//! (Wu and He, "Reducing SSD read latency via NAND flash program and erase suspension", FAST 2012).

use std::collections::VecDeque;

use super::spec::{ReadPriority, SsdSpec};
use crate::request::Nanos;

/// Pages per die for whose programs memory is reserved.
const ACCEPTED_PAGES_MAX: u64 = 256;

/// Accepted work of a die. Both times are without the delay by reads (`Die::delay`).
#[derive(Clone, Copy)]
struct Work {
    start: Nanos,
    end: Nanos,
    /// Time of each of the equal operations of this work, none of which is interrupted.
    operation: Nanos,
}

#[derive(Clone, Default)]
struct Die {
    /// When the accepted reads are done.
    reads_done: Nanos,
    /// When the accepted programs and erases are done.
    programs_done: Nanos,
    /// The page in the register, which needs no second read.
    page: Option<u64>,
    /// Programs and erases that may not be done yet.
    work: VecDeque<Work>,
    /// By how much reads delayed the work in the queue.
    delay: Nanos,
    /// Parts of a page copy and of an erase that are due but not begun, as whole operations only
    /// are done.
    copies_due: f64,
    erases_due: f64,
}

/// Cleaning that goes with each program of a page.
#[derive(Clone, Copy, Default)]
pub struct CleaningShare {
    /// Page copies and erases per program.
    pub copies: f64,
    pub erases: f64,
    /// Time of a page copy: its share of reads, and a program.
    pub copy_ns: Nanos,
}

pub struct Dies {
    dies: Vec<Die>,
    read_ns: Nanos,
    erase_ns: Nanos,
    fifo: bool,
    /// Time to suspend an operation, if it can be suspended.
    suspend_ns: Option<Nanos>,
}

impl Die {
    /// Drop the work that is done at `now`.
    #[inline]
    fn advance(&mut self, now: Nanos) {
        while self.work.front().is_some_and(|work| work.end + self.delay <= now) {
            self.work.pop_front();
        }
        if self.work.is_empty() {
            self.delay = 0;
        }
    }

    #[inline]
    fn accept(&mut self, ready: Nanos, length: Nanos, operation: Nanos) -> Nanos {
        let start = self.programs_done.max(self.reads_done).max(ready);
        self.programs_done = start + length;
        let (start, end) = (start - self.delay, self.programs_done - self.delay);
        self.work.push_back(Work { start, end, operation });
        self.page = None;
        self.programs_done
    }

    /// Return when a read before the accepted work can start, and delay that work.
    fn pass(&mut self, ready: Nanos, read_ns: Nanos, suspend_ns: Option<Nanos>) -> Nanos {
        self.advance(ready);
        let Some(&work) = self.work.front() else { return ready.max(self.reads_done) };
        let (begin, end) = (work.start + self.delay, work.end + self.delay);
        let free = ready.max(self.reads_done);
        let (start, late) = if begin > ready {
            (free, (free + read_ns).saturating_sub(begin))
        } else if self.reads_done > ready {
            // The work stands still already, for a read.
            (free, read_ns)
        } else {
            let in_progress = (end - ready - 1) % work.operation.max(1) + 1;
            match suspend_ns.filter(|&suspend| suspend < in_progress) {
                Some(suspend) => (free + suspend, read_ns + suspend),
                None => (free + in_progress, read_ns),
            }
        };
        self.delay += late;
        self.programs_done += late;
        start
    }
}

impl Dies {
    pub fn new(spec: &SsdSpec) -> Self {
        let ns = |us: f64| (us * 1e3) as Nanos;
        let (fifo, suspend_ns) = match spec.read_priority {
            ReadPriority::Fifo => (true, None),
            ReadPriority::BetweenOperations => (false, None),
            ReadPriority::Suspend { suspend_us } => (false, Some(ns(suspend_us))),
        };
        let count = spec.dies();
        // A program, copies and an erase for each page in the write buffer, evenly on the dies.
        let page_bytes = u64::from(spec.flash.planes) * u64::from(spec.flash.page_bytes);
        let pages = spec.write_buffer_bytes / page_bytes / u64::from(count);
        let accepted = 3 * (pages + 2).min(ACCEPTED_PAGES_MAX) as usize;
        // Dies begin their copies and erases in turn, not all at once.
        let phase = |number| f64::from(number) / f64::from(count);
        let die = |number| Die {
            copies_due: phase(number),
            erases_due: phase(number),
            work: VecDeque::with_capacity(accepted),
            ..Die::default()
        };
        Dies {
            dies: (0..count).map(die).collect(),
            read_ns: ns(spec.flash.read_us),
            erase_ns: ns(spec.flash.erase_us),
            fifo,
            suspend_ns,
        }
    }

    pub fn count(&self) -> usize {
        self.dies.len()
    }

    /// Read a page into the die's register and return when it is available.
    #[inline]
    pub fn read(&mut self, die: usize, page: u64, ready: Nanos) -> Nanos {
        let die = &mut self.dies[die];
        if die.page == Some(page) {
            return ready.max(die.reads_done);
        }
        let start = if die.programs_done <= ready {
            ready.max(die.reads_done)
        } else if self.fifo {
            die.programs_done.max(die.reads_done)
        } else {
            die.pass(ready, self.read_ns, self.suspend_ns)
        };
        die.reads_done = start + self.read_ns;
        die.page = Some(page);
        die.reads_done
    }

    /// Return when a die is done with all accepted programs and erases.
    #[inline]
    pub fn done(&self, die: usize) -> Nanos {
        self.dies[die].programs_done
    }

    /// Drop a page from the die's register: its data was written anew.
    #[inline]
    pub fn forget(&mut self, die: usize, page: u64) {
        let state = &mut self.dies[die];
        if state.page == Some(page) {
            state.page = None;
        }
    }

    /// Accept work of `length`, in equal operations, and return when it is done. It starts at
    /// `ready` at the earliest.
    #[inline]
    pub fn work(
        &mut self,
        die: usize,
        now: Nanos,
        ready: Nanos,
        length: Nanos,
        operation: Nanos,
    ) -> Nanos {
        let die = &mut self.dies[die];
        die.advance(now);
        die.accept(ready, length, operation)
    }

    /// Accept a program's share of cleaning: page copies and erases, whole ones only. Return how
    /// many pages are copied.
    #[inline]
    pub fn clean(&mut self, die: usize, share: CleaningShare) -> u32 {
        let die = &mut self.dies[die];
        die.copies_due += share.copies;
        die.erases_due += share.erases;
        // Truncated, which is faster than rounded down.
        let (copies, erases) = (die.copies_due as u32, die.erases_due as u32);
        if copies > 0 {
            die.copies_due -= f64::from(copies);
            die.accept(0, Nanos::from(copies) * share.copy_ns, share.copy_ns);
        }
        if erases > 0 {
            die.erases_due -= f64::from(erases);
            die.accept(0, Nanos::from(erases) * self.erase_ns, self.erase_ns);
        }
        copies
    }

    /// Occupy all dies from `now` on with evenly shared work, in operations of `operation_ns`.
    pub fn occupy_all(&mut self, now: Nanos, die_time_ns: f64, operation_ns: Nanos) {
        let each = (die_time_ns / self.dies.len() as f64) as Nanos;
        for die in 0..self.dies.len() {
            self.work(die, now, now, each, operation_ns);
        }
    }
}
