//! A session: one run of a plan.

use std::ffi::OsString;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use gupfs_kit::date;
use tempfile::TempDir;

use super::child::{Background, ProgramEnd, ProgramRunner, SignalPolicy};
use super::program_output::{first_line, last_words, read_report};
use super::progress::Progress;
use super::remaining_jobs::remaining_jobs;
use super::result_file::ResultFile;
use super::{cache, machine};
use crate::cleanup;
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::plan::{Args, Job, NAME_OF_DIR, Plan, PlannedWorkload, Target, fill};
use crate::results::series::show;
use crate::results::{Cache, Failed, FinishedRun, Header, Line, Machine, Results};

/// For `setup`, `teardown` and `version` commands.
const COMMAND_TIME: Duration = Duration::from_secs(600);

/// So many times as much memory is touched before the first run as before each.
const TOUCHED_FIRST: u64 = 4;

/// The end of a session: all results of its file, and why it is not complete.
pub struct SessionEnd {
    pub results: Results,
    pub error: Option<SuiteError>,
}

struct Session<'a> {
    plan: &'a Plan,
    /// By workload: how its program is started.
    programs: &'a [Vec<OsString>],
    out: ResultFile,
    children: ProgramRunner,
    progress: Progress,
    scratch: TempDir,
    /// By target: the new directory in which all happens.
    places: Vec<PathBuf>,
}

/// Runs what is not yet in the result file.
///
/// # Errors
///
/// No scratch directory can be made. All other errors are in [`SessionEnd`].
pub fn run(
    plan: &Plan,
    programs: &[Vec<OsString>],
    machine: Machine,
    out: ResultFile,
) -> SuiteResult<SessionEnd> {
    let children = ProgramRunner::new();
    let left = remaining_jobs(plan, &out.results);
    let mut session = Session {
        plan,
        programs,
        out,
        children,
        progress: Progress::new(left.len()),
        scratch: tempfile::tempdir().doing("make a directory in", &std::env::temp_dir())?,
        places: Vec::new(),
    };
    let mut begun = 0;
    let worked = session
        .set_up(&mut begun, machine)
        .and_then(|()| session.work(left));
    session.progress.clear();
    for left in cleanup::remove() {
        eprintln!("{left}");
    }
    let torn = session.tear_down(begun);
    let failed = session.failed();
    Ok(SessionEnd {
        error: worked.and(torn).and(failed).err(),
        results: session.out.results,
    })
}

