//! Real-time emulation of a drive of the catalog: the simulator's device models, driven by the
//! monotonic clock, behind a block device of the kernel.
//!
//! ```text
//! kernel ── backend (FUSE file under a loop device) ──> engine ──> pacer ──> device model
//!                               │                          └─ completion times
//!                               └─> store (sector contents), volatile (data lost at power loss)
//! ```
//!
//! `pacer` is independent of clock and kernel, `backend` is independent of the model; `engine`
//! connects them.

pub mod backend;
pub mod calibration;
pub mod clock;
pub mod config;
pub mod control;
pub mod engine;
pub mod fuse;
pub mod guard;
pub mod issues;
pub mod lateness;
pub mod pacer;
pub mod process;
pub mod softirq;
pub mod store;
pub mod volatile;
pub mod workers;
