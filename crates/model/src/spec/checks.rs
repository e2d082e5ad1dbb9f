//! What the specifications of all devices share: checks of fields, their errors, and the fields
//! that do not affect a model.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};

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
