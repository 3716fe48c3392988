//! # serve: metadata requests of other processes
//!
//! Owns   the checks on such a request before the server handles it: which process owns its session, how many sessions there are,
//!        whether root of its host is squashed.
//! Never  handles a request itself, or receives one of its own process: those go to `Mds` at once.
//! Enter  at `MetaHandler::new`.

mod meta_handler;
mod root_squash;
mod session_owners;

pub use meta_handler::MetaHandler;
