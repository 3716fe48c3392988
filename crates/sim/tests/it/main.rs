//! The simulations, each seed twice. `GUPFS_SEEDS` sets the number of seeds; `GUPFS_SEED` runs one seed and prints its events.

mod cluster;
mod every_sync;
mod kernel;
mod process;
mod shard;
