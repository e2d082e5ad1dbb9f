//! What a trace is made of: one event in the life of a block request, and the names of the processes that asked.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// What happened, in blktrace's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[repr(u8)]
pub enum Action {
    /// `Q`: a process asked the block layer.
    Queue,
    /// `M` or `F`: what was queued joined a request that was waiting.
    Merge,
    /// `D`: the request was given to the driver.
    Issue,
    /// `R`: the driver gave it back; it will be issued again.
    Requeue,
    /// `C`: done.
    Complete,
}

impl Action {
    pub fn of_letter(letter: &str) -> Option<Action> {
        Some(match letter {
            "Q" => Action::Queue,
            "M" | "F" => Action::Merge,
            "D" => Action::Issue,
            "R" => Action::Requeue,
            "C" => Action::Complete,
            _ => return None,
        })
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    Read,
    Write,
    Flush,
    Discard,
}

pub const OPS: [Op; 4] = [Op::Read, Op::Write, Op::Flush, Op::Discard];

impl Op {
    pub fn word(self) -> &'static str {
        ["read", "write", "flush", "discard"][self as usize]
    }

    /// From the kernel's `rwbs` letters (blk_fill_rwbs in kernel/trace/blktrace.c), in which a leading F is a flush before the
    /// operation; a write of nothing is a flush. None for what is neither (a command passed through).
    pub fn of_rwbs(rwbs: &[u8], sectors: u32) -> Option<Op> {
        let letters = match rwbs {
            [b'F', rest @ ..] if !rest.is_empty() => rest,
            all => all,
        };
        Some(match letters.first()? {
            b'R' => Op::Read,
            b'D' => Op::Discard,
            b'W' | b'Z' if sectors > 0 => Op::Write,
            b'W' | b'F' => Op::Flush,
            _ if rwbs[0] == b'F' => Op::Flush,
            _ => return None,
        })
    }
}

/// One event. `device` is `major << 20 | minor`, as the kernel has it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Event {
    pub time_ns: u64,
    pub sector: u64,
    pub sectors: u32,
    pub pid: u32,
    pub device: u32,
    pub action: Action,
    pub op: Op,
}

/// `major << 20 | minor`.
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | (minor & 0xf_ffff)
}

/// Names of processes by their id; the last name that an id had.
pub type Names = FxHashMap<u32, String>;

/// Processes whose names are kept at most: a trace of years must not fill the memory.
const NAMES_AT_MOST: usize = 1 << 16;

/// Notes the name of a process.
pub fn note_name(names: &mut Names, pid: u32, name: &[u8]) {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if end == 0 || (names.len() >= NAMES_AT_MOST && !names.contains_key(&pid)) {
        return;
    }
    if names.get(&pid).map(String::as_bytes) != Some(&name[..end]) {
        names.insert(pid, String::from_utf8_lossy(&name[..end]).into_owned());
    }
}
