//! # cluster: how the processes of one file system find and trust each other
//!
//! Owns   who this process is, lines to object servers, what comes in over the net and for whom, an object server's word on
//!        itself and its targets' lives.
//! Never  takes part in an operation, reads a file, knows a configuration.
//! Enter  at `Identity`, `Lines::new`, `MetaDoor::new`, `announce`.

mod announce;
mod doors;
mod identity;
mod lines;
mod lives;
mod recalled;

pub use announce::{Announced, announce};
pub use doors::{ClusterDoor, MetaDoor};
pub use identity::Identity;
pub use lines::Lines;
pub use lives::Lives;
pub use recalled::{Recalled, greet_again};
