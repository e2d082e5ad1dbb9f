//! Units of the page cache: pages, folios of several pages, and regions of the index.

/// Bytes per page.
pub const PAGE_BYTES: u64 = 4096;

/// Extents of a file are found by region of 4096 pages (16 MiB). No extent crosses a region
/// boundary.
pub(super) const REGION_SHIFT: u32 = 12;

pub(super) const REGION_PAGES: u32 = 1 << REGION_SHIFT;

/// Return the number of the region that holds a page.
#[inline]
pub(super) fn region_of(page: u32) -> usize {
    (page >> REGION_SHIFT) as usize
}

/// Return the number of a page in its region.
#[inline]
pub(super) fn within_region(page: u32) -> u16 {
    (page & (REGION_PAGES - 1)) as u16
}

/// Contiguous pages of a file that the kernel keeps as one: 2 to the power of `order`, and aligned
/// to that.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Folio {
    pub start: u32,
    pub order: u8,
}

impl Folio {
    pub fn page(page: u32) -> Self {
        Folio { start: page, order: 0 }
    }

    pub fn pages(self) -> u32 {
        1 << self.order
    }

    pub fn end(self) -> u32 {
        self.start + self.pages()
    }

    /// Return the folio of a page of `from..end` when these pages are read with folios of this
    /// order: smaller ones where the alignment or the end requires it.
    pub fn within(from: u32, end: u32, order: u8, page: u32) -> Self {
        let mut start = from;
        loop {
            let mut fits = order.min(start.trailing_zeros() as u8);
            while fits > 0 && start + (1 << fits) > end {
                fits -= 1;
            }
            let folio = Folio { start, order: fits };
            if page < folio.end() {
                return folio;
            }
            start = folio.end();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folios_fill_a_range_as_alignment_and_end_allow() {
        let folios = |from, end, order| {
            let (mut page, mut found) = (from, Vec::new());
            while page < end {
                let folio = Folio::within(from, end, order, page);
                assert!(folio.start == page && page % folio.pages() == 0);
                found.push(folio.pages());
                page = folio.end();
            }
            found
        };
        assert_eq!(folios(3, 32, 2), [1, 4, 4, 4, 4, 4, 4, 4]);
        assert_eq!(folios(0, 15, 3), [8, 4, 2, 1]);
        assert_eq!(folios(6, 9, 0), [1, 1, 1]);
    }
}
