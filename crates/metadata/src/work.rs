//! The work of one client in one phase: a sequence of operations, each timed.

use std::ffi::CStr;

use hdrhistogram::Histogram;

use crate::config::{Config, Phase};
use crate::step::{now_ns, Step};
use crate::storage::{OperationError, Storage};
use crate::tree::{Namer, Tree};

/// Upper bound of recorded latencies.
const LONGEST_NS: u64 = 3_600_000_000_000;
/// Suffix of a directory's name after the rename phase.
const RENAMED: &[u8] = b".renamed";

/// The result of a client in a phase.
pub struct Done {
    /// Number of operations.
    pub operations: u64,
    /// When the last operation ended.
    pub end_ns: u64,
    /// Latencies of all operations.
    pub latency_ns: Histogram<u64>,
    /// Bytes written to files.
    pub written_bytes: u64,
    /// Bytes read from files.
    pub read_bytes: u64,
    /// CPU time of the client in the phase.
    pub cpu_ns: u64,
}

/// Return an empty latency histogram with two significant digits.
pub fn histogram() -> Histogram<u64> {
    Histogram::new_with_bounds(1, LONGEST_NS, 2).expect("bounds that are in order")
}

/// An operation that failed.
pub struct Trouble {
    /// The storage's error message.
    pub error: String,
    /// No space, no inodes, or a quota reached.
    pub full: bool,
    /// Operations that this client completed before it.
    pub operations: u64,
    /// Operations planned.
    pub wanted: u64,
}

/// State of one client, created once and used in every phase.
pub struct Client<'a, S: Storage> {
    config: &'a Config,
    step: &'a Step,
    storage: &'a S,
    client: u32,
    buffer: Vec<u8>,
    back: Vec<u8>,
}

