//! Files of /proc that stay open while there are descriptors to spare: to open one takes longer
//! than to read it.

use std::fs::File;
use std::io::{Error, Result};
use std::os::unix::fs::FileExt;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::OnceLock;

/// The limit of open files is one of the whole process, and so is this count.
static KEPT: AtomicUsize = AtomicUsize::new(0);
static MOST: OnceLock<usize> = OnceLock::new();
/// What is wanted as the limit of open files, and taken as that of a process without one.
const WANTED: u64 = 1 << 16;

/// A file that is read from its begin each time.
///
/// A descriptor of /proc/PID belongs to the process, not to its number: after its end a read fails,
/// also when the number is used again. A file that is not kept open has no such protection.
pub struct KeptFile {
    path: Box<str>,
    file: Option<File>,
}

impl KeptFile {
    /// Open a file. Fails when it does not exist or may not be opened.
    pub fn open(path: String) -> Result<Self> {
        let file = File::open(&path)?;
        let path = path.into_boxed_str();
        if KEPT.fetch_add(1, Ordering::Relaxed) < *MOST.get_or_init(most) {
            return Ok(KeptFile { path, file: Some(file) });
        }
        KEPT.fetch_sub(1, Ordering::Relaxed);
        Ok(KeptFile { path, file: None })
    }

    /// Read what fits into `bytes`; return its length.
    pub fn read(&self, bytes: &mut [u8]) -> Result<usize> {
        self.read_from(bytes, 0)
    }

    pub fn read_from(&self, bytes: &mut [u8], offset: u64) -> Result<usize> {
        match &self.file {
            Some(file) => file.read_at(bytes, offset),
            None => File::open(&*self.path)?.read_at(bytes, offset),
        }
    }

    /// Close the descriptor; the file is opened at each read from now on.
    pub fn release(&mut self) {
        if self.file.take().is_some() {
            KEPT.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for KeptFile {
    fn drop(&mut self) {
        self.release();
    }
}

/// The error of a process that has ended.
pub fn ended() -> Error {
    Error::from_raw_os_error(libc::ESRCH)
}

/// Return how many files may stay open: half of the limit, which is raised first where that is
/// allowed.
fn most() -> usize {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: `limit` is valid for writes, and for reads below.
    if unsafe { libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) } != 0 {
        return 0;
    }
    let wanted = limit.rlim_max.min(WANTED);
    if limit.rlim_cur < wanted {
        let raised = libc::rlimit { rlim_cur: wanted, rlim_max: limit.rlim_max };
        // SAFETY: as above.
        if unsafe { libc::setrlimit(libc::RLIMIT_NOFILE, &raw const raised) } == 0 {
            limit = raised;
        }
    }
    usize::try_from(limit.rlim_cur.min(WANTED) / 2).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_not_kept_is_read_all_the_same() {
        let mut file = KeptFile::open("/proc/self/comm".into()).expect("it exists");
        let (mut kept, mut opened) = ([0; 32], [0; 32]);
        let length = file.read(&mut kept).expect("it can be read");
        assert!(length > 1);
        file.release();
        file.release();
        assert_eq!(file.read(&mut opened).expect("it can be read"), length);
        assert_eq!(kept, opened);
        assert!(KeptFile::open("/proc/self/none".into()).is_err());
    }

    #[test]
    fn half_of_the_limit_stays_for_others() {
        let most = most();
        assert!(most > 0 && most as u64 <= WANTED / 2, "{most}");
    }
}
