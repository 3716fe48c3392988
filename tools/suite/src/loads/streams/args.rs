//! The flags of streams, and those that interleave shares.

use clap::{Args, ValueEnum};

use super::layout::{Layout, Shape};
use crate::common_flags::CommonFlags;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::{has_duplicates, usage_error};

/// Sequential streams side by side, as with many lmdd: 1 to N streams, first and second run
#[derive(Args, Clone, Debug)]
pub struct Streams {
    #[command(flatten)]
    pub sweep: Sweep,
    /// What the streams work on
    #[arg(short, long, value_enum, default_value = "each")]
    pub layout: Shape,
}

/// How many streams of which records, and what they do.
#[derive(Args, Clone, Debug)]
pub struct Sweep {
    /// Numbers of streams, one after the other
    #[arg(short = 'n', long, value_name = "N,…", value_delimiter = ',', default_value = "1,2,4,8",
          value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub streams: Vec<u16>,
    /// Record sizes: bytes of each read or write
    #[arg(short = 'b', long, value_name = "SIZE,…", value_delimiter = ',', default_value = "1M",
          value_parser = parse_positive)]
    pub record: Vec<Size>,
    /// Bytes of each stream [default: 64M]
    #[arg(short = 'f', long, value_name = "SIZE", value_parser = parse_positive)]
    pub each: Option<Size>,
    /// Bytes of all streams together, whatever their number
    #[arg(short = 'F', long, value_name = "SIZE", value_parser = parse_positive, conflicts_with = "each")]
    pub total: Option<Size>,
    /// What is timed
    #[arg(short, long, value_enum, default_value = "both")]
    pub operation: Operation,
    /// How often each is done, on the same files
    #[arg(short, long, value_name = "N", default_value_t = 2, value_parser = clap::value_parser!(u8).range(1..=9))]
    pub runs: u8,
    /// Open with O_DIRECT
    #[arg(short = 'I', long)]
    pub direct: bool,
    /// fsync before a file that was written is closed, within the time measured (lmdd's fsync=1)
    #[arg(long)]
    pub sync: bool,
    /// Before each first reading, write back and drop what the hosts of the streams have of the files in memory
    #[arg(long)]
    pub cold: bool,
    #[command(flatten)]
    pub common: CommonFlags,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Operation {
    Write,
    Read,
    Both,
}

const DEFAULT_EACH: u64 = 64 << 20;

impl Operation {
    pub fn writes(self) -> bool {
        self != Operation::Read
    }

    pub fn reads(self) -> bool {
        self != Operation::Write
    }
}

impl Sweep {
    /// A process for each stream.
    pub fn default_np(&self) -> usize {
        self.streams.iter().max().copied().unwrap_or(1).into()
    }

    pub fn layout(&self, shape: Shape, streams: usize, record: Size) -> Layout {
        let each = match (self.total, shape) {
            // One file that all read whole: its size is what is asked for.
            (Some(total), Shape::All) => total.0,
            (Some(total), _) => total.0 / streams as u64,
            (None, _) => self.each.map_or(DEFAULT_EACH, |each| each.0),
        };
        Layout::new(shape, streams, record.0, each)
    }

    pub fn check(&self) -> SuiteResult<()> {
        for record in &self.record {
            if record.0 > CALL_MAX {
                return usage_error(format!(
                    "-b {record} is more than one system call moves: at most 1G"
                ));
            }
            if self.direct && !record.0.is_multiple_of(512) {
                return usage_error(format!(
                    "--direct moves whole sectors: -b {record} must be a multiple of 512"
                ));
            }
        }
        if has_duplicates(&self.streams) || has_duplicates(&self.record) {
            return usage_error("-n and -b take each number once: a figure's name says both");
        }
        if self.cold && !self.operation.reads() {
            return usage_error("--cold is about reading, and -o write only writes");
        }
        Ok(())
    }
}

impl Streams {
    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if self.layout == Shape::All && self.sweep.operation.writes() {
            return usage_error(
                "with -l all, all streams read one file: give -o read (the file is made before, and not timed)",
            );
        }
        self.sweep.check()
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        streams: Streams,
    }

    fn refused(flags: &str) -> bool {
        let all = ["streams"].into_iter().chain(flags.split_whitespace());
        match Line::try_parse_from(all) {
            Err(_) => true,
            Ok(line) => line.streams.check_flags().is_err(),
        }
    }

    #[test]
    fn what_cannot_be_is_refused() {
        for flags in [
            "-n 0",
            "-n 1,2,1",
            "-b 64Q",
            "-b 0",
            "-b 2G",
            "-b 1000 -I",
            "-f 1M -F 1M",
            "-l all",
            "-l all -o both",
            "-o write --cold",
            "-r 0",
        ] {
            assert!(refused(flags), "{flags}");
        }
        for flags in [
            "",
            "-n 1,128 -b 32K,1M -F 1G -r 1",
            "-l all -o read --cold",
            "-l parts -I",
        ] {
            assert!(!refused(flags), "{flags}");
        }
    }
}
