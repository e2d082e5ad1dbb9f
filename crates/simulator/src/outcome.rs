//! What came out: times, bytes and energies of jobs, hosts, drives and services.

use headrace_model::histogram::HistogramBins;
use headrace_model::pagecache::CacheCounters;
use serde::{Deserialize, Serialize};

/// Everything a simulation tells. Equal scenarios give equal outcomes, byte by byte.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// In order of job number.
    pub jobs: Vec<JobOutcome>,
    pub hosts: Vec<HostOutcome>,
    pub drives: Vec<DriveOutcome>,
    pub services: Vec<ServiceOutcome>,
    pub energy: EnergyOutcome,
    pub counters: Counters,
    /// When the run was over: the last job's end, or the duration of a sustained load.
    pub end_ns: u64,
    /// Why it was broken off, if it was.
    pub broken_off: Option<String>,
}

/// Where a job's wall time went; the five add up to it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    pub on_cpu_ns: u64,
    /// Runnable, while others had the cores.
    pub wait_cpu_ns: u64,
    /// For local storage.
    pub wait_block_ns: u64,
    /// For a file service, the network or a master.
    pub wait_network_ns: u64,
    pub other_ns: u64,
}

impl Ledger {
    pub fn total_ns(&self) -> u64 {
        self.on_cpu_ns + self.wait_cpu_ns + self.wait_block_ns + self.wait_network_ns + self.other_ns
    }
}

/// The four counts of bytes read by a job, and what it wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobBytes {
    pub uncompressed_bytes: u64,
    /// What the job asked for.
    pub asked_bytes: u64,
    /// What it was served: by the page cache for local files, over the network (read-ahead included) for services.
    pub served_bytes: u64,
    /// What drives moved for it, read-ahead and metadata included.
    pub device_bytes: u64,
    pub written_bytes: u64,
    pub staged_bytes: u64,
}

/// Time spent in reading, writing and waiting for staged input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    pub stage_in_ns: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    /// Opening, closing and other metadata.
    pub metadata_ns: u64,
}

/// One job.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct JobOutcome {
    pub number: u64,
    pub host: String,
    pub slot: u32,
    pub start_ns: u64,
    pub end_ns: u64,
    pub ledger: Ledger,
    pub bytes: JobBytes,
    pub phases: Phases,
    pub events: u64,
    pub reads: u64,
    pub writes: u64,
    /// Metadata operations (open, stat, create, delete).
    pub operations: u64,
    /// Reads or writes that failed.
    pub errors: u64,
    /// It ended at the first of them (`run.fail_on_error`).
    pub failed: bool,
    /// Still running when the sustained load ended.
    pub unfinished: bool,
}

impl JobOutcome {
    pub fn wall_ns(&self) -> u64 {
        self.end_ns - self.start_ns
    }
}

/// One machine.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct HostOutcome {
    pub name: String,
    pub cores: u32,
    pub slots: u32,
    /// Integral over time of its busy cores.
    pub busy_core_ns: u64,
    pub awake_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub cache: CacheCounters,
    /// Energy without the volumes' drives, and theirs.
    pub machine_j: f64,
    pub drives_j: f64,
}

/// One volume's drive (or RAID), as the scheduler over it saw it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveOutcome {
    pub host: String,
    pub volume: String,
    pub reads: u64,
    pub writes: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    pub merged: u64,
    pub failed: u64,
    pub busy_ns: u64,
    /// Integral over time of the I/Os queued or in the drive.
    pub inside_ns: u64,
    pub latency_ns_mean: f64,
    pub latency_ns_p50: f64,
    pub latency_ns_p99: f64,
    pub latency_ns_max: u64,
    pub energy_j: f64,
    /// How often each of its faults took effect, in the order of `storage.faults`.
    pub faults_fired: Vec<u64>,
    /// Acknowledged and not on stable storage when power was lost.
    pub lost_bytes: u64,
    /// How much of a replaced drive of the RAID is filled, 0 to 1.
    pub rebuilt: Option<f64>,
    /// From submission to completion of each I/O.
    pub latency: HistogramBins,
    /// In the drive alone, each request.
    pub service: HistogramBins,
    pub series: DriveSeries,
}

/// A drive's series: one value an interval, the last interval cut off at the end of the run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveSeries {
    pub interval_ns: u64,
    pub read_bytes: Vec<u64>,
    pub written_bytes: Vec<u64>,
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
    /// Share of the interval with a request in the drive.
    pub busy: Vec<f32>,
    /// Mean number of I/Os inside.
    pub inside: Vec<f32>,
    /// Mean time of the I/Os that completed; 0 where none did.
    pub latency_ns: Vec<f32>,
}

/// One file service.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ServiceOutcome {
    pub name: String,
    pub read_requests: u64,
    pub write_requests: u64,
    pub metadata_requests: u64,
    pub read_bytes: u64,
    pub written_bytes: u64,
    /// Mean time of a request as the client sees it.
    pub latency_ns_mean: f64,
    pub latency_ns_p99: f64,
    /// Bytes stored on each target.
    pub stored_bytes: Vec<u64>,
    /// Requests that went to another replica, or had to wait, because a server was down.
    pub failed_over: u64,
}

/// Energy of the run, joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyOutcome {
    pub nodes_j: f64,
    pub servers_j: f64,
    pub drives_j: f64,
    pub switch_j: f64,
    /// All of these, times PUE.
    pub total_j: f64,
}

/// How much was simulated.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Events taken from the queue.
    pub events: u64,
    /// Requests that drives completed.
    pub requests: u64,
    /// Requests to file services.
    pub service_requests: u64,
    pub flows: u64,
    pub faults_fired: u64,
    /// Data of the run that no volume had room for.
    pub out_of_space: u64,
}
