//! # oss: the object server
//!
//! Owns   which targets this process serves, and what becomes of a request for one of them.
//! Never  knows names, users, directories; touches a disk except through `store::object`.
//! Enter  at `Oss::new`; requests come through `rpc::Service`.

mod ops;
mod service;
mod status;
mod targets;

pub use status::OssStatus;
pub use targets::{Oss, Target};
