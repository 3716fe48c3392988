//! A lab from its first namespace to its last.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::directory::LabDirectory;
use super::hosts::{Host, Hosts, names};
use super::job::{self, LabProcess, StopSignal};
use super::plan::{Plan, Step};
use super::{clean, links};
use crate::error::{ErrorContext, SuiteError, SuiteResult};
use crate::runner::SelfCommand;

/// How long a `stop` command may take.
const STOP: Duration = Duration::from_secs(60);

/// How much of what a command said goes into a message.
const SAID_MAX: usize = 2_000;

/// The exit code.
pub fn run(
    plan: &Plan,
    hosts: &Hosts,
    command: &[OsString],
    self_command: &SelfCommand,
) -> SuiteResult<u8> {
    let ending = StopSignal::watch();
    let mut lab = RunningLab {
        place: LabDirectory::make()?,
        hosts,
        ending,
        jobs: Vec::new(),
        stops: Vec::new(),
    };
    let worked = lab.work(plan, command, self_command);
    let removed = lab.remove();
    match (worked, removed) {
        (Err(worked), Err(removed)) => Err(SuiteError::failed(format!("{worked}\n{removed}"))),
        (worked, removed) => removed.and(worked),
    }
}

struct RunningLab<'a> {
    place: LabDirectory,
    hosts: &'a Hosts,
    ending: StopSignal,
    /// Processes that go on running.
    jobs: Vec<LabProcess>,
    /// Commands to run before those are ended, each with its host.
    stops: Vec<(Host, String)>,
}

impl RunningLab<'_> {
    fn work(
        &mut self,
        plan: &Plan,
        command: &[OsString],
        self_command: &SelfCommand,
    ) -> SuiteResult<u8> {
        links::make(&self.place.lab, self.hosts, plan.link)?;
        self.furnish(self_command)?;
        let link = plan
            .link
            .map_or("as fast as this machine".into(), |rate| rate.to_string());
        let all = self.hosts.all().iter();
        let all: Vec<_> = all
            .map(|host| format!("{} {}", host.name, host.address))
            .collect();
        eprintln!("{}: {}; links: {link}", self.place.lab, all.join(", "));
        for (number, step) in plan.steps.iter().enumerate() {
            self.step(number + 1, step)?;
        }
        match command {
            [] => self.stand(),
            [program, words @ ..] => self.command(program, words),
        }
    }

    /// A directory for each host, and the two commands that a lab has.
    fn furnish(&self, self_command: &SelfCommand) -> SuiteResult<()> {
        for host in self.hosts.all() {
            let dir = self.dir(host);
            std::fs::create_dir(&dir).doing("make", &dir)?;
        }
        let bin = self.place.dir.join("bin");
        std::fs::create_dir(&bin).doing("make", &bin)?;
        let begin = links::file(&links::namespace(&self.place.lab, ""));
        let on = format!(
            "HOST=$1 DIR={}/$1\nexport HOST DIR\nshift\nexec nsenter --net={}\"$HOST\" \"$@\"\n",
            quoted(self.place.dir.as_os_str()),
            quoted(begin.as_os_str())
        );
        let words: Vec<_> = self_command.words.iter().map(|word| quoted(word)).collect();
        let bench = format!("exec {} \"$@\"\n", words.join(" "));
        for (name, text) in [("on", on), ("bench", bench)] {
            let path = bin.join(name);
            std::fs::write(&path, format!("#!/bin/sh\n{text}")).doing("write", &path)?;
            let executable = std::fs::Permissions::from_mode(0o755);
            std::fs::set_permissions(&path, executable).doing("write", &path)?;
        }
        Ok(())
    }

    fn dir(&self, host: &Host) -> PathBuf {
        self.place.dir.join(&host.name)
    }

    /// Sets the environment that every command of the lab has.
    fn tell(&self, command: &mut Command) {
        let beside = std::env::current_exe().ok();
        let beside = beside
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"));
        let (bin, system) = (self.place.dir.join("bin"), links::path_with_system_tools());
        let path = format!("{}:{system}:{}", bin.display(), beside.display());
        command
            .env("PATH", path)
            .env("LAB", &self.place.lab)
            .env("LAB_DIR", &self.place.dir)
            .env("SERVERS", names(self.hosts.servers()))
            .env("CLIENTS", names(self.hosts.clients()));
        for host in self.hosts.all() {
            command.env(host.name.to_uppercase(), &host.address);
        }
    }

    /// A shell's line in a host.
    fn start(&self, host: &Host, line: &str, said: &File) -> SuiteResult<LabProcess> {
        let namespace = links::namespace(&self.place.lab, &host.name);
        let mut net = OsString::from("--net=");
        net.push(links::file(&namespace));
        let mut command = Command::new("nsenter");
        self.tell(&mut command);
        command
            .arg(net)
            .args(["sh", "-c", line])
            .current_dir(self.dir(host))
            .env("HOST", &host.name)
            .env("ADDRESS", &host.address)
            .env("NUMBER", host.number.to_string())
            .env("DIR", self.dir(host));
        LabProcess::start(format!("{}: {line}", host.name), command, Some(said))
    }

    fn step(&mut self, number: usize, step: &Step) -> SuiteResult<()> {
        let on = self.hosts.named(&step.on).unwrap_or_default();
        let mut started = Vec::new();
        for host in on {
            let path = self.place.dir.join(format!("{number}-{}.log", host.name));
            let said = File::create(&path).doing("make", &path)?;
            if let Some(stop) = &step.stop {
                self.stops.push((host.clone(), stop.clone()));
            }
            // It counts among those to be ended from the moment it runs.
            self.jobs.push(self.start(host, &step.command, &said)?);
            started.push((host.clone(), path));
        }
        let first = self.jobs.len() - started.len();
        let limit = Some(Duration::from_secs_f64(step.timeout));
        for (at, (host, said)) in started.iter().enumerate() {
            let namespace = links::namespace(&self.place.lab, &host.name);
            let job = &mut self.jobs[first + at];
            let done = self
                .ending
                .wait(limit, || done(job, step, &namespace, said))?;
            if done.is_none() {
                let what = if step.stays() { "get ready" } else { "end" };
                return Err(SuiteError::failed(format!(
                    "{} did not {what} within {} s; it said:\n{}",
                    job.name,
                    step.timeout,
                    last_words(said)
                )));
            }
        }
        if !step.stays() {
            for (_, said) in &started {
                print!("{}", std::fs::read_to_string(said).unwrap_or_default());
            }
        }
        Ok(())
    }

    fn command(&mut self, program: &OsStr, words: &[OsString]) -> SuiteResult<u8> {
        let mut command = Command::new(program);
        self.tell(&mut command);
        command.args(words);
        let name = program.display().to_string();
        self.jobs.push(LabProcess::start(name, command, None)?);
        let at = self.jobs.len() - 1;
        let ended = self.ending.wait(None, || {
            let ended = self.jobs[at].ended()?;
            if ended.is_none() {
                all_run(&mut self.jobs[..at])?;
            }
            Ok(ended)
        })?;
        match ended {
            Some(status) if status.success() => Ok(0),
            Some(status) => Err(SuiteError::failed(format!(
                "{}: {status}",
                self.jobs[at].name
            ))),
            None => Ok(0),
        }
    }

    /// Until a signal comes, which is the way to end it here.
    fn stand(&mut self) -> SuiteResult<u8> {
        eprintln!(
            "The lab stands; Ctrl-C removes it. In a host: nsenter --net={}HOST COMMAND",
            links::file(&links::namespace(&self.place.lab, "")).display()
        );
        let jobs = &mut self.jobs;
        let until_signal = self.ending.wait(None, || {
            all_run(jobs)?;
            Ok(None::<()>)
        });
        match (self.ending.check(), until_signal) {
            (Err(_), _) => Ok(0),
            (Ok(()), error) => error.map(|_| 0),
        }
    }

    fn remove(mut self) -> SuiteResult<()> {
        let path = self.place.dir.join("stop.log");
        // The last started is the first stopped; a signal that ended the lab ends none of these.
        let patient = StopSignal::default();
        for (host, line) in std::mem::take(&mut self.stops).into_iter().rev() {
            let stopped = File::create(&path)
                .doing("make", &path)
                .and_then(|said| self.start(&host, &line, &said))
                .and_then(|mut job| {
                    let ended = patient.wait(Some(STOP), || job.ended());
                    job::end(&mut vec![job]);
                    ended
                });
            match stopped {
                Ok(Some(status)) if status.success() => {}
                Ok(_) => eprintln!(
                    "{}: {line} failed; it said:\n{}",
                    host.name,
                    last_words(&path)
                ),
                Err(error) => eprintln!("{error}"),
            }
        }
        job::end(&mut self.jobs);
        clean::remove(&self.place)
    }
}

