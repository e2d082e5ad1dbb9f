//! Drive descriptions and the errors of invalid ones.
//!
//! A `DriveSpec` is one table of the catalog (TOML or JSON). Every device model is built from one.

pub(crate) mod checks;
mod drive;

pub(crate) use checks::{refuse, within, within_int};
pub use checks::{Price, Sheet, Sources, SpecError};
pub use drive::DriveSpec;

pub use crate::hdd::spec::HddSpec;
pub use crate::raid::spec::{RaidSpec, StorageSpec};
pub use crate::ssd::spec::SsdSpec;
