//! Prepares the process to serve the kernel's I/O: memory is locked, threads have real-time
//! priority, and memory allocation does not wait for I/O that the process itself would have to
//! serve.

use std::io;

/// From linux/prctl.h: memory allocations of this process must not wait for I/O.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

pub const READER_PRIORITY: i32 = 9;
pub const TIMER_PRIORITY: i32 = 10;

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Apply the settings of the whole process. Return those that failed.
pub fn prepare() -> Vec<String> {
    let mut lacking = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            lacking.push(format!("{what}: {error}"));
        }
    };
    // SAFETY: plain calls without pointers.
    unsafe {
        // Keep freed memory in the process: otherwise every later use would fault in new pages.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        note("PR_SET_IO_FLUSHER", check(libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)));
        // Lock pages on first access: the sparse store must not be populated.
        note(
            "mlockall",
            check(libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT)),
        );
    }
    // If jobs use all memory, they should be killed, not the disk under them.
    note("oom_score_adj", std::fs::write("/proc/self/oom_score_adj", "-800"));
    lacking
}

/// Apply the settings of a thread of ordinary priority that measures time.
pub fn prepare_ordinary_thread() -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe { check(libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0)) }
}

/// Apply the settings of a time-critical thread.
pub fn prepare_thread(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` outlives the call; 0 is this thread.
    unsafe {
        check(libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0))?;
        check(libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters))
    }
}

/// Fork a child process that runs `work` and exits.
pub fn fork(work: impl FnOnce()) -> io::Result<()> {
    // SAFETY: called while this process has one thread.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            work();
            // SAFETY: ends the child without running the parent's destructors.
            unsafe { libc::_exit(0) }
        }
        _ => Ok(()),
    }
}
