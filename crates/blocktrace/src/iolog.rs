//! fio's iolog. Version 2: `file action offset length`, with `wait` lines in microseconds between;
//! version 3: starts each line with a time in microseconds.
//!
//! All files of the log are treated as one drive. <https://fio.readthedocs.io>, "Trace file
//! format".

use std::path::Path;

use crate::damage::Damage;
use crate::event::{Action, Event, Names};
use crate::lines::{check, op_of_word, Format, Heap, Lines, Wrong};

const SECTOR_BYTES: u64 = 512;

pub struct Iolog {
    timed: bool,
    now_us: u64,
}

/// Return the version in the first line of an iolog.
pub fn version(line: &str) -> Option<&str> {
    line.strip_prefix("fio version ")?.strip_suffix(" iolog")
}

pub fn open(file: &Path, timed: bool) -> Result<Lines<Iolog>, Box<Damage>> {
    Lines::open(file, Iolog { timed, now_us: 0 })
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
        let broken = || Wrong::new("line", line, "is no line of an iolog");
        if self.timed {
            self.now_us = words.remove(0).parse().map_err(|_| broken())?;
        }
        let number =
            |at: usize| words.get(at).and_then(|word| word.parse::<u64>().ok()).ok_or_else(broken);
        let action = *words.get(1).ok_or_else(broken)?;
        if matches!(action, "add" | "open" | "close") {
            return Ok(());
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
        let sectors = check(op, offset / SECTOR_BYTES, length / SECTOR_BYTES)?;
        let time_ns = self.now_us.checked_mul(1000).ok_or_else(broken)?;
        let sector = offset / SECTOR_BYTES;
        out.push(Event { time_ns, sector, sectors, pid: 0, device: 0, action: Action::Issue, op });
        Ok(())
    }
}
