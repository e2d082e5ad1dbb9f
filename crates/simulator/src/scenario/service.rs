//! Network file services and the parameters in which their types differ.
//!
//! One mechanism serves all of them. A client with or without a page cache splits its reads and
//! writes into requests. A layout maps bytes to data servers. A data server has threads, a CPU cost
//! per request, and a backend: a volume with its own page cache, filesystem, scheduler and drive, or
//! another service, of which it is a client (gateways, XCache). Metadata servers process opens and
//! other metadata operations. A service type is a layout and a set of defaults for [`Tuning`].

use serde::{Deserialize, Serialize};

/// Type of a service.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ServiceKind {
    /// One server that stores all files.
    Nfs,
    /// NFS from a filer with hardware acceleration: cheaper requests, more of them in parallel.
    Bluearc,
    /// Whole files, distributed over bricks by a hash of the name; FUSE on the client.
    Glusterfs,
    /// Files striped over object storage targets, a metadata server, a client with its own
    /// read-ahead.
    Lustre,
    /// Blocks on data nodes, near the client if possible; a name node; writes through a replication
    /// pipeline.
    Hdfs,
    /// Files striped over all servers, no client cache, several metadata servers.
    Orangefs,
    /// Whole files on data servers, located through a redirector; vectored reads; no client cache.
    Xrootd,
    /// Objects of a file on pseudo-randomly chosen daemons (placement groups), replicated by the
    /// first of them; a client with a page cache; a metadata server.
    Cephfs,
    /// Whole files, or stripes with parity (RAIN), on file servers (FST) that a manager (MGM) with
    /// the namespace in memory chooses; reached by XRootD's protocol.
    Eos,
}

/// A data server of a service, on all hosts of that name, and where it gets the files.
///
/// In JSON `volume` or `upstream` says which backend it is: `{"host": "server", "volume": "export"}`,
/// `{"host": "gateway", "upstream": "other service"}`, or with a cache on a volume of the host
/// `{"host": "xcache", "upstream": "other service", "cache": {"volume": "ssd"}}`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "TargetFields", into = "TargetFields")]
pub struct TargetSpec {
    pub host: String,
    pub backend: BackendSpec,
}

/// Where a data server gets the files.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BackendSpec {
    /// From a volume of its host, on which the service stores data.
    Volume { volume: String },
    /// From another service, of which the server is a client.
    Upstream { service: String, cache: Option<CacheSpec> },
}

/// Cache of a server with an upstream on a volume of its host (XCache). It holds whole blocks;
/// files that were not used for the longest time are removed when it is full.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CacheSpec {
    pub volume: String,
    /// Bytes that are fetched and kept together, a multiple of 4096.
    #[serde(default = "block")]
    pub block_bytes: u64,
    /// Blocks that are fetched ahead of the requested ones.
    #[serde(default)]
    pub prefetch_blocks: u32,
}

fn block() -> u64 {
    MIB
}

/// The fields of a target in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct TargetFields {
    host: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    volume: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    upstream: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    cache: Option<CacheSpec>,
}

impl TryFrom<TargetFields> for TargetSpec {
    type Error = String;

    fn try_from(fields: TargetFields) -> Result<Self, String> {
        let TargetFields { host, volume, upstream, cache } = fields;
        let backend = match (volume, upstream, cache) {
            (Some(volume), None, None) => BackendSpec::Volume { volume },
            (None, Some(service), cache) => BackendSpec::Upstream { service, cache },
            (Some(_), Some(_), _) => return Err(one_of("volume and upstream")),
            (Some(_), None, Some(_)) => return Err(one_of("volume and cache")),
            (None, None, _) => return Err(one_of("neither volume nor upstream")),
        };
        Ok(TargetSpec { host, backend })
    }
}

fn one_of(given: &str) -> String {
    format!("{given}, expected either volume, or upstream with or without cache")
}

impl From<TargetSpec> for TargetFields {
    fn from(spec: TargetSpec) -> Self {
        let (volume, upstream, cache) = match spec.backend {
            BackendSpec::Volume { volume } => (Some(volume), None, None),
            BackendSpec::Upstream { service, cache } => (None, Some(service), cache),
        };
        TargetFields { host: spec.host, volume, upstream, cache }
    }
}

