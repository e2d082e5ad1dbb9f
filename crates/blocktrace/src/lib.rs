//! Block traces in one pass: read in any format, joined into requests, counted, and laid into tiles of pictures.
//!
//! [`source::open`] gives batches of [`event::Event`]s in the order of time; [`join::Join`] follows each request from its
//! queueing to its completion and tells a [`join::Watcher`]; [`statistics::Statistics`] is one, and [`follow::Follow`], which tells
//! [`tiles::Tiles`] and [`requests::Requests`] of each request from its beginning to its end. Memory is bounded by the requests in
//! flight, never by the trace.

pub mod blkparse;
pub mod blkrecord;
pub mod blktrace;
pub mod csv;
pub mod damage;
pub mod event;
pub mod follow;
pub mod ftrace;
pub mod iolog;
pub mod join;
pub mod lines;
pub mod pages;
pub mod recording;
pub mod relay;
pub mod requests;
pub mod seeks;
pub mod source;
pub mod statistics;
pub mod tiles;
pub mod walk;
