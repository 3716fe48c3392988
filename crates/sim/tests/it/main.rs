//! The simulations, each seed twice. `GUPFS_SEEDS` sets the number of seeds; `GUPFS_SEED` runs one seed and prints its events.

#![recursion_limit = "256"] // A program above the kernel, the mount and the client is one future.

mod cluster;
mod every_sync;
mod kernel;
mod process;
mod shard;
