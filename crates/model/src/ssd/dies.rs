//! The flash dies, each with its own timeline of reads and programs.

use super::spec::{ReadPriority, SsdSpec};
use crate::request::Nanos;

#[derive(Clone, Copy)]
struct Die {
    /// When the accepted reads are done.
    reads_done: Nanos,
    /// When the accepted programs and erases are done.
    programs_done: Nanos,
    /// The page in the register, which needs no second read.
    page: Option<u64>,
}

pub struct Dies {
    dies: Vec<Die>,
    read_ns: Nanos,
    program_ns: Nanos,
    /// Longest wait of a read for the operation in progress.
    yield_ns: Nanos,
    fifo: bool,
    suspend_ns: Nanos,
}

impl Dies {
    pub fn new(spec: &SsdSpec) -> Self {
        let ns = |us: f64| (us * 1e3) as Nanos;
        let program_ns = ns(spec.flash.program_us);
        let (fifo, suspend_ns, yield_ns) = match spec.read_priority {
            ReadPriority::Fifo => (true, 0, 0),
            ReadPriority::BetweenOperations => (false, 0, program_ns),
            ReadPriority::Suspend { suspend_us } => (false, ns(suspend_us), ns(suspend_us)),
        };
        let idle = Die { reads_done: 0, programs_done: 0, page: None };
        Dies {
            dies: vec![idle; spec.dies() as usize],
            read_ns: ns(spec.flash.read_us),
            program_ns,
            yield_ns,
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
        let state = &mut self.dies[die];
        if state.page == Some(page) {
            return ready.max(state.reads_done);
        }
        let backlog = state.programs_done.saturating_sub(ready);
        let start = if backlog == 0 {
            ready.max(state.reads_done)
        } else if self.fifo {
            ready.max(state.reads_done).max(state.programs_done)
        } else {
            // The operation in progress ends a whole number of operations before the end of the
            // backlog.
            let in_progress = backlog % self.program_ns.max(1);
            let start = state.reads_done.max(ready + in_progress.min(self.yield_ns));
            state.programs_done += self.read_ns + self.suspend_ns;
            start
        };
        state.reads_done = start + self.read_ns;
        state.page = Some(page);
        state.reads_done
    }

    /// Drop a page from the die's register: its data was written anew.
    #[inline]
    pub fn forget(&mut self, die: usize, page: u64) {
        let state = &mut self.dies[die];
        if state.page == Some(page) {
            state.page = None;
        }
    }

    /// Program a page whose data is available at `ready`. `extra_ns` of other work precedes it,
    /// less the idle time before `ready`.
    #[inline]
    pub fn program(
        &mut self,
        die: usize,
        ready: Nanos,
        program_ns: Nanos,
        extra_ns: Nanos,
    ) -> Nanos {
        let state = &mut self.dies[die];
        let free = state.programs_done.max(state.reads_done);
        let left = extra_ns.saturating_sub(ready.saturating_sub(free));
        state.programs_done = free.max(ready) + left + program_ns;
        state.page = None;
        state.programs_done
    }

    /// Occupy all dies with evenly shared work from `now` on.
    pub fn occupy_all(&mut self, now: Nanos, die_time_ns: f64) {
        let each = (die_time_ns / self.dies.len() as f64) as Nanos;
        for die in &mut self.dies {
            die.programs_done = die.programs_done.max(die.reads_done).max(now) + each;
            die.page = None;
        }
    }
}
