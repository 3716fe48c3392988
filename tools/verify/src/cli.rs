//! The command line of `gupfs verify`.

use std::ffi::OsString;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::Args;
use gupfs_kit::agent::{self, Agent, TokenFile};

use crate::check::Model;
use crate::coordinator::{self, CannotRun, MountAddress, RunResult, Settings};
use crate::frame;
use crate::mix::Mix;
use crate::report::{Run, Verdict, page, read_script};
use crate::work;

/// Find out whether several mounts of one file system agree: random operations on all, judged against POSIX
#[derive(Args, Debug)]
#[command(after_help = "Examples:
  gupfs verify /mnt/a /mnt/b --seconds 60
  gupfs verify --model close-to-open --ops data,names /mnt/a node2:/mnt/a
  gupfs verify --agent 0.0.0.0:7000 --token-file token       (on node2)
  gupfs verify --token-file token /mnt/a tcp://node2:7000/mnt/a

The directories must be mounts of the same file system, or the same directory of it. Everything happens in a new \
directory there, which is removed at the end. docs/verify.md says how to read a finding.

Exit codes: 0 they agreed · 1 they disagreed, or an operation hung · 2 it could not run")]
pub struct Verify {
    /// Mounts: DIR, HOST:/DIR (through --through), tcp://HOST:PORT/DIR (an agent)
    #[arg(required_unless_present_any = ["worker", "agent"])]
    directories: Vec<String>,
    /// How long
    #[arg(long, default_value_t = 60)]
    seconds: u64,
    /// Which operations: the same seed asks the same [default: a new one]
    #[arg(long, value_parser = parse_seed)]
    seed: Option<u64>,
    /// What the mounts are held to
    #[arg(long, value_enum, default_value_t)]
    model: Model,
    /// Groups of operations with weights, such as data=3,names: names, data, mmap, append, attributes, locks, and, only if
    /// they are named here, splice and held (docs/verify.md)
    #[arg(long, value_name = "GROUPS")]
    ops: Option<Mix>,
    /// A shell command that makes trouble: run once in every round
    #[arg(long, value_name = "CMD")]
    faults: Option<String>,
    /// Processes on each mount
    #[arg(long, default_value_t = 4, value_parser = clap::value_parser!(u16).range(1..=64))]
    processes: u16,
    /// Operations a second to aim at, of all processes together; 0: as many as go
    #[arg(long, default_value_t = 6000)]
    rate: u32,
    /// Seconds of a round, which begins in a fresh directory
    #[arg(long, default_value_t = 2.0)]
    round: f64,
    /// Seconds after which an operation counts as hanging
    #[arg(long, default_value_t = 30)]
    deadline: u64,
    /// Where findings are saved: a script that plays them again, a page that draws them
    #[arg(long, value_name = "DIR", default_value = ".")]
    out: PathBuf,
    /// The report as one JSON object
    #[arg(long)]
    json: bool,
    /// Play a saved finding again, instead of a run
    #[arg(long, value_name = "FILE")]
    replay: Option<PathBuf>,
    /// How a worker is started on HOST
    #[arg(
        long,
        value_name = "CMD",
        default_value = "ssh {host} gupfs verify --worker"
    )]
    through: String,
    /// Start workers for whoever connects to this address and knows the token
    #[arg(long, value_name = "ADDRESS:PORT", requires = "token_file")]
    agent: Option<String>,
    #[command(flatten)]
    token: TokenFile,
    /// Be a worker: orders on standard input
    #[arg(long, hide = true)]
    worker: bool,
}

fn parse_seed(text: &str) -> Result<u64, String> {
    let parsed = match text.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16),
        None => text.parse(),
    };
    parsed.map_err(|error| error.to_string())
}

impl Verify {
    /// Runs, and prints. `itself` is how this program is called as a worker, up to `--worker`: its path and subcommand.
    pub fn run(self, itself: Vec<OsString>) -> Verdict {
        let json = self.json;
        self.try_run(itself).unwrap_or_else(|CannotRun(why)| {
            match json {
                true => println!(
                    "{:#}",
                    serde_json::json!({ "verdict": "could-not-run", "reason": why })
                ),
                false => eprintln!("gupfs verify could not run: {why}"),
            }
            Verdict::CouldNotRun
        })
    }

