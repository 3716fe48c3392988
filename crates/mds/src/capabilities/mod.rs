//! # capabilities: the keys of this server, and what it signs with them
//!
//! Owns   the secret of this start, the keys of the OSTs, and until when each session's capabilities are valid; the key of open
//!        capabilities.
//! Never  decides whether a session may have a capability.
//! Enter  at `CapabilityIssuer::new`.

mod issuer;
mod open_key;

pub use issuer::CapabilityIssuer;
pub use open_key::OpenCapabilityKey;
