//! The operations that clients time, of whatever storage: the kernel's, on a mounted directory, or those of a protocol's own client.

use std::ffi::CStr;

use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;

const LARGEST_CALL_BYTES: usize = 4 << 20;

/// Where names and files are. One value serves all clients of a process.
pub trait Storage: Sync {
    /// Stack of a client's thread.
    const STACK_BYTES: usize;
    /// Whether each client gets descriptors of its own, as processes have: they must not queue for one table. Not where a library
    /// behind it shares connections between threads.
    const OWN_DESCRIPTORS: bool;

    /// Whether it has directories; without, items lie at names alone, and no tree is made for them.
    fn has_directories(&self) -> bool {
        true
    }

    /// `mkdir`, with all parents; no error when it is there.
    fn make_directories(&self, path: &CStr) -> Result<(), OperationError>;
    /// `mkdir`.
    fn make_directory(&self, path: &CStr) -> Result<(), OperationError>;
    /// `rmdir`.
    fn remove_directory(&self, path: &CStr) -> Result<(), OperationError>;
    /// `stat` of a file or directory.
    fn stat(&self, path: &CStr) -> Result<(), OperationError>;
    /// `rename`.
    fn rename(&self, path: &CStr, other: &CStr) -> Result<(), OperationError>;
    /// Makes a new file with this content; on the storage when this returns if `sync`.
    fn create(&self, path: &CStr, content: &[u8], sync: bool) -> Result<(), OperationError>;
    /// Reads the first bytes of a file, as many as `back` holds.
    fn read(&self, path: &CStr, back: &mut [u8]) -> Result<(), OperationError>;
    /// `unlink`.
    fn remove(&self, path: &CStr) -> Result<(), OperationError>;

    /// Bytes and inodes that are free, in words, for messages.
    fn room(&self, _path: &CStr) -> Option<String> {
        None
    }

    /// CPU time so far that counts as that of the client which asks, one of `clients` in this process.
    fn cpu_ns(&self, clients: u32) -> u64;
}

/// An operation that failed.
pub enum OperationError {
    /// The kernel said so.
    Kernel(Errno),
    /// Somebody else.
    Other(String),
}

impl From<Errno> for OperationError {
    fn from(error: Errno) -> OperationError {
        OperationError::Kernel(error)
    }
}

impl OperationError {
    /// (in words, whether the storage is full).
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

/// A file ended before all that was wanted of it came back.
pub fn too_short(path: &CStr, found: usize, wanted: usize) -> OperationError {
    OperationError::Other(format!(
        "{} ends after {found} bytes; {wanted} were to be read",
        path.to_string_lossy()
    ))
}

/// Whatever is mounted, by system calls.
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

/// What a CPU clock of this process or thread shows.
pub fn cpu_clock_ns(clock: rustix::time::ClockId) -> u64 {
    let time = rustix::time::clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// Closes, and hears what a server only says then.
fn close(file: rustix::fd::OwnedFd) -> Result<(), OperationError> {
    use std::os::fd::IntoRawFd;
    // SAFETY: the descriptor is owned and not used again.
    if unsafe { libc::close(file.into_raw_fd()) } == 0 {
        return Ok(());
    }
    let error = std::io::Error::last_os_error();
    Err(Errno::from_io_error(&error).unwrap_or(Errno::IO).into())
}
