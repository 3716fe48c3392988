//! The metadata server on a real store in a directory, and on faked disks, with object servers of the tests.

mod client;
mod fixture;
mod ost;
mod verifiers;

mod batches;
mod cold;
mod concurrency;
mod confirm;
mod crash;
mod failing;
mod leases;
mod lost_osts;
mod numbers;
mod purge;
mod rebalance;
mod restart;
mod restored;
mod rights;
mod sharing;
mod slots;
mod status;
mod sweep;
mod targets;
mod truncates;
mod writers;
