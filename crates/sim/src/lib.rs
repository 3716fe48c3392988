//! # sim: deterministic simulations of gupfs whose faults come from a seed
//!
//! Owns   the simulations: `town` (the shard's state machine, its clients and their messages on one event queue), `whole` (the
//!        real client, servers, log and object store on simulated disks), `cluster` (the parts of the real daemons on simulated
//!        hosts and a simulated network); the counts of rare events; the check that a seed gives the same run twice; `kernel`,
//!        a model of how Linux applies the replies of a FUSE server.
//! Never  runs in the product; takes time or random numbers from anything but its seed.
//!        the contract's facts on `kernel::Model`.

pub mod cluster;
pub mod events;
pub mod kernel;
pub mod rare;
pub mod seeds;
pub mod town;
pub mod whole;
