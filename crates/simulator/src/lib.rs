//! Virtual time: a scenario of nodes, drives, servers and jobs in, an outcome out.
//!
//! [`Scenario`] says what is simulated (its module shows a whole one), [`run`] does it, [`Outcome`] tells what came out.
//! [`run_many`] runs many on all cores. Time is integer nanoseconds; events are ordered by (time, priority, sequence);
//! every random stream has a name: equal scenarios give equal outcomes on any number of threads.

mod build;
mod client;
pub mod cpu;
mod faults;
mod feed;
mod flush;
mod journal;
mod layout;
mod offsets;
mod operations;
pub mod outcome;
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
mod task;
mod world;

pub use outcome::{JobOutcome, Ledger, Outcome};
pub use run::{run, run_many, run_watched, Progress};
pub use scenario::{Scenario, ScenarioError};
