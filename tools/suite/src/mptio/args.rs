//! The flags of Appendix A.1, and which of them exclude each other.

use std::path::PathBuf;

use clap::{Parser, ValueEnum};

use super::regions::{Amount, Shape};
use super::tests::Test;
use crate::error::SuiteResult;
use crate::size::{CALL_MAX, Size, parse_positive};
use crate::workload::{parse_np, usage_error};

/// Parallel, multi-threaded I/O on files or devices: aggregate rates of five tests
///
/// Start it with mpirun or srun (built with the feature mpi), or with --np for processes on this host. Every process starts -t
/// threads; each works on a region of its own, or -O says otherwise. Sizes are digits and K, M or G. Exit status: 0 a whole
/// report was written, 1 something failed, 2 the flags are wrong.
#[derive(Parser, Clone, Debug)]
#[command(name = "mptio", version)]
pub struct Mptio {
    /// File size of each process (adjusted to whole records of equally many for each thread)
    #[arg(short = 'f', value_name = "FSIZE", value_parser = parse_positive)]
    pub each: Option<Size>,
    /// File size of all processes together
    #[arg(short = 'F', value_name = "FSIZE", value_parser = parse_positive)]
    pub all: Option<Size>,
    /// Bytes of each I/O operation
    #[arg(short = 'b', value_name = "RECSZ", value_parser = parse_positive)]
    pub record: Size,
    /// Threads of each process
    #[arg(short = 't', value_name = "NTH", value_parser = clap::value_parser!(u16).range(1..=4096))]
    pub threads: u16,
    /// All threads work on one file (this is what is done if none of -G, -P, -T, -R is given)
    #[arg(short = 'G')]
    pub global: bool,
    /// One file for each process
    #[arg(short = 'P')]
    pub per_process: bool,
    /// One file for each thread
    #[arg(short = 'T')]
    pub per_thread: bool,
    /// Work on a block device, and destroy what is on it; may be given several times
    #[arg(short = 'R', value_name = "DEV")]
    pub devices: Vec<PathBuf>,
    /// Skip a test: 0 sequential write, 1 read-modify-write, 2 random write, 3 sequential read, 4 random read
    #[arg(short = 'k', value_name = "NUM", value_parser = clap::value_parser!(u8).range(0..=4))]
    pub skip: Vec<u8>,
    /// Write the report to BASE_YYYYMMDD_HHMMSS (UTC) instead of standard output
    #[arg(short = 'N', value_name = "BASE")]
    pub name: Option<PathBuf>,
    /// Directory of the files
    #[arg(short = 'd', value_name = "DIR", default_value = ".")]
    pub dir: PathBuf,
    /// Work in a new directory of its own below -d
    #[arg(short = 'U')]
    pub unique: bool,
    /// Operations of each thread in a random test [default: as many as its region has records]
    #[arg(short = 'a', value_name = "NRAND", value_parser = clap::value_parser!(u64).range(1..))]
    pub random: Option<u64>,
    /// After each test, go on with the regions of the process before
    #[arg(short = 'r')]
    pub rotate: bool,
    /// Direct I/O: open with O_DIRECT
    #[arg(short = 'I')]
    pub direct: bool,
    /// Overlap: p all processes, t all threads of a process work on the same region; both may be given
    #[arg(short = 'O', value_name = "p|t", value_enum)]
    pub overlap: Vec<Overlap>,
    /// Start all I/O so many bytes later
    #[arg(short = 's', value_name = "OFFSET", default_value = "0")]
    pub start: Size,
    /// Keep the files
    #[arg(short = 'K')]
    pub keep: bool,
    /// Check after each test that the files hold what was written last (rates then include making these data)
    #[arg(short = 'C', long)]
    pub check: bool,
    /// Start so many processes on this host
    #[arg(long, value_name = "N", value_parser = parse_np)]
    pub np: Option<usize>,
    /// fsync before a file that was written is closed, within the time measured
    #[arg(long)]
    pub sync: bool,
    /// Also write the report to this file as JSON
    #[arg(long, value_name = "FILE")]
    pub json: Option<PathBuf>,
    /// Use a device although it is mounted or held: its file system will be destroyed
    #[arg(long)]
    pub i_know: bool,
}

/// What `-O` lets overlap.
#[derive(Clone, Copy, PartialEq, Eq, Debug, ValueEnum)]
pub enum Overlap {
    #[value(name = "p")]
    Processes,
    #[value(name = "t")]
    Threads,
}

/// For each process if neither -f nor -F says how much.
const DEFAULT_SIZE: u64 = 64 << 20;

impl Mptio {
    pub fn shape(&self) -> Shape {
        match (self.per_process, self.per_thread, self.devices.len()) {
            (true, ..) => Shape::PerProcess,
            (_, true, _) => Shape::PerThread,
            (_, _, 0) => Shape::Global,
            (_, _, devices) => Shape::Devices(devices),
        }
    }

