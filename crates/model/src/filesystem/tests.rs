//! Placement compared with the on-disk layouts, and invariants: no block is allocated twice or
//! lost.

use proptest::prelude::*;

use super::*;

const DISK_SECTORS: u64 = 320_000_000_000 / 512;

fn fresh(kind: FilesystemKind) -> Filesystem {
    Filesystem::new(&FilesystemSpec::fresh(kind), DISK_SECTORS, 1)
}

/// Return the metadata blocks needed to read the whole file, each counted once.
fn metadata_reads(fs: &Filesystem, file: u32, pages: u32) -> usize {
    let mut seen = std::collections::BTreeSet::new();
    let mut page = 0;
    while page < pages {
        let (blocks, until) = fs.metadata_for(file, page);
        seen.extend(blocks);
        page = until;
    }
    seen.len()
}

#[test]
fn ext3_reads_one_more_block_every_4_mib() {
    let mut fs = fresh(FilesystemKind::Ext3);
    let file = fs.create_filled(656_000_000).unwrap();
    let pages = 656_000_000_u64.div_ceil(PAGE_BYTES) as u32;
    // 160 157 pages: 12 direct, one indirect block per 1024 more, one double-indirect block.
    assert_eq!(metadata_reads(&fs, file, pages), ((pages - 12).div_ceil(1024) + 1) as usize);
    // The indirect block is directly before the data that it maps.
    let (blocks, _) = fs.metadata_for(file, 12);
    let indirect = blocks.last().unwrap();
    assert_eq!(fs.metadata_sector(indirect) + SECTORS_PER_BLOCK, fs.locate(file, 12).unwrap().0);
}

#[test]
fn extents_need_next_to_no_metadata() {
    for kind in [FilesystemKind::Ext4, FilesystemKind::Xfs] {
        let mut fs = fresh(kind);
        let file = fs.create_filled(656_000_000).unwrap();
        assert!(fs.fragments(file) <= 5, "{kind:?} {}", fs.fragments(file));
        assert!(metadata_reads(&fs, file, 160_000) <= 1);
    }
}

#[test]
fn delayed_allocation_keeps_concurrent_files_whole_where_ext3_interleaves() {
    let fragments = |kind| {
        let mut fs = fresh(kind);
        let files: Vec<_> = (0..8).map(|_| fs.create()).collect();
        // Eight writers in turn; ext3 allocates at every write of 1 MiB, the others at every flush
        // of 16 MiB.
        let step = if kind == FilesystemKind::Ext3 { 256 } else { 4096 };
        for start in (0..65_536).step_by(step) {
            for &file in &files {
                fs.allocate(file, start, step as u32).unwrap();
            }
        }
        files.iter().map(|&file| fs.fragments(file)).sum::<usize>() / files.len()
    };
    let [ext3, ext4, xfs] =
        [FilesystemKind::Ext3, FilesystemKind::Ext4, FilesystemKind::Xfs].map(fragments);
    assert!(ext3 > 2 * ext4 && ext4 >= xfs, "{ext3} {ext4} {xfs}");
}

#[test]
fn an_aged_filesystem_fragments_files() {
    let spec = FilesystemSpec {
        free_extent_bytes: 4 << 20,
        used_fraction: 0.7,
        ..FilesystemSpec::fresh(FilesystemKind::Ext4)
    };
    let mut fs = Filesystem::new(&spec, DISK_SECTORS, 1);
    let file = fs.create_filled(656_000_000).unwrap();
    let fragments = fs.fragments(file);
    assert!((80..=320).contains(&fragments), "{fragments}");
}

#[test]
fn directories_lie_apart() {
    let spec = FilesystemSpec { directories: 2, ..FilesystemSpec::fresh(FilesystemKind::Xfs) };
    let mut fs = Filesystem::new(&spec, DISK_SECTORS, 1);
    let [a, b, c] = [(); 3].map(|()| fs.create_filled(1 << 20).unwrap());
    let at = |file| fs.locate(file, 0).unwrap().0;
    assert!(at(b) > at(a) + DISK_SECTORS / 3);
    assert!(at(c) < DISK_SECTORS / 8);
}

/// Return the 128 MiB group where each of `count` files of one directory starts; the files are
/// written one after the other.
fn groups(fs: &mut Filesystem, count: usize, bytes: u64) -> Vec<u64> {
    let files: Vec<_> = (0..count).map(|_| fs.create_filled(bytes).unwrap()).collect();
    files.iter().map(|&file| fs.locate(file, 0).unwrap().0 / SECTORS_PER_BLOCK / 32_768).collect()
}

