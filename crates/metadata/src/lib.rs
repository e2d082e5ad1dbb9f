//! Clients of a metadata test with the phases of mdtest: many of them, on many nodes, in step.
//!
//! `config` says what is asked, `tree` which directories and items there are, `step` keeps all clients of all processes together
//! and counts for them, `storage` has the operations, `work` is what one client does in a phase, `report` is what a process says at its end.

pub mod config;
pub mod report;
pub mod run;
pub mod step;
pub mod storage;
pub mod tree;
pub mod work;

/// Why a process of clients could not do what it was asked.
#[derive(Debug)]
pub struct Failure(pub String);

impl std::fmt::Display for Failure {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Failure {}
