//! Which block has the fewest valid units, without a look at all blocks.
//!
//! Blocks are in groups. Of each group a lower bound of the valid counts of its candidates is
//! known: a write lowers it, which costs one comparison, and a search raises it where it has become
//! too low. Lists of blocks by count would need two changes of lists for each write, and no list
//! has its blocks in order.

/// Blocks of a group. A drive has at most some 17 000 blocks, so that a search reads a few hundred
/// bounds and the counts of about one group.
const GROUP_BLOCKS: usize = 64;

#[derive(Clone)]
pub(super) struct Fewest {
    /// Of each group: no candidate has fewer valid units.
    least: Vec<u32>,
}

impl Fewest {
    pub fn new(blocks: u32) -> Self {
        Fewest { least: vec![0; (blocks as usize).div_ceil(GROUP_BLOCKS)] }
    }

    /// Tell that a block has `valid` valid units: fewer than before, or it is a candidate from now
    /// on.
    #[inline]
    pub fn lower(&mut self, block: u32, valid: u32) {
        let least = &mut self.least[block as usize / GROUP_BLOCKS];
        *least = valid.min(*least);
    }

    /// Return the candidate with the fewest valid units (the first of these), and how many they
    /// are. `candidate` tells which blocks are candidates.
    pub fn find(&mut self, valid: &[u32], candidate: impl Fn(u32) -> bool) -> Option<(u32, u32)> {
        loop {
            let (group, bound) = self.first_least()?;
            let first = group * GROUP_BLOCKS;
            let end = valid.len().min(first + GROUP_BLOCKS);
            let candidates = (first as u32..end as u32).filter(|&block| candidate(block));
            let found = candidates.map(|block| (valid[block as usize], block)).min();
            let least = found.map_or(u32::MAX, |(valid, _)| valid);
            // The groups before have none with as few; those after have none with fewer.
            if let Some((valid, block)) = found.filter(|_| least == bound) {
                return Some((block, valid));
            }
            self.least[group] = least;
        }
    }

    /// Return the first group with the lowest bound, and that; `None` if no group has candidates.
    fn first_least(&self) -> Option<(usize, u32)> {
        let bound = *self.least.iter().min()?;
        let group = self.least.iter().position(|&least| least == bound)?;
        (bound < u32::MAX).then_some((group, bound))
    }
}
