//! Layouts of the RAID levels: which member holds which sectors (Linux md's default layouts).

/// The part of a request on one member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Piece {
    pub member: usize,
    pub sector: u64,
    pub sectors: u32,
}

/// Columns of a stripe: sectors from the start of its chunks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Columns {
    pub(super) from: u64,
    pub(super) to: u64,
}

impl Columns {
    pub(super) fn sectors(&self) -> u64 {
        self.to - self.from
    }

    pub(super) fn contain(&self, other: &Columns) -> bool {
        self.from <= other.from && other.to <= self.to
    }
}

/// RAID level with its parameters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    Striped,
    Mirrored,
    /// Stripes with this many parity chunks each.
    Parity(usize),
    /// Mirrored pairs, striped.
    MirroredPairs,
}

#[derive(Clone, Copy, Debug)]
pub struct Layout {
    pub level: Level,
    pub members: usize,
    pub chunk: u64,
    /// Sectors used on each member.
    pub member_sectors: u64,
}

impl Layout {
    /// Return the data chunks per stripe.
    pub fn data_chunks(&self) -> usize {
        match self.level {
            Level::Striped => self.members,
            Level::Mirrored => 1,
            Level::Parity(parities) => self.members - parities,
            Level::MirroredPairs => self.members / 2,
        }
    }

    pub fn capacity_sectors(&self) -> u64 {
        self.member_sectors * self.data_chunks() as u64
    }

    /// Return the member that holds data chunk `index` of a stripe (the first of a pair).
    pub fn data_member(&self, stripe: u64, index: usize) -> usize {
        match self.level {
            Level::Striped => index,
            Level::Mirrored => 0,
            Level::MirroredPairs => 2 * index,
            // Left-symmetric: data starts after the parity chunks and wraps around.
            Level::Parity(parities) => {
                (self.parity_member(stripe, 0) + parities + index) % self.members
            }
        }
    }

    /// Return the member that holds parity chunk `index` of a stripe.
    pub fn parity_member(&self, stripe: u64, index: usize) -> usize {
        let first = self.members - 1 - (stripe % self.members as u64) as usize;
        (first + index) % self.members
    }

    /// Call `each(first sector, sectors)`, in sectors of the RAID, for the data in a range of a
    /// member. Parity is skipped.
    pub fn for_each_data(
        &self,
        member: usize,
        sector: u64,
        sectors: u64,
        mut each: impl FnMut(u64, u64),
    ) {
        if self.level == Level::Mirrored {
            each(sector, sectors);
            return;
        }
        let end = (sector + sectors).min(self.member_sectors);
        let mut at = sector;
        while at < end {
            let (stripe, within) = (at / self.chunk, at % self.chunk);
            let length = (self.chunk - within).min(end - at);
            let holds = |&index: &usize| {
                let first = self.data_member(stripe, index);
                first == member || (self.level == Level::MirroredPairs && first + 1 == member)
            };
            if let Some(index) = (0..self.data_chunks()).find(holds) {
                each(
                    (stripe * self.data_chunks() as u64 + index as u64) * self.chunk + within,
                    length,
                );
            }
            at += length;
        }
    }

    /// Call `each(member, first sector, sectors)` for everything that members store for a range of
    /// the RAID: data, copies and parity. Complete stripes yield one range per member.
    pub fn for_each_stored(
        &self,
        sector: u64,
        sectors: u64,
        mut each: impl FnMut(usize, u64, u64),
    ) {
        if self.level == Level::Mirrored {
            (0..self.members).for_each(|member| each(member, sector, sectors));
            return;
        }
        let end = sector + sectors;
        let row = self.chunk * self.data_chunks() as u64;
        let (first, past) = (sector.div_ceil(row), end / row);
        let parts = if first < past {
            let whole = (past - first) * self.chunk;
            (0..self.members).for_each(|member| each(member, first * self.chunk, whole));
            [(sector, first * row), (past * row, end)]
        } else {
            [(sector, end), (end, end)]
        };
        for (from, to) in parts {
            self.for_each_chunk(from, (to - from) as u32, |stripe, index, within, length| {
                let (at, length) = (stripe * self.chunk + within, u64::from(length));
                let member = self.data_member(stripe, index);
                each(member, at, length);
                match self.level {
                    Level::MirroredPairs => each(member + 1, at, length),
                    Level::Parity(parities) => {
                        (0..parities).for_each(|p| each(self.parity_member(stripe, p), at, length));
                    }
                    Level::Striped | Level::Mirrored => {}
                }
            });
        }
    }

