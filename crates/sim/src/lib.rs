//! # sim: gupfs in a world that fails when a seed says so
//!
//! Owns   the simulations: `town` (the shard machine, its clients and their messages on one queue), `whole` (the real
//!        client, servers, log and object store over faked disks), what both count and how they prove that a seed
//!        always does the same.
//! Never  runs in the product, or takes time or chance from anywhere but its seed.
//! Enter  at `whole::run` and `town::run`; the tests in `tests/it` run both, each seed twice.

pub mod events;
pub mod rare;
pub mod seeds;
pub mod town;
pub mod whole;
