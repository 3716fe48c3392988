//! The metadata has copies on three metadata servers, and etcd decides which of them owns it: whichever dies, hangs or stops, programs see a pause
//! alone.

mod commands;
mod copied_cluster;
mod faults;
mod full_disks;
mod lost_client;
mod many_sessions;
mod power_cuts;
mod refused;
mod secured_etcd;
mod silent_hosts;
mod verified;
