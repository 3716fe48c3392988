//! The contract of an arbiter: each check runs on a directory, on the fake one, and on real etcd, with one member and with three that fail.
#![allow(clippy::disallowed_methods)] // real time, and processes of etcd

mod certificates;
mod check;
mod contract;
mod etcd;
mod faults;
mod members;
mod tls;
