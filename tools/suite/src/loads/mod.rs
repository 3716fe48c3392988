//! # loads: the workloads of the report and its companions, besides mptio and metabench
//!
//! Owns   one folder a workload: its flags, what its workers do, its report; the list of them as subcommands.
//! Never  compares runs or repeats itself: plans do that, and read what it measured from its JSON.
//! Enter  at [`Load`].

mod aging;
mod apps;
mod bonnie;
mod daq;
mod interleave;
mod matrix;
mod pileup;
mod reliability;
mod streams;
mod tiotest;

use clap::Subcommand;

use crate::workload;

/// The buffer size of stdio for a file on most file systems.
const STDIO: usize = 4096;

/// A workload and its flags.
#[derive(Subcommand, Clone, Debug)]
pub enum Load {
    #[command(after_help = "Example:
  gupfs bench streams -n 1,4,10,20 -b 32K,64K,256K,1M -F 1G -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Streams(streams::Streams),
    #[command(after_help = "Example:
  gupfs bench interleave -n 1,2,4,8,16,32,64,128 -b 64K,1M -F 1G -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Interleave(interleave::Interleave),
    #[command(after_help = "Example:
  gupfs bench pileup --files 64 -f 2G -n 1,2,4,8,16,32 -t 60 -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Pileup(pileup::Pileup),
    #[command(after_help = "Example:
  gupfs bench daq -w 8 -r 8 -f 1G -t 300 --influx 300 -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Daq(daq::Daq),
    #[command(after_help = "Example:
  gupfs bench apps -p checkpoint,nwchem-sf -n 8 -f 1G --sync -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Apps(apps::Apps),
    #[command(after_help = "Example:
  gupfs bench matrix -s 64M,2G -b 4K,64K,1M,16M -T write,read,reread -n 4 -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Matrix(matrix::Matrix),
    #[command(after_help = "Example:
  gupfs bench tiotest -t 8 -f 256M -b 4K -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Tiotest(tiotest::Tiotest),
    #[command(after_help = "Example:
  gupfs bench bonnie -f 8G -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Bonnie(bonnie::Bonnie),
    #[command(after_help = "Example:
  gupfs bench aging --room 80% -l 25,50,75,90 -n 8 -f 256M -d /mnt/x

Exit codes: 0 a whole report was written · 1 something failed · 2 the flags are wrong")]
    Aging(aging::Aging),
    #[command(after_help = "Example:
  gupfs bench reliability -n 8 -t 120 --fault 'ssh oss1 reboot -f' -d /mnt/x

Exit codes: 0 all that was acknowledged is there · 1 something was lost, or failed · 2 the flags are wrong · 3 a call never came back")]
    Reliability(reliability::Reliability),
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
            Load::Aging($of) => $does,
            Load::Reliability($of) => $does,
        }
    };
}

impl Load {
    /// Runs the workload in processes of its own: the exit code.
    pub fn run(&self) -> u8 {
        each!(self, load => workload::run(load))
    }
}
