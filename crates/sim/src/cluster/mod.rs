//! # cluster: a simulation of the real daemons' parts on simulated hosts and a simulated network
//!
//! Owns   a metadata server (or three hosts that have the metadata), object servers and clients, each on a host with its own disk, clock and network; the faults that
//!        hit them; programs that know the result of each of their calls, or the possible results.
//! Never  replaces a part of gupfs: only disk, index, clock, random source, tasks and network are simulated.
//! Enter  at `run` (the simulation of a seed), or at `with_two_kernels` (programs above the model of the kernel).

mod access_check;
mod administrator;
mod attacker;
mod call_arguments;
mod call_history;
mod client_host;
mod conversions;
mod fault_plan;
mod fault_record;
mod faults;
mod history_program;
mod host;
mod kernels;
mod message_delays;
mod metadata_copies;
mod metadata_host;
mod metadata_parts;
mod metadata_servers;
mod object_host;
mod owner_clocks;
mod possible_states;
mod private_dir;
mod program_pause;
mod rebalances;
mod redundancy;
mod repeated_writes;
mod request_monitor;
mod shared_dir;
mod shared_state;
mod simulated_cluster;
mod simulation;

pub use kernels::{GupfsKernel, with_two_kernels};
pub use simulation::{run, run_one_fault_at_a_time, run_with_copies};

use gupfs_proto::ClusterId;

const CLUSTER: ClusterId = ClusterId(0xc1);
const MDS_ADDRESS: &str = "mds:7700";
