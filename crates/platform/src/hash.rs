//! Hash maps with the same iteration order in every run, so that a simulation is reproducible.
//!
//! The hasher's seed is fixed, so it does not defend against chosen keys: code that makes a key from a user's choice (a name)
//! hashes that with a secret salt first.
#![allow(clippy::disallowed_types)] // the only place that uses the standard maps, with a hasher that is not random

use foldhash::fast::FixedState;

pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;
pub type Set<K> = std::collections::HashSet<K, FixedState>;

/// The hasher of `Map` and `Set`, for tables that compute hashes themselves.
pub type BuildHasher = FixedState;
