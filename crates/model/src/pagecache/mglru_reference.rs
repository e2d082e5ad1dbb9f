//! The multi-generational LRU page by page, straight from the kernel's rules, for tests.

use std::collections::{HashMap, VecDeque};

#[derive(Clone, Copy)]
struct Page {
    generation: u64,
    uses: u64,
    workingset: bool,
}

impl Page {
    fn tier(&self) -> usize {
        if self.workingset {
            return 3;
        }
        self.uses.next_power_of_two().trailing_zeros() as usize
    }
}

/// Clean pages of one file in one group.
pub(super) struct Pages {
    capacity: usize,
    pages: HashMap<u32, Page>,
    /// Oldest page first.
    lists: [VecDeque<u32>; 4],
    oldest: u64,
    youngest: u64,
    refaulted: [u64; 4],
    judged: [u64; 4],
    averages: [[u64; 2]; 4],
    /// Generation and tier of evicted pages.
    shadows: HashMap<u32, (u64, usize)>,
}

impl Pages {
    pub(super) fn new(capacity: usize) -> Self {
        Pages {
            capacity,
            pages: HashMap::new(),
            lists: Default::default(),
            oldest: 0,
            youngest: 3,
            refaulted: [0; 4],
            judged: [0; 4],
            averages: [[0; 2]; 4],
            shadows: HashMap::new(),
        }
    }

    /// Read a page; return whether it was in the cache.
    pub(super) fn read(&mut self, number: u32) -> bool {
        if let Some(page) = self.pages.get_mut(&number) {
            match page.uses {
                4 => page.workingset = true,
                _ => page.uses += 1,
            }
            return true;
        }
        while self.pages.len() >= self.capacity {
            self.reclaim();
        }
        let mut workingset = false;
        if let Some((generation, tier)) = self.shadows.remove(&number) {
            if self.youngest - generation < 4 {
                self.refaulted[tier] += 1;
                workingset = tier == 3;
            }
        }
        let generation = (self.youngest - 3 + u64::from(workingset)).max(self.oldest);
        self.pages.insert(number, Page { generation, uses: 1, workingset });
        self.lists[generation as usize % 4].push_back(number);
        false
    }

    fn reclaim(&mut self) {
        self.advance();
        let Some(number) = self.lists[self.oldest as usize % 4].pop_front() else { return };
        let page = self.pages[&number];
        let (tier, all) = (page.tier(), page.uses + u64::from(page.workingset) == 5);
        if all || tier > self.highest_evicted() {
            let moved =
                Page { generation: page.generation + 1, uses: 0, workingset: page.workingset };
            self.pages.insert(number, moved);
            self.lists[moved.generation as usize % 4].push_back(number);
            self.judged[tier] += u64::from(!all);
        } else {
            self.pages.remove(&number);
            self.judged[tier] += 1;
            self.shadows.insert(number, (self.oldest, tier));
        }
    }

    fn advance(&mut self) {
        let before = self.oldest;
        while self.oldest + 2 <= self.youngest && self.lists[self.oldest as usize % 4].is_empty() {
            self.oldest += 1;
        }
        if self.oldest > before {
            for tier in 0..4 {
                let [refaulted, judged] = self.averages[tier];
                self.averages[tier] =
                    [(refaulted + self.refaulted[tier]) / 2, (judged + self.judged[tier]) / 2];
            }
            (self.refaulted, self.judged) = ([0; 4], [0; 4]);
        }
        if self.oldest + 2 >= self.youngest {
            self.youngest += 1;
        }
    }

    fn highest_evicted(&self) -> usize {
        let of = |tier: usize| {
            let [refaulted, judged] = self.averages[tier];
            [refaulted + self.refaulted[tier], judged + self.judged[tier]]
        };
        let [first_refaulted, first_judged] = of(0);
        let is_positive = |tier: usize| {
            let [refaulted, judged] = of(tier);
            refaulted < 64
                || refaulted * (first_judged + 64) * 2 <= (first_refaulted + 1) * judged * 3
        };
        (1..4).take_while(|&tier| is_positive(tier)).count()
    }
}
