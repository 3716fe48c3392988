//! Parts that tests of this crate share: a driver without a store, short functions for requests, a model of POSIX, and random
//! operations on the state machine and the model.

mod action;
mod cached_records;
mod compare;
mod largest;
mod lease_keys;
mod model;
mod random;
mod requests;
mod server;

pub use cached_records::ColdRecords;
pub use requests::*;
pub use server::{TestServer, batch_bytes};
