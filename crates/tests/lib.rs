//! Tests of the other crates through what they offer: one folder for each crate, one binary each.
