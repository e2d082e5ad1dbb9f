//! What the daemon is started with: `config.json` in its directory.

use std::path::{Path, PathBuf};

use headrace_model::spec::{DriveSpec, StorageSpec};
use serde::Deserialize;

/// The whole of it.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Source of the FUSE mount, by which it is known as ours, and name of its file.
    pub source: String,
    /// An empty directory that the file is mounted on while the loop device is being made.
    pub mount: PathBuf,
    /// Where the control socket is to be.
    pub control: PathBuf,
    /// Bytes of the device.
    pub size_bytes: u64,
    /// Bytes of data that are kept at most; a write that needs more fails.
    pub data_limit_bytes: u64,
    /// The drive or RAID; without it every request is answered at once.
    #[serde(default)]
    pub storage: Option<StorageSpec>,
    #[serde(default)]
    pub seed: u64,
    /// The kernel gives up on a request, and with it on the device, after about this time.
    pub request_timeout_s: u16,
}

impl Config {
    pub fn read(path: &Path) -> Result<Self, String> {
        let text = std::fs::read_to_string(path).map_err(|error| format!("{}: {error}", path.display()))?;
        serde_json::from_str(&text).map_err(|error| format!("{}: {error}", path.display()))
    }

    /// True when every drive is a disk.
    pub fn rotational(&self) -> bool {
        self.storage.as_ref().is_some_and(|storage| storage.drives.iter().all(DriveSpec::rotational))
    }
}