/// A file service.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ServiceSpec {
    pub name: String,
    pub kind: ServiceKind,
    /// Its data servers in order.
    pub targets: Vec<TargetSpec>,
    /// Parameters that differ from the type's defaults.
    #[serde(default)]
    pub tuning: Tuning,
    /// Its metadata servers: on all hosts of that name, with a volume for their inodes and journal.
    /// Without it metadata servers use no core and no drive.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<MetadataSpec>,
}

/// The metadata servers of a service.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct MetadataSpec {
    pub host: String,
    pub volume: String,
}

impl ServiceSpec {
    /// Return the name of the service that its data servers are clients of, if they are.
    pub fn upstream(&self) -> Option<&str> {
        self.targets.iter().find_map(|target| match &target.backend {
            BackendSpec::Upstream { service, .. } => Some(service.as_str()),
            BackendSpec::Volume { .. } => None,
        })
    }
}

/// Read-ahead of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub enum ClientReadAhead {
    None,
    /// The kernel's on-demand read-ahead with this limit.
    Kernel {
        bytes: u64,
    },
    /// Lustre's read-ahead: reads within `gap_pages` of the previous one count as sequential; each
    /// of them grows the window by `step_bytes` up to `max_bytes`.
    Lustre {
        step_bytes: u64,
        max_bytes: u64,
        gap_pages: u32,
    },
}

/// When a client requests that the servers write a file's data to their drives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Commit {
    /// Never: the servers' memory is considered safe (a filer's NVRAM, HDFS before `hsync`).
    Never,
    /// On `fsync`.
    Sync,
    /// On `fsync` and when a file is closed (NFS: COMMIT).
    Close,
}

/// Parameters of a service. A field that is not given has the default of the type (see
/// [`Tuning::of`]).
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Tuning {
    /// Maximum size of a read and of a write request (rsize, wsize, RPC size, packet).
    pub read_request_bytes: Option<u64>,
    pub write_request_bytes: Option<u64>,
    /// Whether the client's page cache holds the service's data.
    pub client_cache: Option<bool>,
    pub client_read_ahead: Option<ClientReadAhead>,
    /// Buffer of the client library, one per open file, for services whose data is not in the page
    /// cache: a read outside the buffer refills it from that offset (RFIO, 128 kB). 0: exactly the
    /// requested bytes are read.
    pub client_buffer_bytes: Option<u64>,
    /// Ranges of a file that a client reads with one request (XRootD: `readv_iov_max`); 1: each
    /// range is a request of its own. The largest range is `read_request_bytes`.
    pub vector_ranges: Option<u32>,
    /// CPU time of a request on the client (FUSE crossings, checksums), charged to the job.
    pub client_request_ns: Option<u64>,
    /// Delay of a request on the client that does not use the CPU.
    pub client_delay_ns: Option<u64>,
    /// Requests that one client may have in flight to one data server (slot table,
    /// max_rpcs_in_flight).
    pub requests_in_flight: Option<u32>,
    /// Threads of a data server (nfsd): further requests wait.
    pub server_threads: Option<u32>,
    /// CPU time per request, and per byte, on a data server.
    pub server_request_ns: Option<u64>,
    pub server_byte_ns: Option<f64>,
    /// Whether the data server uses its page cache, with read-ahead on its volume.
    pub server_cache: Option<bool>,
    /// Bytes per stripe, and number of targets that a file is striped over (0: all).
    pub stripe_bytes: Option<u64>,
    pub stripe_targets: Option<u32>,
    /// Parity objects of a striped file (erasure coding; 0: none), and CPU time of the client for
    /// each byte that goes through the code.
    pub parity_targets: Option<u32>,
    pub coding_byte_ns: Option<f64>,
    /// Block size of a service that places blocks (HDFS).
    pub block_bytes: Option<u64>,
    pub replicas: Option<u32>,
    /// Whether replicas are written as a pipeline (HDFS) or by the client to every server
    /// (GlusterFS).
    pub replica_pipeline: Option<bool>,
    /// A client that is also a data server accesses its own disk without the network.
    pub local_reads: Option<bool>,
    /// A write call returns when the data is in the client's cache (true) or at the server (false).
    pub write_back: Option<bool>,
    /// Bytes per file that may be in flight to the servers if `write_back` is false.
    pub write_window_bytes: Option<u64>,
    /// A write call returns when its data fits in the window, and closing waits for the servers
    /// (true); or each call waits for the servers (false).
    pub write_behind: Option<bool>,
    /// The server acknowledges a write when it is on its drive, not when it is in its cache.
    pub server_sync: Option<bool>,
    /// When the servers flush a file to their drives; a write through their caches does not wait
    /// for that.
    pub commit: Option<Commit>,
    /// Number of metadata servers, threads of each, and the time of one operation (open, create,
    /// stat, delete).
    pub metadata_servers: Option<u32>,
    pub metadata_threads: Option<u32>,
    pub metadata_read_ns: Option<u64>,
    pub metadata_write_ns: Option<u64>,
    /// Round trips required to open a file.
    pub open_round_trips: Option<u32>,
    /// Time and CPU time of a process before its first file of the service is opened: its client
    /// library starts, connects and logs in (XRootD, HDFS; 0 for services that a kernel mounts).
    pub client_start_ns: Option<u64>,
    pub client_start_cpu_ns: Option<u64>,
    /// Time after which a client gives up on a server that does not answer.
    pub timeout_ns: Option<u64>,
}

