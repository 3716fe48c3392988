//! # proto: the nouns and sentences of gupfs
//!
//! Owns   ids, numbers with units, layout arithmetic, what servers and clients are asked and answer and how that
//!        is written down, refusals, limits.
//! Never  does I/O, is async, knows a clock.
//! Enter  at `meta::Request` (names and attributes) and `data::Request` (bytes of objects).

pub mod askers;
pub mod attr;
pub mod bounds;
mod caller;
pub mod capability;
pub mod checksum;
pub mod cluster;
pub mod data;
pub mod ids;
pub mod layout;
pub mod limits;
pub mod lock;
pub mod meta;
pub mod name;
pub mod recall;
pub mod refusal;
pub mod time;
pub mod units;
pub mod wire;

pub use askers::{Question, Role};
pub use attr::{Attr, FileKind, Mode};
pub use caller::Caller;
pub use ids::*;
pub use layout::{Component, Layout, Piece, Presence, PresenceMap};
pub use name::Name;
pub use refusal::Refusal;
pub use time::Timestamp;
pub use units::{ByteCount, FileOffset, ObjectOffset};
