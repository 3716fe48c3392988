//! # store: data that survives a power loss
//!
//! Owns   `log` (the order of batches), `index` (the newest value of each key), `kv` (log and index as one store),
//!        `object` (file bytes).
//! Never  opens a socket; never knows a file name.
//! Enter  at `kv::Kv::open` and `object`.

pub mod index;
pub mod kv;
pub mod log;
pub mod object;
