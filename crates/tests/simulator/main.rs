//! All integration tests of the crate in one binary, so that they are linked once.

mod ahead;
mod coding;
mod common;
mod drive_faults;
mod end_to_end;
mod memory;
mod network;
mod physics;
mod requests;
mod services;
mod stored_data;
mod threads;
mod upstream;
mod vectored;
mod write_paths;
