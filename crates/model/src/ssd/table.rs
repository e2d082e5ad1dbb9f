//! Tables with shared initial contents: drives share every chunk that they have not written.

use std::sync::Arc;

/// Small enough that a few writes copy little, large enough that a busy drive soon owns all chunks
/// and allocates no more.
const CHUNK_SHIFT: u32 = 14;
const CHUNK: usize = 1 << CHUNK_SHIFT;

/// A copy-on-write table with copies per chunk.
#[derive(Clone)]
pub struct Table<T> {
    first: Arc<[T]>,
    own: Vec<Option<Box<[T]>>>,
}

impl<T: Copy> Table<T> {
    /// Create a table with `length` entries of `value`.
    pub fn new(value: T, length: usize) -> Self {
        let chunks = length.div_ceil(CHUNK);
        let first = std::iter::repeat_n(value, chunks * CHUNK).collect();
        Table { first, own: vec![None; chunks] }
    }

    #[inline(always)]
    pub fn get(&self, index: u32) -> T {
        match &self.own[(index >> CHUNK_SHIFT) as usize] {
            Some(chunk) => chunk[index as usize % CHUNK],
            None => self.first[index as usize],
        }
    }

    #[inline(always)]
    pub fn set(&mut self, index: u32, value: T) {
        let number = (index >> CHUNK_SHIFT) as usize;
        let first = &self.first;
        let chunk = self.own[number]
            .get_or_insert_with(|| first[number * CHUNK..(number + 1) * CHUNK].into());
        chunk[index as usize % CHUNK] = value;
    }

    /// Write `count` consecutive entries, with the value of each by its number in the run.
    pub fn set_run(&mut self, index: u32, count: u32, value: impl Fn(u32) -> T) {
        let (mut at, mut number_in_run, end) = (index as usize, 0, (index + count) as usize);
        while at < end {
            let number = at / CHUNK;
            let until = end.min((number + 1) * CHUNK);
            let first = &self.first;
            let chunk = self.own[number]
                .get_or_insert_with(|| first[number * CHUNK..(number + 1) * CHUNK].into());
            for place in &mut chunk[at % CHUNK..at % CHUNK + (until - at)] {
                *place = value(number_in_run);
                number_in_run += 1;
            }
            at = until;
        }
    }

    /// Freeze the current contents as the shared initial state of clones.
    pub fn settle(&mut self) {
        if self.own.iter().all(Option::is_none) {
            return;
        }
        let first = Arc::make_mut(&mut self.first);
        for (number, chunk) in self.own.iter_mut().enumerate() {
            if let Some(chunk) = chunk.take() {
                first[number * CHUNK..(number + 1) * CHUNK].copy_from_slice(&chunk);
            }
        }
    }

    /// Return the bytes that are not shared.
    #[cfg(test)]
    pub fn own_bytes(&self) -> usize {
        self.own.iter().flatten().count() * CHUNK * std::mem::size_of::<T>()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn a_table_holds_what_was_written_and_its_clones_begin_there(
            length in 1usize..70_000,
            before in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 0..50),
            after in prop::collection::vec((any::<prop::sample::Index>(), any::<u32>()), 0..50),
        ) {
            let mut plain = vec![7; length];
            let mut table = Table::new(7, length);
            for (index, value) in before {
                let index = index.index(length);
                plain[index] = value;
                table.set(index as u32, value);
                let count = (length - index).min(value as usize % 40_000);
                for (offset, place) in plain[index..index + count].iter_mut().enumerate() {
                    *place = value.wrapping_add(offset as u32);
                }
                table.set_run(index as u32, count as u32, |number| value.wrapping_add(number));
            }
            table.settle();
            let other = table.clone();
            prop_assert_eq!(other.own_bytes(), 0);
            let beginning = plain.clone();
            for (index, value) in after {
                plain[index.index(length)] = value;
                table.set(index.index(length) as u32, value);
            }
            for index in 0..length {
                prop_assert_eq!(table.get(index as u32), plain[index]);
                prop_assert_eq!(other.get(index as u32), beginning[index]);
            }
        }
    }
}
