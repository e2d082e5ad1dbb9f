//! fio's iolog. Version 2: `file action offset length`, with `wait` lines in microseconds between;
//! version 3: starts each line with a time in microseconds.
//!
//! Each file of the log is a device of its own, as offsets of different files are unrelated:
//! `0:1` is the first file that the log names. <https://fio.readthedocs.io>, "Trace file format".

use std::path::Path;

use rustc_hash::FxHashMap;

use crate::damage::Damage;
use crate::event::{Action, Event, Names};
use crate::lines::{check, op_of_word, Format, Heap, Lines, Wrong};

const SECTOR_BYTES: u64 = 512;

pub struct Iolog {
    timed: bool,
    now_us: u64,
    /// The device number of each file.
    files: FxHashMap<String, u32>,
}

/// Maximum number of files: a device has 20 bits for its minor number.
const MOST_FILES: usize = (1 << 20) - 1;

impl Iolog {
    /// Return the device number of a file: 1 for the first one, and so on.
    fn device(&mut self, file: &str) -> Result<u32, Wrong> {
        if let Some(&device) = self.files.get(file) {
            return Ok(device);
        }
        if self.files.len() >= MOST_FILES {
            return Err(Wrong {
                allowed: "at most 1048575 files",
                ..Wrong::new("file", file, "too many files")
            });
        }
        let device = self.files.len() as u32 + 1;
        self.files.insert(file.to_owned(), device);
        Ok(device)
    }
}

/// Return the version in the first line of an iolog.
pub fn version(line: &str) -> Option<&str> {
    line.strip_prefix("fio version ")?.strip_suffix(" iolog")
}

pub fn open(file: &Path, timed: bool) -> Result<Lines<Iolog>, Box<Damage>> {
    Lines::open(file, Iolog { timed, now_us: 0, files: FxHashMap::default() })
}

impl Format for Iolog {
    const NAME: &'static str = "fio-iolog";

    fn completes(&self) -> bool {
        false
    }

    fn line(&mut self, line: &str, _: &mut Names, out: &mut Heap) -> Result<(), Wrong> {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if words.is_empty() || words.starts_with(&["fio", "version"]) {
            return Ok(());
        }
        let broken = || Wrong::new("line", line, "is not a line of an iolog");
        if self.timed {
            self.now_us = words.remove(0).parse().map_err(|_| broken())?;
        }
        let number =
            |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or_else(broken);
        let action = *words.get(1).ok_or_else(broken)?;
        let file = words[0];
        if matches!(action, "add" | "open" | "close") {
            return self.device(file).map(drop);
        }
        if action == "wait" {
            self.now_us = self.now_us.saturating_add(number(2)?);
            return Ok(());
        }
        let op = op_of_word(action).ok_or_else(|| Wrong {
            allowed: "add, open, close, wait, read, write, sync, datasync, trim",
            ..Wrong::new("action", action, "unknown")
        })?;
        let (offset, length) = if words.len() >= 4 { (number(2)?, number(3)?) } else { (0, 0) };
        if offset % SECTOR_BYTES != 0 || length % SECTOR_BYTES != 0 {
            return Err(Wrong::new(
                "offset",
                &format!("{offset} {length}"),
                "not a multiple of 512 bytes",
            ));
        }
        let (sector, sectors) = check(op, offset / SECTOR_BYTES, length / SECTOR_BYTES)?;
        let time_ns = self.now_us.checked_mul(1000).ok_or_else(broken)?;
        let device = self.device(file)?;
        out.push(Event { time_ns, sector, sectors, pid: 0, device, action: Action::Issue, op });
        Ok(())
    }
}
