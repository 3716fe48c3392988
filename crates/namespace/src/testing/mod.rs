//! What tests of this room share: a driver without a store, short words for requests, a model of POSIX, and random operations
//! on machine and model.

mod action;
mod largest;
mod model;
mod pair;
mod random;
mod server;
mod words;

pub use server::{Server, batch_bytes};
pub use words::*;