/// [`Tuning`] with every field set.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SettledTuning {
    pub read_request_bytes: u64,
    pub write_request_bytes: u64,
    pub client_cache: bool,
    pub client_read_ahead: ClientReadAhead,
    pub client_buffer_bytes: u64,
    pub vector_ranges: u32,
    pub client_request_ns: u64,
    pub client_delay_ns: u64,
    pub requests_in_flight: u32,
    pub server_threads: u32,
    pub server_request_ns: u64,
    pub server_byte_ns: f64,
    pub server_cache: bool,
    pub stripe_bytes: u64,
    pub stripe_targets: u32,
    pub parity_targets: u32,
    pub coding_byte_ns: f64,
    pub block_bytes: u64,
    pub replicas: u32,
    pub replica_pipeline: bool,
    pub local_reads: bool,
    pub write_back: bool,
    pub write_window_bytes: u64,
    pub write_behind: bool,
    pub server_sync: bool,
    pub commit: Commit,
    pub metadata_servers: u32,
    pub metadata_threads: u32,
    pub metadata_read_ns: u64,
    pub metadata_write_ns: u64,
    pub open_round_trips: u32,
    pub client_start_ns: u64,
    pub client_start_cpu_ns: u64,
    pub timeout_ns: u64,
}

const KIB: u64 = 1 << 10;
const MIB: u64 = 1 << 20;

impl Tuning {
    /// Return the defaults of a type. Sizes, windows and counts are those of the software. NFS: 16
    /// slots, 8 nfsd; rsize = wsize = 1 MiB, the most that clients take (`NFS_MAX_FILE_IO_SIZE` in
    /// include/linux/nfs_xdr.h) and that servers with 4 GiB offer (`nfsd_get_default_max_blksize`
    /// in fs/nfsd/nfssvc.c: memory / 4096); read-ahead of 128 KiB (`nfs_set_readahead` in
    /// fs/nfs/super.c since 5.4; before: `NFS_MAX_READAHEAD`, 15, times rsize). BlueArc: 64 KiB over
    /// 1 GbE in 2010, read-ahead of 15 rsize;
    /// GlusterFS 3: 128 KiB FUSE requests; Lustre 1.8: 1 MiB RPCs, 8 in flight, 40 MiB read-ahead;
    /// HDFS: 64 MiB blocks, 3 replicas, 64 KiB packets of which 80 are in flight; OrangeFS 2.8: 64
    /// KiB stripes, 256 KiB flow buffers; XRootD 3: whole reads). CPU times per request are
    /// assumptions of tens of microseconds, to be measured or fitted.
    pub fn of(kind: ServiceKind) -> Tuning {
        match kind {
            ServiceKind::Nfs => Tuning::nfs(),
            ServiceKind::Bluearc => Tuning::bluearc(),
            ServiceKind::Glusterfs => Tuning::glusterfs(),
            ServiceKind::Lustre => Tuning::lustre(),
            ServiceKind::Hdfs => Tuning::hdfs(),
            ServiceKind::Orangefs => Tuning::orangefs(),
            ServiceKind::Xrootd => Tuning::xrootd(),
            ServiceKind::Cephfs => Tuning::cephfs(),
            ServiceKind::Eos => Tuning::eos(),
        }
    }

