//! # loads: what the report and its companions load a file system with, besides mptio and metabench
//!
//! Owns   one folder a workload: its flags, what its workers do, its report; the list of them as subcommands.
//! Never  compares runs or repeats itself: plans do that, and read what it measured from its JSON.
//! Enter  at [`Load`].

mod apps;
mod bonnie;
mod daq;
mod interleave;
mod matrix;
mod pileup;
mod streams;
mod tiotest;

use clap::{Parser, Subcommand};

use crate::procs::Procs;
use crate::tool::{Tool, start};
use crate::trouble::Outcome;

/// A workload and its flags.
#[derive(Subcommand, Clone, Debug)]
pub enum Load {
    Streams(streams::Streams),
    Interleave(interleave::Interleave),
    Pileup(pileup::Pileup),
    Daq(daq::Daq),
    Apps(apps::Apps),
    Matrix(matrix::Matrix),
    Tiotest(tiotest::Tiotest),
    Bonnie(bonnie::Bonnie),
}

/// The workloads of the GUPFS report and its companions, on any directory
#[derive(Parser, Clone, Debug)]
#[command(name = "gupfs-suite", version)]
pub struct Suite {
    #[command(subcommand)]
    load: Load,
}

/// The same for every workload: which one it is does not matter.
macro_rules! each {
    ($load:expr, $of:ident => $does:expr) => {
        match $load {
            Load::Streams($of) => $does,
            Load::Interleave($of) => $does,
            Load::Pileup($of) => $does,
            Load::Daq($of) => $does,
            Load::Apps($of) => $does,
            Load::Matrix($of) => $does,
            Load::Tiotest($of) => $does,
            Load::Bonnie($of) => $does,
        }
    };
}

impl Load {
    /// Starts the processes and runs: the exit code. The program may start itself again with the same arguments.
    pub fn run(self) -> Outcome<u8> {
        start(self)
    }
}

impl Tool for Load {
    fn np(&self) -> Option<usize> {
        each!(self, load => load.np())
    }

    fn np_otherwise(&self) -> usize {
        each!(self, load => load.np_otherwise())
    }

    fn check(&self) -> Outcome<()> {
        each!(self, load => load.check())
    }

    fn run(self, procs: &mut Procs) -> Outcome<()> {
        each!(self, load => load.run(procs))
    }
}

impl Tool for Suite {
    fn np(&self) -> Option<usize> {
        self.load.np()
    }

    fn np_otherwise(&self) -> usize {
        self.load.np_otherwise()
    }

    fn check(&self) -> Outcome<()> {
        self.load.check()
    }

    fn run(self, procs: &mut Procs) -> Outcome<()> {
        Tool::run(self.load, procs)
    }
}
