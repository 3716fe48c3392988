//! # proto: ids, layouts and messages of gupfs
//!
//! Owns   ids, numbers with units, layout arithmetic, the requests and replies of servers and clients with their encoding,
//!        the protocol's errors, the table of their errnos, limits.
//! Never  does I/O, is async, knows a clock.
//! Enter  at `meta::MetaRequest` (names and attributes) and `data::DataRequest` (bytes of objects); `operations` has the table of
//!        metadata operations.

pub mod access;
pub mod attr;
pub mod bounds;
pub mod callback;
mod caller;
pub mod capability;
pub mod checksum;
pub mod cluster;
pub mod copy;
pub mod data;
mod domain;
mod errno;
pub mod error;
pub mod ids;
pub mod jobs;
pub mod layout;
pub mod lease;
pub mod limits;
pub mod lock;
pub mod meta;
pub mod name;
pub mod operations;
pub mod rebalance;
pub mod resync;
pub mod roles;
pub mod time;
pub mod units;
pub mod wire;

pub use attr::{Attr, FileKind, FileMode};
pub use caller::Caller;
pub use domain::{DOMAIN_NAME_MAX, DomainName};
pub use errno::errno_number;
pub use error::FsError;
pub use ids::*;
pub use jobs::{JobId, JobLabel, JobName};
pub use layout::{Component, Layout, Presence, PresenceMap, StripeChunk};
pub use name::Name;
pub use roles::{RequestMessage, Role};
pub use time::Timestamp;
pub use units::{ByteCount, FileOffset, ObjectOffset};
