//! Errors of the core as one Python exception with the field, the given value and the allowed
//! values.

use headrace_model::spec::SpecError;
use pyo3::create_exception;
use pyo3::exceptions::PyException;
use pyo3::PyErr;
use serde::de::DeserializeOwned;

create_exception!(
    headrace._core,
    ModelError,
    PyException,
    "A description that cannot be true: args are (field, given, allowed)."
);

/// Return the ModelError of an invalid field.
pub fn refused(error: &SpecError) -> PyErr {
    ModelError::new_err((error.field.clone(), error.given.clone(), error.allowed.clone()))
}

/// Parse JSON text. The error names the invalid field by its dotted path.
pub fn read<T: DeserializeOwned>(text: &str, what: &str) -> Result<T, PyErr> {
    let mut reader = serde_json::Deserializer::from_str(text);
    serde_path_to_error::deserialize(&mut reader).map_err(|error| {
        let path = error.path().to_string();
        let field = if path == "." { what.to_owned() } else { path };
        ModelError::new_err((field, error.inner().to_string(), String::new()))
    })
}

/// Serialise a value to JSON text.
pub fn write<T: serde::Serialize>(value: &T) -> Result<String, PyErr> {
    serde_json::to_string(value).map_err(|error| {
        ModelError::new_err(("(outcome)".to_owned(), error.to_string(), String::new()))
    })
}
