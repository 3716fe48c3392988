//! # town: the shard machine among clients that want the same names
//!
//! Owns   one queue of events on virtual time, clients with lanes, messages that are late and overtake each other, group
//!        commit, crashes; a model of what every answer must be.
//! Never  needs a runtime, or a disk: a log here is a list of batches of which a crash keeps a beginning.
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
