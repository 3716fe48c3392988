//! A whole run in one process: test after test, in step with the others.

use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::time::Instant;

use gupfs_kit::date;
use rustix::fs::{Dir, Mode, OFlags, open};
use serde::{Deserialize, Serialize};

use super::args::{Crew, Metabench};
use super::files::Name;
use super::ops::{self, Unpacked};
use super::report::{Batch, Member, Report, Tested};
use super::setup::{self, Stage};
use super::tests::{Kind, Test};
use crate::halt::Halt;
use crate::latency::{Laps, Packed, together};
use crate::output::Destination;
use crate::procs::Procs;
use crate::space;
use crate::team;
use crate::trouble::{Doing, Outcome, Trouble};
use crate::workload::Workload;

/// What a process tells process 0 of a test.
#[derive(Clone, Serialize, Deserialize)]
struct Said {
    operations: u64,
    seconds: f64,
    batches: Vec<Batch>,
    unpacked: Option<Unpacked>,
    latencies: Packed,
}

struct Run<'a> {
    asked: &'a Metabench,
    crew: Crew,
    each: u64,
    top: PathBuf,
    tar: PathBuf,
}

impl Workload for Metabench {
    type Report = Report;

    fn np(&self) -> Option<usize> {
        self.np
    }

    fn check(&self) -> Outcome<()> {
        self.check_flags()
    }

    fn destination(&self) -> Destination<'_> {
        Destination {
            base: self.name.as_deref(),
            json: self.json.as_deref(),
        }
    }

    fn run(&self, procs: &mut Procs) -> Outcome<Option<Report>> {
        run(self, procs).map(Some)
    }
}

fn run(asked: &Metabench, procs: &mut Procs) -> Outcome<Report> {
    let crew = Crew::new(procs.size(), asked.zero);
    let each = asked.files_each(crew);
    if each == 0 {
        return Err(Trouble::asked(format!(
            "-c {} is less than a file for each of the {} processes that take part",
            asked.files, crew.size
        )));
    }
    let dir = std::path::absolute(&asked.dir).doing("find", &asked.dir)?;
    procs.lead(|| space::check(&dir, room(asked, crew)))?;
    let tag = format!("{}_{}", date::stamp(), std::process::id());
    let tag = procs.broadcast(&tag)?;
    let top = dir.join(format!("metabench_{tag}"));
    procs.remember(&top)?;
    procs.lead(|| std::fs::create_dir(&top).doing("make", &top))?;
    let tar = setup::tar_file(asked.tar.as_deref(), asked.tar_dir.as_deref(), &tag);
    let run = Run {
        asked,
        crew,
        each,
        top,
        tar,
    };
    let makes_tar = run.prepare_tar(procs)?;
    let mut report = Report::new(asked, crew, procs.size(), each);
    for test in Test::list(asked) {
        report.tests.extend(run.test(test, procs)?);
    }
    let tar_gone = if makes_tar {
        setup::remove_file(&run.tar)
    } else {
        Ok(())
    };
    procs.agree(tar_gone)?;
    if asked.clean {
        procs.lead(|| std::fs::remove_dir(&run.top).doing("remove", &run.top))?;
    }
    procs.forget()?;
    Ok(report)
}

/// Bytes that a run writes at most.
fn room(asked: &Metabench, crew: Crew) -> u64 {
    let appended = if asked.append {
        2 * asked.bytes.0.saturating_mul(asked.files)
    } else {
        0
    };
    let untar = match (&asked.tar, asked.untar) {
        (_, false) => 0,
        (Some(tar), _) => std::fs::metadata(tar).map_or(0, |found| found.len()),
        (None, _) => super::tarball::BYTES,
    };
    appended.saturating_add(untar.saturating_mul(crew.size as u64))
}

