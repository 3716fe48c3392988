//! # baseline: the rates of disks and networks, and the share of them that a file system reaches
//!
//! Owns   workers on hosts and the way to them; raw disks, TCP streams and files measured with one clock for each; the verdict.
//! Never  puts a file system's figure among the ceilings; writes to a device that is in use unless told so.
//! Enter  at [`Baseline`].
//!
//! Layer by layer, as the report wants it (4.1); the network's message sizes and streams are OSC's; the verdict is the
//! milestone's: a file system "cannot hope to achieve performance better than" the least of network and disk.

mod args;
mod coordinator;
mod orders;
mod repeated;
mod report;
mod run;
mod site;
mod verdict;
mod worker;
mod workers;

pub use args::Baseline;
