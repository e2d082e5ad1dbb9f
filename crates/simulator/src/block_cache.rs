//! Blocks of another service's files that a data server keeps on a volume (XCache).

use std::collections::BTreeMap;
use std::ops::Range;

use headrace_model::Nanos;

use crate::ids::{InstanceId, RpcId};
use crate::scenario::CacheSpec;

/// Fill levels of XCache's volume in percent (`pfc.diskusage`): above the second, files are removed
/// until the first is reached.
const LEVELS_PERCENT: (u64, u64) = (90, 95);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Block {
    Absent,
    Fetching,
    Present,
}

/// The cached blocks of one file.
#[derive(Debug)]
struct CachedFile {
    /// The file on the volume.
    instance: InstanceId,
    blocks: Vec<Block>,
    /// Requests that wait for blocks that are being fetched.
    waiting: Vec<RpcId>,
    last_use: Nanos,
}

impl CachedFile {
    fn is_fetching(&self) -> bool {
        !self.waiting.is_empty() || self.blocks.contains(&Block::Fetching)
    }
}

/// The cache of one data server.
#[derive(Debug)]
pub(crate) struct BlockCache {
    /// The mount of its volume.
    pub mount: u32,
    block_bytes: u64,
    prefetch_blocks: u32,
    low_bytes: u64,
    high_bytes: u64,
    kept_bytes: u64,
    files: BTreeMap<u32, CachedFile>,
}

/// What became of fetched blocks.
pub(crate) struct Fetched {
    /// The file on the volume.
    pub instance: InstanceId,
    /// Requests that waited for blocks of the file.
    pub waiting: Vec<RpcId>,
}

/// Files that were removed from the cache.
#[derive(Default)]
pub(crate) struct Removed {
    /// Their files on the volume.
    pub instances: Vec<InstanceId>,
    /// Requests that waited for blocks of them.
    pub waiting: Vec<RpcId>,
}

impl BlockCache {
    /// Create a cache on a volume with `free_bytes`.
    pub fn new(mount: u32, spec: &CacheSpec, free_bytes: u64) -> Self {
        BlockCache {
            mount,
            block_bytes: spec.block_bytes,
            prefetch_blocks: spec.prefetch_blocks,
            low_bytes: free_bytes / 100 * LEVELS_PERCENT.0,
            high_bytes: free_bytes / 100 * LEVELS_PERCENT.1,
            kept_bytes: 0,
            files: BTreeMap::new(),
        }
    }

    /// Return the bytes in the cache, including those that are being fetched.
    pub fn kept_bytes(&self) -> u64 {
        self.kept_bytes
    }

    /// Return the file on the volume that holds the blocks of `file`.
    pub fn instance(&self, file: u32) -> Option<InstanceId> {
        self.files.get(&file).map(|cached| cached.instance)
    }

    /// Add a file of which no block is present.
    pub fn add(&mut self, file: u32, instance: InstanceId) {
        let cached = CachedFile { instance, blocks: Vec::new(), waiting: Vec::new(), last_use: 0 };
        self.files.insert(file, cached);
    }

    /// Return whether `bytes` fit without removing a file.
    pub fn has_room(&self, bytes: u64) -> bool {
        self.kept_bytes + bytes <= self.high_bytes
    }

    /// Mark all blocks of a file of `bytes` as present.
    pub fn fill(&mut self, file: u32, bytes: u64) {
        let Some(cached) = self.files.get_mut(&file) else { return };
        cached.blocks = vec![Block::Present; bytes.div_ceil(self.block_bytes) as usize];
        self.kept_bytes += cached.blocks.len() as u64 * self.block_bytes;
    }

    fn blocks_of(&self, offset: u64, length: u64) -> Range<usize> {
        (offset / self.block_bytes) as usize..(offset + length).div_ceil(self.block_bytes) as usize
    }

