//! # suite: the evaluation codes of the GUPFS report, for any directory or device
//!
//! Owns   the codes, one folder each, and what they stand on: processes in step, checked data, latencies; plans that run them on
//!        directories side by side, and reports; what disks and networks do by themselves; hosts in networks of their own.
//! Never  links, names or knows a file system under test; calls a partial result whole; leaves files of a failed run.
//! Enter  at [`workload::main`], by the programs under `bin/`; at [`bench_cli`] for all in one.
//!
//! The source is *The Global Unified Parallel File System (GUPFS) Project: FY 2002 Activities and Results*; docs/bench.md
//! says for each workload which section describes it, and where we had to decide.

// A measuring tool stands outside every simulated world: it reads the real clock and starts real threads.
#![allow(clippy::disallowed_methods)]

mod baseline;
pub mod bench_cli;
mod cleanup;
mod common_flags;
mod cpu;
mod device;
pub mod error;
pub mod figure;
mod lab;
pub mod latency;
mod loads;
pub mod mdmark;
mod memory;
pub mod metabench;
pub mod mptio;
pub mod output;
mod page_cache;
mod pattern;
pub mod pioraw;
pub mod plan;
pub mod procs;
mod published;
mod report;
pub mod results;
mod rng;
mod run_directory;
mod runner;
mod signals;
mod size;
mod space;
mod step;
pub mod stop_flag;
pub mod threads;
pub mod workload;
