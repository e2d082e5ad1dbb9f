//! Elements of a trace: one event of a block request, and the names of the requesting processes.

use rustc_hash::FxHashMap;
use serde::Serialize;

/// Type of an event, with blktrace's letters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize)]
#[repr(u8)]
pub enum Action {
    /// `Q`: a process submitted a bio to the block layer.
    Queue,
    /// `M` or `F`: a queued bio was merged with a waiting request.
    Merge,
    /// `D`: the request was issued to the driver.
    Issue,
    /// `R`: the driver returned the request; it will be issued again.
    Requeue,
    /// `C`: the request completed.
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

/// Operation of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize)]
#[serde(rename_all = "lowercase")]
#[repr(u8)]
pub enum Op {
    #[default]
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

    /// Parse the kernel's `rwbs` letters (blk_fill_rwbs in kernel/trace/blktrace.c). A leading F is
    /// a flush before the operation; a write of 0 sectors is a flush. Return `None` for other
    /// operations (passthrough commands).
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

/// One event. `device` is `major << 20 | minor`, as in the kernel.
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

/// Return `major << 20 | minor`.
pub fn device_number(major: u32, minor: u32) -> u32 {
    major << 20 | (minor & 0xf_ffff)
}

/// Names of processes by process ID; the last name if an ID had several.
pub type Names = FxHashMap<u32, String>;

/// Maximum number of names kept: a trace of several years must not exhaust memory.
const NAMES_AT_MOST: usize = 1 << 16;

/// Record the name of a process.
pub fn note_name(names: &mut Names, pid: u32, name: &[u8]) {
    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
    if end == 0 || (names.len() >= NAMES_AT_MOST && !names.contains_key(&pid)) {
        return;
    }
    if names.get(&pid).map(String::as_bytes) != Some(&name[..end]) {
        names.insert(pid, String::from_utf8_lossy(&name[..end]).into_owned());
    }
}
