//! Results: times, bytes and energies of jobs, hosts, drives and services.

use headrace_model::histogram::{Histogram, HistogramBins};
use headrace_model::link::tcp::TcpCounters;
use headrace_model::pagecache::CacheCounters;
use serde::{Deserialize, Serialize};

/// All results of a simulation. Equal scenarios give byte-identical outcomes.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Outcome {
    /// Ordered by job number.
    pub jobs: Vec<JobOutcome>,
    pub hosts: Vec<HostOutcome>,
    pub drives: Vec<DriveOutcome>,
    pub services: Vec<ServiceOutcome>,
    pub energy: EnergyOutcome,
    pub counters: Counters,
    /// End of the run: the end of the last job, or the duration of a sustained load.
    pub end_ns: u64,
    /// Why the run was aborted, if it was.
    pub broken_off: Option<String>,
    /// What the workers were given, if they were fed by packets by the rules of real runs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub packets: Option<PacketsOutcome>,
}

/// Packets of one worker.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketWorkerOutcome {
    /// Number of its job.
    pub job: u64,
    pub handed_out: u64,
    pub events: u64,
    /// Events of files on its node.
    pub events_local: u64,
    /// Time between a packet and the request for the next one, summed.
    pub busy_ns: u64,
}

/// What was handed out.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PacketsOutcome {
    /// Whether the location of a file is known.
    pub placed: bool,
    /// Packets of failed workers that others were given.
    pub handed_out_again: u64,
    pub events_not_processed: u64,
    pub workers: Vec<PacketWorkerOutcome>,
}

/// Breakdown of a job's wall time; the five times add up to it exactly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Ledger {
    pub on_cpu_ns: u64,
    /// Runnable, while other tasks used the cores.
    pub wait_cpu_ns: u64,
    /// Waiting for local storage.
    pub wait_block_ns: u64,
    /// Waiting for a file service, the network or a master.
    pub wait_network_ns: u64,
    pub other_ns: u64,
}

impl Ledger {
    pub fn total_ns(&self) -> u64 {
        self.on_cpu_ns
            + self.wait_cpu_ns
            + self.wait_block_ns
            + self.wait_network_ns
            + self.other_ns
    }
}

/// Bytes read by a job, counted at four levels, and bytes written and staged.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct JobBytes {
    pub uncompressed_bytes: u64,
    /// Bytes that the job requested.
    pub asked_bytes: u64,
    /// Bytes delivered: by the page cache for local files, over the network (including read-ahead)
    /// for services.
    pub served_bytes: u64,
    /// Bytes that drives transferred for the job, including read-ahead and metadata.
    pub device_bytes: u64,
    pub written_bytes: u64,
    pub staged_bytes: u64,
}

/// Time spent in reading, writing, metadata operations and waiting for staged input.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Phases {
    pub stage_in_ns: u64,
    pub read_ns: u64,
    pub write_ns: u64,
    /// Open, close and other metadata operations.
    pub metadata_ns: u64,
    /// Of these, waits until a service's client is connected and a file is open.
    #[serde(default)]
    pub open_ns: u64,
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
    /// The job ended at the first error (`run.fail_on_error`).
    pub failed: bool,
    /// Still running when the sustained load ended.
    pub unfinished: bool,
    /// CPU time of its threads beyond the ledger's, which is that of the mean thread.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub more_cpu_ns: u64,
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
    /// Number of busy cores, integrated over time.
    pub busy_core_ns: u64,
    pub awake_ns: u64,
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub cache: CacheCounters,
    /// Energy without the drives of the volumes, and energy of these drives.
    pub machine_j: f64,
    pub drives_j: f64,
}

