//! What a flow passes between two hosts.

/// The ports and uplinks that flows use, in their direction: two, or up to four.
#[derive(Clone, Copy, Debug)]
pub(super) struct Sides {
    pub(super) all: [u32; 4],
    /// Of 32 bits: copies of the padding after a byte stall the loads that follow.
    pub(super) count: u32,
}

impl Sides {
    pub(super) fn iter(&self) -> impl Iterator<Item = u32> + '_ {
        self.all[..self.count as usize].iter().copied()
    }

    /// Call `each` with every side: faster than `iter`, as most flows have two.
    #[inline]
    pub(super) fn for_each(&self, mut each: impl FnMut(u32)) {
        let [first, second, third, fourth] = self.all;
        each(first);
        each(second);
        if self.count > 2 {
            each(third);
        }
        if self.count > 3 {
            each(fourth);
        }
    }
}
