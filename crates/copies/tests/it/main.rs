//! Three simulated hosts with copies of a store, and an arbiter that does everything that etcd may do. Programs count in the store while hosts
//! are killed, lose power, are frozen and cut off.

mod cluster;
mod faults;
mod full;
mod host;
mod identity;
mod own_failure;
mod program;
mod seeds;
mod slow;
