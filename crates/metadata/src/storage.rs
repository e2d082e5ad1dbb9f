//! The timed operations, on any storage: system calls on a mounted directory, or a protocol's own
//! client library.

use std::ffi::CStr;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const LARGEST_CALL_BYTES: usize = 4 << 20;

/// Storage of names and files. One value serves all clients of a process.
pub trait Storage: Sync {
    /// Stack size of a client's thread.
    const STACK_BYTES: usize;
    /// Whether each client gets its own descriptor table, as separate processes have, to avoid
    /// contention on one table. False if a library behind it shares connections between threads.
    const OWN_DESCRIPTORS: bool;

    /// Return whether the storage has directories; if not, items have only names, and no tree is
    /// created for them.
    fn has_directories(&self) -> bool {
        true
    }

    /// `mkdir` including all parents; no error if it exists.
    fn make_directories(&self, path: &CStr) -> Result<(), OperationError>;
    /// `mkdir`.
    fn make_directory(&self, path: &CStr) -> Result<(), OperationError>;
    /// `rmdir`.
    fn remove_directory(&self, path: &CStr) -> Result<(), OperationError>;
    /// `stat` of a file or directory.
    fn stat(&self, path: &CStr) -> Result<(), OperationError>;
    /// `rename`.
    fn rename(&self, path: &CStr, other: &CStr) -> Result<(), OperationError>;
    /// Create a new file with this content; if `sync`, return once it is on stable storage.
    fn create(&self, path: &CStr, content: &[u8], sync: bool) -> Result<(), OperationError>;
    /// Read the first bytes of a file until `back` is full.
    fn read(&self, path: &CStr, back: &mut [u8]) -> Result<(), OperationError>;
    /// `unlink`.
    fn remove(&self, path: &CStr) -> Result<(), OperationError>;

    /// Return a message with the number of free bytes and inodes.
    fn room(&self, _path: &CStr) -> Option<String> {
        None
    }

    /// Return the CPU time used so far by the calling client, one of `clients` in this process.
    fn cpu_ns(&self, clients: u32) -> u64;
}

/// An operation that failed.
pub enum OperationError {
    /// An error of the kernel.
    Kernel(Errno),
    /// Any other error.
    Other(String),
}

impl From<Errno> for OperationError {
    fn from(error: Errno) -> OperationError {
        OperationError::Kernel(error)
    }
}

impl OperationError {
    /// Return the message, and whether the storage is full.
    pub fn worded(self) -> (String, bool) {
        match self {
            OperationError::Kernel(error) => {
                let text = std::io::Error::from(error).to_string();
                let plain = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
                (plain, matches!(error, Errno::NOSPC | Errno::DQUOT))
            }
            OperationError::Other(text) => (text, false),
        }
    }
}

/// Return the error for a file that ended before all requested bytes were read.
pub fn too_short(path: &CStr, found: usize, wanted: usize) -> OperationError {
    OperationError::Other(format!(
        "{} ends after {found} bytes; {wanted} were to be read",
        path.to_string_lossy()
    ))
}

/// Any mounted file system, through system calls.
pub struct Kernel;

impl Storage for Kernel {
    const STACK_BYTES: usize = 256 << 10;
    const OWN_DESCRIPTORS: bool = true;

    fn make_directories(&self, path: &CStr) -> Result<(), OperationError> {
        use std::os::unix::ffi::OsStrExt;
        let made = std::fs::create_dir_all(std::ffi::OsStr::from_bytes(path.to_bytes()));
        made.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO).into())
    }

    fn make_directory(&self, path: &CStr) -> Result<(), OperationError> {
        Ok(rustix::fs::mkdir(path, Mode::from_raw_mode(0o755))?)
    }

    fn remove_directory(&self, path: &CStr) -> Result<(), OperationError> {
        Ok(rustix::fs::rmdir(path)?)
    }

    fn stat(&self, path: &CStr) -> Result<(), OperationError> {
        rustix::fs::stat(path)?;
        Ok(())
    }

    fn rename(&self, path: &CStr, other: &CStr) -> Result<(), OperationError> {
        Ok(rustix::fs::rename(path, other)?)
    }

    fn create(&self, path: &CStr, content: &[u8], sync: bool) -> Result<(), OperationError> {
        let flags = OFlags::CREATE | OFlags::EXCL | OFlags::WRONLY | OFlags::CLOEXEC;
        let file = rustix::fs::open(path, flags, Mode::from_raw_mode(0o644))?;
        let mut done = 0;
        while done < content.len() {
            let end = (done + LARGEST_CALL_BYTES).min(content.len());
            match rustix::io::write(&file, &content[done..end]) {
                Ok(0) => return Err(Errno::NOSPC.into()),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        if sync {
            rustix::fs::fsync(&file)?;
        }
        close(file)
    }

    fn read(&self, path: &CStr, back: &mut [u8]) -> Result<(), OperationError> {
        let file = rustix::fs::open(path, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut done = 0;
        while done < back.len() {
            let end = (done + LARGEST_CALL_BYTES).min(back.len());
            match rustix::io::read(&file, &mut back[done..end]) {
                Ok(0) => return Err(too_short(path, done, back.len())),
                Ok(bytes) => done += bytes,
                Err(Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
        }
        close(file)
    }

    fn remove(&self, path: &CStr) -> Result<(), OperationError> {
        Ok(rustix::fs::unlink(path)?)
    }

    fn room(&self, path: &CStr) -> Option<String> {
        let found = rustix::fs::statvfs(path).ok()?;
        let bytes = found.f_bavail * found.f_frsize;
        Some(if found.f_files > 0 {
            format!(
                "the filesystem has {bytes} bytes and {} of {} inodes free",
                found.f_favail, found.f_files
            )
        } else {
            format!("the filesystem has {bytes} bytes free")
        })
    }

    fn cpu_ns(&self, _clients: u32) -> u64 {
        cpu_clock_ns(rustix::time::ClockId::ThreadCPUTime)
    }
}

/// Return the value of a CPU clock of this process or thread.
pub fn cpu_clock_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Close a file and return errors that a server reports only then.
fn close(file: rustix::fd::OwnedFd) -> Result<(), OperationError> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor is owned and not used again.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO).into())
}
