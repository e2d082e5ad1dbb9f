//! What makes this process fit to serve the kernel's own I/O: its memory stays, it is scheduled at once, and
//! nothing it does waits for I/O that it would have to serve itself.

use std::io;

/// From linux/prctl.h: memory that this process needs must not wait for I/O.
const PR_SET_IO_FLUSHER: libc::c_int = 57;

fn check(status: libc::c_int) -> io::Result<()> {
    if status == 0 {
        Ok(())
    } else {
        Err(io::Error::last_os_error())
    }
}

/// Settings of the whole process. Gives what could not be had.
pub fn prepare() -> Vec<String> {
    let mut lacking = Vec::new();
    let mut note = |what: &str, result: io::Result<()>| {
        if let Err(error) = result {
            lacking.push(format!("{what}: {error}"));
        }
    };
    // SAFETY: plain calls without pointers.
    unsafe {
        // Memory once taken stays with the process: given back, every later use of it would fault in new pages.
        libc::mallopt(libc::M_MMAP_THRESHOLD, 1 << 30);
        libc::mallopt(libc::M_TRIM_THRESHOLD, libc::c_int::MAX);
        note("PR_SET_IO_FLUSHER", check(libc::prctl(PR_SET_IO_FLUSHER, 1, 0, 0, 0)));
        // Pages are locked when they are touched: a sparse store must not be filled.
        note("mlockall", check(libc::mlockall(libc::MCL_CURRENT | libc::MCL_FUTURE | libc::MCL_ONFAULT)));
    }
    // Jobs that take all memory are to be killed, not the disk below them.
    note("oom_score_adj", std::fs::write("/proc/self/oom_score_adj", "-800"));
    lacking
}

/// Settings of a thread of ordinary priority that looks at the time.
pub fn prepare_ordinary_thread() -> io::Result<()> {
    // SAFETY: no pointers.
    unsafe { check(libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0)) }
}

/// Settings of a thread that time depends on.
pub fn prepare_thread(priority: i32) -> io::Result<()> {
    let parameters = libc::sched_param { sched_priority: priority };
    // SAFETY: `parameters` lives through the call; 0 is this thread.
    unsafe {
        check(libc::prctl(libc::PR_SET_TIMERSLACK, 1, 0, 0, 0))?;
        check(libc::sched_setscheduler(0, libc::SCHED_FIFO, &parameters))
    }
}

/// A child that shares nothing but `page`; runs `work` and ends.
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
