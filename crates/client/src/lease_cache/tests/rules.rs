//! Single rules of the cache.