/// One volume's drive (or RAID), measured at its block queue.
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
    /// Number of I/Os queued or in the drive, integrated over time.
    pub inside_ns: u64,
    pub read_latency: LatencyOutcome,
    pub write_latency: LatencyOutcome,
    pub energy_j: f64,
    /// Bytes written to flash drives, and bytes that their flash wrote for them.
    pub flash_host_bytes: u64,
    pub flash_written_bytes: u64,
    /// How often each fault of the drive took effect, in the order of `storage.faults`.
    pub faults_fired: Vec<u64>,
    /// Bytes acknowledged but not on stable storage when power was lost.
    pub lost_bytes: u64,
    /// Rebuilt fraction of a replaced drive of the RAID, 0 to 1.
    pub rebuilt: Option<f64>,
    /// Service time of each request in the drive alone.
    pub service: HistogramBins,
    pub series: DriveSeries,
}

/// Latencies of requests in one direction, from the entry of their first I/O into the queue to
/// completion.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct LatencyOutcome {
    pub requests: u64,
    pub mean_ns: f64,
    pub p50_ns: f64,
    pub p99_ns: f64,
    pub max_ns: u64,
    /// Filled if histograms are observed.
    pub bins: HistogramBins,
}

impl LatencyOutcome {
    pub(crate) fn of(histogram: &Histogram, with_bins: bool) -> Self {
        LatencyOutcome {
            requests: histogram.count(),
            mean_ns: histogram.mean_ns(),
            p50_ns: histogram.quantile_ns(0.5),
            p99_ns: histogram.quantile_ns(0.99),
            max_ns: histogram.max_ns(),
            bins: if with_bins { histogram.bins() } else { HistogramBins::default() },
        }
    }
}

/// Time series of a drive: one value per interval; the last interval ends with the run. In a long
/// run `interval_ns` is the requested interval, doubled as often as needed for at most 65,536 values.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct DriveSeries {
    pub interval_ns: u64,
    pub read_bytes: Vec<u64>,
    pub written_bytes: Vec<u64>,
    pub reads: Vec<u32>,
    pub writes: Vec<u32>,
    /// Fraction of the interval with a request in the drive.
    pub busy: Vec<f32>,
    /// Mean number of I/Os queued or in the drive.
    pub inside: Vec<f32>,
    /// Mean latency of the completed reads; 0 if there were none.
    pub read_latency_ns: Vec<f32>,
    /// Mean latency of the completed writes.
    pub write_latency_ns: Vec<f32>,
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
    /// Mean latency of a request as the client sees it.
    pub latency_ns_mean: f64,
    pub latency_ns_p99: f64,
    /// Bytes stored on each target.
    pub stored_bytes: Vec<u64>,
    /// Requests that used another replica, or had to wait, because a server was down.
    pub failed_over: u64,
    /// Reads that were computed from other objects of the file, because a server was down or could
    /// not read.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub degraded_reads: u64,
    /// What its data servers had of the files of their upstream, if they have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub upstream: Option<UpstreamOutcome>,
}

fn is_zero(value: &u64) -> bool {
    *value == 0
}

/// Reads of a service before another one.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UpstreamOutcome {
    /// The service that its data servers are clients of, and the bytes read from there.
    pub service: String,
    pub read_bytes: u64,
    /// Bytes of reads that were in blocks of the cache when their request was served, and the rest
    /// of these reads (`B_hit` and `B_missed` of XrdPfc). Both 0 without a cache.
    pub hit_bytes: u64,
    pub missed_bytes: u64,
}

/// Energy of the run in joules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EnergyOutcome {
    pub nodes_j: f64,
    pub servers_j: f64,
    pub drives_j: f64,
    pub switch_j: f64,
    /// Sum of the above, multiplied by the PUE.
    pub total_j: f64,
}

/// Size of the simulation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Events processed.
    pub events: u64,
    /// Requests completed by drives.
    pub requests: u64,
    /// Requests to file services.
    pub service_requests: u64,
    pub flows: u64,
    pub faults_fired: u64,
    /// Allocations that failed because a volume was full.
    pub out_of_space: u64,
    /// Losses and waits of connections, if the scenario has TCP's windows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpCounters>,
}
