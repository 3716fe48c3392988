//! # town: the simulated metadata cluster: the shard's state machine, and clients that use the same names
//!
//! Owns   one event queue on virtual time, clients with slots, messages that are delayed and overtake each other, group commit,
//!        crashes; a model of what every reply must be.
//! Never  needs a runtime, or a disk: the log is a list of batches, and a crash keeps a prefix of it.
//! Enter  at `run`.

mod client;
mod compare;
mod model;
mod queue;
mod server;
mod shadow;
mod store;
mod street;

pub use street::run;
