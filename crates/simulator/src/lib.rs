//! Discrete-event simulator: takes a scenario of nodes, drives, servers and jobs, returns an
//! outcome.
//!
//! [`Scenario`] describes what is simulated (its module contains a complete example), [`run`]
//! simulates it, [`Outcome`] holds the results. [`run_many`] simulates many scenarios on all cores.
//! Time is integer nanoseconds. Events are ordered by (time, priority, sequence). Every random
//! stream has a name. Equal scenarios give equal outcomes on any number of threads.

mod ahead;
mod block_cache;
mod build;
mod client;
mod coding;
pub mod cpu;
mod faults;
mod feed;
mod flush;
mod ids;
mod journal;
mod layout;
mod memory;
mod metadata_servers;
mod offsets;
mod operations;
pub mod outcome;
mod packets;
mod program;
pub mod queue;
mod remote;
mod run;
pub mod scenario;
mod service_files;
mod serving;
mod split;
mod staging;
mod steps;
mod storage;
mod sync;
mod task;
mod threads;
mod upstream;
mod vectored;
mod world;

pub use outcome::{JobOutcome, Ledger, Outcome};
pub use run::{run, run_many, run_watched, Progress};
pub use scenario::{Scenario, ScenarioError};
