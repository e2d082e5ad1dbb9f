//! The directories of a test and the location of each item, as in mdtest. Performs no I/O.
//!
//! `TEST/mdtest_tree.T/mdtest_tree.T.1/…`: directory `d` of a tree has the children `b*d+1 …
//! b*d+b`, so a directory is identified by its number. Items are assigned to directories in
//! consecutive runs of equal length (lengths differ by one if they do not divide evenly).

use std::ffi::CString;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Return the number of directories of a tree with `depth` levels below the top; `None` on
/// overflow.
pub fn directories(depth: u32, branching: u32) -> Option<u64> {
    let branching = u64::from(branching);
    let mut level: u64 = 1;
    let mut sum: u64 = 1;
    for _ in 0..depth {
        level = level.checked_mul(branching)?;
        sum = sum.checked_add(level)?;
    }
    Some(sum)
}

/// The paths of one tree's directories, each after its parent.
pub struct Tree {
    directories: Vec<Vec<u8>>,
    first_with_items: usize,
}

impl Tree {
    /// Create tree number `number` under `test`; `leaf_only`: items only in the deepest
    /// directories.
    pub fn new(test: &Path, number: u32, depth: u32, branching: u32, leaf_only: bool) -> Tree {
        let count = directories(depth, branching).unwrap_or(u64::MAX) as usize;
        let mut paths: Vec<Vec<u8>> = Vec::with_capacity(count);
        let name = |directory: usize| format!("/mdtest_tree.{number}.{directory}").into_bytes();
        let mut top = test.as_os_str().as_bytes().to_vec();
        top.extend(name(0));
        paths.push(top);
        for directory in 1..count {
            let parent = (directory - 1) / branching as usize;
            let mut path = paths[parent].clone();
            path.extend(name(directory));
            paths.push(path);
        }
        let first_with_items = match (leaf_only, depth) {
            (true, 1..) => directories(depth - 1, branching).unwrap_or(0) as usize,
            _ => 0,
        };
        Tree { directories: paths, first_with_items }
    }

    /// Return the number of directories.
    pub fn count(&self) -> u64 {
        self.directories.len() as u64
    }

    /// Return the path of directory `index` for a system call.
    pub fn directory(&self, index: u64) -> CString {
        CString::new(self.directories[index as usize].clone()).expect("paths hold no NUL")
    }

    /// Return the directory of item `item` of `items`.
    pub fn place(&self, item: u64, items: u64) -> &[u8] {
        let holding = (self.directories.len() - self.first_with_items) as u64;
        let index = (u128::from(item) * u128::from(holding) / u128::from(items)) as usize;
        &self.directories[self.first_with_items + index]
    }
}

/// Builds the paths of a client's items in one buffer, without allocations.
pub struct Namer<'a> {
    tree: &'a Tree,
    items: u64,
    name: Vec<u8>,
    buffer: Vec<u8>,
    digits: [u8; 20],
}

impl<'a> Namer<'a> {
    /// Create a namer for the items (files or directories) of client `client` in a tree.
    pub fn new(tree: &'a Tree, client: u32, files: bool, items: u64) -> Namer<'a> {
        let kind = if files { "file" } else { "dir" };
        Namer {
            tree,
            items,
            name: format!("/{kind}.mdtest.{client}.").into_bytes(),
            buffer: Vec::with_capacity(4096),
            digits: [0; 20],
        }
    }

    /// Return the path of an item, terminated by NUL. `suffix` is appended to its name.
    pub fn path(&mut self, item: u64, suffix: &[u8]) -> &std::ffi::CStr {
        self.buffer.clear();
        self.buffer.extend_from_slice(self.tree.place(item, self.items));
        self.buffer.extend_from_slice(&self.name);
        let mut at = self.digits.len();
        let mut left = item;
        loop {
            at -= 1;
            self.digits[at] = b'0' + (left % 10) as u8;
            left /= 10;
            if left == 0 {
                break;
            }
        }
        self.buffer.extend_from_slice(&self.digits[at..]);
        self.buffer.extend_from_slice(suffix);
        self.buffer.push(0);
        std::ffi::CStr::from_bytes_with_nul(&self.buffer).expect("one NUL, at the end")
    }
}
