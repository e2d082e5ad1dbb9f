//! Reads block traces of any supported format in one pass, joins events to requests, computes
//! statistics, and aggregates them for plots.
//!
//! [`formats::open`] returns batches of [`event::Event`]s in time order. [`join::Join`] follows each
//! request from queueing to completion and notifies a [`join::Watcher`]. [`statistics::Statistics`]
//! is a watcher; so is [`follow::Follow`], which passes the start and end of each request to
//! [`tiles::Tiles`] and [`requests::Requests`]. Memory use is proportional to the requests in
//! flight, not to the length of the trace.

pub mod blkparse;
pub mod blkrecord;
pub mod blktrace;
pub mod csv;
pub mod damage;
pub mod event;
pub mod flight;
pub mod follow;
pub mod formats;
pub mod ftrace;
mod gaps;
pub mod iolog;
pub mod join;
pub mod lines;
mod open;
pub mod pages;
pub mod recording;
pub mod relay;
pub mod requests;
pub mod seeks;
pub mod source;
pub mod statistics;
pub mod tiles;
pub mod walk;
