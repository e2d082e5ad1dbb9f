//! Preloaded into a program (LD_PRELOAD), writes down its reads, writes, opens, stats and maps of regular files, with the time
//! and the thread's CPU time at each, and passes every call on unchanged.
//!
//! Records go into files of the directory `HEADRACE_RECORD_DIR`, two for every process image:
//!
//! * `PID-NS.rec`: segments of [`segment::BYTES`], each of one thread, mapped shared: what is written there survives the process,
//!   however that ends, and memory is one segment a thread.
//! * `PID-NS.names`: a line (ended by NUL) for every file opened, path asked for, or fact worth a note.
//!
//! `python/headrace/profiles/recording.py` reads both. Nothing here allocates, locks across a call, or calls what it interposes;
//! what the C library calls inside itself is not seen, so its buffered streams have hooks of their own (`streams.rs`).

mod descriptors;
mod files;
mod lifetime;
mod maps;
mod names;
mod process;
mod real;
mod record;
mod segment;
mod streams;
mod transfers;
