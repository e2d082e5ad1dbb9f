//! Drive descriptions and the errors of invalid ones.
//!
//! A `DriveSpec` is one table of the catalog (TOML or JSON). Every device model is built from one.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::hdd::spec::HddSpec;
pub use crate::raid::spec::{RaidSpec, StorageSpec};
pub use crate::ssd::spec::SsdSpec;

/// One drive, as described by its catalog table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DriveSpec {
    Hdd(Box<HddSpec>),
    Ssd(Box<SsdSpec>),
}

/// Price of a drive, where known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub amount: f64,
    pub currency: String,
    pub year: u32,
}

/// Sources of a drive's values. They do not affect the model.
pub type Sources = BTreeMap<String, String>;
/// Data sheet values (unit suffix in the key) that the model is tested against.
pub type Sheet = BTreeMap<String, f64>;

impl DriveSpec {
    pub fn name(&self) -> &str {
        match self {
            DriveSpec::Hdd(spec) => &spec.name,
            DriveSpec::Ssd(spec) => &spec.name,
        }
    }

    pub fn capacity_bytes(&self) -> u64 {
        match self {
            DriveSpec::Hdd(spec) => spec.capacity_bytes,
            DriveSpec::Ssd(spec) => spec.capacity_bytes,
        }
    }

    pub fn sheet(&self) -> &Sheet {
        match self {
            DriveSpec::Hdd(spec) => &spec.sheet,
            DriveSpec::Ssd(spec) => &spec.sheet,
        }
    }

    pub fn source(&self) -> &Sources {
        match self {
            DriveSpec::Hdd(spec) => &spec.source,
            DriveSpec::Ssd(spec) => &spec.source,
        }
    }

    /// Return true for a hard disk.
    pub fn rotational(&self) -> bool {
        matches!(self, DriveSpec::Hdd(_))
    }

    /// Return how many requests the drive accepts at once, which is the limit for the block layer
    /// above.
    pub fn queue_depth(&self) -> u32 {
        match self {
            DriveSpec::Hdd(spec) => spec.queue.depth,
            DriveSpec::Ssd(spec) => spec.queue_depth,
        }
    }

    /// Parse a drive from JSON. The error names an unknown or missing field.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        serde_json::from_str(text).map_err(|error| SpecError {
            field: "(document)".into(),
            given: error.to_string(),
            allowed: "one drive table with kind = \"hdd\" or \"ssd\"".into(),
        })
    }
}

/// An invalid field, the given value and the allowed values.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SpecError {
    pub field: String,
    pub given: String,
    pub allowed: String,
}

impl fmt::Display for SpecError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: given {}, allowed: {}", self.field, self.given, self.allowed)
    }
}

impl std::error::Error for SpecError {}

impl SpecError {
    /// Return the same error for a field of the table `outer`.
    pub fn inside(mut self, outer: &str) -> Self {
        let inner = self.field.rsplit('.').next().unwrap_or_default();
        self.field = format!("{outer}.{inner}");
        self
    }
}

/// Return the error of an invalid field.
pub(crate) fn refuse<T>(
    field: &str,
    given: impl fmt::Display,
    allowed: &str,
) -> Result<T, SpecError> {
    Err(SpecError { field: field.into(), given: given.to_string(), allowed: allowed.into() })
}

/// Check that a number is finite and in `low..=high`.
pub(crate) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<f64, SpecError> {
    if value.is_finite() && value >= low && value <= high {
        Ok(value)
    } else {
        refuse(field, value, &format!("{low} to {high}"))
    }
}

/// Check that an integer is in `low..=high`.
pub(crate) fn within_int(field: &str, value: u64, low: u64, high: u64) -> Result<u64, SpecError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        refuse(field, value, &format!("{low} to {high}"))
    }
}
