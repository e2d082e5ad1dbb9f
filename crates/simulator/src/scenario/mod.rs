//! The description of a simulation: a scenario, read from JSON.
//!
//! # A scenario by example
//!
//! ```
//! let text = r#"{
//!   "seed": 1,
//!   "nodes": [{
//!     "name": "worker", "count": 3, "cores": 4, "memory_bytes": 8000000000,
//!     "network": {"rate_bytes_per_s": 125000000, "latency_ns": 100000},
//!     "power": {"idle_w": 60, "core_w": 10},
//!     "volumes": [{
//!       "name": "data",
//!       "ideal": {"capacity_bytes": 320000000000, "read_ns": 12000000, "write_ns": 12000000,
//!                 "read_bytes_per_s": 100e6, "write_bytes_per_s": 100e6},
//!       "filesystem": {"kind": "ext4"}, "scheduler": "deadline", "read_ahead_bytes": 131072
//!     }]
//!   }],
//!   "files": [{"name": "aod", "on": {"volume": "data"}, "bytes": 656000000, "count": 24}],
//!   "profiles": [{"name": "tau", "memory_bytes": 1000000000, "steps": [
//!     {"do": "open", "file": "aod"},
//!     {"do": "pattern", "file": "aod", "count": 100, "length_bytes": 65536, "cpu_ns": 5000000,
//!      "order": {"kind": "strided", "stride_bytes": 6000000}},
//!     {"do": "close", "file": "aod"}
//!   ]}],
//!   "run": {"profile": "tau", "slots_per_node": 2, "load": {"kind": "batch", "jobs": 12}}
//! }"#;
//! let scenario = headrace_simulator::Scenario::from_json(text).unwrap();
//! let outcome = headrace_simulator::run(&scenario).unwrap();
//! assert_eq!(outcome.jobs.len(), 12);
//! ```
//!
//! Each name ends with its unit. Unknown fields are errors. Omitted fields have the default in
//! their documentation. An error contains the path ("nodes[0].volumes[0].scheduler"), the given
//! value and the allowed values.
//!
//! # Components
//!
//! * [`HostSpec`]: a machine, or `count` identical ones. `nodes` have job slots, `servers` have
//!   none. A host has cores, memory (the part that jobs do not use is page cache), a network port,
//!   and volumes.
//! * [`VolumeSpec`]: a drive, a RAID or an ideal drive, with filesystem, scheduler and read-ahead.
//! * [`ServiceSpec`]: a file service (NFS, GlusterFS, Lustre, HDFS, OrangeFS, BlueArc, XRootD, CephFS,
//!   EOS) on
//!   volumes of hosts, or in front of another service.
//! * [`FileSetSpec`]: files and their location: the local volume of each node, or a service.
//! * [`ProfileSpec`]: the steps of a job ([`Step`]).
//! * [`RunSpec`]: number of jobs, slots, and how jobs get their input.
//! * [`TcpSpec`]: how connections of the network get up to speed, and what switches hold.
//! * [`FaultSpec`]: faults and their times.
//! * [`ObserveSpec`]: which time series are recorded.

mod check;
mod host;
mod job;
mod service;

use std::fmt;

use headrace_model::link::tcp::TcpSpec;
use headrace_model::power::SitePower;
use serde::{Deserialize, Serialize};

pub use host::{HostSpec, NetworkPort, VirtualisationSpec, VolumeSpec};
pub use job::{
    Access, Assign, Feed, FileSetSpec, Load, Order, PacketRules, PacketSpec, PatternOp, Place,
    ProfileSpec, RunSpec, Share, Split, Step, LEAST_CACHE_BYTES,
};
pub(crate) use service::SettledTuning;
pub use service::{
    BackendSpec, CacheSpec, ClientReadAhead, Commit, MetadataSpec, ServiceKind, ServiceSpec,
    TargetSpec, Tuning,
};