    fn base() -> Tuning {
        Tuning {
            read_request_bytes: Some(64 * KIB),
            write_request_bytes: Some(64 * KIB),
            client_cache: Some(true),
            client_read_ahead: Some(ClientReadAhead::Kernel { bytes: 15 * 64 * KIB }),
            client_buffer_bytes: Some(0),
            vector_ranges: Some(1),
            client_request_ns: Some(10_000),
            client_delay_ns: Some(0),
            requests_in_flight: Some(16),
            server_threads: Some(8),
            server_request_ns: Some(30_000),
            server_byte_ns: Some(0.25),
            server_cache: Some(true),
            stripe_bytes: Some(0),
            stripe_targets: Some(1),
            parity_targets: Some(0),
            // ISA-L codes some 5 GB/s on a core.
            coding_byte_ns: Some(0.2),
            block_bytes: Some(0),
            replicas: Some(1),
            replica_pipeline: Some(false),
            local_reads: Some(false),
            write_back: Some(true),
            write_window_bytes: Some(0),
            write_behind: Some(false),
            server_sync: Some(false),
            commit: Some(Commit::Sync),
            metadata_servers: Some(1),
            metadata_threads: Some(8),
            metadata_read_ns: Some(100_000),
            metadata_write_ns: Some(300_000),
            open_round_trips: Some(2),
            // Depends on machine and configuration (look-ups of names, authentication): measured.
            client_start_ns: Some(0),
            client_start_cpu_ns: Some(0),
            timeout_ns: Some(60_000_000_000),
        }
    }

    fn nfs() -> Tuning {
        Tuning {
            read_request_bytes: Some(MIB),
            write_request_bytes: Some(MIB),
            client_read_ahead: Some(ClientReadAhead::Kernel { bytes: 128 * KIB }),
            commit: Some(Commit::Close),
            ..Tuning::base()
        }
    }

    fn bluearc() -> Tuning {
        Tuning {
            commit: Some(Commit::Never),
            server_threads: Some(256),
            server_request_ns: Some(8_000),
            server_byte_ns: Some(0.02),
            metadata_read_ns: Some(30_000),
            metadata_write_ns: Some(60_000),
            ..Tuning::base()
        }
    }

    fn glusterfs() -> Tuning {
        Tuning {
            read_request_bytes: Some(128 * KIB),
            write_request_bytes: Some(128 * KIB),
            client_read_ahead: Some(ClientReadAhead::Kernel { bytes: 128 * KIB }),
            client_request_ns: Some(40_000),
            client_delay_ns: Some(30_000),
            server_threads: Some(16),
            server_request_ns: Some(50_000),
            write_back: Some(false),
            write_window_bytes: Some(MIB),
            write_behind: Some(true),
            open_round_trips: Some(3),
            timeout_ns: Some(42_000_000_000),
            ..Tuning::base()
        }
    }

    fn lustre() -> Tuning {
        Tuning {
            read_request_bytes: Some(MIB),
            write_request_bytes: Some(MIB),
            client_read_ahead: Some(ClientReadAhead::Lustre {
                step_bytes: MIB,
                max_bytes: 40 * MIB,
                gap_pages: 8,
            }),
            requests_in_flight: Some(8),
            server_threads: Some(128),
            stripe_bytes: Some(MIB),
            stripe_targets: Some(1),
            metadata_threads: Some(32),
            metadata_read_ns: Some(80_000),
            metadata_write_ns: Some(200_000),
            timeout_ns: Some(100_000_000_000),
            ..Tuning::base()
        }
    }

    fn hdfs() -> Tuning {
        Tuning {
            read_request_bytes: Some(64 * KIB),
            write_request_bytes: Some(64 * KIB),
            client_cache: Some(false),
            client_read_ahead: Some(ClientReadAhead::None),
            client_request_ns: Some(60_000),
            client_delay_ns: Some(100_000),
            requests_in_flight: Some(80),
            server_threads: Some(256),
            block_bytes: Some(64 * MIB),
            replicas: Some(3),
            replica_pipeline: Some(true),
            local_reads: Some(true),
            write_back: Some(false),
            write_window_bytes: Some(5 * MIB),
            write_behind: Some(true),
            commit: Some(Commit::Never),
            // The name node keeps its namespace in memory.
            metadata_threads: Some(10),
            metadata_read_ns: Some(20_000),
            metadata_write_ns: Some(100_000),
            open_round_trips: Some(1),
            timeout_ns: Some(3_000_000_000),
            ..Tuning::base()
        }
    }

