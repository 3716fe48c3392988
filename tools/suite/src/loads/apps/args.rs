//! The flags of apps.

use clap::{Args, ValueEnum};

use super::pattern::{App, Scale};
use super::{btio, checkpoint, flash, nwchem, training};
use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{Size, parse_positive};
use crate::workload::usage_error;

/// The I/O of applications: checkpoint and restart, NWChem's three modes, training, BT-IO and FLASH
#[derive(Args, Clone, Debug)]
pub struct Apps {
    /// Patterns, one after the other [default: all that -n allows]
    #[arg(short, long, value_enum, value_delimiter = ',', value_name = "NAME,…")]
    pub patterns: Vec<Pattern>,
    /// Workers
    #[arg(short = 'n', long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub workers: u16,
    /// Bytes of each worker in each pattern, about
    #[arg(short = 'f', long, value_name = "SIZE", default_value = "16M", value_parser = parse_positive)]
    pub each: Size,
    /// How often: checkpoints, readings, epochs
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=99))]
    pub rounds: u8,
    /// fsync each file that was written before it is closed, within the time measured
    #[arg(long)]
    pub sync: bool,
    /// Decides what is random
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    #[command(flatten)]
    pub common: CommonFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Pattern {
    /// A file of each process, written and then read by another
    Checkpoint,
    /// NWChem, exclusive access files: each process reads its own again and again
    NwchemEaf,
    /// NWChem, shared file: random records of what all wrote
    NwchemSf,
    /// NWChem, disk resident array: written in blocks, read in panels
    NwchemDra,
    /// Small files in random order
    Training,
    /// Short lines of a cube, interleaved in one file (-n a square: 1, 4, 9, …)
    Btio,
    /// Data sets of variables, each a piece of every process
    Flash,
}

/// Offsets are computed with 64 bits; this leaves room.
const EACH_MAX: u64 = 1 << 48;

impl Apps {
    fn wanted(&self) -> impl Iterator<Item = Pattern> {
        let wanted = match self.patterns.is_empty() {
            true => Pattern::value_variants(),
            false => &self.patterns,
        };
        let square = btio::square(usize::from(self.workers)).is_some();
        let suits = move |pattern: &Pattern| *pattern != Pattern::Btio || square;
        wanted.iter().copied().filter(suits)
    }

    fn scale(&self) -> Scale {
        Scale {
            workers: usize::from(self.workers),
            each: self.each.0,
            rounds: u64::from(self.rounds),
            seed: self.seed,
        }
    }

    /// Bytes that the largest pattern takes.
    pub fn room(&self) -> u64 {
        let rooms = self
            .wanted()
            .map(|pattern| self.scale().room(pattern.name()));
        rooms.max().unwrap_or(0)
    }

    pub fn apps(&self) -> impl Iterator<Item = App> {
        self.wanted().map(|pattern| pattern.of(self.scale()))
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.patterns.contains(&Pattern::Btio)
            && btio::square(usize::from(self.workers)).is_none()
        {
            return usage_error(format!(
                "btio divides a cube among a square of workers: -n {} is none; 1, 4, 9, 16, … are",
                self.workers
            ));
        }
        if self.each.0 > EACH_MAX {
            return usage_error(format!("-f {} is more than any file system has", self.each));
        }
        Ok(())
    }
}

impl Pattern {
    fn name(self) -> &'static str {
        match self {
            Pattern::Checkpoint => "checkpoint",
            Pattern::NwchemEaf => "nwchem-eaf",
            Pattern::NwchemSf => "nwchem-sf",
            Pattern::NwchemDra => "nwchem-dra",
            Pattern::Training => "training",
            Pattern::Btio => "btio",
            Pattern::Flash => "flash",
        }
    }

    fn of(self, scale: Scale) -> App {
        match self {
            Pattern::Checkpoint => checkpoint::checkpoint(scale),
            Pattern::NwchemEaf => nwchem::exclusive(scale),
            Pattern::NwchemSf => nwchem::shared(scale),
            Pattern::NwchemDra => nwchem::resident(scale),
            Pattern::Training => training::training(scale),
            Pattern::Btio => btio::btio(scale),
            Pattern::Flash => flash::flash(scale),
        }
    }
}
