//! Bytes of a process or job.

use std::array::from_fn;
use std::ops::Add;

/// `rchar`, `wchar`, `syscr`, `syscw`, `read_bytes`, `write_bytes` of /proc/PID/io (proc(5)).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Moved(pub [u64; 6]);

impl Moved {
    /// Return the increase since `other`, never below zero.
    #[must_use]
    pub fn since(self, other: Moved) -> Moved {
        Moved(from_fn(|field| self.0[field].saturating_sub(other.0[field])))
    }

    /// Whether each number of bytes is at least that of `other`.
    #[must_use]
    pub fn covers(self, other: Moved) -> bool {
        [0, 1, 4, 5].into_iter().all(|field| self.0[field] >= other.0[field])
    }
}

impl Add for Moved {
    type Output = Moved;

    fn add(self, other: Moved) -> Moved {
        Moved(from_fn(|field| self.0[field].saturating_add(other.0[field])))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_and_differences_are_those_of_each_number() {
        let (less, more) = (Moved([1, 2, 9, 9, 5, 6]), Moved([10, 20, 3, 4, 50, 60]));
        assert_eq!((less + more).0, [11, 22, 12, 13, 55, 66]);
        assert_eq!(more.since(less).0, [9, 18, 0, 0, 45, 54]);
        // Calls do not count: bytes tell.
        assert!(more.covers(less) && !less.covers(more));
    }
}
