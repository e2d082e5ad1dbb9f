//! One drive of any kind.

use serde::{Deserialize, Serialize};

use super::checks::{Sheet, Sources, SpecError};
use crate::hdd::spec::HddSpec;
use crate::ssd::spec::SsdSpec;

/// One drive, as described by its catalog table.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum DriveSpec {
    Hdd(Box<HddSpec>),
    Ssd(Box<SsdSpec>),
}

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

    /// Return whether a flush waits for the commands before it, and those after it for the flush.
    pub fn flushes_alone(&self) -> bool {
        match self {
            DriveSpec::Hdd(spec) => !spec.queue.queued_flush,
            DriveSpec::Ssd(spec) => spec.flushes_alone(),
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
