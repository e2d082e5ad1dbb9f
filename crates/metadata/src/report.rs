//! The result of a process of clients: one JSON object.

use serde::Serialize;

use crate::config::Phase;

/// Result of one process.
#[derive(Serialize)]
pub struct Report {
    /// Number of its first client.
    pub first_client: u32,
    /// Number of its clients.
    pub clients: u32,
    /// Number of clients in all processes.
    pub clients_total: u32,
    /// The phases in order of execution.
    pub phases: Vec<PhaseReport>,
}

/// Result of one phase in this process.
#[derive(Serialize)]
pub struct PhaseReport {
    /// The phase.
    pub phase: Phase,
    /// Start of the phase: monotonic time at which the barrier opened.
    pub start_ns: u64,
    /// Time from the start until the first client of all processes was done (stonewall).
    pub stonewall_ns: u64,
    /// Operations of all processes until then.
    pub stonewall_operations: u64,
    /// Operations of this process.
    pub operations: u64,
    /// Time from the start until the last client of this process was done.
    pub last_done_ns: u64,
    /// For each client of this process: operations, and time since the start.
    pub each: Vec<(u64, u64)>,
    /// CPU time of this process's clients.
    pub cpu_ns: u64,
    /// Bytes written by these clients.
    pub written_bytes: u64,
    /// Bytes read by these clients.
    pub read_bytes: u64,
    /// Mean latency of an operation.
    pub latency_ns_mean: f64,
    /// Maximum latency of an operation.
    pub latency_ns_max: u64,
    /// [time in ns, operations], ascending; histograms are merged by addition. Times have two
    /// significant digits.
    pub latency_histogram: Vec<(u64, u64)>,
}