#[test]
fn ext3_puts_files_of_a_full_group_at_doubling_distances() {
    // A file fills nearly five groups. The search tries groups 0 (the root's), then 2 + 1, + 2, +
    // 4, ...; group 3 is inside the first file, and group 9 has a little space left. When all are
    // full, files follow each other from the root's group on. The last group tried wraps around
    // after 2385 groups.
    let hashed = [0, 5, 9, 17, 33, 65, 129, 257, 513, 1025, 2049, 1712];
    let mut fs = fresh(FilesystemKind::Ext3);
    let begins = groups(&mut fs, 24, 656_000_000);
    assert_eq!(begins[..12], hashed);
    assert!(begins[12..].windows(2).all(|pair| pair[0] < pair[1]), "{begins:?}");
    assert!(begins[12] == 4 && begins[23] < 129, "{begins:?}");
}

#[test]
fn ext4_and_xfs_keep_files_of_a_directory_in_a_row() {
    for kind in [FilesystemKind::Ext4, FilesystemKind::Xfs] {
        let begins = groups(&mut fresh(kind), 24, 656_000_000);
        assert!(
            begins.windows(2).all(|pair| (4..=6).contains(&(pair[1] - pair[0]))),
            "{kind:?} {begins:?}"
        );
    }
}

#[test]
fn an_inode_that_was_given_back_is_taken_again() {
    for kind in [FilesystemKind::Ext3, FilesystemKind::Ext4, FilesystemKind::Xfs] {
        let mut fs = fresh(kind);
        let files: Vec<_> = (0..100).map(|_| fs.create()).collect();
        let inodes: Vec<_> = files.iter().map(|&file| fs.inode(file)).collect();
        // Sixteen inodes per block.
        assert_eq!(inodes.iter().collect::<std::collections::BTreeSet<_>>().len(), 7, "{kind:?}");
        fs.delete(files[3]);
        fs.delete(files[50]);
        let again = [fs.create(), fs.create()];
        assert_eq!(again.map(|file| fs.inode(file)), [inodes[3], inodes[50]], "{kind:?}");
    }
}

#[test]
fn a_file_of_more_pages_than_numbers_have_has_no_room() {
    for kind in [FilesystemKind::Ext3, FilesystemKind::Ext4, FilesystemKind::Xfs] {
        let mut fs = fresh(kind);
        assert!(fs.create_filled(PAGE_BYTES << 32).is_err(), "{kind:?}");
        assert!(fs.create_filled((PAGE_BYTES << 32) + PAGE_BYTES).is_err(), "{kind:?}");
        assert!(fs.create_filled(PAGE_BYTES).is_ok(), "{kind:?}");
    }
}

proptest! {
    #[test]
    fn no_block_is_given_twice(
        kind in prop::sample::select(vec![
            FilesystemKind::Ext3, FilesystemKind::Ext4, FilesystemKind::Xfs, FilesystemKind::Btrfs,
        ]),
        aged in any::<bool>(),
        steps in prop::collection::vec((0..6usize, 0..3u8, 0..4000u32, 1..3000u32), 1..60),
    ) {
        let spec = FilesystemSpec {
            free_extent_bytes: if aged { 256 << 10 } else { 0 },
            used_fraction: if aged { 0.5 } else { 0.0 },
            ..FilesystemSpec::fresh(kind)
        };
        let mut fs = Filesystem::new(&spec, (4 << 30) / 512, 3);
        let mut files: Vec<Option<u32>> = vec![None; 6];
        for (slot, what, start, pages) in steps {
            let file = *files[slot].get_or_insert_with(|| fs.create());
            match what {
                0 => {
                    fs.delete(file);
                    files[slot] = None;
                }
                1 => fs.close(file),
                _ => fs.allocate(file, start, pages).unwrap(),
            }
            let mut held: Vec<(u64, u64)> = Vec::new();
            for &file in files.iter().flatten() {
                let f = &fs.files[file as usize];
                held.extend(f.runs.iter().map(|r| (r.block, u64::from(r.pages))));
                let metadata = f.maps.iter().flat_map(|maps| maps.blocks());
                held.extend(metadata.map(|m| (fs.metadata[m as usize], 1)));
            }
            held.sort_unstable();
            for pair in held.windows(2) {
                prop_assert!(pair[0].0 + pair[0].1 <= pair[1].0, "{:?}", pair);
            }
            let stored = fs.stored();
            for (block, blocks) in held {
                let (first, end) =
                    (block * SECTORS_PER_BLOCK, (block + blocks) * SECTORS_PER_BLOCK);
                let holds = |&(from, sectors): &(u64, u64)| from <= first && end <= from + sectors;
                prop_assert!(stored.iter().any(holds), "block {} of {:?}", block, stored);
            }
        }
    }
}
