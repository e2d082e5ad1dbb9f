//! Events that a trace lacks, by gaps in the numbers of its records: blktrace numbers the events of
//! each device and CPU.
//!
//! Since Linux 6.19 the kernel also counts the events that it drops for lack of space
//! (`__blk_add_trace` in kernel/trace/blktrace.c). Older kernels number only what they record, so
//! their drops leave no gap; other losses do: a full disk, a damaged file, a network that drops.

use rustc_hash::FxHashMap;

/// A number this much lower than expected is a late record; one further back is a new beginning.
const LATE: u32 = 1 << 16;

/// The number of a record, and what numbered it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Numbered {
    pub sequence: u32,
    /// Device and CPU, as the record has them.
    pub by: u64,
}

impl Numbered {
    /// Return what should follow.
    #[inline(always)]
    pub fn next(self) -> Numbered {
        Numbered { sequence: self.sequence.wrapping_add(1), ..self }
    }
}

/// Counts the events that are missing between those of each CPU of a device.
#[derive(Default)]
pub struct Gaps {
    next: Option<Numbered>,
    /// The numbers expected of the others: a file of `blkparse -d` holds all CPUs and devices.
    others: FxHashMap<u64, u32>,
    missing: u64,
}

impl Gaps {
    /// Return the number of events that are missing so far.
    pub fn missing(&self) -> u64 {
        self.missing
    }

    /// Return what the next record should be, if it is of the same CPU as the one before.
    pub fn expected(&self) -> Numbered {
        self.next.unwrap_or(Numbered { sequence: 0, by: u64::MAX })
    }

    /// Keep what [`Gaps::expected`] returned and the caller has counted up for records in order.
    pub fn keep(&mut self, expected: Numbered) {
        if let Some(next) = self.next.as_mut() {
            *next = expected;
        }
    }

    /// Take a record that is not the one that the caller expects, and is no notification, which the
    /// kernel does not number. Return what is expected next.
    #[inline(never)]
    pub fn odd(&mut self, expected: Numbered, record: Numbered) -> Numbered {
        self.keep(expected);
        let known = match self.next {
            Some(next) if next.by == record.by => Some(next.sequence),
            Some(next) => {
                self.others.insert(next.by, next.sequence);
                self.others.get(&record.by).copied()
            }
            None => None,
        };
        let next = match known {
            Some(sequence) => self.next_after(record, sequence),
            None => record.next(),
        };
        self.next = Some(next);
        next
    }

    /// Count what is missing before a record that should have had the number `wanted`. Return what
    /// is expected next.
    fn next_after(&mut self, record: Numbered, wanted: u32) -> Numbered {
        let ahead = record.sequence.wrapping_sub(wanted);
        let behind = wanted.wrapping_sub(record.sequence);
        if ahead < 1 << 31 {
            self.missing += u64::from(ahead);
        } else if behind <= LATE && self.missing > 0 {
            self.missing -= 1;
            return Numbered { sequence: wanted, ..record };
        }
        record.next()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn missing(records: &[(u32, u64)]) -> u64 {
        let mut gaps = Gaps::default();
        let mut expected = gaps.expected();
        for &(sequence, by) in records {
            expected = gaps.odd(expected, Numbered { sequence, by });
        }
        gaps.missing()
    }

    #[test]
    fn gaps_of_each_cpu_are_counted() {
        assert_eq!(missing(&[(5, 0), (6, 0), (9, 0)]), 2);
        // Merged files: CPUs in turn.
        assert_eq!(missing(&[(1, 0), (90, 1), (2, 0), (91, 1)]), 0);
        assert_eq!(missing(&[(1, 0), (90, 1), (500, 8), (4, 0), (95, 1), (501, 8)]), 6);
        assert_eq!(missing(&[(u32::MAX, 0), (0, 0), (3, 0)]), 2);
    }

    #[test]
    fn late_records_and_new_beginnings_are_no_gaps() {
        assert_eq!(missing(&[(1, 0), (3, 0), (2, 0), (4, 0)]), 0);
        assert_eq!(missing(&[(1_000_000, 0), (1, 0), (2, 0)]), 0);
    }
}
