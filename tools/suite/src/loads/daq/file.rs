//! The files between writers and readers: their names, and the reader of each.

use std::path::PathBuf;

use super::args::Daq;
use crate::pattern::Origin;
use crate::run_directory::RunDirectory;

/// One file, by its number among those of its writer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DaqFile {
    pub writer: u64,
    pub number: u64,
}

impl DaqFile {
    /// The files that a reader takes, in order: all of all writers are dealt to the readers in turn, so that each file has one
    /// reader whatever the numbers of both.
    pub fn of_reader(args: &Daq, reader: usize) -> impl Iterator<Item = DaqFile> {
        let writers = u64::from(args.writers);
        let dealt = (reader as u64..).step_by(usize::from(args.readers));
        dealt.map(move |turn| DaqFile {
            writer: turn % writers,
            number: turn / writers,
        })
    }

    /// Its name while it is written.
    pub fn part(self, run_dir: &RunDirectory) -> PathBuf {
        run_dir
            .dir()
            .join(format!("w{}.{}.part", self.writer, self.number))
    }

    /// Its name when it waits to be read.
    pub fn whole(self, run_dir: &RunDirectory) -> PathBuf {
        run_dir
            .dir()
            .join(format!("w{}.{}", self.writer, self.number))
    }

    pub fn origin(self) -> Origin {
        Origin {
            file: self.writer,
            writer: self.writer,
            pass: self.number,
        }
    }
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        daq: Daq,
    }

    #[test]
    fn every_file_has_one_reader() {
        for (writers, readers) in [(1, 1), (3, 3), (4, 2), (2, 5), (3, 2)] {
            let flags = format!("daq -w {writers} -r {readers}");
            let args = Line::try_parse_from(flags.split_whitespace()).unwrap().daq;
            let mut seen = Vec::new();
            for reader in 0..readers {
                let first = DaqFile::of_reader(&args, reader).take_while(|each| each.number < 10);
                seen.extend(first.map(|each| (each.number, each.writer)));
            }
            seen.sort();
            let expected: Vec<_> = (0..10)
                .flat_map(|number| (0..writers as u64).map(move |writer| (number, writer)))
                .collect();
            assert_eq!(seen, expected, "{writers} {readers}");
        }
    }
}
