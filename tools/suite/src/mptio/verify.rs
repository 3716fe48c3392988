//! `-C`: do the files hold the bytes that were written last?

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use super::content::{Writer, visits, words};
use super::regions::{Layout, Region, TargetFile};
use super::tests::Test;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::memory::Buffer;
use crate::pattern::{first_word, hex};
use crate::stop_flag::StopFlag;

/// The tests so far: the check follows from them.
#[derive(Clone, Default)]
pub struct History {
    /// Tests that ran, in order.
    pub ran: Vec<Test>,
}

/// Everything that decides what is in a file.
pub struct Expected<'a> {
    pub run: u64,
    pub layout: &'a Layout,
    /// Operations of a thread in a random test.
    pub random: u64,
    pub rotate: bool,
    pub history: &'a History,
}

/// For each record of a region: the threads that may have written it last, as a whole and its first word.
struct Record {
    whole: Vec<Writer>,
    first_word: Vec<Writer>,
}

impl Expected<'_> {
    /// The threads that worked on a region in the test that ran as number `turn`.
    fn workers(&self, region: Region, turn: usize) -> Vec<Writer> {
        let layout = self.layout;
        let turns = if self.rotate { turn } else { 0 };
        let mut workers = Vec::new();
        for rank in 0..layout.processes() {
            for thread in 0..layout.threads() {
                if layout.region(layout.rotated(rank, turns), thread) == region {
                    let test = self.history.ran[turn];
                    workers.push(Writer { rank, thread, test });
                }
            }
        }
        workers
    }

    /// The possible writers of each record. Where several write the same bytes at once, each of them may be the last.
    fn records(&self, region: Region) -> Vec<Record> {
        let mut records: Vec<Record> = Vec::new();
        for (turn, test) in self.history.ran.iter().enumerate() {
            if !test.writes() {
                continue;
            }
            let workers = self.workers(region, turn);
            match test {
                Test::SeqWrite => {
                    records = (0..self.layout.records)
                        .map(|_| Record {
                            whole: workers.clone(),
                            first_word: workers.clone(),
                        })
                        .collect();
                }
                Test::ReadModifyWrite => {
                    for record in &mut records {
                        record.first_word.clone_from(&workers);
                    }
                }
                _ => self.written_at_random(&workers, &mut records),
            }
        }
        records
    }

    fn written_at_random(&self, workers: &[Writer], records: &mut [Record]) {
        let mut fresh = vec![false; records.len()];
        for worker in workers {
            let visited = visits(self.run, *worker, self.layout.records);
            for index in visited.take(self.random as usize) {
                let record = &mut records[index as usize];
                if !std::mem::replace(&mut fresh[index as usize], true) {
                    record.whole.clear();
                    record.first_word.clear();
                }
                if !record.whole.contains(worker) {
                    record.whole.push(*worker);
                    record.first_word.push(*worker);
                }
            }
        }
    }

    /// Reads a region and compares every word.
    pub fn check(
        &self,
        region: Region,
        path: &Path,
        file: &File,
        halt: &StopFlag,
    ) -> SuiteResult<()> {
        let size = self.layout.record();
        let mut found = Buffer::zeroed(size as usize);
        let mut expected = vec![0; size as usize];
        for (index, record) in self.records(region).iter().enumerate() {
            let offset = region.offset + index as u64 * size;
            let read = read_full(file, &mut found, offset).doing("read", path)?;
            if read < found.len() {
                return Err(SuiteError::failed(format!(
                    "{}: the file ends at byte {}, but a record of {size} bytes was written at {offset}",
                    path.display(),
                    offset + read as u64,
                )));
            }
            // The whole record at once, where one writer wrote it; word by word only where that differs.
            words(self.run, region.place, record.whole[0]).fill(&mut expected, offset);
            let first = first_word(offset, size);
            if record.whole != record.first_word {
                words(self.run, region.place, record.first_word[0])
                    .fill(&mut expected[..first], offset);
            }
            if *found != *expected {
                self.compare(region.place, path, offset, &found, record)?;
            }
            halt.check()?;
        }
        Ok(())
    }

    fn compare(
        &self,
        place: TargetFile,
        path: &Path,
        offset: u64,
        found: &[u8],
        record: &Record,
    ) -> SuiteResult<()> {
        let mut at = 0;
        while at < found.len() {
            let here = offset + at as u64;
            let end = (at + first_word(here, u64::MAX)).min(found.len());
            let may = if at == 0 {
                &record.first_word
            } else {
                &record.whole
            };
            let word = &found[at..end];
            if !may
                .iter()
                .any(|writer| self.wrote(place, *writer, here, word))
            {
                return Err(self.wrong(place, path, here, word, may[0]));
            }
            at = end;
        }
        Ok(())
    }

    fn wrote(&self, place: TargetFile, writer: Writer, offset: u64, word: &[u8]) -> bool {
        let mut expected = [0; 8];
        words(self.run, place, writer).fill(&mut expected[..word.len()], offset);
        expected[..word.len()] == *word
    }

    fn wrong(
        &self,
        place: TargetFile,
        path: &Path,
        offset: u64,
        word: &[u8],
        due: Writer,
    ) -> SuiteError {
        let mut expected = vec![0; word.len()];
        words(self.run, place, due).fill(&mut expected, offset);
        let whose = match self.find_writer(place, offset, word) {
            Some(writer) => format!("which {} wrote there", show(writer)),
            None if word.iter().all(|byte| *byte == 0) => "as if never written".into(),
            None => "which nobody wrote there in this run".into(),
        };
        SuiteError::failed(format!(
            "{}: wrong data at offset {offset}: expected {} of {}, found {}, {whose}",
            path.display(),
            hex(&expected),
            show(due),
            hex(word),
        ))
    }

    /// The thread whose word it is, of all that wrote anything.
    fn find_writer(&self, place: TargetFile, offset: u64, word: &[u8]) -> Option<Writer> {
        // Shorter pieces could be anybody's by chance.
        if word.len() < 4 {
            return None;
        }
        for test in Test::ALL.into_iter().filter(|test| test.writes()) {
            for rank in 0..self.layout.processes() {
                for thread in 0..self.layout.threads() {
                    let writer = Writer { rank, thread, test };
                    if self.wrote(place, writer, offset, word) {
                        return Some(writer);
                    }
                }
            }
        }
        None
    }
}

