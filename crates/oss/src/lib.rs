//! # oss: the object server
//!
//! Owns   which targets this process serves, by what right somebody asks, and what becomes of a request for one of them.
//! Never  knows names, users, directories; touches a disk except through `store::object`.
//! Enter  at `Oss::new`; requests of this process come through `rpc::Service`, those of others through `Door`.

mod door;
mod gate;
mod ops;
mod service;
mod status;
mod targets;

pub use door::Door;
pub use gate::{Gate, GateStatus};
pub use status::OssStatus;
pub use targets::{Oss, Target};
