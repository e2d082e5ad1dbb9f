//! Configuration of the daemon: `config.json` in its directory.

use std::path::{Path, PathBuf};

use headrace_model::spec::{DriveSpec, StorageSpec};
use serde::Deserialize;

/// The configuration of one emulated drive.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Source of the FUSE mount, which identifies it as Headrace's, and name of its file.
    pub source: String,
    /// An empty directory on which the file system is mounted while the loop device is set up.
    pub mount: PathBuf,
    /// Path of the control socket.
    pub control: PathBuf,
    /// Size of the device.
    pub size_bytes: u64,
    /// Maximum amount of data kept in memory; a write that needs more fails.
    pub data_limit_bytes: u64,
    /// The drive or RAID; if not given, every request completes immediately.
    #[serde(default)]
    pub storage: Option<StorageSpec>,
    #[serde(default)]
    pub seed: u64,
    /// Approximate time after which the kernel aborts a request, and with it the device.
    pub request_timeout_s: u16,
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// Return true if every drive is a hard disk.
    pub fn rotational(&self) -> bool {
        self.storage
            .as_ref()
            .is_some_and(|storage| storage.drives.iter().all(DriveSpec::rotational))
    }
}
