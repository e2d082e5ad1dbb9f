//! Machines and their volumes.

use headrace_model::filesystem::FilesystemSpec;
use headrace_model::ideal::IdealSpec;
use headrace_model::pagecache::readahead::ReadAheadRules;
use headrace_model::pagecache::{PageReclaim, WritebackSpec};
use headrace_model::power::MachinePower;
use headrace_model::raid::spec::StorageSpec;
use headrace_model::scheduler::SchedulerSpec;
use headrace_model::spec::DriveSpec;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cpu::SharingSpec;

/// A machine, or `count` identical ones named `name[0]`, `name[1]` …
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct HostSpec {
    pub name: String,
    #[serde(default = "one")]
    pub count: u32,
    pub cores: u32,
    /// Speed of a core: a step of `cpu_ns` takes `cpu_ns / cpu_speed`.
    #[serde(default = "unit")]
    pub cpu_speed: f64,
    #[serde(default)]
    pub sharing: SharingSpec,
    pub memory_bytes: u64,
    /// Memory used by the system, available neither to jobs nor to the page cache.
    #[serde(default = "reserved")]
    pub memory_reserved_bytes: u64,
    /// CPU time of a read or write call, excluding the copy.
    #[serde(default = "call")]
    pub call_ns: u64,
    /// CPU time to create and to remove a file or directory on a volume, in addition to `call_ns`.
    #[serde(default)]
    pub create_ns: u64,
    #[serde(default)]
    pub remove_ns: u64,
    /// CPU time that the system spends for each job beside the job's own process: its start and
    /// end, its connections, probes.
    #[serde(default)]
    pub beside_job_ns: u64,
    /// CPU time that the system spends beside the jobs for each request of a drive of this host, and
    /// for each that it sends to a server: interrupts, the network's and the drive's software.
    #[serde(default)]
    pub beside_request_ns: u64,
    /// Copy rate between page cache and job.
    #[serde(default = "copy")]
    pub copy_bytes_per_s: f64,
    /// Rate of writes into the page cache, with the kernel's work for new pages; 0:
    /// `copy_bytes_per_s`.
    #[serde(default)]
    pub write_copy_bytes_per_s: f64,
    /// Rate at which the kernel provides and clears memory that a job touches for the first time;
    /// 0: at no cost.
    #[serde(default)]
    pub first_touch_bytes_per_s: f64,
    #[serde(default)]
    pub writeback: WritebackSpec,
    #[serde(default)]
    pub read_ahead: ReadAheadRules,
    #[serde(default)]
    pub page_reclaim: PageReclaim,
    #[serde(default)]
    pub network: NetworkPort,
    #[serde(default)]
    pub power: MachinePower,
    /// Overheads of virtualisation, if the host is a virtual machine.
    #[serde(default)]
    pub virtualisation: Option<VirtualisationSpec>,
    #[serde(default)]
    pub volumes: Vec<VolumeSpec>,
}

/// A host's network port: full duplex, connected to a non-blocking switch. Rates are of data,
/// without the headers of packets.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkPort {
    pub rate_bytes_per_s: f64,
    /// One-way latency of this host's side. Half a round trip between two hosts of equal latency is
    /// twice this value.
    pub latency_ns: u64,
    /// Maximum rate of one flow, below the port's rate if ports are bonded; 0: no limit.
    pub flow_bytes_per_s: f64,
    /// Socket buffer: limits the bytes of one flow in flight, so its rate is at most this size
    /// divided by the round-trip time between its hosts; 0: no limit.
    pub socket_buffer_bytes: u64,
    /// Packets that may wait to be sent (txqueuelen): limits the host's bytes in flight; 0: no
    /// limit.
    pub transmit_queue_packets: u64,
}

impl Default for NetworkPort {
    fn default() -> Self {
        NetworkPort {
            rate_bytes_per_s: 125e6,
            latency_ns: 50_000,
            flow_bytes_per_s: 0.0,
            socket_buffer_bytes: 0,
            transmit_queue_packets: 0,
        }
    }
}

