//! A lab from its first namespace to its last.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::hosts::{Host, Hosts, names};
use super::job::{self, Ending, Job};
use super::place::Place;
use super::plan::{Plan, Step};
use super::{clean, wires};
use crate::runner::Itself;
use crate::trouble::{Doing, Outcome, Trouble};

/// How long a `stop` command may take.
const STOP: Duration = Duration::from_secs(60);

/// How much of what a command said goes into a message.
const SAID_MAX: usize = 2_000;

/// The exit code.
pub fn run(plan: &Plan, hosts: &Hosts, command: &[OsString], itself: &Itself) -> Outcome<u8> {
    let ending = Ending::watch();
    let mut lab = Standing {
        place: Place::make()?,
        hosts,
        ending,
        jobs: Vec::new(),
        stops: Vec::new(),
    };
    let worked = lab.work(plan, command, itself);
    let removed = lab.remove();
    match (worked, removed) {
        (Err(worked), Err(removed)) => Err(Trouble::met(format!("{worked}\n{removed}"))),
        (worked, removed) => removed.and(worked),
    }
}

struct Standing<'a> {
    place: Place,
    hosts: &'a Hosts,
    ending: Ending,
    /// What goes on running.
    jobs: Vec<Job>,
    /// What shall be run before those are ended, and in which host.
    stops: Vec<(Host, String)>,
}

impl Standing<'_> {
    fn work(&mut self, plan: &Plan, command: &[OsString], itself: &Itself) -> Outcome<u8> {
        wires::make(&self.place.lab, self.hosts, plan.link)?;
        self.furnish(itself)?;
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
    fn furnish(&self, itself: &Itself) -> Outcome<()> {
        for host in self.hosts.all() {
            let dir = self.dir(host);
            std::fs::create_dir(&dir).doing("make", &dir)?;
        }
        let bin = self.place.dir.join("bin");
        std::fs::create_dir(&bin).doing("make", &bin)?;
        let begin = wires::file(&wires::namespace(&self.place.lab, ""));
        let on = format!(
            "HOST=$1 DIR={}/$1\nexport HOST DIR\nshift\nexec nsenter --net={}\"$HOST\" \"$@\"\n",
            quoted(self.place.dir.as_os_str()),
            quoted(begin.as_os_str())
        );
        let words: Vec<_> = itself.words.iter().map(|word| quoted(word)).collect();
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

    /// What every command of the lab knows.
    fn tell(&self, command: &mut Command) {
        let beside = std::env::current_exe().ok();
        let beside = beside
            .as_deref()
            .and_then(Path::parent)
            .unwrap_or(Path::new("/"));
        let (bin, system) = (self.place.dir.join("bin"), wires::path_with_system_tools());
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
    fn start(&self, host: &Host, line: &str, said: &File) -> Outcome<Job> {
        let namespace = wires::namespace(&self.place.lab, &host.name);
        let mut net = OsString::from("--net=");
        net.push(wires::file(&namespace));
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
        Job::start(format!("{}: {line}", host.name), command, Some(said))
    }

    fn step(&mut self, number: usize, step: &Step) -> Outcome<()> {
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
            let namespace = wires::namespace(&self.place.lab, &host.name);
            let job = &mut self.jobs[first + at];
            let done = self
                .ending
                .wait(limit, || done(job, step, &namespace, said))?;
            if done.is_none() {
                let what = if step.stays() { "get ready" } else { "end" };
                return Err(Trouble::met(format!(
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

    fn command(&mut self, program: &OsStr, words: &[OsString]) -> Outcome<u8> {
        let mut command = Command::new(program);
        self.tell(&mut command);
        command.args(words);
        let name = program.display().to_string();
        self.jobs.push(Job::start(name, command, None)?);
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
            Some(status) => Err(Trouble::met(format!("{}: {status}", self.jobs[at].name))),
            None => Ok(0),
        }
    }

    /// Until a signal comes, which is the way to end it here.
    fn stand(&mut self) -> Outcome<u8> {
        eprintln!(
            "The lab stands; Ctrl-C removes it. In a host: nsenter --net={}HOST COMMAND",
            wires::file(&wires::namespace(&self.place.lab, "")).display()
        );
        let jobs = &mut self.jobs;
        let until_signal = self.ending.wait(None, || {
            all_run(jobs)?;
            Ok(None::<()>)
        });
        match (self.ending.check(), until_signal) {
            (Err(_), _) => Ok(0),
            (Ok(()), trouble) => trouble.map(|_| 0),
        }
    }

    fn remove(mut self) -> Outcome<()> {
        let path = self.place.dir.join("stop.log");
        // The last started is the first stopped; a signal that ended the lab ends none of these.
        let patient = Ending::default();
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
                Err(trouble) => eprintln!("{trouble}"),
            }
        }
        job::end(&mut self.jobs);
        clean::remove(&self.place)
    }
}

/// Whether a job of a step is ready, or has ended well.
fn done(job: &mut Job, step: &Step, namespace: &str, said: &Path) -> Outcome<Option<()>> {
    match (job.ended()?, step.stays()) {
        (Some(status), false) if status.success() => return Ok(Some(())),
        (Some(status), _) => {
            return Err(Trouble::met(format!(
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
        (None, Some(port)) => job.listens(port, &wires::file(namespace)),
        (None, None) => false,
    };
    Ok(ready.then_some(()))
}

/// What should go on running does.
fn all_run(jobs: &mut [Job]) -> Outcome<()> {
    for job in jobs {
        if let Some(status) = job.ended()?
            && !status.success()
        {
            return Err(Trouble::met(format!(
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
