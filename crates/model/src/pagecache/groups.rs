//! Memory control groups of the page cache (`mm/memcontrol.c`).
//!
//! A page counts to the group that read or wrote it first, whoever uses it later. A group that
//! reaches its capacity reclaims its own pages, from lists of its own. Pages of a group that is
//! removed stay in the cache and count to the root group.

use super::{CachedFile, Group, PageCache, PageReclaim, PAGE_BYTES};
use crate::slots::Id;

impl PageCache {
    /// Return the group of all pages that count to no other.
    pub fn root() -> Id<Group> {
        Id::at(0)
    }

    /// Make a group whose pages take this much memory at most.
    pub fn add_group(&mut self, capacity_bytes: u64) -> Id<Group> {
        let capacity_pages = capacity_bytes / PAGE_BYTES;
        self.groups_made += 1;
        self.groups.insert(Group { capacity_pages, serial: self.groups_made, ..Group::ROOT })
    }

    pub fn resize_group(&mut self, group: Id<Group>, capacity_bytes: u64) {
        self.groups[group].capacity_pages = capacity_bytes / PAGE_BYTES;
        self.make_room(group, 0);
    }

    /// Remove a group. Its pages count to the root group, as the most recent.
    pub fn remove_group(&mut self, group: Id<Group>) {
        let to = self.entry_list(Self::root(), false);
        for list in self.groups[group].generations.lists() {
            while let Some(oldest) = self.groups[group].lists[list].oldest {
                self.unlink(oldest);
                let e = &mut self.extents[oldest];
                e.group = Self::root();
                if self.policy == PageReclaim::Mglru {
                    e.list = to;
                }
                self.link_newest(oldest);
            }
        }
        let unwritten_pages = std::mem::take(&mut self.groups[group].unwritten_pages);
        self.groups[Self::root()].unwritten_pages += unwritten_pages;
        self.groups[group] = Group { serial: Group::REMOVED, ..Group::ROOT };
        self.groups.remove(group);
    }

    /// Return the pages that count to a group.
    pub fn group_pages(&self, group: Id<Group>) -> u64 {
        self.groups[group].pages()
    }

    /// Return the dirty pages of a group and those being written, as a share of its capacity.
    pub fn unwritten_share(&self, group: Id<Group>) -> f64 {
        let group = &self.groups[group];
        group.unwritten_pages as f64 / group.capacity_pages.max(1) as f64
    }

    /// Return the largest `unwritten_share` of all groups except the root group.
    pub fn largest_unwritten_share(&self) -> f64 {
        if self.groups.occupied() == 1 {
            return 0.0;
        }
        self.groups.ids().skip(1).map(|group| self.unwritten_share(group)).fold(0.0, f64::max)
    }

    /// Return the group with the most pages.
    pub(super) fn largest_group(&self) -> Id<Group> {
        if self.groups.occupied() == 1 {
            return Self::root();
        }
        self.groups.ids().max_by_key(|&group| self.groups[group].pages()).unwrap_or(Self::root())
    }

    /// Count pages of a file and a group that become dirty.
    pub(super) fn add_dirty(&mut self, file: Id<CachedFile>, group: Id<Group>, pages: u32) {
        let pages = u64::from(pages);
        self.dirty_pages += pages;
        self.files[file].dirty_pages += pages;
        self.groups[group].unwritten_pages += pages;
    }

    /// Count dirty pages that are written or dropped.
    pub(super) fn drop_dirty(&mut self, file: Id<CachedFile>, group: Id<Group>, pages: u32) {
        let pages = u64::from(pages);
        self.dirty_pages -= pages;
        self.files[file].dirty_pages -= pages;
        self.groups[group].unwritten_pages -= pages;
    }

    /// Count pages whose write-back starts.
    pub(super) fn add_writeback(&mut self, group: Id<Group>, pages: u32) {
        self.writeback_pages += u64::from(pages);
        self.groups[group].unwritten_pages += u64::from(pages);
    }

    /// Count pages whose write-back ends.
    pub(super) fn drop_writeback(&mut self, group: Id<Group>, pages: u32) {
        self.writeback_pages -= u64::from(pages);
        self.groups[group].unwritten_pages -= u64::from(pages);
    }
}