    fn orangefs() -> Tuning {
        Tuning {
            read_request_bytes: Some(256 * KIB),
            write_request_bytes: Some(256 * KIB),
            client_cache: Some(false),
            client_read_ahead: Some(ClientReadAhead::None),
            client_request_ns: Some(30_000),
            client_delay_ns: Some(50_000),
            // A call is sent to all servers at once, with 8 buffers of 256 KiB for each
            // (FlowBuffersPerFlow).
            requests_in_flight: Some(8),
            server_threads: Some(32),
            stripe_bytes: Some(64 * KIB),
            stripe_targets: Some(0),
            write_back: Some(false),
            write_window_bytes: Some(u64::MAX),
            metadata_servers: Some(1),
            metadata_threads: Some(1),
            metadata_read_ns: Some(250_000),
            metadata_write_ns: Some(4_000_000),
            open_round_trips: Some(3),
            ..Tuning::base()
        }
    }

    fn xrootd() -> Tuning {
        Tuning {
            read_request_bytes: Some(2 * MIB),
            write_request_bytes: Some(2 * MIB),
            client_cache: Some(false),
            client_read_ahead: Some(ClientReadAhead::None),
            server_threads: Some(256),
            server_request_ns: Some(15_000),
            vector_ranges: Some(1024),
            local_reads: Some(true),
            write_back: Some(false),
            metadata_read_ns: Some(50_000),
            metadata_write_ns: Some(150_000),
            open_round_trips: Some(2),
            ..Tuning::base()
        }
    }

    /// Objects of 4 MiB (`ceph.dir.layout`), 3 copies (`osd_pool_default_size`) that the first
    /// daemon sends on; a write is acknowledged when all copies are on stable storage. The kernel's
    /// client reads ahead 8 MiB (`rasize`) and has requests of at most an object. A daemon has 8
    /// shards with 2 threads (`osd_op_num_shards_ssd`). Its CPU time per request is an assumption.
    fn cephfs() -> Tuning {
        Tuning {
            read_request_bytes: Some(4 * MIB),
            write_request_bytes: Some(4 * MIB),
            client_read_ahead: Some(ClientReadAhead::Kernel { bytes: 8 * MIB }),
            requests_in_flight: Some(1024),
            server_threads: Some(16),
            server_request_ns: Some(150_000),
            server_sync: Some(true),
            commit: Some(Commit::Never),
            block_bytes: Some(4 * MIB),
            replicas: Some(3),
            replica_pipeline: Some(true),
            metadata_threads: Some(1),
            metadata_read_ns: Some(100_000),
            metadata_write_ns: Some(300_000),
            open_round_trips: Some(1),
            ..Tuning::base()
        }
    }

    /// Whole files with 2 copies (layout `replica`), written from file server to file server; the
    /// manager keeps the namespace in memory and redirects the client to a file server.
    fn eos() -> Tuning {
        Tuning {
            replicas: Some(2),
            replica_pipeline: Some(true),
            local_reads: Some(false),
            metadata_threads: Some(64),
            ..Tuning::xrootd()
        }
    }

    /// Return all parameters: the given value, else the type's default.
    pub(crate) fn settle(&self, kind: ServiceKind) -> SettledTuning {
        let d = Tuning::of(kind);
        macro_rules! settle {
            ($($field:ident),* $(,)?) => {
                SettledTuning {
                    $($field: self.$field.or(d.$field).expect("every kind has every default")),*
                }
            };
        }
        settle!(
            read_request_bytes,
            write_request_bytes,
            client_cache,
            client_read_ahead,
            client_buffer_bytes,
            vector_ranges,
            client_request_ns,
            client_delay_ns,
            requests_in_flight,
            server_threads,
            server_request_ns,
            server_byte_ns,
            server_cache,
            stripe_bytes,
            stripe_targets,
            parity_targets,
            coding_byte_ns,
            block_bytes,
            replicas,
            replica_pipeline,
            local_reads,
            write_back,
            write_window_bytes,
            write_behind,
            server_sync,
            commit,
            metadata_servers,
            metadata_threads,
            metadata_read_ns,
            metadata_write_ns,
            open_round_trips,
            client_start_ns,
            client_start_cpu_ns,
            timeout_ns,
        )
    }
}