/// As many bytes as there are, up to the buffer's length.
fn read_full(file: &File, bytes: &mut [u8], offset: u64) -> std::io::Result<usize> {
    let mut read = 0;
    while read < bytes.len() {
        match file.read_at(&mut bytes[read..], offset + read as u64)? {
            0 => break,
            more => read += more,
        }
    }
    Ok(read)
}

fn show(writer: Writer) -> String {
    let Writer { rank, thread, test } = writer;
    format!("{} by thread {thread} of process {rank}", test.name())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mptio::regions::{Amount, Request, Shape};

    const RECORD: u64 = 64;

    fn layout() -> Layout {
        Layout::new(Request {
            shape: Shape::Global,
            processes: 2,
            threads: 1,
            amount: Amount::EachProcess(4 * RECORD),
            record: RECORD,
            processes_overlap: false,
            threads_overlap: false,
            start: 0,
            block: 1,
        })
    }

    /// The check's error for process 0's region of a file that was written as it should be and then changed.
    fn said(ran: &[Test], change: impl Fn(&File)) -> Result<(), String> {
        let layout = layout();
        let history = History { ran: ran.to_vec() };
        let expected = Expected {
            run: 5,
            layout: &layout,
            random: 2,
            rotate: false,
            history: &history,
        };
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let file = File::options()
            .create_new(true)
            .read(true)
            .write(true)
            .open(&path)
            .unwrap();
        let writer = |test| Writer {
            rank: 0,
            thread: 0,
            test,
        };
        let write = |test, index: u64, length: usize| {
            let mut bytes = vec![0; length];
            words(5, TargetFile::Global, writer(test)).fill(&mut bytes, index * RECORD);
            file.write_all_at(&bytes, index * RECORD).unwrap();
        };
        for test in ran {
            match test {
                Test::SeqWrite => (0..4).for_each(|index| write(*test, index, 64)),
                Test::ReadModifyWrite => (0..4).for_each(|index| write(*test, index, 8)),
                Test::RandomWrite => visits(5, writer(*test), 4)
                    .take(2)
                    .for_each(|index| write(*test, index, 64)),
                Test::SeqRead | Test::RandomRead => {}
            }
        }
        change(&file);
        expected
            .check(
                layout.region(0, 0),
                Path::new("file"),
                &file,
                &StopFlag::default(),
            )
            .map_err(|error| error.to_string())
    }

    #[test]
    fn what_was_written_is_accepted_after_each_test() {
        for upto in 1..=Test::ALL.len() {
            assert_eq!(said(&Test::ALL[..upto], |_| {}), Ok(()), "{upto}");
        }
    }

    #[test]
    fn a_lost_write_names_the_writer_whose_data_are_still_there() {
        let stale = said(&[Test::SeqWrite, Test::ReadModifyWrite], |file| {
            let mut bytes = [0; 8];
            let writer = Writer {
                rank: 0,
                thread: 0,
                test: Test::SeqWrite,
            };
            words(5, TargetFile::Global, writer).fill(&mut bytes, 128);
            file.write_all_at(&bytes, 128).unwrap();
        });
        assert_eq!(
            stale.unwrap_err(),
            "file: wrong data at offset 128: expected 9e990d9f70c92234 of RMW by thread 0 of process 0, \
            found a29a092853b6eadc, which Seq_Write by thread 0 of process 0 wrote there"
        );
    }

    #[test]
    fn a_hole_a_foreign_byte_and_a_short_file_are_told_apart() {
        let hole = said(&[Test::SeqWrite], |file| {
            file.write_all_at(&[0; 16], 72).unwrap();
        });
        assert_eq!(
            hole.unwrap_err(),
            "file: wrong data at offset 72: expected 7369a52f131fca46 of Seq_Write by thread 0 of process 0, \
            found 0000000000000000, as if never written"
        );
        let foreign = said(&[Test::SeqWrite], |file| {
            file.write_all_at(b"?", 100).unwrap();
        });
        assert_eq!(
            foreign.unwrap_err(),
            "file: wrong data at offset 96: expected dc321ef53310d063 of Seq_Write by thread 0 of process 0, \
            found dc321ef53f10d063, which nobody wrote there in this run"
        );
        let short = said(&[Test::SeqWrite], |file| file.set_len(200).unwrap());
        assert_eq!(
            short.unwrap_err(),
            "file: the file ends at byte 200, but a record of 64 bytes was written at 192"
        );
    }
}
