//! # daq: a buffer between a detector and the tapes (HEPiX)
//!
//! Owns   writers that leave files, readers that take each away; moderating the writers; influx and outflux.
//! Never  has two processes at one file at the same time.
//! Enter  at [`Daq`].

mod args;
mod reader;
mod report;
mod run;
mod writer;

pub use args::Daq;
