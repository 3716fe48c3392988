//! # shard: a simulation of the shard's state machine, and of clients that use the same names
//!
//! Owns   one event queue on virtual time; clients with slots; messages that are delayed and overtake each other; group commit
//!        and crashes; a model that computes the reply to every request.
//! Never  needs a runtime or a disk: the log is a list of batches, and a crash keeps a prefix of it.
//! Enter  at `run`.

mod client;
mod compare;
mod event_queue;
mod model;
mod model_log;
mod server;
mod simulation;
mod store;

pub use simulation::run;
