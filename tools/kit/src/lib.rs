//! # kit: what several of the tools beside the file system do in the same way
//!
//! Owns   agents and the token that they ask for; links to worker processes; places on hosts as a user writes them; what a
//!        machine is; dates; the finaliser of SplitMix64; escaping for HTML.
//! Never  holds what a single tool uses; knows an order, a measurement or a report of any tool; knows the file system.
//! Enter  at [`agent::listen`] on the host of workers, at [`worker::WorkerLink`] on the host that gives orders.

// Tools stand outside every simulated world: they read the real clock and start real processes.
#![allow(clippy::disallowed_methods)]

pub mod agent;
pub mod date;
pub mod html;
pub mod machine;
pub mod place;
pub mod random;
pub mod worker;
