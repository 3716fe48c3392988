//! Hash maps whose order is the same in every run: for places where order is never seen, yet must not differ by run.
//!
//! The hasher's seed is fixed, so it does not defend against chosen keys: what users choose (names) is hashed with a
//! secret salt before it gets into a key.
#![allow(clippy::disallowed_types)] // the one place that builds on the standard maps, with a hasher that is not random

use foldhash::fast::FixedState;

pub type Map<K, V> = std::collections::HashMap<K, V, FixedState>;
pub type Set<K> = std::collections::HashSet<K, FixedState>;

/// The hasher of `Map` and `Set`, for tables that hash by themselves.
pub type BuildHasher = FixedState;
