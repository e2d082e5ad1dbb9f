//! The parameters of a process of clients: one JSON object, using mdtest's terms where they exist.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use crate::Failure;

/// Maximum number of clients.
pub const MOST_CLIENTS: u32 = 4096;
/// Maximum number of directories of one tree.
pub const MOST_DIRECTORIES: u64 = 1_000_000;
/// Maximum file size: a file is written from one buffer.
pub const MOST_BYTES: u64 = 1 << 30;

/// The phases, in mdtest's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize, PartialOrd, Ord)]
#[serde(rename_all = "snake_case")]
pub enum Phase {
    /// Create the directories that hold the items.
    TreeCreation,
    /// `mkdir` of every item.
    DirectoryCreation,
    /// `stat` of every directory.
    DirectoryStat,
    /// `rename` of every directory, within its parent.
    DirectoryRename,
    /// `rmdir` of every item.
    DirectoryRemoval,
    /// `open(O_CREAT)`, write, close.
    FileCreation,
    /// `stat` of every file.
    FileStat,
    /// open, read, close.
    FileRead,
    /// `unlink` of every file.
    FileRemoval,
    /// Remove the directories that held the items.
    TreeRemoval,
}

/// Every phase, in order of execution.
pub const PHASES: [Phase; 10] = [
    Phase::TreeCreation,
    Phase::DirectoryCreation,
    Phase::DirectoryStat,
    Phase::DirectoryRename,
    Phase::DirectoryRemoval,
    Phase::FileCreation,
    Phase::FileStat,
    Phase::FileRead,
    Phase::FileRemoval,
    Phase::TreeRemoval,
];

impl Phase {
    /// Return the name used in mdtest's table.
    pub fn title(self) -> &'static str {
        match self {
            Phase::TreeCreation => "tree creation",
            Phase::DirectoryCreation => "directory creation",
            Phase::DirectoryStat => "directory stat",
            Phase::DirectoryRename => "directory rename",
            Phase::DirectoryRemoval => "directory removal",
            Phase::FileCreation => "file creation",
            Phase::FileStat => "file stat",
            Phase::FileRead => "file read",
            Phase::FileRemoval => "file removal",
            Phase::TreeRemoval => "tree removal",
        }
    }

    /// Return whether the operations are on files.
    pub fn of_files(self) -> bool {
        matches!(self, Phase::FileCreation | Phase::FileStat | Phase::FileRead | Phase::FileRemoval)
    }

    /// Return whether the phase creates or removes the tree, not the items.
    pub fn of_tree(self) -> bool {
        matches!(self, Phase::TreeCreation | Phase::TreeRemoval)
    }
}

/// One of the processes of a test.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// Location of the test directory; the process of client `shared_from` creates and removes it.
    pub directory: PathBuf,
    /// A directory of this machine shared by all processes. `None`: there is only this process.
    #[serde(default)]
    pub meeting: Option<PathBuf>,
    /// Number of clients in this process.
    pub clients: u32,
    /// Number of the first client in this process.
    #[serde(default)]
    pub first_client: u32,
    /// The first of the clients that share this file system: it creates the directories that all of
    /// them share.
    #[serde(default)]
    pub shared_from: u32,
    /// Number of clients in all processes.
    #[serde(default)]
    pub clients_total: Option<u32>,
    /// Number of files, and of directories, per client.
    pub items: u64,
    /// Levels of directories below the top one.
    #[serde(default)]
    pub depth: u32,
    /// Subdirectories per directory.
    #[serde(default = "one")]
    pub branching_factor: u32,
    /// Create items only in the deepest directories.
    #[serde(default)]
    pub leaf_only: bool,
    /// Use a separate tree for each client, else one for all.
    #[serde(default)]
    pub unique_directories: bool,
    /// Shift per phase: each phase uses the items of the client this many positions after that of
    /// the previous phase.
    #[serde(default)]
    pub stride: u32,
    /// Bytes written per file.
    #[serde(default)]
    pub write_bytes: u64,
    /// Bytes read per file.
    #[serde(default)]
    pub read_bytes: u64,
    /// Call fsync on each written file.
    #[serde(default)]
    pub sync: bool,
    /// Compare the data read with the data written.
    #[serde(default)]
    pub verify: bool,
    /// The item phases to run; tree phases always run.
    pub phases: Vec<Phase>,
    /// Time to wait for other processes to arrive, in seconds.
    #[serde(default = "patience")]
    pub patience_s: f64,
}

