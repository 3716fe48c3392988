//! # store: bytes that survive a power cut
//!
//! Owns   `log` (the order of batches), `index` (what they add up to), `kv` (both as one store), `object` (file bytes).
//! Never  opens a socket, knows a file name.
//! Enter  at `kv::Kv::open` and `object`.

pub mod index;
pub mod kv;
pub mod log;
pub mod object;
