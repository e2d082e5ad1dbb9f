//! All integration tests of the crate in one binary, so that they are linked once.

mod formats;
mod plain;
mod requests;