impl Run<'_> {
    /// The first process of each host sees to the tar file there. Whether this one made it.
    fn prepare_tar(&self, procs: &mut Procs) -> Outcome<bool> {
        if !self.asked.untar {
            return Ok(false);
        }
        let host = rustix::system::uname()
            .nodename()
            .to_string_lossy()
            .into_owned();
        let hosts = procs.share(&host)?;
        let first = hosts.iter().position(|other| *other == host) == Some(procs.rank());
        let given = self.asked.tar.is_some();
        if !given {
            procs.remember(&self.tar)?;
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
    fn test(&self, test: Test, procs: &mut Procs) -> Outcome<Option<Tested>> {
        let stage = Stage::new(&self.top, test, self.crew.size, self.each);
        let populated = !matches!(test.kind, Kind::Create | Kind::Untar);
        procs.lead(|| stage.make(populated))?;
        let place = self.crew.place(procs.rank());
        let place = place.filter(|place| !test.alone || *place == self.crew.last());
        let entered = match place {
            Some(place) => Entered::new(&stage.dir(place)).map(Some),
            None => Ok(None),
        };
        let entered = procs.agree(entered)?;
        let mine: Vec<usize> = place.into_iter().collect();
        let worked = team::take(
            procs,
            &mine,
            |place| {
                let walks = populated && !test.separate;
                let listed = walks.then(|| self.walk(place)).transpose()?;
                Ok((listed, setup::appended(place, self.asked.bytes.0)))
            },
            |place, (listed, data), halt| self.work(test, place, listed, &data, halt),
        )?;
        drop(entered);
        let mine = worked.done.into_iter().next().map(|(_, said, _)| said);
        let all = procs.gather(&mine)?;
        let tested = all.map(|all| tested(test, all, worked.elapsed));
        procs.lead(|| self.end(test, &stage, tested.as_ref()))?;
        Ok(tested)
    }

    /// Opens the directory and walks to a process's share of its entries.
    fn walk(&self, place: usize) -> Outcome<Dir> {
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
        halt: &Halt,
    ) -> Outcome<Said> {
        let mut laps = Laps::start(halt);
        let begun = Instant::now();
        let (mut batches, mut unpacked) = (Vec::new(), None);
        match test.kind {
            Kind::Create if test.alone => batches = self.create_in_batches(place, &mut laps)?,
            Kind::Create => ops::create(place, 0..self.each, &self.top, &mut laps)?,
            Kind::Untar => unpacked = Some(ops::untar(&self.tar, &mut laps)?),
            kind => self.each_file(kind, place, listed, data, &mut laps)?,
        }
        Ok(Said {
            operations: laps.histogram.operations(),
            seconds: begun.elapsed().as_secs_f64(),
            batches,
            unpacked,
            latencies: laps.histogram.pack(),
        })
    }

    fn create_in_batches(&self, place: usize, laps: &mut Laps) -> Outcome<Vec<Batch>> {
        let mut batches = Vec::new();
        let mut from = 0;
        while from < self.asked.files {
            let to = self.asked.files.min(from.saturating_add(self.asked.batch));
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
    ) -> Outcome<()> {
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
            done.map_err(|error| Trouble::met(format!("{}: {error}", name.to_string_lossy())))?;
            laps.lap()?;
        }
        Ok(())
    }

    /// Process 0 checks and cleans up, as asked.
    fn end(&self, test: Test, stage: &Stage, tested: Option<&Tested>) -> Outcome<()> {
        if self.asked.check {
            let files = match (test.kind, tested.and_then(|tested| tested.unpacked)) {
                (Kind::Untar, Some(unpacked)) => unpacked.files,
                _ if test.alone => self.asked.files,
                _ => self.each * self.crew.size as u64,
            };
            stage.check(test.kind, files, self.asked.bytes.0, ops::MOMENT)?;
        }
        if self.asked.clean {
            stage.remove()?;
        }
        Ok(())
    }
}

fn next_name(dir: &mut Dir) -> Outcome<CString> {
    loop {
        let entry = dir
            .next()
            .ok_or_else(|| Trouble::met("a directory lists fewer files than were made in it"))?;
        let entry = entry.map_err(|error| Trouble::met(format!("listing a directory: {error}")))?;
        if ![c".", c".."].contains(&entry.file_name()) {
            return Ok(entry.file_name().to_owned());
        }
    }
}

fn tested(test: Test, all: Vec<Option<Said>>, elapsed: f64) -> Tested {
    let took_part = || {
        all.iter()
            .enumerate()
            .filter_map(|(rank, said)| Some((rank, said.as_ref()?)))
    };
    let unpacked = took_part().filter_map(|(_, said)| said.unpacked);
    Tested {
        name: test.name().into(),
        elapsed,
        operations: took_part().map(|(_, said)| said.operations).sum(),
        members: took_part()
            .map(|(rank, said)| Member {
                rank,
                operations: said.operations,
                seconds: said.seconds,
            })
            .collect(),
        batches: took_part()
            .flat_map(|(_, said)| said.batches.clone())
            .collect(),
        unpacked: unpacked.reduce(|a, b| Unpacked {
            files: a.files + b.files,
            directories: a.directories + b.directories,
            bytes: a.bytes + b.bytes,
        }),
        latencies: together(took_part().map(|(_, said)| &said.latencies)).summary(),
    }
}

/// The directory that this process has entered, until it is dropped.
struct Entered {
    before: PathBuf,
}

impl Entered {
    fn new(dir: &Path) -> Outcome<Entered> {
        let before = std::env::current_dir().doing("find", Path::new("."))?;
        std::env::set_current_dir(dir).doing("enter", dir)?;
        Ok(Entered { before })
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        // Where this process started: all paths used later are absolute, so that failing here harms nothing.
        let _ = std::env::set_current_dir(&self.before);
    }
}