    /// Return whether all bytes of a range are present.
    pub fn holds(&self, file: u32, offset: u64, length: u64) -> bool {
        let wanted = self.blocks_of(offset, length);
        let cached = self.files.get(&file);
        let blocks = cached.and_then(|cached| cached.blocks.get(wanted));
        blocks.is_some_and(|blocks| blocks.iter().all(|&block| block == Block::Present))
    }

    /// Return how many bytes of a range are in blocks that are present.
    pub fn present_bytes(&self, file: u32, offset: u64, length: u64) -> u64 {
        let Some(cached) = self.files.get(&file) else { return 0 };
        let end = offset + length;
        self.blocks_of(offset, length)
            .filter(|&number| cached.blocks.get(number) == Some(&Block::Present))
            .map(|number| {
                let start = number as u64 * self.block_bytes;
                (start + self.block_bytes).min(end) - start.max(offset)
            })
            .sum()
    }

    /// Note the use of a file.
    pub fn touch(&mut self, file: u32, now: Nanos) {
        if let Some(cached) = self.files.get_mut(&file) {
            cached.last_use = now;
        }
    }

    /// Return the ranges of bytes that must be fetched before a range of a file of `bytes` is
    /// present, with the blocks that are fetched ahead. They count as being fetched from now on.
    pub fn fetch(&mut self, file: u32, offset: u64, length: u64, bytes: u64) -> Vec<Range<u64>> {
        let block_bytes = self.block_bytes;
        let mut wanted = self.blocks_of(offset, length);
        let blocks = bytes.div_ceil(block_bytes) as usize;
        wanted.end = (wanted.end + self.prefetch_blocks as usize).min(blocks).max(wanted.end);
        let Some(cached) = self.files.get_mut(&file) else { return Vec::new() };
        if cached.blocks.len() < wanted.end.max(blocks) {
            cached.blocks.resize(wanted.end.max(blocks), Block::Absent);
        }
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for number in wanted {
            if cached.blocks[number] != Block::Absent {
                continue;
            }
            cached.blocks[number] = Block::Fetching;
            self.kept_bytes += block_bytes;
            let start = number as u64 * block_bytes;
            let end = (start + block_bytes).min(bytes.max(start + 1));
            match ranges.last_mut() {
                Some(last) if last.end == start => last.end = end,
                _ => ranges.push(start..end),
            }
        }
        ranges
    }

    /// Let a request wait until blocks of the file arrive.
    pub fn wait(&mut self, file: u32, rpc: RpcId) {
        if let Some(cached) = self.files.get_mut(&file) {
            cached.waiting.push(rpc);
        }
    }

    /// Note that blocks arrived, or with `failed` that they didn't. Return the file's state; `None`
    /// if it was removed meanwhile.
    pub fn fetched(&mut self, file: u32, range: &Range<u64>, failed: bool) -> Option<Fetched> {
        let blocks = self.blocks_of(range.start, range.end - range.start);
        let cached = self.files.get_mut(&file)?;
        for block in cached.blocks.get_mut(blocks)? {
            if *block == Block::Fetching {
                *block = if failed { Block::Absent } else { Block::Present };
                if failed {
                    self.kept_bytes -= self.block_bytes;
                }
            }
        }
        let waiting = std::mem::take(&mut cached.waiting);
        Some(Fetched { instance: cached.instance, waiting })
    }

    /// Make room for a range of a file: when the cache is too full, remove the files whose last use
    /// is longest ago.
    pub fn make_room(&mut self, file: u32, length: u64) -> Removed {
        let mut removed = Removed::default();
        let more = length + (u64::from(self.prefetch_blocks) + 2) * self.block_bytes;
        if self.has_room(more) {
            return removed;
        }
        while self.kept_bytes + more > self.low_bytes {
            let unused =
                self.files.iter().filter(|(&f, cached)| f != file && !cached.is_fetching());
            let oldest = unused.min_by_key(|(&file, cached)| (cached.last_use, file));
            let Some((&oldest, _)) = oldest else { break };
            let one = self.remove(oldest);
            removed.instances.extend(one.instances);
        }
        removed
    }

