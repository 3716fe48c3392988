//! The flags of Appendix A.2.

use std::path::PathBuf;

use clap::Parser;

use crate::error::SuiteResult;
use crate::size::{Size, parse_positive};
use crate::workload::{parse_np, usage_error};

/// Parallel metadata operations: creating, stat, utime, append, untar, in separate directories and in one
///
/// Start it with mpirun or srun (built with the feature mpi), or with --np for processes on this host. Process 0 sets up and
/// reports; it takes part only if it is alone, or with -0. Exit status: 0 a whole report was written, 1 something failed, 2 the
/// flags are wrong.
#[derive(Parser, Clone, Debug)]
#[command(name = "metabench", version)]
pub struct Metabench {
    /// Run the file creation tests
    #[arg(short = 'C')]
    pub create: bool,
    /// Run the stat tests
    #[arg(short = 'S')]
    pub stat: bool,
    /// Run the utime tests
    #[arg(short = 'U')]
    pub utime: bool,
    /// Run the append tests
    #[arg(short = 'A')]
    pub append: bool,
    /// Run the untar test
    #[arg(short = 'T')]
    pub untar: bool,
    /// Files of each test, for all processes together
    #[arg(short = 'c', value_name = "NFILE", default_value_t = 20_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub files: u64,
    /// Bytes that an append test adds to each file
    #[arg(short = 'b', value_name = "NBYTE", default_value = "16K", value_parser = parse_positive)]
    pub bytes: Size,
    /// Report the time of so many creations at once
    #[arg(short = 'f', value_name = "FREQ", default_value_t = 1_000,
          value_parser = clap::value_parser!(u64).range(1..))]
    pub batch: u64,
    /// Write the report to BASE_YYYYMMDD_HHMMSS (UTC) instead of standard output
    #[arg(short = 'o', value_name = "BASE")]
    pub name: Option<PathBuf>,
    /// Working directory; the tests' directories are made in a new one below it
    #[arg(short = 'w', value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Clean up: remove each test's files and directories when it is done
    #[arg(short = 'k')]
    pub clean: bool,
    /// Process 0 takes part
    #[arg(short = '0')]
    pub zero: bool,
    /// Start so many processes on this host
    #[arg(long, value_name = "N", value_parser = parse_np)]
    pub np: Option<usize>,
    /// The tar file of the untar test, on each host [default: one is made of the source's shape]
    #[arg(long, value_name = "FILE")]
    pub tar: Option<PathBuf>,
    /// Where such a tar file is made: a fast directory of each host [default: that for temporary files]
    #[arg(long, value_name = "DIR")]
    pub tar_dir: Option<PathBuf>,
    /// Check after each test that every file is there, with the size, times and bytes that it should have
    #[arg(long)]
    pub check: bool,
    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
}

/// Processes that take part, by rank.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Participants {
    first: usize,
    pub size: usize,
}

impl Participants {
    /// All but process 0, unless it is alone or shall take part.
    pub fn new(processes: usize, with_zero: bool) -> Participants {
        let first = usize::from(processes > 1 && !with_zero);
        let size = processes - first;
        Participants { first, size }
    }

    /// The number of a process among those that take part.
    pub fn place(&self, rank: usize) -> Option<usize> {
        rank.checked_sub(self.first)
    }

    /// The process with the highest rank: the one that fills a directory alone.
    pub fn last(&self) -> usize {
        self.size - 1
    }
}

impl Metabench {
    /// nfile/N.
    pub fn files_each(&self, participants: Participants) -> u64 {
        self.files / participants.size as u64
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        if !(self.create || self.stat || self.utime || self.append || self.untar) {
            return usage_error("nothing to run: give at least one of -C, -S, -U, -A, -T");
        }
        if self.tar.is_some() && !self.untar {
            return usage_error("--tar is for the untar test: give -T too");
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn process_0_stands_aside_unless_it_is_alone_or_asked_to_join() {
        let places = |participants: Participants| [0, 1, 2].map(|rank| participants.place(rank));
        assert_eq!(
            places(Participants::new(3, false)),
            [None, Some(0), Some(1)]
        );
        assert_eq!(
            places(Participants::new(3, true)),
            [Some(0), Some(1), Some(2)]
        );
        assert_eq!(Participants::new(1, false).place(0), Some(0));
        assert_eq!(Participants::new(4, false).size, 3);
    }

    #[test]
    fn something_has_to_be_run() {
        let check = |flags: &str| {
            let all = ["metabench"].into_iter().chain(flags.split_whitespace());
            Metabench::try_parse_from(all)
                .map_err(|_| ())?
                .check_flags()
                .map_err(|_| ())
        };
        for flags in ["", "-c 10", "-C -c 0", "-C -b 64Q", "-C --tar x", "-Z"] {
            assert!(check(flags).is_err(), "{flags}");
        }
        assert!(check("-CSUATk0 -c 20000 -f 1000 -b 16K -o out -w /tmp").is_ok());
    }
}
