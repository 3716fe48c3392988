//! # daq: a buffer between a detector and the tapes (HEPiX)
//!
//! Owns   writers that leave files, readers that take each away; moderating the writers; influx and outflux.
//! Never  has two processes at one file at the same time.
//! Enter  at [`Daq`].

mod args;
mod file;
mod reader;
mod report;
mod run;
mod tally;
mod writer;

pub use args::Daq;
