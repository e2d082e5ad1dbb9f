//! Trees hold what they should: counts, parents before children, every item in one place, shares that differ by one at most.

use std::collections::HashMap;
use std::path::Path;

use headrace_metadata::config::{Config, Phase, PHASES};
use headrace_metadata::run::run;
use headrace_metadata::storage::Kernel;
use headrace_metadata::tree::{directories, Namer, Tree};
use proptest::prelude::*;

fn config(directory: &Path) -> Config {
    serde_json::from_value(serde_json::json!({
        "directory": directory, "clients": 1, "items": 1, "phases": ["file_creation", "file_removal"],
    }))
    .expect("a config")
}

#[test]
fn mdtest_counts_directories_so() {
    // src/mdtest.c: depth + 1 for a branching factor of 1, else (b^(d+1) - 1) / (b - 1).
    for (depth, branching, count) in
        [(0, 1, 1), (0, 7, 1), (5, 1, 6), (2, 3, 13), (3, 2, 15), (1, 9, 10)]
    {
        assert_eq!(directories(depth, branching), Some(count));
    }
    assert_eq!(directories(64, u32::MAX), None);
}

proptest! {
    #[test]
    fn every_item_has_one_place(depth in 0_u32..4, branching in 1_u32..5, leaf_only in any::<bool>(), items in 1_u64..400) {
        let tree = Tree::new(Path::new("/t"), 3, depth, branching, leaf_only);
        prop_assert_eq!(Some(tree.count()), directories(depth, branching));
        let mut held: HashMap<Vec<u8>, u64> = HashMap::new();
        let mut names = Namer::new(&tree, 5, true, items);
        let mut seen = std::collections::HashSet::new();
        for item in 0..items {
            prop_assert!(seen.insert(names.path(item, b"").to_owned()), "a name stands there twice");
            *held.entry(tree.place(item, items).to_vec()).or_default() += 1;
        }
        let least = held.values().min().copied().unwrap_or(0);
        let most = held.values().max().copied().unwrap_or(0);
        prop_assert!(most - least <= 1);
        let holding = if leaf_only { u64::from(branching).pow(depth) } else { tree.count() };
        prop_assert_eq!(held.len() as u64, holding.min(items));
        let levels = |path: &[u8]| path.iter().filter(|byte| **byte == b'/').count() as u32;
        for path in held.keys() {
            prop_assert!(!leaf_only || levels(path) == depth + 2, "items lie at the leaves");
        }
    }

    #[test]
    fn parents_come_before_children(depth in 0_u32..5, branching in 1_u32..5) {
        let tree = Tree::new(Path::new("/t"), 0, depth, branching, false);
        let mut made = std::collections::HashSet::from([b"/t".to_vec()]);
        for index in 0..tree.count() {
            let path = tree.directory(index).into_bytes();
            let end = path.iter().rposition(|byte| *byte == b'/').expect("a parent");
            prop_assert!(made.contains(&path[..end]));
            prop_assert!(made.insert(path));
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn what_is_made_is_removed(
        clients in 1_u32..9, items in 1_u64..40, depth in 0_u32..3, branching in 1_u32..4, leaf_only in any::<bool>(),
        unique in any::<bool>(), stride in 0_u32..9, bytes in 0_u64..70, kinds in 1_usize..4,
    ) {
        let folder = tempfile::tempdir().expect("a directory");
        let mut asked = config(&folder.path().join("test"));
        (asked.clients, asked.items, asked.depth, asked.branching_factor) = (clients, items, depth, branching);
        (asked.leaf_only, asked.unique_directories, asked.stride) = (leaf_only, unique, stride);
        (asked.write_bytes, asked.read_bytes, asked.verify) = (bytes, bytes, true);
        asked.phases = PHASES
            .into_iter()
            .filter(|phase| !phase.of_tree() && (if phase.of_files() { kinds & 1 } else { kinds & 2 }) != 0)
            .collect();
        if kinds & 1 == 0 {
            (asked.write_bytes, asked.read_bytes) = (0, 0);
        }
        let report = run(&asked, &Kernel).expect("all phases");
        for phase in &report.phases {
            let trees = if unique { u64::from(clients) } else { 1 };
            let wanted = if phase.phase.of_tree() {
                trees * directories(depth, branching).expect("few")
            } else {
                u64::from(clients) * items
            };
            prop_assert_eq!(phase.operations, wanted, "{:?}", phase.phase);
            prop_assert_eq!(phase.latency_histogram.iter().map(|(_, count)| count).sum::<u64>(), wanted);
            prop_assert!(phase.stonewall_operations <= wanted);
            prop_assert!(phase.stonewall_ns <= phase.last_done_ns);
            if phase.phase == Phase::FileRead {
                prop_assert_eq!(phase.read_bytes, wanted * bytes);
            }
        }
        prop_assert_eq!(std::fs::read_dir(&asked.directory).expect("still there").count(), 0);
    }
}

/// Makes a configuration one that cannot be.
type Spoil = Box<dyn Fn(&mut Config)>;

#[test]
fn what_cannot_be_is_said() {
    let folder = tempfile::tempdir().expect("a directory");
    let good = config(folder.path());
    let bad: [(&str, Spoil); 6] = [
        ("items", Box::new(|config| config.items = 0)),
        ("clients", Box::new(|config| config.clients = 0)),
        ("meeting", Box::new(|config| config.clients_total = Some(2))),
        (
            "more than 1000000 directories",
            Box::new(|config| (config.depth, config.branching_factor) = (9, 9)),
        ),
        ("file stat needs file creation", Box::new(|config| config.phases = vec![Phase::FileStat])),
        (
            "file creation needs file removal",
            Box::new(|config| config.phases = vec![Phase::FileCreation]),
        ),
    ];
    for (said, spoil) in bad {
        let mut config = good.clone();
        spoil(&mut config);
        let failure = run(&config, &Kernel).err().expect("refused");
        assert!(failure.0.contains(said), "{failure} should name {said}");
    }
}

#[test]
fn nobody_waits_for_ever_for_who_does_not_come() {
    // One of two processes never comes.
    let folder = tempfile::tempdir().expect("a directory");
    let mut asked = config(&folder.path().join("test"));
    asked.meeting = Some(folder.path().to_path_buf());
    asked.clients_total = Some(2);
    asked.patience_s = 0.3;
    let failure = run(&asked, &Kernel).err().expect("refused");
    assert!(failure.0.contains("1 of 2 clients did not come within"), "{failure}");
}