fn one() -> u32 {
    1
}

fn patience() -> f64 {
    120.0
}

fn fail(text: String) -> Result<(), Failure> {
    Err(Failure(text))
}

impl Config {
    /// Return the number of clients in all processes.
    pub fn total(&self) -> u32 {
        self.clients_total.unwrap_or(self.first_client + self.clients)
    }

    /// Return whether a phase runs; tree phases always do.
    pub fn has(&self, phase: Phase) -> bool {
        phase.of_tree() || self.phases.contains(&phase)
    }

    /// Return an error if the parameters are invalid.
    pub fn check(&self) -> Result<(), Failure> {
        self.check_clients()?;
        self.check_items()?;
        self.check_phases()
    }

    fn check_clients(&self) -> Result<(), Failure> {
        let total = self.total();
        if self.clients == 0 || total > MOST_CLIENTS {
            return fail(format!("clients: 1 to {MOST_CLIENTS} (given {total})"));
        }
        if u64::from(self.first_client) + u64::from(self.clients) > u64::from(total) {
            return fail(format!(
                "clients {} to {} are beyond the {total} of all processes",
                self.first_client,
                u64::from(self.first_client) + u64::from(self.clients) - 1
            ));
        }
        if self.shared_from > self.first_client {
            return fail(format!(
                "shared_from: {} at most, the first client of this process (given {})",
                self.first_client, self.shared_from
            ));
        }
        if self.shared_from > 0 && self.stride > 0 {
            return fail(
                "stride: items of clients whose file system is another cannot be taken".to_string(),
            );
        }
        if total > self.clients && self.meeting.is_none() {
            return fail(
                "several processes need a `meeting` directory to keep in step".to_string(),
            );
        }
        if !(self.patience_s > 0.0 && self.patience_s.is_finite()) {
            return fail("patience_s: a positive number of seconds".to_string());
        }
        Ok(())
    }

    fn check_items(&self) -> Result<(), Failure> {
        if self.items == 0 {
            return fail("items: at least 1".to_string());
        }
        if self.branching_factor == 0 {
            return fail("branching_factor: at least 1".to_string());
        }
        match crate::tree::directories(self.depth, self.branching_factor) {
            Some(count) if count <= MOST_DIRECTORIES => {}
            _ => {
                return fail(format!(
                "depth {} with branching_factor {} makes more than {MOST_DIRECTORIES} directories",
                self.depth, self.branching_factor
            ))
            }
        }
        if self.write_bytes.max(self.read_bytes) > MOST_BYTES {
            return fail(format!("write_bytes and read_bytes: at most {MOST_BYTES} a file"));
        }
        if self.has(Phase::FileRead) && self.read_bytes > self.write_bytes {
            return fail(format!(
                "read_bytes ({}) is more than write_bytes ({})",
                self.read_bytes, self.write_bytes
            ));
        }
        Ok(())
    }

    fn check_phases(&self) -> Result<(), Failure> {
        for (needs, created) in [
            (Phase::DirectoryStat, Phase::DirectoryCreation),
            (Phase::DirectoryRename, Phase::DirectoryCreation),
            (Phase::FileStat, Phase::FileCreation),
            (Phase::FileRead, Phase::FileCreation),
            (Phase::FileRemoval, Phase::FileCreation),
            (Phase::DirectoryRemoval, Phase::DirectoryCreation),
            (Phase::DirectoryCreation, Phase::DirectoryRemoval),
            (Phase::FileCreation, Phase::FileRemoval),
        ] {
            if self.phases.contains(&needs) && !self.phases.contains(&created) {
                return fail(format!("{} needs {}", needs.title(), created.title()));
            }
        }
        if !self.phases.iter().any(|phase| !phase.of_tree()) {
            return fail("phases: at least one of files or directories".to_string());
        }
        Ok(())
    }

    /// Return a hash of the parameters that all processes of a test must share; never 0.
    pub fn agreement(&self) -> u64 {
        let mut same = self.clone();
        (same.clients, same.first_client, same.clients_total) = (0, 0, Some(self.total()));
        (same.meeting, same.shared_from) = (None, 0);
        same.directory = PathBuf::new(); // nodes may mount it at different paths
        same.phases.sort();
        let text = serde_json::to_string(&same).unwrap_or_default();
        // FNV-1a: identical in every build.
        let hash = text.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
        });
        hash.max(1)
    }
}
