//! # sim: gupfs in a world that fails when a seed says so
//!
//! Owns   the simulations: `town` (the shard machine, its clients and their messages on one queue), `whole` (the real
//!        client, servers, log and object store over faked disks), `cluster` (the parts of the real daemons on faked hosts
//!        over a faked net), what they count and how they prove that a seed
//!        always does the same; `kernel`, a model of what Linux does with a FUSE server's answers.
//! Never  runs in the product, or takes time or chance from anywhere but its seed.
//! Enter  at `whole::run`, `cluster::run` and `town::run`; the tests in `tests/it` run them, each seed twice, and try
//!        the contract's facts on `kernel::Model`.

pub mod cluster;
pub mod events;
pub mod kernel;
pub mod rare;
pub mod seeds;
pub mod town;
pub mod whole;