impl<'a, S: Storage> Client<'a, S> {
    /// Create client number `client`.
    pub fn new(config: &'a Config, step: &'a Step, storage: &'a S, client: u32) -> Client<'a, S> {
        let files = config.phases.contains(&Phase::FileCreation);
        let write = if files { config.write_bytes as usize } else { 0 };
        let read = if files { config.read_bytes as usize } else { 0 };
        // Incompressible data: xorshift64*.
        let mut state: u64 = 0x9e37_79b9_7f4a_7c15;
        let mut buffer = Vec::with_capacity(write + 8);
        while buffer.len() < write {
            state ^= state >> 12;
            state ^= state << 25;
            state ^= state >> 27;
            buffer.extend(state.wrapping_mul(0x2545_f491_4f6c_dd1d).to_le_bytes());
        }
        buffer.truncate(write);
        Client { config, step, storage, client, buffer, back: vec![0; read] }
    }

    /// Return the client whose items this phase uses: with a stride, not its own (mdtest -N).
    fn owner(&self, phase: Phase) -> u32 {
        let steps = match phase {
            Phase::DirectoryStat | Phase::FileStat => 1,
            Phase::FileRead | Phase::DirectoryRename => 2,
            Phase::FileRemoval | Phase::DirectoryRemoval => 3,
            _ => 0,
        };
        let total = u64::from(self.config.total());
        ((u64::from(self.client) + steps * u64::from(self.config.stride)) % total) as u32
    }

    /// Return the number of the tree that a phase uses.
    pub fn tree_of(&self, phase: Phase) -> u32 {
        if self.config.unique_directories {
            self.owner(phase)
        } else {
            0
        }
    }

    /// Run a phase of items.
    pub fn items(&mut self, index: usize, phase: Phase, tree: &Tree) -> Result<Done, Trouble> {
        let owner = self.owner(phase);
        let items = self.config.items;
        let mut names = Namer::new(tree, owner, phase.of_files(), items);
        let mut others = Namer::new(tree, owner, phase.of_files(), items);
        let renamed: &[u8] = if phase == Phase::DirectoryRemoval
            && self.config.phases.contains(&Phase::DirectoryRename)
        {
            RENAMED
        } else {
            b""
        };
        let storage = self.storage;
        let done = |outcome: Result<(), OperationError>| outcome.map(|()| (0, 0));
        self.timed(index, items, |client, item| match phase {
            Phase::DirectoryCreation => done(storage.make_directory(names.path(item, b""))),
            Phase::DirectoryStat | Phase::FileStat => done(storage.stat(names.path(item, b""))),
            Phase::DirectoryRename => {
                done(storage.rename(names.path(item, b""), others.path(item, RENAMED)))
            }
            Phase::DirectoryRemoval => done(storage.remove_directory(names.path(item, renamed))),
            Phase::FileCreation => client.create(names.path(item, b""), owner, item),
            Phase::FileRead => client.read(names.path(item, b""), owner, item),
            Phase::FileRemoval => done(storage.remove(names.path(item, b""))),
            Phase::TreeCreation | Phase::TreeRemoval => unreachable!("phases of the tree"),
        })
    }

    /// Create or remove a tree.
    pub fn tree(&mut self, index: usize, make: bool, tree: &Tree) -> Result<Done, Trouble> {
        let (count, storage) = (tree.count(), self.storage);
        self.timed(index, count, |_, each| {
            if make {
                storage.make_directory(&tree.directory(each))?;
            } else {
                storage.remove_directory(&tree.directory(count - 1 - each))?;
            }
            Ok((0, 0))
        })
    }

    /// Do nothing in a phase, as all clients but the first do while a shared tree is created.
    pub fn idle(&mut self) -> Done {
        Done {
            operations: 0,
            end_ns: now_ns(),
            latency_ns: histogram(),
            written_bytes: 0,
            read_bytes: 0,
            cpu_ns: 0,
        }
    }

    fn timed(
        &mut self,
        index: usize,
        count: u64,
        mut operation: impl FnMut(&mut Self, u64) -> Result<(u64, u64), OperationError>,
    ) -> Result<Done, Trouble> {
        let mut latency_ns = histogram();
        let (mut written_bytes, mut read_bytes) = (0, 0);
        let clients = self.config.clients;
        let cpu_ns = self.storage.cpu_ns(clients);
        let mut before = now_ns();
        for item in 0..count {
            let (written, read) = match operation(self, item) {
                Ok(moved) => moved,
                Err(error) => {
                    let (error, full) = error.worded();
                    return Err(Trouble { error, full, operations: item, wanted: count });
                }
            };
            let after = now_ns();
            latency_ns.saturating_record(after - before);
            before = after;
            written_bytes += written;
            read_bytes += read;
            self.step.progress(self.client, item + 1);
            if self.step.failing() {
                return Err(Trouble {
                    error: "stopped".to_string(),
                    full: false,
                    operations: item + 1,
                    wanted: count,
                });
            }
        }
        self.step.finished(index, before);
        Ok(Done {
            operations: count,
            end_ns: before,
            latency_ns,
            written_bytes,
            read_bytes,
            cpu_ns: self.storage.cpu_ns(clients) - cpu_ns,
        })
    }

    fn create(&mut self, path: &CStr, owner: u32, item: u64) -> Result<(u64, u64), OperationError> {
        self.mark(owner, item);
        self.storage.create(path, &self.buffer, self.config.sync)?;
        Ok((self.buffer.len() as u64, 0))
    }

    fn read(&mut self, path: &CStr, owner: u32, item: u64) -> Result<(u64, u64), OperationError> {
        self.storage.read(path, &mut self.back)?;
        if self.config.verify {
            self.mark(owner, item);
            if let Some(at) =
                self.back.iter().zip(&self.buffer).position(|(found, wanted)| found != wanted)
            {
                return Err(OperationError::Other(format!(
                    "{}: byte {at} is not what was written",
                    path.to_string_lossy()
                )));
            }
        }
        Ok((0, self.back.len() as u64))
    }

    /// Mark the content as that of one file: its first bytes are client and item number.
    fn mark(&mut self, owner: u32, item: u64) {
        let mut mark = [0_u8; 12];
        mark[..4].copy_from_slice(&owner.to_le_bytes());
        mark[4..].copy_from_slice(&item.to_le_bytes());
        let length = mark.len().min(self.buffer.len());
        self.buffer[..length].copy_from_slice(&mark[..length]);
    }
}
