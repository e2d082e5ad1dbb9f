//! All integration tests of the crate in one binary, so that they are linked once.

mod catalog_truth;
mod drive_properties;
mod elevators;
mod hdd_controller;
mod hdd_truth;
mod loads;
mod raid_arithmetic;
mod raid_bitmap;
mod raid_controller;
mod raid_truth;
mod replay_truth;
mod scheduling;
mod ssd_truth;
mod steady_memory;
mod stored_data;
mod wrappers;