    /// Remove a file.
    pub fn remove(&mut self, file: u32) -> Removed {
        let Some(cached) = self.files.remove(&file) else { return Removed::default() };
        let kept = cached.blocks.iter().filter(|&&block| block != Block::Absent).count();
        self.kept_bytes -= kept as u64 * self.block_bytes;
        Removed { instances: vec![cached.instance], waiting: cached.waiting }
    }
}

#[cfg(test)]
mod tests {
    use headrace_model::slots::Id;

    use super::*;

    const BLOCK: u64 = 4096;

    fn cache(blocks: u64, prefetch_blocks: u32) -> BlockCache {
        let spec = CacheSpec { volume: "disk".into(), block_bytes: BLOCK, prefetch_blocks };
        BlockCache::new(0, &spec, blocks * BLOCK)
    }

    #[test]
    fn a_block_is_fetched_once() {
        let mut cache = cache(1000, 0);
        cache.add(7, Id::at(1));
        assert_eq!(cache.fetch(7, 100, 2 * BLOCK, 10 * BLOCK), vec![0..3 * BLOCK]);
        assert!(!cache.holds(7, 100, 10));
        // Blocks 1 and 2 are on their way.
        assert_eq!(cache.fetch(7, BLOCK, 3 * BLOCK, 10 * BLOCK), vec![3 * BLOCK..4 * BLOCK]);
        cache.wait(7, Id::at(42));
        let fetched = cache.fetched(7, &(0..3 * BLOCK), false).unwrap();
        assert_eq!((fetched.instance, fetched.waiting), (Id::at(1), vec![Id::at(42)]));
        assert!(cache.holds(7, 100, 2 * BLOCK) && !cache.holds(7, BLOCK, 3 * BLOCK));
        assert_eq!(cache.present_bytes(7, 100, 10), 10);
        assert_eq!(cache.present_bytes(7, 2 * BLOCK + 1, 2 * BLOCK), BLOCK - 1);
        assert_eq!(cache.present_bytes(8, 0, BLOCK), 0);
        assert_eq!(cache.kept_bytes(), 4 * BLOCK);
    }

    #[test]
    fn blocks_that_did_not_arrive_are_fetched_again() {
        let mut cache = cache(1000, 0);
        cache.add(7, Id::at(1));
        assert_eq!(cache.fetch(7, 0, 10, 100), vec![0..100]);
        assert!(cache.fetched(7, &(0..100), true).is_some());
        assert_eq!(cache.kept_bytes(), 0);
        assert_eq!(cache.fetch(7, 0, 10, 100), vec![0..100]);
    }

    #[test]
    fn blocks_are_fetched_ahead_up_to_the_end() {
        let mut cache = cache(1000, 3);
        cache.add(7, Id::at(1));
        assert_eq!(cache.fetch(7, 0, 1, 10 * BLOCK), vec![0..4 * BLOCK]);
        assert_eq!(cache.fetch(7, 9 * BLOCK, 1, 10 * BLOCK), vec![9 * BLOCK..10 * BLOCK]);
    }

    #[test]
    fn the_files_unused_for_longest_make_room() {
        let mut cache = cache(100, 0);
        for file in 0..9 {
            cache.add(file, Id::at(100 + file as usize));
            cache.fetch(file, 0, 10 * BLOCK, 10 * BLOCK);
            if file != 3 {
                cache.fetched(file, &(0..10 * BLOCK), false);
            }
            cache.touch(file, u64::from(20 - file));
        }
        // 90 of 95 blocks are used; file 8 is the oldest, and file 3 is still being fetched.
        assert!(cache.make_room(0, BLOCK).instances.is_empty());
        assert_eq!(cache.make_room(8, 8 * BLOCK).instances, [Id::at(107)]);
        assert_eq!(cache.kept_bytes(), 80 * BLOCK);
    }
}