    /// Call `each(stripe, index, sector in the chunk, sectors)` for every chunk that a request
    /// touches.
    pub fn for_each_chunk(
        &self,
        sector: u64,
        sectors: u32,
        mut each: impl FnMut(u64, usize, u64, u32),
    ) {
        let end = sector + u64::from(sectors);
        let mut at = sector;
        while at < end {
            let chunk = at / self.chunk;
            let within = at % self.chunk;
            let length = (self.chunk - within).min(end - at);
            let data = self.data_chunks() as u64;
            each(chunk / data, (chunk % data) as usize, within, length as u32);
            at += length;
        }
    }
}

/// Add a piece, or extend the one that ends where it starts.
pub fn join(pieces: &mut Vec<Piece>, piece: Piece) {
    let before =
        |p: &Piece| p.member == piece.member && p.sector + u64::from(p.sectors) == piece.sector;
    match pieces.iter().position(before) {
        Some(index) => pieces[index].sectors += piece.sectors,
        None => pieces.push(piece),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn every_sector_has_one_place_of_its_own(
            members in 3usize..8, parities in 1usize..3, chunk in 1u64..9
        ) {
            let layout = Layout {
                level: Level::Parity(parities), members, chunk, member_sectors: chunk * 40
            };
            prop_assume!(members > parities + 1);
            let mut taken = std::collections::HashSet::new();
            for sector in 0..layout.capacity_sectors() {
                let mut places = Vec::new();
                layout.for_each_chunk(sector, 1, |stripe, index, within, sectors| {
                    assert_eq!(sectors, 1);
                    let member = layout.data_member(stripe, index);
                    for parity in 0..parities {
                        assert_ne!(member, layout.parity_member(stripe, parity));
                    }
                    places.push((member, stripe * chunk + within));
                });
                prop_assert_eq!(places.len(), 1);
                prop_assert!(places[0].1 < layout.member_sectors);
                prop_assert!(taken.insert(places[0]));
            }
        }
    }

    proptest! {
        #[test]
        fn what_a_member_holds_is_found_again(
            level in 0usize..4, chunk in 1u64..9, sector in 0u64..200
        ) {
            let level =
                [Level::Striped, Level::Mirrored, Level::Parity(1), Level::MirroredPairs][level];
            let layout = Layout { level, members: 4, chunk, member_sectors: chunk * 40 };
            prop_assume!(sector < layout.capacity_sectors() && level != Level::Mirrored);
            let mut back = Vec::new();
            layout.for_each_chunk(sector, 1, |stripe, index, within, _| {
                let member = layout.data_member(stripe, index);
                layout.for_each_data(
                    member, stripe * chunk + within, 1, |first, length| back.push((first, length))
                );
            });
            prop_assert_eq!(back, vec![(sector, 1)]);
        }
    }

    proptest! {
        #[test]
        fn what_is_stored_is_where_data_copies_and_parity_of_each_sector_are(
            level in 0usize..5, chunk in 1u64..9, sector in 0u64..150, sectors in 0u64..120,
        ) {
            let level = [
                Level::Striped, Level::Mirrored, Level::Parity(1), Level::Parity(2),
                Level::MirroredPairs,
            ][level];
            let layout = Layout { level, members: 4, chunk, member_sectors: chunk * 40 };
            let end = (sector + sectors).min(layout.capacity_sectors());
            prop_assume!(sector <= end);
            let mut stored = std::collections::BTreeSet::new();
            layout.for_each_stored(sector, end - sector, |member, first, length| {
                stored.extend((first..first + length).map(|at| (member, at)));
            });
            let mut expected = std::collections::BTreeSet::new();
            for one in sector..end {
                layout.for_each_chunk(one, 1, |stripe, index, within, _| {
                    let at = stripe * chunk + within;
                    let member = layout.data_member(stripe, index);
                    expected.insert((member, at));
                    match level {
                        Level::Mirrored => expected.extend((0..4).map(|member| (member, one))),
                        Level::MirroredPairs => expected.extend([(member + 1, at)]),
                        Level::Parity(n) => {
                            expected.extend((0..n).map(|p| (layout.parity_member(stripe, p), at)));
                        }
                        Level::Striped => {}
                    }
                });
            }
            prop_assert_eq!(stored, expected);
        }
    }

    #[test]
    fn parity_goes_round_as_md_has_it() {
        let layout =
            Layout { level: Level::Parity(1), members: 4, chunk: 128, member_sectors: 1280 };
        let parities: Vec<usize> = (0..5).map(|stripe| layout.parity_member(stripe, 0)).collect();
        assert_eq!(parities, [3, 2, 1, 0, 3]);
        assert_eq!((0..3).map(|i| layout.data_member(1, i)).collect::<Vec<_>>(), [3, 0, 1]);
    }
}
