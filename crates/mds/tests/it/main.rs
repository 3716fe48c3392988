//! The metadata server on a real store in a directory, and on faked disks, with object servers of the tests.

mod client;
mod house;
mod lives;
mod ost;

mod batches;
mod cold;
mod concurrency;
mod confirm;
mod crash;
mod cuts;
mod failing;
mod lanes;
mod numbers;
mod purge;
mod restart;
mod restored;
mod rights;
mod sharing;
mod status;
mod targets;
mod writers;
