//! Leases on metadata: what a session may answer from its memory, no other session changes before it has given the lease up.

mod ended_operations;
mod grants;
mod own_changes;
mod random;
mod restarts;
mod revocations;
mod server_changes;
pub mod session;
mod shared_directories;
mod silent_sessions;
