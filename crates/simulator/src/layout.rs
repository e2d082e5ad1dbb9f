//! Mapping of the bytes of a file to the targets of a service.

use headrace_model::stream::name_hash;

use crate::ids::InstanceId;
use crate::scenario::ServiceKind;

/// How the bytes of files are distributed over targets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Layout {
    /// The whole file on one target, chosen by a hash of its name; replicas on the following
    /// targets.
    Whole,
    /// Stripes over `targets` targets, the first chosen round-robin.
    Striped { stripe_bytes: u64, targets: u32 },
    /// Blocks on pseudo-randomly chosen targets, replicas on others.
    Blocks { block_bytes: u64 },
}

/// A file of a service.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServiceFile {
    pub bytes: u64,
    /// First target (whole and striped files).
    pub first: u32,
    pub number: u64,
    /// Instance of each part on its server, if it is created. Parts are: replicas of a whole file;
    /// stripe objects; block × replicas.
    pub parts: Vec<Option<InstanceId>>,
    pub live: bool,
    /// Up to which byte its parity is written.
    pub coded_bytes: u64,
    /// The file of the upstream that the service passes on, and whether its server opened it.
    pub upstream: Option<u32>,
    pub opened: bool,
}

/// A location in a file: the part, the offset in the part, and the number of contiguous bytes
/// there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Piece {
    /// The part of the first replica; the other replicas follow.
    pub part: u32,
    pub offset: u64,
    pub in_row: u64,
}

impl Layout {
    pub fn of(
        kind: ServiceKind,
        stripe_bytes: u64,
        stripe_targets: u32,
        block_bytes: u64,
        targets: u32,
        parity: u32,
    ) -> Layout {
        if kind == ServiceKind::Hdfs || block_bytes > 0 {
            return Layout::Blocks { block_bytes: block_bytes.max(1 << 20) };
        }
        let data = targets.saturating_sub(parity).max(1);
        let count = if stripe_targets == 0 { data } else { stripe_targets.min(data) };
        if stripe_bytes > 0 {
            return Layout::Striped { stripe_bytes, targets: count };
        }
        Layout::Whole
    }

    /// Return the location of the byte at `offset`.
    pub fn locate(&self, offset: u64, replicas: u32) -> Piece {
        match *self {
            Layout::Whole => Piece { part: 0, offset, in_row: u64::MAX - offset },
            Layout::Striped { stripe_bytes, targets } => {
                let (stripe, within) = (offset / stripe_bytes, offset % stripe_bytes);
                let targets = u64::from(targets);
                Piece {
                    part: (stripe % targets) as u32,
                    offset: stripe / targets * stripe_bytes + within,
                    // A single target stores its stripes contiguously.
                    in_row: if targets == 1 { u64::MAX - offset } else { stripe_bytes - within },
                }
            }
            Layout::Blocks { block_bytes } => {
                let (block, within) = (offset / block_bytes, offset % block_bytes);
                Piece {
                    part: block as u32 * replicas,
                    offset: within,
                    in_row: block_bytes - within,
                }
            }
        }
    }

    /// Return the bytes of a range of a striped file in its object `part`, where they are
    /// contiguous: offset and length.
    pub fn in_object(&self, offset: u64, end: u64, part: u32) -> Option<(u64, u64)> {
        let Layout::Striped { stripe_bytes, targets } = *self else { return None };
        let turn = stripe_bytes * u64::from(targets);
        let before = |at: u64| {
            at / turn * stripe_bytes
                + (at % turn).saturating_sub(u64::from(part) * stripe_bytes).min(stripe_bytes)
        };
        let (from, to) = (before(offset), before(end));
        (from < to).then_some((from, to - from))
    }

    /// Return the target of a part of a file. Blocks are placed by a hash (the name node's random
    /// choice), their replicas on neighbouring targets, the first on the writer's target if it has
    /// one.
    pub fn target(
        &self,
        file: &ServiceFile,
        part: u32,
        replicas: u32,
        targets: u32,
        near: Option<u32>,
    ) -> u32 {
        match *self {
            Layout::Whole | Layout::Striped { .. } => (file.first + part) % targets,
            Layout::Blocks { .. } => {
                let (block, replica) = (part / replicas, part % replicas);
                let first = match near {
                    Some(target) => target,
                    None => {
                        let mix = name_hash("hdfs/block")
                            ^ file.number.wrapping_mul(0x9e37_79b9_7f4a_7c15);
                        (mixed(mix.wrapping_add(u64::from(block))) % u64::from(targets)) as u32
                    }
                };
                (first
                    + replica
                        * (1 + (mixed(file.number ^ u64::from(block)) % 2) as u32
                            * u32::from(targets > 2 * replicas)))
                    % targets
            }
        }
    }
}

/// Return a hash of a number (SplitMix64's finaliser).
pub(crate) fn mixed(value: u64) -> u64 {
    let mut z = value.wrapping_add(0x9e37_79b9_7f4a_7c15);
    z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
    z ^ (z >> 31)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stripes_go_round_the_targets() {
        let layout = Layout::Striped { stripe_bytes: 100, targets: 3 };
        assert_eq!(layout.locate(0, 1), Piece { part: 0, offset: 0, in_row: 100 });
        assert_eq!(layout.locate(250, 1), Piece { part: 2, offset: 50, in_row: 50 });
        assert_eq!(layout.locate(310, 1), Piece { part: 0, offset: 110, in_row: 90 });
    }

    #[test]
    fn objects_hold_what_stripes_say() {
        let layout = Layout::Striped { stripe_bytes: 100, targets: 3 };
        for (offset, end) in [(0, 50), (0, 1000), (99, 101), (250, 910), (300, 300), (137, 731)] {
            for part in 0..3 {
                let bytes: Vec<u64> = (offset..end)
                    .map(|at| layout.locate(at, 1))
                    .filter(|piece| piece.part == part)
                    .map(|piece| piece.offset)
                    .collect();
                let expected = bytes.first().map(|&first| (first, bytes.len() as u64));
                assert_eq!(
                    layout.in_object(offset, end, part),
                    expected,
                    "{offset} to {end}, {part}"
                );
            }
        }
    }

    #[test]
    fn replicas_lie_on_different_targets() {
        let layout = Layout::Blocks { block_bytes: 64 };
        for targets in 3..20 {
            for number in 0..50 {
                let file = ServiceFile { number, ..ServiceFile::default() };
                for block in 0..8 {
                    let on: std::collections::BTreeSet<_> = (0..3)
                        .map(|r| layout.target(&file, block * 3 + r, 3, targets, None))
                        .collect();
                    assert_eq!(on.len(), 3, "{targets} targets");
                }
            }
        }
    }

    #[test]
    fn whole_files_spread_evenly_enough() {
        let mut counts = [0; 4];
        (0..4000u64).for_each(|number| counts[(mixed(number) % 4) as usize] += 1);
        assert!(counts.iter().all(|&count| (900..1100).contains(&count)), "{counts:?}");
    }
}
