//! # bench: the speed of gupfs, as ratios taken in one run
//!
//! Owns   the workloads of the first slice, the local file system and an empty FUSE file system to compare with, the results.
//! Never  links the file system: it starts the program and uses the mount as anyone would.
//! Enter  at `main`; each workload is a file of `work/`.
//!
//! Every pair is measured in turns (A B A B …) after touching memory; the medians are set side by side. A figure stands with
//! its spread. The machine and the commands go into the result file.

// A measuring tool stands outside the simulated world: it reads the real clock.
#![allow(clippy::disallowed_methods)]

mod machine;
mod report;
mod serve;
mod timing;
mod transport;
mod work;
mod work_directory;
mod xorshift;

use anyhow::{Context, Result};
use clap::Parser;
use std::path::PathBuf;
use transport::Transport;

/// Measures `gupfs up` beside the local file system and writes bench/results/.
///
/// Example: gupfs-bench --gupfs target/release/gupfs --nullfs target/release/examples/nullfs --out bench/results
#[derive(Parser)]
struct Args {
    /// The program to measure.
    #[arg(long)]
    gupfs: PathBuf,
    /// The empty FUSE file system whose speed is the floor for names.
    #[arg(long)]
    nullfs: PathBuf,
    /// Where results are written.
    #[arg(long)]
    out: PathBuf,
    /// Where stores and the local files are made; a fresh directory is made inside.
    #[arg(long, default_value = ".")]
    work: PathBuf,
    /// Repetitions of each pair.
    #[arg(long, default_value_t = 5)]
    runs: usize,
    /// Bytes of the streaming workloads, in GiB.
    #[arg(long, default_value_t = 4)]
    stream_gib: u64,
    /// Files of the large directory.
    #[arg(long, default_value_t = 1_000_000)]
    many: u64,
    /// The ways of requests to measure; without it both, if this machine permits io_uring.
    #[arg(long, value_enum)]
    transport: Vec<Transport>,
    /// Daemons over TCP on this host (one metadata server, two object servers, a mount) instead of `gupfs up`. Not for the
    /// workload "many", which restarts what it measures.
    #[arg(long)]
    cluster: bool,
    /// Only workloads whose name contains this.
    #[arg(long, default_value = "")]
    only: String,
}

fn main() -> Result<()> {
    let args = Args::parse();
    let place = work_directory::WorkDirectory::new(&args.work)
        .context("cannot make a directory to work in")?;
    let mut report = report::Report::new(machine::describe());
    let bench = work::Bench {
        gupfs: &args.gupfs,
        nullfs: &args.nullfs,
        place: &place,
        runs: args.runs,
        stream: args.stream_gib << 30,
        many: args.many,
        cluster: args.cluster,
        transports: match args.transport.is_empty() {
            true => Transport::permitted(),
            false => args.transport.clone(),
        },
    };
    for (name, run) in work::ALL {
        if name.contains(&args.only) {
            eprintln!("{name} …");
            run(&bench, &mut report).with_context(|| format!("workload {name}"))?;
        }
    }
    report.print();
    let file = report.save(&args.out)?;
    println!("written to {}", file.display());
    Ok(())
}