    fn try_run(self, mut itself: Vec<OsString>) -> RunResult<Verdict> {
        itself.push("--worker".into());
        if self.worker {
            let served = work::serve(io::stdin().lock(), io::stdout());
            return match served {
                Ok(()) => Ok(Verdict::Agreed),
                Err(error) => Err(CannotRun(format!("the line is cut: {error}"))),
            };
        }
        let token = self.token.read();
        let token = token.map_err(|error| CannotRun(error.to_string()))?;
        if let (Some(address), Some(token)) = (&self.agent, &token) {
            let agent = Agent {
                token: token.clone(),
                worker: itself,
                receive_token: frame::receive_token,
            };
            let Err(error) = agent::listen(address, &agent);
            return Err(CannotRun(format!("cannot listen on {address}: {error}")));
        }
        let settings = self.settings(itself, token.as_deref())?;
        if let Some(file) = &self.replay {
            return self.replay(settings, file);
        }
        let mut run = coordinator::run(&settings)?;
        self.save(&mut run)?;
        match self.json {
            true => println!("{:#}", run.to_json()),
            false => print!("{run}"),
        }
        Ok(run.verdict())
    }

    fn settings(&self, itself: Vec<OsString>, token: Option<&str>) -> RunResult<Settings> {
        let sites: Result<Vec<MountAddress>, String> = self
            .directories
            .iter()
            .map(|text| MountAddress::parse(text, &self.through, token))
            .collect();
        if !(0.1..=3600.0).contains(&self.round) {
            return Err(CannotRun("a round lasts 0.1 to 3600 seconds".into()));
        }
        Ok(Settings {
            sites: sites.map_err(CannotRun)?,
            itself,
            processes: self.processes,
            length: Duration::from_secs(self.seconds),
            round: Duration::from_secs_f64(self.round),
            seed: self.seed.unwrap_or_else(new_seed),
            model: self.model,
            mix: self.ops.clone().unwrap_or_default(),
            rate: self.rate,
            deadline: Duration::from_secs(self.deadline.max(1)),
            faults: self.faults.clone(),
            progress: !self.json && io::IsTerminal::is_terminal(&io::stderr()),
        })
    }

    fn replay(&self, mut settings: Settings, file: &Path) -> RunResult<Verdict> {
        let script = read_script(file)
            .map_err(|error| CannotRun(format!("cannot read {}: {error}", file.display())))?;
        settings.processes = (script.mount_of.len() / settings.sites.len().max(1)) as u16;
        settings.model = match script.close_to_open {
            true => Model::CloseToOpen,
            false => Model::Posix,
        };
        let replayed = coordinator::replay(&settings, &script)?;
        let (failed, of) = (replayed.failed, replayed.of);
        match self.json {
            true => println!("{:#}", serde_json::json!({ "failed": failed, "of": of })),
            false => println!(
                "failed again {failed} of {of} times: {}",
                script.found.about
            ),
        }
        Ok(match failed {
            0 => Verdict::Agreed,
            _ => Verdict::Disagreed,
        })
    }

    fn save(&self, run: &mut Run) -> RunResult<()> {
        let Some(found) = run.found.first() else {
            return Ok(());
        };
        let stem = format!("verify-{:x}", run.seed);
        let files = [
            (format!("{stem}.sh"), run.script(found)),
            (format!("{stem}.html"), page(run)),
        ];
        for (name, text) in files {
            let path = self.out.join(name);
            std::fs::write(&path, text)
                .map_err(|error| CannotRun(format!("cannot write {}: {error}", path.display())))?;
            run.saved.push(path);
        }
        Ok(())
    }
}

fn new_seed() -> u64 {
    // Different in every run is all that is asked.
    crate::rng::Rng::of(&[work::now(), u64::from(std::process::id())]).next() & 0xFFFF_FFFF
}