/// Overheads of a virtual machine.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VirtualisationSpec {
    /// Time that each disk request spends in the hypervisor, one request at a time.
    pub disk_request_ns: u64,
    /// The hypervisor's write path: largest write that it passes on, and its rate; 0: no limit.
    pub write_request_bytes: u64,
    pub write_bytes_per_s: f64,
    /// Writes reach the drive one at a time, each on stable storage before the next
    /// (cache=writethrough).
    pub write_through: bool,
    /// Added to the latency of every network message.
    pub network_ns: u64,
    /// Fraction of the CPU's speed that remains.
    pub cpu_factor: f64,
}

impl Default for VirtualisationSpec {
    fn default() -> Self {
        VirtualisationSpec {
            disk_request_ns: 30_000,
            write_request_bytes: 0,
            write_bytes_per_s: 0.0,
            write_through: false,
            network_ns: 30_000,
            cpu_factor: 0.97,
        }
    }
}

/// Storage of a host: exactly one of `storage` and `ideal`, and the kernel layers above it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    pub name: String,
    /// A drive of the catalog or a RAID of drives, including faults:
    /// `{"drives": [{"kind": "hdd", …}], "raid": {"level": 5, "drives": 4}}`.
    #[serde(default)]
    pub storage: Option<StorageSpec>,
    /// A drive described only by a service time and a rate.
    #[serde(default)]
    pub ideal: Option<IdealSpec>,
    pub filesystem: FilesystemSpec,
    /// Bytes at the front of the drive or RAID that the filesystem takes; default: all.
    #[serde(default)]
    pub size_bytes: Option<u64>,
    /// A scheduler's name, or an object with its tunables: `{"kind": "cfq", "slice_idle_ns": 0}`.
    #[serde(default = "noop", deserialize_with = "scheduler")]
    pub scheduler: SchedulerSpec,
    #[serde(default = "read_ahead")]
    pub read_ahead_bytes: u64,
    /// Kernels since 4.10 fetch the bytes of one read call in requests of up to this size
    /// (max_sectors_kb), even if the read-ahead is smaller; 0: as in earlier kernels, in windows no
    /// larger than the read-ahead.
    #[serde(default)]
    pub large_read_bytes: u64,
    #[serde(default = "nr_requests")]
    pub nr_requests: u32,
    /// Requests that the drive receives at once; default: the drive's own queue depth.
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// Largest request that merging produces (max_sectors_kb).
    #[serde(default = "max_request")]
    pub max_request_bytes: u64,
}

impl VolumeSpec {
    /// Return whether any of its drives is a disk; a drive without a model of its own counts as
    /// one.
    pub fn rotational(&self) -> bool {
        self.storage.as_ref().is_none_or(|s| s.drives.iter().any(DriveSpec::rotational))
    }
}

fn one() -> u32 {
    1
}
fn unit() -> f64 {
    1.0
}
fn reserved() -> u64 {
    256 << 20
}
fn call() -> u64 {
    1_000
}
fn copy() -> f64 {
    4e9
}
fn noop() -> SchedulerSpec {
    SchedulerSpec::Noop
}
fn read_ahead() -> u64 {
    128 << 10
}
fn nr_requests() -> u32 {
    128
}
fn max_request() -> u64 {
    512 << 10
}
fn scheduler<'de, D: Deserializer<'de>>(deserializer: D) -> Result<SchedulerSpec, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Form {
        Name(String),
        Full(serde_json::Value),
    }
    let known = SchedulerSpec::NAMES.join(", ");
    match Form::deserialize(deserializer)? {
        Form::Name(name) => SchedulerSpec::named(&name).ok_or_else(|| {
            serde::de::Error::custom(format!("scheduler \"{name}\", expected one of {known}"))
        }),
        Form::Full(value) => serde_json::from_value(value).map_err(serde::de::Error::custom),
    }
}
