//! # cluster: the real daemons' parts on simulated hosts
//!
//! Owns   a metadata server, object servers and clients, each on a host of its own with disk, clock and network; the faults that
//!        hit them; programs that know what they did and what they must find.
//! Never  replaces a part of gupfs: only disk, index, clock, random source, tasks and network are simulated.
//! Enter  at `run` (the whole run of a seed).

mod arguments;
mod faults;
mod history;
mod host;
mod intruder;
mod judged;
mod machine;
mod metadata;
mod objects;
mod own;
mod plan;
mod possible;
mod rights;
mod shared;
mod shared_state;
mod site;
mod story;
mod troubles;
mod watch;

pub use story::run;

use gupfs_proto::ClusterId;

const CLUSTER: ClusterId = ClusterId(0xc1);
const MDS_ADDRESS: &str = "mds:7700";
