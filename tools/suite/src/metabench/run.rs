//! A whole run in one process: test after test, in step with the others.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gupfs_kit::date;
use rustix::fs::{Dir, Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use super::args::{Metabench, Participants};
use super::files::Name;
use super::ops::{self, Unpacked};
use super::report::{Batch, Member, Report, TestResult};
use super::setup::{self, TestDirectories};
use super::tests::{Kind, Test};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::latency::{Laps, PackedHistogram, merge};
use crate::output::Destination;
use crate::procs::Procs;
use crate::space;
use crate::stop_flag::StopFlag;
use crate::threads;
use crate::workload::Workload;

/// The message of a process to process 0 about a test.
#[derive(Clone, Serialize, Deserialize)]
struct ProcessResult {
    operations: u64,
    seconds: f64,
    batches: Vec<Batch>,
    unpacked: Option<Unpacked>,
    latencies: PackedHistogram,
}

struct Run<'a> {
    args: &'a Metabench,
    participants: Participants,
    each: u64,
    top: PathBuf,
    tar: PathBuf,
}

impl Workload for Metabench {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.np
    }

    fn check(&self) -> SuiteResult<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            base: self.name.as_deref(),
            json: self.json.as_deref(),
        }
    }

    fn run(&self, procs: &mut Procs) -> SuiteResult<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(args: &Metabench, procs: &mut Procs) -> SuiteResult<Report> {
    let participants = Participants::new(procs.size(), args.zero);
    let each = args.files_each(participants);
    if each == 0 {
        return Err(SuiteError::usage(format!(
            "-c {} is less than a file for each of the {} processes that take part",
            args.files, participants.size
        )));
    }
    let dir = std::path::absolute(&args.dir).doing("find", &args.dir)?;
    procs.on_rank_0(|| space::check(&dir, room(args, participants)))?;
    let tag = format!("{}_{}", date::stamp(), std::process::id());
    let tag = procs.broadcast(&tag)?;
    let top = dir.join(format!("metabench_{tag}"));
    procs.remove_on_failure(&top)?;
    procs.on_rank_0(|| std::fs::create_dir(&top).doing("make", &top))?;
    let tar = setup::tar_file(args.tar.as_deref(), args.tar_dir.as_deref(), &tag);
    let run = Run {
        args,
        participants,
        each,
        top,
        tar,
    };
    let makes_tar = run.prepare_tar(procs)?;
    let mut report = Report::new(args, participants, procs.size(), each);
    for test in Test::list(args) {
        report.tests.extend(run.test(test, procs)?);
    }
    let tar_gone = if makes_tar {
        setup::remove_file(&run.tar)
    } else {
        Ok(())
    };
    procs.agree(tar_gone)?;
    if args.clean {
        procs.on_rank_0(|| std::fs::remove_dir(&run.top).doing("remove", &run.top))?;
    }
    procs.keep_all()?;
    Ok(report)
}

/// Bytes that a run writes at most.
fn room(args: &Metabench, participants: Participants) -> u64 {
    let appended = if args.append {
        2 * args.bytes.0.saturating_mul(args.files)
    } else {
        0
    };
    let untar = match (&args.tar, args.untar) {
        (_, false) => 0,
        (Some(tar), _) => std::fs::metadata(tar).map_or(0, |found| found.len()),
        (None, _) => super::tarball::BYTES,
    };
    appended.saturating_add(untar.saturating_mul(participants.size as u64))
}

