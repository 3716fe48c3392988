//! The reader, in the role of the tapes: takes each file as soon as it is whole, reads it and removes it.

use std::fs::File;
use std::io::{ErrorKind, Read};

use super::args::Daq;
use super::file::DaqFile;
use super::tally::Tally;
use crate::error::{ErrorContext, SuiteResult};
use crate::memory::Buffer;
use crate::pattern::PatternChecker;
use crate::run_directory::RunDirectory;
use crate::step::Work;
use crate::stop_flag::StopFlag;

/// After so many looks for a file in vain, a reader looks whether the directory is there at all.
const LOOKS: u32 = 50;

pub struct Reader<'a> {
    args: &'a Daq,
    run_dir: &'a RunDirectory,
    reader: usize,
    buffer: Buffer,
}

impl Reader<'_> {
    pub fn new<'a>(args: &'a Daq, run_dir: &'a RunDirectory, reader: usize) -> Reader<'a> {
        Reader {
            args,
            run_dir,
            reader,
            buffer: Buffer::zeroed(args.record.0.min(args.size.0) as usize),
        }
    }

    pub fn run(mut self, halt: &StopFlag) -> SuiteResult<Work> {
        let mut tally = Tally::start(self.args, halt);
        for file in DaqFile::of_reader(self.args, self.reader) {
            let path = file.whole(self.run_dir);
            let (mut opened, mut looks) = (None, 0u32);
            let waiting = || match File::open(&path) {
                Ok(file) => {
                    opened = Some(file);
                    Ok(true)
                }
                Err(error) if error.kind() == ErrorKind::NotFound => {
                    looks += 1;
                    match looks.is_multiple_of(LOOKS) {
                        true => self
                            .run_dir
                            .dir()
                            .metadata()
                            .doing("find", self.run_dir.dir())
                            .map(|_| false),
                        false => Ok(false),
                    }
                }
                Err(error) => Err(error).doing("open", &path),
            };
            tally.wait_until(waiting)?;
            let whole = match opened {
                Some(from) => self.read(file, from, &mut tally)?,
                None => false,
            };
            if !whole {
                break;
            }
        }
        Ok(tally.work())
    }

    /// Whether the file was read whole, and removed, before all was over.
    fn read(&mut self, file: DaqFile, mut from: File, tally: &mut Tally) -> SuiteResult<bool> {
        let path = file.whole(self.run_dir);
        let mut checker = PatternChecker::new(self.run_dir.run, self.neighbours(file));
        let mut offset = 0;
        while offset < self.args.size.0 {
            if tally.over() {
                return Ok(false);
            }
            let length = self.args.record.0.min(self.args.size.0 - offset);
            let found = &mut self.buffer[..length as usize];
            from.read_exact(found).doing("read", &path)?;
            if self.args.common.check {
                checker.compare(&path, offset, found, file.origin())?;
            }
            tally.count(length)?;
            offset += length;
        }
        std::fs::remove_file(&path).doing("remove", &path)?;
        tally.skip();
        Ok(true)
    }

    /// Files that wrong data may be of: those of the other writers, and the one before.
    fn neighbours(&self, file: DaqFile) -> Vec<crate::pattern::Origin> {
        let others = (0..u64::from(self.args.writers)).map(|writer| DaqFile { writer, ..file });
        let before = file.number.checked_sub(1);
        let before = before.map(|number| DaqFile { number, ..file });
        others.chain(before).map(DaqFile::origin).collect()
    }
}