impl Session<'_> {
    /// `begun` counts the targets that have to be torn down.
    fn set_up(&mut self, begun: &mut usize, machine: Machine) -> SuiteResult<()> {
        let plan = self.plan;
        let mut header = Header {
            date: date::iso(),
            version: env!("CARGO_PKG_VERSION").into(),
            machine,
            places: Default::default(),
            plan: plan.clone(),
        };
        for target in &plan.targets {
            *begun += 1;
            if let Some(command) = &target.setup {
                self.shell(target, "setup", command, SignalPolicy::Signals)?;
            }
            let place = target
                .dir
                .join(format!("bench_{}_{}", date::stamp(), std::process::id()));
            std::fs::create_dir(&place).doing("make the directory", &place)?;
            cleanup::register(&place);
            self.places.push(place);
            let version = match &target.version {
                Some(command) => {
                    Some(self.shell(target, "version", command, SignalPolicy::Signals)?)
                }
                None => None,
            };
            let found = machine::place(&target.dir, version);
            header.places.insert(target.name.clone(), found);
        }
        self.out.begin(header)
    }

    fn tear_down(&mut self, begun: usize) -> SuiteResult<()> {
        let plan = self.plan;
        let mut torn = Ok(());
        for target in plan.targets[..begun].iter().rev() {
            if let Some(command) = &target.teardown {
                let done = self.shell(target, "teardown", command, SignalPolicy::Nothing);
                torn = torn.and(done.map(drop));
            }
        }
        torn
    }

    /// The first line that it printed.
    fn shell(
        &mut self,
        target: &Target,
        what: &str,
        text: &str,
        heed: SignalPolicy,
    ) -> SuiteResult<String> {
        self.progress
            .say(&format!("{what} of {}: {text}", target.name));
        let mut command = Command::new("/bin/sh");
        command.args(["-c", text]).env("DIR", &target.dir);
        let name = format!("target '{}': its {what} command", target.name);
        let mut said = self.said()?;
        let ended = self.children.run(
            command,
            &said,
            COMMAND_TIME,
            (Background::Stays, heed),
            || (),
        );
        match ended.map_err(|error| error.at(&name))? {
            ProgramEnd::Exited(status) if status.success() => Ok(first_line(&mut said)),
            ProgramEnd::Exited(status) => Err(SuiteError::failed(format!(
                "{name} failed ({status}): {}",
                last_words(&mut said)
            ))),
            ProgramEnd::TimedOut => Err(SuiteError::failed(format!(
                "{name} did not end within {} s; what shall go on must go on in the background",
                COMMAND_TIME.as_secs()
            ))),
            ProgramEnd::Interrupted => Err(self.interrupted()),
        }
    }

    fn said(&self) -> SuiteResult<File> {
        tempfile::tempfile_in(self.scratch.path()).doing("make a file in", self.scratch.path())
    }

    fn work(&mut self, mut left: Vec<Job>) -> SuiteResult<()> {
        self.touch_first(self.plan.touch_memory.size()?);
        let mut warned = false;
        while let Some(job) = left.first().cloned() {
            if self.children.signal().is_some() {
                return Err(self.interrupted());
            }
            self.progress.begin(&self.name(&job), &left);
            let began = Instant::now();
            let cache = self.one(&job)?;
            self.progress.end(&job, began.elapsed());
            left.remove(0);
            match cache {
                JobEnd::Well(Cache::Undropped) if !warned => {
                    warned = true;
                    self.progress.say(
                        "The plan wants caches dropped, and only root can: reads may come from memory. The results say so.",
                    );
                }
                JobEnd::Well(_) => {}
                JobEnd::Badly => {
                    let all = left.len();
                    left.retain(|other| {
                        (other.workload, other.target, &other.setting)
                            != (job.workload, job.target, &job.setting)
                    });
                    self.progress.skip(all - left.len());
                }
            }
        }
        Ok(())
    }

    /// Before all runs, more than before each: page caches grow as well.
    fn touch_first(&mut self, each: u64) {
        if each > 0 {
            self.progress
                .say("touching free memory, so that no run is the first to");
            cache::touch_memory(each.saturating_mul(TOUCHED_FIRST));
        }
    }

    fn name(&self, job: &Job) -> String {
        let workload = &self.plan.workloads[job.workload].name;
        let target = &self.plan.targets[job.target].name;
        let setting = show(&job.setting);
        let which = match job.repetition {
            0 => "warm-up".to_owned(),
            number => format!("run {number}"),
        };
        let parts = [workload.as_str(), &setting, "on", target, &which];
        parts
            .into_iter()
            .filter(|part| !part.is_empty())
            .collect::<Vec<_>>()
            .join(" ")
    }

    fn one(&mut self, job: &Job) -> SuiteResult<JobEnd> {
        let workload = &self.plan.workloads[job.workload];
        let dir = self.places[job.target].join(format!("run_{}", job.repetition));
        std::fs::create_dir(&dir).doing("make the directory", &dir)?;
        let measured = self.measure(job, workload, &dir);
        // A program of the suite leaves nothing; others, and those that were killed, may.
        std::fs::remove_dir_all(&dir).doing("remove", &dir)?;
        match measured? {
            Ok(run) => {
                let cache = run.cache;
                if job.counts() {
                    self.out.add(Line::Run(run))?;
                }
                Ok(JobEnd::Well(cache))
            }
            Err(failed) => {
                self.progress
                    .say(&format!("{}: {}", self.name(job), failed.why));
                self.out.add(Line::Failed(failed))?;
                Ok(JobEnd::Badly)
            }
        }
    }

    /// The run, or why it failed; an error ends the session.
    fn measure(
        &mut self,
        job: &Job,
        workload: &PlannedWorkload,
        dir: &Path,
    ) -> SuiteResult<Result<FinishedRun, Failed>> {
        let plan = self.plan;
        let target = plan.targets[job.target].name.clone();
        let failed = |command: Vec<String>, why: String| {
            Ok(Err(Failed {
                workload: workload.name.clone(),
                target: target.clone(),
                setting: job.setting.clone(),
                repetition: job.repetition,
                command,
                date: date::iso(),
                why,
            }))
        };
        if let Some(first) = &workload.first {
            let command = self.command(job, first, dir);
            if let Err(why) = self.program(&command)? {
                return failed(words(&command), format!("its run before failed: {why}"));
            }
        }
        let cache = match plan.drop_caches {
            true => cache::drop_all(),
            false => Cache::Kept,
        };
        self.children.rest(Duration::from_secs_f64(plan.pause));
        let touched = cache::touch_memory(plan.touch_memory.size()?);
        let report = self.scratch.path().join("report.json");
        let _ = std::fs::remove_file(&report);
        let mut command = self.command(job, &workload.args, dir);
        command.extend(["--json".into(), report.clone().into()]);
        let began = Instant::now();
        let date = date::iso();
        if let Err(why) = self.program(&command)? {
            return failed(words(&command), why);
        }
        let seconds = began.elapsed().as_secs_f64();
        let report = match read_report(&report) {
            Ok(report) => report,
            Err(why) => return failed(words(&command), why),
        };
        Ok(Ok(FinishedRun {
            workload: workload.name.clone(),
            target: target.clone(),
            setting: job.setting.clone(),
            repetition: job.repetition,
            program: report.program,
            program_version: report.version,
            command: words(&command),
            date,
            seconds,
            cache,
            touched_mb: touched >> 20,
            figures: report.figures,
        }))
    }

    fn command(&self, job: &Job, args: &Args, dir: &Path) -> Vec<OsString> {
        let value = |name: &str| match job.setting.get(name) {
            Some(value) => value.clone(),
            None if name == NAME_OF_DIR => dir.display().to_string(),
            None => self.plan.set[name].to_string(),
        };
        let words = args
            .words()
            .into_iter()
            .map(|word| fill(word, value).into());
        self.programs[job.workload]
            .iter()
            .cloned()
            .chain(words)
            .collect()
    }

    /// Whether it ended well, or why not; an error ends the session.
    fn program(&mut self, words: &[OsString]) -> SuiteResult<Result<(), String>> {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]).current_dir(self.scratch.path());
        let mut said = self.said()?;
        let limit = Duration::from_secs(self.plan.timeout);
        let how = (Background::Ends, SignalPolicy::Signals);
        let progress = &self.progress;
        let ended = self
            .children
            .run(command, &said, limit, how, || progress.tick())?;
        Ok(match ended {
            ProgramEnd::Exited(status) if status.success() => Ok(()),
            ProgramEnd::Exited(status) => Err(format!("{status}: {}", last_words(&mut said))),
            ProgramEnd::TimedOut => Err(format!(
                "it did not end within {} s and was ended",
                limit.as_secs()
            )),
            ProgramEnd::Interrupted => return Err(self.interrupted()),
        })
    }

    fn interrupted(&mut self) -> SuiteError {
        let signal = self.children.signal().unwrap_or(0);
        SuiteError::failed(format!(
            "ended by signal {signal}; {} runs are in {}: go on with --resume --out {}",
            self.out.results.runs.len(),
            self.out.path.display(),
            self.out.path.display()
        ))
    }

    fn failed(&self) -> SuiteResult<()> {
        let failed = &self.out.results.failed;
        let Some(first) = failed.first() else {
            return Ok(());
        };
        Err(SuiteError::failed(format!(
            "{} of the settings failed and have no or fewer runs, the first of them {} {} on {}: {}\nTheir commands are in {}; \
             --resume tries them again.",
            failed.len(),
            first.workload,
            show(&first.setting),
            first.target,
            first.why,
            self.out.path.display()
        )))
    }
}

enum JobEnd {
    Well(Cache),
    Badly,
}

fn words(command: &[OsString]) -> Vec<String> {
    command
        .iter()
        .map(|word| word.to_string_lossy().into_owned())
        .collect()
}
