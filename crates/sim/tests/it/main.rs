//! The simulations, each seed twice. `GUPFS_SEEDS` says how many seeds, `GUPFS_SEED` runs one and prints its events.

mod cluster;
mod every_sync;
mod kernel;
mod town;
mod whole;