/// Whether a job of a step is ready, or has ended well.
fn done(
    job: &mut LabProcess,
    step: &Step,
    namespace: &str,
    said: &Path,
) -> SuiteResult<Option<()>> {
    match (job.ended()?, step.stays()) {
        (Some(status), false) if status.success() => return Ok(Some(())),
        (Some(status), _) => {
            return Err(SuiteError::failed(format!(
                "{}: {status}; it said:\n{}",
                job.name,
                last_words(said)
            )));
        }
        (None, _) => {}
    }
    let ready = match (&step.ready, step.port) {
        (Some(text), _) => std::fs::read(said)
            .is_ok_and(|said| String::from_utf8_lossy(&said).contains(text.as_str())),
        (None, Some(port)) => job.listens(port, &links::file(namespace)),
        (None, None) => false,
    };
    Ok(ready.then_some(()))
}

/// An error if a process that should go on running has ended.
fn all_run(jobs: &mut [LabProcess]) -> SuiteResult<()> {
    for job in jobs {
        if let Some(status) = job.ended()?
            && !status.success()
        {
            return Err(SuiteError::failed(format!(
                "{} ended meanwhile: {status}",
                job.name
            )));
        }
    }
    Ok(())
}

fn last_words(said: &Path) -> String {
    let bytes = std::fs::read(said).unwrap_or_default();
    let text = String::from_utf8_lossy(&bytes[bytes.len().saturating_sub(SAID_MAX)..]).into_owned();
    match text.trim() {
        "" => "(nothing)".into(),
        text => text.into(),
    }
}

/// As one word for a shell.
fn quoted(word: &OsStr) -> String {
    format!("'{}'", word.to_string_lossy().replace('\'', r"'\''"))
}
