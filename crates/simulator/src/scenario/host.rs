//! Machines and their volumes.

use headrace_model::filesystem::FilesystemSpec;
use headrace_model::ideal::IdealSpec;
use headrace_model::pagecache::readahead::ReadAheadRules;
use headrace_model::pagecache::WritebackSpec;
use headrace_model::power::MachinePower;
use headrace_model::raid::spec::StorageSpec;
use headrace_model::scheduler::SchedulerSpec;
use serde::{Deserialize, Deserializer, Serialize};

use crate::cpu::SharingSpec;

/// A machine, or `count` equal ones named `name[0]`, `name[1]` …
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
    /// Kept by the system, neither for jobs nor for the page cache.
    #[serde(default = "reserved")]
    pub memory_reserved_bytes: u64,
    /// CPU time of a read or write call, beside copying.
    #[serde(default = "call")]
    pub call_ns: u64,
    /// CPU time of making and of removing a file or directory on a volume, beside `call_ns`.
    #[serde(default)]
    pub create_ns: u64,
    #[serde(default)]
    pub remove_ns: u64,
    /// Rate at which data is copied between page cache and job.
    #[serde(default = "copy")]
    pub copy_bytes_per_s: f64,
    #[serde(default)]
    pub writeback: WritebackSpec,
    #[serde(default)]
    pub read_ahead: ReadAheadRules,
    #[serde(default)]
    pub network: NetworkPort,
    #[serde(default)]
    pub power: MachinePower,
    /// The host is a virtual machine: what that costs.
    #[serde(default)]
    pub virtualisation: Option<VirtualisationSpec>,
    #[serde(default)]
    pub volumes: Vec<VolumeSpec>,
}

/// A host's way into the network: full duplex, into a switch that does not block.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct NetworkPort {
    pub rate_bytes_per_s: f64,
    /// One way, host to switch and on: half a round trip between two hosts of equal latency is twice this.
    pub latency_ns: u64,
    /// What one flow may reach at most, below the port's rate where ports are bonded; 0 for no limit.
    pub flow_bytes_per_s: f64,
    /// Socket buffer: bounds what one flow has in flight, so its rate is at most this over the round trip; 0: no limit.
    pub socket_buffer_bytes: u64,
    /// Packets that may wait to be sent (txqueuelen): bounds what the host has in flight; 0: no limit.
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

/// What a virtual machine adds to its host's work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct VirtualisationSpec {
    /// Time of each disk request on its way through the hypervisor, one at a time.
    pub disk_request_ns: u64,
    /// The hypervisor's own write path: the largest write it passes on, and its rate; 0 for no limit.
    pub write_request_bytes: u64,
    pub write_bytes_per_s: f64,
    /// Writes reach the drive one after another, each on stable storage before the next (cache=writethrough).
    pub write_through: bool,
    /// Added to the latency of every network message.
    pub network_ns: u64,
    /// Share of the CPU's speed that is left.
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

/// Storage of a host: exactly one of `storage` and `ideal`, with what the kernel puts over it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct VolumeSpec {
    pub name: String,
    /// A drive of the catalog or a RAID of them, faults included:
    /// `{"drives": [{"kind": "hdd", …}], "raid": {"level": 5, "drives": 4}}`.
    #[serde(default)]
    pub storage: Option<StorageSpec>,
    /// A drive that is only a service time and a rate.
    #[serde(default)]
    pub ideal: Option<IdealSpec>,
    pub filesystem: FilesystemSpec,
    /// A scheduler's name, or `{"kind": "cfq", "slice_idle_ns": 0}` with its tunables.
    #[serde(default = "noop", deserialize_with = "scheduler")]
    pub scheduler: SchedulerSpec,
    #[serde(default = "read_ahead")]
    pub read_ahead_bytes: u64,
    /// Kernels from 4.10 on fetch what one read call asks for in requests of up to this size (max_sectors_kb), however
    /// small the read-ahead is; 0: as before, in windows no larger than the read-ahead.
    #[serde(default)]
    pub large_read_bytes: u64,
    #[serde(default = "nr_requests")]
    pub nr_requests: u32,
    /// Requests the drive gets at once; the drive's own queue depth where not given.
    #[serde(default)]
    pub queue_depth: Option<u32>,
    /// Largest request that merging makes (max_sectors_kb).
    #[serde(default = "max_request")]
    pub max_request_bytes: u64,
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
