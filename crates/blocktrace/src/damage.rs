//! Damaged parts of a trace: where, the value found, and the allowed values. Intact parts are used.

use std::path::{Path, PathBuf};

use serde::Serialize;

/// One unreadable place in a file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Damage {
    pub file: PathBuf,
    /// Line of a text file, counted from 1; 0 for a binary file.
    pub line: u64,
    /// Byte offset in a binary file; 0 for text.
    pub offset: u64,
    pub field: String,
    pub given: String,
    pub problem: String,
    pub allowed: String,
}

impl Damage {
    pub fn line(file: &Path, line: u64, field: &str, given: &str, problem: &str) -> Damage {
        Damage {
            file: file.to_owned(),
            line,
            offset: 0,
            field: field.to_owned(),
            given: given.chars().take(60).collect(),
            problem: problem.to_owned(),
            allowed: String::new(),
        }
    }

    pub fn offset(file: &Path, offset: u64, problem: String) -> Damage {
        Damage {
            file: file.to_owned(),
            line: 0,
            offset,
            field: "record".to_owned(),
            given: String::new(),
            problem,
            allowed: String::new(),
        }
    }

    pub fn file(file: &Path, problem: &str) -> Damage {
        Damage { field: "file".to_owned(), ..Damage::line(file, 0, "file", "", problem) }
    }

    pub fn allowing(mut self, allowed: &str) -> Damage {
        self.allowed = allowed.to_owned();
        self
    }
}

/// The first damages in full, and the number of all.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Damages {
    pub first: Vec<Damage>,
    pub count: u64,
}

const KEPT: usize = 20;

impl Damages {
    pub fn add(&mut self, damage: Damage) {
        if self.first.len() < KEPT {
            self.first.push(damage);
        }
        self.count += 1;
    }

    pub fn take_in(&mut self, other: &mut Damages) {
        let told = other.first.len() as u64;
        for damage in other.first.drain(..) {
            self.add(damage);
        }
        self.count += other.count - told;
        other.count = 0;
    }
}
