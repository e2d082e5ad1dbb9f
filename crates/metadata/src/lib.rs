//! Clients of a metadata benchmark with mdtest's phases: many clients on many nodes, synchronised
//! by barriers.
//!
//! `config` defines the parameters of a process, `tree` the directories and items, `step`
//! synchronises all clients of all processes and counts their operations, `storage` implements the
//! operations, `work` runs one client in one phase, `report` is the result of a process.

pub mod config;
pub mod report;
pub mod run;
pub mod step;
pub mod storage;
pub mod tree;
pub mod work;

/// Why a process of clients failed.
#[derive(Debug)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}
