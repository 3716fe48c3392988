//! The programs that use a mount: processes of their own, started together.

use super::kind::{RequestKind, RequestLoop};
use anyhow::{Context, Result, anyhow, bail, ensure};
use clap::Args;
use rustix::thread::{CpuSet, sched_setaffinity};
use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// One program of `bench door`: prepares, says so, waits for a line, works, says what it did
#[derive(Args)]
pub struct ProgramCommand {
    #[arg(long)]
    kind: RequestKind,
    #[arg(long)]
    dir: PathBuf,
    #[arg(long)]
    who: String,
    #[arg(long)]
    millis: u64,
    #[arg(long)]
    cpu: Option<usize>,
}

/// Steps between looks at the clock.
const STRIDE: usize = 16;

impl ProgramCommand {
    /// Prepares, waits for a line, sends requests for its time, and prints how many.
    ///
    /// # Errors
    ///
    /// The mount refuses a request.
    pub fn run(&self) -> Result<()> {
        if let Some(cpu) = self.cpu {
            let mut cpus = CpuSet::new();
            cpus.set(cpu);
            sched_setaffinity(None, &cpus)?;
        }
        let mut work = RequestLoop::prepare(self.kind, &self.dir, &self.who)?;
        println!("ready");
        std::io::stdin().lock().read_line(&mut String::new())?;
        let (start, most) = (Instant::now(), Duration::from_millis(self.millis));
        let (mut done, mut more) = (0, true);
        while more && start.elapsed() < most {
            for _ in 0..if self.kind == RequestKind::List {
                1
            } else {
                STRIDE
            } {
                match work.step()? {
                    Some(steps) => done += steps,
                    None => {
                        more = false;
                        break;
                    }
                }
            }
        }
        println!("{done} {}", start.elapsed().as_nanos());
        std::io::stdin().lock().read_line(&mut String::new())?;
        work.end();
        Ok(())
    }
}

/// The requests of all programs of one turn.
pub struct ProgramResult {
    pub requests: u64,
    pub per_second: f64,
}

/// Starts so many programs, lets them begin at once, and waits for all.
pub fn together(
    kind: RequestKind,
    dir: &Path,
    programs: usize,
    pinned: bool,
    run: usize,
    turn: Duration,
) -> Result<ProgramResult> {
    let cpus = std::thread::available_parallelism().map_or(1, |cpus| cpus.get());
    let start = |number: usize| {
        let mut command = Command::new(std::env::current_exe()?);
        let kind = clap::ValueEnum::to_possible_value(&kind).context("a hidden kind")?;
        command
            .args(["bench", "door-program", "--kind", kind.get_name(), "--dir"])
            .arg(dir)
            .args(["--who", &format!("{run}-{number}-{}", std::process::id())])
            .args(["--millis", &turn.as_millis().to_string()]);
        if pinned {
            command.args(["--cpu", &(number % cpus).to_string()]);
        }
        RunningProgram::new(command)
    };
    let mut started: Vec<RunningProgram> = (0..programs).map(start).collect::<Result<_>>()?;
    for program in &mut started {
        ensure!(
            program.line(PATIENCE)? == "ready",
            "a program did not get ready"
        );
    }
    for program in &mut started {
        program.go_on()?;
    }
    let mut all = ProgramResult {
        requests: 0,
        per_second: 0.0,
    };
    for program in &mut started {
        let said = program.line(turn + PATIENCE)?;
        let numbers = said.split_once(' ').context("a program failed")?;
        let (requests, nanos): (u64, u64) = (numbers.0.parse()?, numbers.1.parse()?);
        all.requests += requests;
        all.per_second += requests as f64 * 1e9 / nanos as f64;
    }
    started.into_iter().try_for_each(RunningProgram::end)?;
    Ok(all)
}

/// How long a program may take beside its turn: to prepare, or to take back what it prepared. Thousands of files take seconds.
const PATIENCE: Duration = Duration::from_secs(60);

struct RunningProgram {
    child: Child,
    lines: Receiver<String>,
}

impl RunningProgram {
    fn new(mut command: Command) -> Result<RunningProgram> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a program")?;
        let output = BufReader::new(child.stdout.take().context("no output")?);
        let (tell, lines) = channel();
        // A read has no deadline, so another thread reads.
        std::thread::spawn(move || {
            let mut said = output.lines().map_while(Result::ok);
            said.try_for_each(|line| tell.send(line))
        });
        Ok(RunningProgram { child, lines })
    }

    fn line(&mut self, within: Duration) -> Result<String> {
        self.lines
            .recv_timeout(within)
            .map_err(|error| match error {
                RecvTimeoutError::Timeout => {
                    anyhow!(
                        "a program said nothing for {within:?}: it waits for an answer of the mount"
                    )
                }
                RecvTimeoutError::Disconnected => anyhow!("a program failed"),
            })
    }

    fn go_on(&mut self) -> Result<()> {
        let input = self.child.stdin.as_mut().context("no input")?;
        Ok(input.write_all(b"\n")?)
    }

    fn end(mut self) -> Result<()> {
        self.go_on()?;
        // It says no more: its output ends with it.
        match self.lines.recv_timeout(PATIENCE) {
            Err(RecvTimeoutError::Disconnected) => {}
            _ => bail!("a program did not end within {PATIENCE:?}"),
        }
        ensure!(self.child.wait()?.success(), "a program failed");
        Ok(())
    }
}

impl Drop for RunningProgram {
    fn drop(&mut self) {
        // After an error. It is not waited for: a program that hangs in the mount ends when the server has.
        let _ = self.child.kill();
    }
}
