//! A drive of the catalog in real time: the simulator's device models, driven by the monotonic clock, behind
//! a block device of the kernel.
//!
//! ```text
//! kernel ── backend (FUSE file under a loop device) ──> engine ──> pacer ──> device model
//!                               │                          └─ when to answer
//!                               └─> store (what the sectors hold), volatile (what a power loss takes back)
//! ```
//!
//! `pacer` knows no clock and no kernel, `backend` knows no model, `engine` puts them together.

pub mod backend;
pub mod calibration;
pub mod clock;
pub mod config;
pub mod control;
pub mod engine;
pub mod fuse;
pub mod guard;
pub mod lateness;
pub mod pacer;
pub mod process;
pub mod softirq;
pub mod store;
pub mod volatile;