    pub fn amount(&self) -> Amount {
        match (self.each, self.all) {
            (_, Some(all)) => Amount::AllProcesses(all.0),
            (each, None) => Amount::EachProcess(each.map_or(DEFAULT_SIZE, |size| size.0)),
        }
    }

    pub fn overlaps(&self, which: Overlap) -> bool {
        self.overlap.contains(&which)
    }

    pub fn tests(&self) -> Vec<Test> {
        let runs = |test: &Test| !self.skip.contains(&(test.number() as u8));
        Test::ALL.into_iter().filter(runs).collect()
    }

    fn check_shape(&self) -> SuiteResult<()> {
        let given = [
            (self.global, "-G"),
            (self.per_process, "-P"),
            (self.per_thread, "-T"),
            (!self.devices.is_empty(), "-R"),
        ];
        let given: Vec<&str> = given
            .iter()
            .filter(|(is, _)| *is)
            .map(|(_, f)| *f)
            .collect();
        if given.len() > 1 {
            return usage_error(format!(
                "{} exclude each other: each says what the threads work on; give one",
                given.join(" and ")
            ));
        }
        if self.overlaps(Overlap::Threads) && self.per_thread {
            return usage_error(
                "-O t cannot be with -T: with a file for each thread nothing overlaps",
            );
        }
        if self.overlaps(Overlap::Processes) && (self.per_thread || self.per_process) {
            return usage_error(
                "-O p cannot be with -T or -P: with a file for each process nothing overlaps",
            );
        }
        Ok(())
    }

    fn check_rest(&self) -> SuiteResult<()> {
        if self.each.is_some() && self.all.is_some() {
            return usage_error(
                "-f and -F exclude each other: give the size of each process, or of all",
            );
        }
        if self.record.0 > CALL_MAX {
            return usage_error(format!(
                "-b {} is more than one system call moves: at most 1G",
                self.record
            ));
        }
        if self.tests().is_empty() {
            return usage_error("-k skips all five tests: leave one");
        }
        if self.check && self.skip.contains(&0) {
            return usage_error(
                "-C cannot be with -k 0: what the files should hold is known only for what this run wrote",
            );
        }
        let aligned = |size: Size| size.0.is_multiple_of(512);
        if self.direct && self.devices.is_empty() && !(aligned(self.record) && aligned(self.start))
        {
            return usage_error(format!(
                "-I moves whole sectors: -b {} and -s {} must be multiples of 512",
                self.record, self.start
            ));
        }
        if self.unique && self.skip.contains(&0) {
            return usage_error("-U cannot be with -k 0: a new directory has no files to work on");
        }
        if !self.devices.is_empty() && (self.unique || self.keep) {
            return usage_error("-U and -K are about files, and -R works on devices");
        }
        Ok(())
    }

    /// Whether the flags go together.
    pub(super) fn check_flags(&self) -> SuiteResult<()> {
        self.check_shape()?;
        self.check_rest()
    }
}

#[cfg(test)]
mod flags {
    use super::*;

    fn refused(flags: &str) -> Option<String> {
        let record = if flags.contains("-b") { "" } else { "-b 64K" };
        let all = format!("mptio -t 2 {record} {flags}");
        let all = all.split_whitespace();
        match Mptio::try_parse_from(all) {
            Err(error) => Some(error.to_string()),
            Ok(mptio) => mptio.check_flags().err().map(|error| {
                assert_eq!(error.exit_code(), 2);
                error.to_string()
            }),
        }
    }

    #[test]
    fn what_the_source_forbids_is_refused() {
        for flags in [
            "-G -P",
            "-P -T",
            "-T -R /dev/x",
            "-G -R /dev/x",
            "-O t -T",
            "-O p -T",
            "-O p -P",
            "-f 1M -F 1M",
            "-f 64Q",
            "-f 0",
            "-O x",
            "-k 5",
            "-k 0 -k 1 -k 2 -k 3 -k 4",
            "-C -k 0",
            "-I -s 100",
            "-R /dev/x -K",
            "-b 2G",
            "--np 0",
        ] {
            assert!(refused(flags).is_some(), "{flags}");
        }
    }

    #[test]
    fn what_the_source_allows_is_taken() {
        for flags in [
            "",
            "-G -f 1G",
            "-P -F 512M -r -k 1 -k 2 -k 4",
            "-F 512M -R dev0 -R dev1",
            "-O p -O t",
            "-O t -P",
            "-T -a 10 -I -U -K -C -N out -s 1G",
        ] {
            assert_eq!(refused(flags), None, "{flags}");
        }
    }

    #[test]
    fn skipped_tests_are_left_out_in_order() {
        let flags = [
            "mptio", "-b", "1", "-t", "1", "-k", "1", "-k", "2", "-k", "4",
        ];
        let mptio = Mptio::try_parse_from(flags).unwrap();
        assert_eq!(mptio.tests(), [Test::SeqWrite, Test::SeqRead]);
        assert_eq!(mptio.shape(), Shape::Global);
    }
}
