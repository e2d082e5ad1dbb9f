//! Device models: they compute when each block request completes.
//!
//! The caller drives a model through `submit` and `wake`. A model never reads a clock, never sleeps
//! and does not allocate in steady state, so the simulator (virtual time) and the emulator
//! (monotonic clock) use the same code.

pub mod completions;
pub mod drive;
pub mod drive_replay;
pub mod drive_run;
pub mod drive_script;
pub mod faults;
pub mod filesystem;
pub mod hdd;
pub mod histogram;
pub mod ideal;
pub mod link;
pub mod moment;
pub mod pagecache;
pub mod power;
pub mod raid;
pub mod ranges;
pub mod request;
pub mod rounding;
pub mod scheduler;
pub mod slots;
pub mod spec;
pub mod ssd;
pub mod storage;
pub mod stream;
pub mod virtualisation;

pub use request::{Completion, Device, Fault, Medium, Nanos, Op, Request, Status, SECTOR_BYTES};