impl Run<'_> {
    /// The first process of each host sees to the tar file there. Whether this one made it.
    fn prepare_tar(&self, procs: &mut Procs) -> SuiteResult<bool> {
        if !self.args.untar {
            return Ok(false);
        }
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let hosts = procs.share(&host)?;
        let first = hosts.iter().position(|other| *other == host) == Some(procs.rank());
        let given = self.args.tar.is_some();
        if !given {
            procs.remove_on_failure(&self.tar)?;
        }
        let made = if first {
            setup::make_tar(&self.tar, given)
        } else {
            Ok(())
        };
        procs.agree(made)?;
        Ok(first && !given)
    }

    /// One test: its result, in process 0.
    fn test(&self, test: Test, procs: &mut Procs) -> SuiteResult<Option<TestResult>> {
        let directories = TestDirectories::new(&self.top, test, self.participants.size, self.each);
        let populated = !matches!(test.kind, Kind::Create | Kind::Untar);
        procs.on_rank_0(|| directories.make(populated))?;
        let place = self.participants.place(procs.rank());
        let place = place.filter(|place| !test.alone || *place == self.participants.last());
        let working_directory = match place {
            Some(place) => WorkingDirectory::new(&directories.dir(place)).map(Some),
            None => Ok(None),
        };
        let working_directory = procs.agree(working_directory)?;
        let mine: Vec<usize> = place.into_iter().collect();
        let worked = threads::run_step(
            procs,
            &mine,
            |place| {
                let walks = populated && !test.separate;
                let listed = walks.then(|| self.walk(place)).transpose()?;
                Ok((listed, setup::appended(place, self.args.bytes.0)))
            },
            |place, (listed, data), halt| self.work(test, place, listed, &data, halt),
        )?;
        drop(working_directory);
        let mine = worked.done.into_iter().next().map(|(_, result, _)| result);
        let all = procs.gather(&mine)?;
        let tested = all.map(|all| tested(test, all, worked.elapsed));
        procs.on_rank_0(|| self.end(test, &directories, tested.as_ref()))?;
        Ok(tested)
    }

    /// Opens the directory and walks to a process's share of its entries.
    fn walk(&self, place: usize) -> SuiteResult<Dir> {
        let here = Path::new(".");
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let fd = open(here, flags, Mode::empty()).doing("open", here)?;
        let mut dir = Dir::new(fd).doing("list", here)?;
        for _ in 0..place as u64 * self.each {
            next_name(&mut dir)?;
        }
        Ok(dir)
    }

    fn work(
        &self,
        test: Test,
        place: usize,
        listed: Option<Dir>,
        data: &[u8],
        halt: &StopFlag,
    ) -> SuiteResult<ProcessResult> {
        let mut laps = Laps::start(halt);
        let begun = Instant::now();
        let (mut batches, mut unpacked) = (Vec::new(), None);
        match test.kind {
            Kind::Create if test.alone => batches = self.create_in_batches(place, &mut laps)?,
            Kind::Create => ops::create(place, 0..self.each, &self.top, &mut laps)?,
            Kind::Untar => unpacked = Some(ops::untar(&self.tar, &mut laps)?),
            kind => self.each_file(kind, place, listed, data, &mut laps)?,
        }
        Ok(ProcessResult {
            operations: laps.histogram.operations(),
            seconds: begun.elapsed().as_secs_f64(),
            batches,
            unpacked,
            latencies: laps.histogram.pack(),
        })
    }

    fn create_in_batches(&self, place: usize, laps: &mut Laps) -> SuiteResult<Vec<Batch>> {
        let mut batches = Vec::new();
        let mut from = 0;
        while from < self.args.files {
            let to = self.args.files.min(from.saturating_add(self.args.batch));
            let begun = Instant::now();
            ops::create(place, from..to, &self.top, laps)?;
            batches.push(Batch {
                files: to - from,
                seconds: begun.elapsed().as_secs_f64(),
            });
            from = to;
        }
        Ok(batches)
    }

    /// The same operation on each file of a process's share: by name in its own directory, as listed in a shared one.
    fn each_file(
        &self,
        kind: Kind,
        place: usize,
        mut listed: Option<Dir>,
        data: &[u8],
        laps: &mut Laps,
    ) -> SuiteResult<()> {
        for index in 0..self.each {
            let own;
            let entry;
            let name = match &mut listed {
                Some(dir) => {
                    entry = next_name(dir)?;
                    entry.as_c_str()
                }
                None => {
                    own = Name::new(place, index);
                    own.as_c_str()
                }
            };
            let done = match kind {
                Kind::Stat => ops::stat(name),
                Kind::Utime => ops::utime(name),
                _ => ops::append(name, data),
            };
            done.map_err(|error| {
                SuiteError::failed(format!("{}: {error}", name.to_string_lossy()))
            })?;
            laps.lap()?;
        }
        Ok(())
    }

    /// Process 0 checks and cleans up, as asked.
    fn end(
        &self,
        test: Test,
        directories: &TestDirectories,
        tested: Option<&TestResult>,
    ) -> SuiteResult<()> {
        if self.args.check {
            let files = match (test.kind, tested.and_then(|tested| tested.unpacked)) {
                (Kind::Untar, Some(unpacked)) => unpacked.files,
                _ if test.alone => self.args.files,
                _ => self.each * self.participants.size as u64,
            };
            directories.check(test.kind, files, self.args.bytes.0, ops::MOMENT)?;
        }
        if self.args.clean {
            directories.remove()?;
        }
        Ok(())
    }
}

fn next_name(dir: &mut Dir) -> SuiteResult<CString> {
    loop {
        let entry = dir.next().ok_or_else(|| {
            SuiteError::failed("a directory lists fewer files than were made in it")
        })?;
        let entry =
            entry.map_err(|error| SuiteError::failed(format!("listing a directory: {error}")))?;
        if ![c".", c".."].contains(&entry.file_name()) {
            return Ok(entry.file_name().to_owned());
        }
    }
}

fn tested(test: Test, all: Vec<Option<ProcessResult>>, elapsed: f64) -> TestResult {
    let took_part = || {
        all.iter()
            .enumerate()
            .filter_map(|(rank, result)| Some((rank, result.as_ref()?)))
    };
    let unpacked = took_part().filter_map(|(_, result)| result.unpacked);
    TestResult {
        name: test.name().into(),
        elapsed,
        operations: took_part().map(|(_, result)| result.operations).sum(),
        members: took_part()
            .map(|(rank, result)| Member {
                rank,
                operations: result.operations,
                seconds: result.seconds,
            })
            .collect(),
        batches: took_part()
            .flat_map(|(_, result)| result.batches.clone())
            .collect(),
        unpacked: unpacked.reduce(|a, b| Unpacked {
            files: a.files + b.files,
            directories: a.directories + b.directories,
            bytes: a.bytes + b.bytes,
        }),
        latencies: merge(took_part().map(|(_, result)| &result.latencies)).summary(),
    }
}

/// The directory that this process has entered, until it is dropped.
struct WorkingDirectory {
    before: PathBuf,
}

impl WorkingDirectory {
    fn new(dir: &Path) -> SuiteResult<WorkingDirectory> {
        let before = std::env::current_dir().doing("find", Path::new("."))?;
        std::env::set_current_dir(dir).doing("enter", dir)?;
        Ok(WorkingDirectory { before })
    }
}

impl Drop for WorkingDirectory {
    fn drop(&mut self) {
        // Where this process started: all paths used later are absolute, so that failing here harms nothing.
        let _ = std::env::set_current_dir(&self.before);
    }
}
