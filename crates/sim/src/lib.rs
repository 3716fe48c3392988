//! # sim: deterministic simulations of gupfs whose faults come from a seed
//!
//! Owns   the simulations: `shard` (the shard's state machine, its clients and their messages on one event queue), `process`
//!        (the real client, servers, log and object store in one process on simulated disks), `cluster` (the parts of the real
//!        daemons on simulated hosts and a simulated network); the counts of rare events; the check that a seed gives the same
//!        run twice; `kernel`, a model of how Linux applies the replies of a FUSE server.
//! Never  runs in the product; takes time or random numbers from anything but its seed.
//! Enter  at `seeds::run_each_twice` with the `run` of a simulation; at `kernel::Model` to test probes of crate `contract`.

// The errors of the models are those of the calls that they model.
#![allow(clippy::missing_errors_doc)]

pub mod cluster;
pub mod event_log;
pub mod kernel;
pub mod process;
pub mod rare_events;
pub mod seeds;
pub mod shard;
