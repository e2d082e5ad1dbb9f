//! Generations and tiers of a group's pages with the multi-generational LRU: their numbers, and
//! which tiers are worth protecting (`mm/vmscan.c`, as in Linux 6.18).
//!
//! Generations are numbered; the oldest one (`min_seq`) is evicted from, the youngest one is
//! `max_seq`. Each is divided into tiers by the number of uses: pages used N times through read()
//! are in tier log2 N, rounded up. A tier is protected if, of its pages that came up for eviction,
//! a clearly larger share was read again than of the first tier.

/// `MIN_NR_GENS`: eviction leaves this number of generations alone.
const MIN_GENERATIONS: u64 = 2;
/// `MAX_NR_GENS`.
const MAX_GENERATIONS: u64 = 4;
const TIERS: usize = 4;
/// `MIN_LRU_BATCH` of a 64-bit kernel, in pages: fewer refaults say nothing of a tier.
const FEW_REFAULTS: u64 = 64;
/// Gains of the first tier and of the others (`get_tier_idx`): the margin for fluctuations.
const FIRST_GAIN: u128 = 2;
const UPPER_GAIN: u128 = 3;

/// Uses that fill all flags of a page (`LRU_REFS_FLAGS` and `PG_workingset`): further ones are not
/// counted.
pub(super) const ALL_USES: u8 = 5;

/// What became of the pages of a tier. The averages halve with each generation that ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Tier {
    refaulted_pages: u64,
    /// Evicted or protected.
    judged_pages: u64,
    average_refaulted_pages: u64,
    average_judged_pages: u64,
}

impl Tier {
    const NEW: Tier = Tier {
        refaulted_pages: 0,
        judged_pages: 0,
        average_refaulted_pages: 0,
        average_judged_pages: 0,
    };

    fn refaulted(&self) -> u128 {
        u128::from(self.average_refaulted_pages + self.refaulted_pages)
    }

    fn judged(&self) -> u128 {
        u128::from(self.average_judged_pages + self.judged_pages)
    }

    /// `reset_ctrl_pos`.
    fn carry_over(&mut self) {
        *self = Tier {
            average_refaulted_pages: (self.average_refaulted_pages + self.refaulted_pages) / 2,
            average_judged_pages: (self.average_judged_pages + self.judged_pages) / 2,
            ..Tier::NEW
        };
    }
}

/// The generations of one group (`struct lru_gen_folio`), of which only files are modelled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Generations {
    oldest: u64,
    youngest: u64,
    tiers: [Tier; TIERS],
}

impl Generations {
    /// `lru_gen_init_lruvec`.
    pub(super) const NEW: Generations =
        Generations { oldest: 0, youngest: MIN_GENERATIONS + 1, tiers: [Tier::NEW; TIERS] };

    /// Return the number of the oldest generation.
    pub(super) fn oldest(&self) -> u64 {
        self.oldest
    }

    /// Return the list of a generation.
    pub(super) fn list(generation: u64) -> u8 {
        (generation % MAX_GENERATIONS) as u8
    }

    /// Return the places of a group's lists, oldest generation first. Without generations the
    /// inactive list is the first.
    pub(super) fn lists(&self) -> [usize; MAX_GENERATIONS as usize] {
        std::array::from_fn(|each| usize::from(Self::list(self.oldest + each as u64)))
    }

    /// Return the generation that pages enter (`lru_gen_folio_seq`).
    pub(super) fn entry(&self, workingset: bool) -> u64 {
        (self.youngest + 1 + u64::from(workingset) - MAX_GENERATIONS).max(self.oldest)
    }

    /// Return the generation of pages that could not be evicted (`evict_folios`).
    pub(super) fn entry_of_rejected(&self, workingset: bool) -> u64 {
        let entry = self.entry(workingset);
        if entry > self.oldest {
            return entry;
        }
        self.youngest + 1 + u64::from(workingset) - MIN_GENERATIONS
    }

    /// Let the oldest generation be the first that has pages, or the last of those that eviction
    /// may take (`try_to_inc_min_seq`). Make a new one if so few are left (`should_run_aging`).
    pub(super) fn advance(&mut self, has_pages: impl Fn(u8) -> bool) {
        let before = self.oldest;
        while self.oldest + MIN_GENERATIONS <= self.youngest && !has_pages(Self::list(self.oldest))
        {
            self.oldest += 1;
        }
        if self.oldest > before {
            self.tiers.iter_mut().for_each(Tier::carry_over);
        }
        if self.oldest + MIN_GENERATIONS >= self.youngest {
            self.youngest += 1;
        }
    }

    /// Return the highest tier that is not protected (`get_tier_idx`).
    pub(super) fn highest_evicted_tier(&self) -> u8 {
        let [first, upper @ ..] = &self.tiers;
        let is_protected = |tier: &Tier| {
            tier.refaulted() >= u128::from(FEW_REFAULTS)
                && tier.refaulted() * (first.judged() + u128::from(FEW_REFAULTS)) * FIRST_GAIN
                    > (first.refaulted() + 1) * tier.judged() * UPPER_GAIN
        };
        upper.iter().position(is_protected).unwrap_or(TIERS - 1) as u8
    }

    /// Count pages of a tier that are evicted or protected.
    pub(super) fn count_judged(&mut self, tier: u8, pages: u32) {
        self.tiers[usize::from(tier)].judged_pages += u64::from(pages);
    }

    /// Count pages of a tier that are read again.
    pub(super) fn count_refaulted(&mut self, tier: u8, pages: u32) {
        self.tiers[usize::from(tier)].refaulted_pages += u64::from(pages);
    }

    /// Return whether pages that were evicted from a generation, by the end of its number, count
    /// if they are read again (`lru_gen_test_recent`).
    pub(super) fn is_recent(&self, generation: u16) -> bool {
        (self.youngest as u16).wrapping_sub(generation) < MAX_GENERATIONS as u16
    }

    /// Return the tier of pages (`lru_tier_from_refs`).
    pub(super) fn tier(uses: u8, workingset: bool) -> u8 {
        match uses {
            ALL_USES.. => LAST_TIER,
            _ if workingset => LAST_TIER,
            0 | 1 => 0,
            2 => 1,
            _ => 2,
        }
    }
}

/// The tier of pages of the working set.
pub(super) const LAST_TIER: u8 = TIERS as u8 - 1;
