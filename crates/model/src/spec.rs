//! How a drive is described, and what is said when the description cannot be true.
//!
//! A `DriveSpec` is one table of the catalog (TOML or JSON): the only door into the device models.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

pub use crate::hdd::spec::HddSpec;
pub use crate::raid::spec::{RaidSpec, StorageSpec};
pub use crate::ssd::spec::SsdSpec;

/// One drive, as its table in the catalog says.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DriveSpec {
    Hdd(Box<HddSpec>),
    Ssd(Box<SsdSpec>),
}

/// What a drive costs, where that is known.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Price {
    pub amount: f64,
    pub currency: String,
    pub year: u32,
}

/// What belongs to a drive's table and changes nothing in its behaviour.
pub type Sources = BTreeMap<String, String>;
/// Facts printed on a data sheet (unit last in the key), which the model is tested against.
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

    /// True for a drive whose platter turns.
    pub fn rotational(&self) -> bool {
        matches!(self, DriveSpec::Hdd(_))
    }

    /// Requests the drive takes at once; what a block layer above it should allow.
    pub fn queue_depth(&self) -> u32 {
        match self {
            DriveSpec::Hdd(spec) => spec.queue.depth,
            DriveSpec::Ssd(spec) => spec.queue_depth,
        }
    }

    /// Reads a drive from JSON; an unknown or missing field is named.
    pub fn from_json(text: &str) -> Result<Self, SpecError> {
        serde_json::from_str(text).map_err(|error| SpecError {
            field: "(document)".into(),
            given: error.to_string(),
            allowed: "one drive table with kind = \"hdd\" or \"ssd\"".into(),
        })
    }
}

/// A field that cannot be true, what it said, and what would be allowed.
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
    /// The same error for a field of another table.
    pub fn inside(mut self, outer: &str) -> Self {
        let inner = self.field.rsplit('.').next().unwrap_or_default();
        self.field = format!("{outer}.{inner}");
        self
    }
}

/// The error of a field; for the checks of the models.
pub(crate) fn refuse<T>(field: &str, given: impl fmt::Display, allowed: &str) -> Result<T, SpecError> {
    Err(SpecError { field: field.into(), given: given.to_string(), allowed: allowed.into() })
}

/// A number that must be finite and lie in `low..=high`.
pub(crate) fn within(field: &str, value: f64, low: f64, high: f64) -> Result<f64, SpecError> {
    if value.is_finite() && value >= low && value <= high {
        Ok(value)
    } else {
        refuse(field, value, &format!("{low} to {high}"))
    }
}

/// A whole number in `low..=high`.
pub(crate) fn within_int(field: &str, value: u64, low: u64, high: u64) -> Result<u64, SpecError> {
    if (low..=high).contains(&value) {
        Ok(value)
    } else {
        refuse(field, value, &format!("{low} to {high}"))
    }
}
