//! # commands: the commands of the program, one file each
//!
//! Owns   the arguments, the work and the output of each command.
//! Never  shares state between commands.
//! Enter  at a command's `run`; `cli` has the list of all.

#[cfg(feature = "tools")]
pub mod bench;
pub mod check;
pub mod completions;
pub mod config;
pub mod df;
pub mod doctor;
pub mod key;
pub mod layout;
pub mod man;
pub mod mds;
mod mds_requests;
pub mod mount;
mod options;
pub mod oss;
pub mod ost;
mod own_executable;
pub mod rebalance;
pub mod resync;
pub mod scrub;
mod server_address;
pub mod status;
pub mod stop;
pub mod sync;
pub mod tls;
pub mod top;
pub mod up;
#[cfg(feature = "tools")]
pub mod verify;
pub mod version;
pub mod watchdog;
#[cfg(not(feature = "tools"))]
pub mod without_tools;
