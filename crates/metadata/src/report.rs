//! What a process of clients says at its end: one JSON object.

use serde::Serialize;

use crate::config::Phase;

/// One process.
#[derive(Serialize)]
pub struct Report {
    /// Number of its first client.
    pub first_client: u32,
    /// Its clients.
    pub clients: u32,
    /// Those of all processes.
    pub clients_total: u32,
    /// The phases, as they came.
    pub phases: Vec<PhaseReport>,
}

/// One phase, as this process saw it.
#[derive(Serialize)]
pub struct PhaseReport {
    /// Which one.
    pub phase: Phase,
    /// Monotonic clock: when all clients were let go.
    pub start_ns: u64,
    /// From then until the first client of all processes had nothing left to do.
    pub stonewall_ns: u64,
    /// Operations of all processes by then.
    pub stonewall_operations: u64,
    /// Operations of this process.
    pub operations: u64,
    /// From the start until its last client had nothing left to do.
    pub last_done_ns: u64,
    /// Of each client of this process: operations, and time since the start.
    pub each: Vec<(u64, u64)>,
    /// CPU time of this process's clients.
    pub cpu_ns: u64,
    /// Bytes that they wrote.
    pub written_bytes: u64,
    /// Bytes that they read.
    pub read_bytes: u64,
    /// Mean time of an operation.
    pub latency_ns_mean: f64,
    /// Longest time of an operation.
    pub latency_ns_max: u64,
    /// [time in ns, operations], ascending; merges by adding. Times are kept with two digits.
    pub latency_histogram: Vec<(u64, u64)>,
}
