//! Device models: a request and a state in, a completion time out.
//!
//! Everything here is driven from outside (`submit`, `wake`) and never reads a clock, sleeps, or
//! allocates in steady state, so that the simulator (virtual time) and the emulator (the monotonic
//! clock) run the very same objects.

pub mod completions;
pub mod drive;
pub mod drive_replay;
pub mod drive_run;
pub mod faults;
pub mod filesystem;
pub mod hdd;
pub mod histogram;
pub mod ideal;
pub mod link;
pub mod pagecache;
pub mod power;
pub mod raid;
pub mod request;
pub mod scheduler;
pub mod spec;
pub mod ssd;
pub mod storage;
pub mod stream;
pub mod virtualisation;

pub use request::{Completion, Device, Fault, Nanos, Op, Request, Status, SECTOR_BYTES};