/// All inputs of a simulation. Equal scenarios give byte-identical outcomes.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Scenario {
    /// For documentation only.
    #[serde(default)]
    pub name: String,
    #[serde(default)]
    pub seed: u64,
    /// Whether the page caches hold the files when the run starts (as far as they fit) or are
    /// empty.
    #[serde(default)]
    pub cache: CacheState,
    /// All hosts are on one machine, and use the cores of the first node; memory, drives and
    /// network are still each host's own.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub one_machine: bool,
    /// Machines with job slots.
    pub nodes: Vec<HostSpec>,
    /// Machines without job slots.
    #[serde(default)]
    pub servers: Vec<HostSpec>,
    #[serde(default)]
    pub services: Vec<ServiceSpec>,
    pub files: Vec<FileSetSpec>,
    pub profiles: Vec<ProfileSpec>,
    pub run: RunSpec,
    #[serde(default)]
    pub faults: Vec<FaultSpec>,
    /// Windows of TCP and buffers of switches; without it flows have their fair rate at once.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub tcp: Option<TcpSpec>,
    /// Leaf switches of the nodes; without it all hosts are at one non-blocking switch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub leaves: Option<LeafSpec>,
    #[serde(default)]
    pub power: SitePower,
    #[serde(default)]
    pub observe: ObserveSpec,
}

/// Leaf switches: each has the next `nodes` nodes, in their order, which share its uplink to the
/// core switch. Servers are at the core switch.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LeafSpec {
    pub nodes: u32,
    /// In each direction.
    pub uplink_bytes_per_s: f64,
}

/// Contents of the page caches at the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum CacheState {
    #[default]
    Cold,
    Warm,
}

/// A fault of a host: it starts at `at_ns` and lasts `for_ns` (0: until the end). Faults of drives
/// are given with the drive (`storage.faults`).
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct FaultSpec {
    pub at_ns: u64,
    #[serde(default)]
    pub for_ns: u64,
    /// The affected host ("worker[2]"; "worker" means its first).
    pub host: String,
    pub what: FaultKind,
}

/// Types of host faults.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum FaultKind {
    /// The network port runs at this fraction of its rate.
    LinkSlow { factor: f64 },
    /// The host's file services do not answer; clients use another replica if there is one, or wait
    /// until the server returns.
    ServerDown,
}

/// What is recorded in addition to totals.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct ObserveSpec {
    /// Interval of the drives' series; 0 records none.
    pub series_interval_ns: u64,
    /// Whether the outcome contains latency histograms.
    pub histograms: bool,
}

impl Default for ObserveSpec {
    fn default() -> Self {
        ObserveSpec { series_interval_ns: 1_000_000_000, histograms: true }
    }
}

/// A problem in a scenario: path, given value, allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ScenarioError {
    pub path: String,
    pub given: String,
    pub allowed: String,
}

impl fmt::Display for ScenarioError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: given {}, allowed: {}", self.path, self.given, self.allowed)
    }
}

impl std::error::Error for ScenarioError {}

impl ScenarioError {
    pub(crate) fn new(
        path: impl Into<String>,
        given: impl fmt::Display,
        allowed: impl Into<String>,
    ) -> Self {
        ScenarioError { path: path.into(), given: given.to_string(), allowed: allowed.into() }
    }
}

impl Scenario {
    /// Read a scenario from JSON and check what can be checked without a run.
    ///
    /// # Errors
    /// The first problem found, with its path.
    pub fn from_json(text: &str) -> Result<Self, ScenarioError> {
        let mut reader = serde_json::Deserializer::from_str(text);
        let scenario: Scenario =
            serde_path_to_error::deserialize(&mut reader).map_err(|error| {
                let message = error.inner().to_string();
                let (given, allowed) = match message.split_once(", expected ") {
                    Some((given, allowed)) => (given.to_owned(), allowed.to_owned()),
                    None => (message, "a value of that field's form".to_owned()),
                };
                ScenarioError::new(error.path().to_string(), given, allowed)
            })?;
        reader.end().map_err(|error| ScenarioError::new("(end)", error, "one JSON document"))?;
        scenario.check()?;
        Ok(scenario)
    }
}
