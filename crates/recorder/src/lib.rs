//! The recorder, a library preloaded into a program (LD_PRELOAD). It records reads, writes, opens,
//! stats and maps of regular files, with the time and the thread's CPU time of each, and forwards
//! every call unchanged.
//!
//! All processes of a recording write into one unnamed file (see `arena.rs` for the reasons, and
//! for why the recorder keeps no descriptor). The file consists of segments of 64 KiB ([`segment`])
//! in shared mappings, so records survive the process however it ends, and the memory is one
//! segment per thread. `python/headrace/profiles/arena.py` creates and reads the file.
//!
//! The recorder never allocates, never holds a lock across a call, never changes `errno`, and never
//! calls functions that it interposes; its own system calls are in `kernel.rs`. Hooks do not see
//! calls inside the C library, so the library's streams are observed where they call the kernel
//! (`streams.rs`).

mod arena;
mod clocks;
mod descriptors;
mod exec_lists;
mod files;
mod finish;
mod identity;
mod kernel;
mod lifetime;
mod maps;
mod names;
mod process;
mod real;
mod record;
mod renames;
mod replacement;
mod segment;
mod sizes;
mod streams;
mod syscalls;
mod text;
mod transfers;
mod unseen;
mod writer;
