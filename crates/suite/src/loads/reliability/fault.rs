//! The commands that make a fault and repair it, at their moments.

use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::args::Reliability;
use crate::signals;
use crate::trouble::{Doing, Outcome, Trouble};

/// A command that was run.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Act {
    pub what: String,
    pub command: String,
    /// Seconds from the start.
    pub began: f64,
    pub ended: f64,
}

const LOOK_AGAIN: Duration = Duration::from_millis(5);

/// Runs the commands in a thread: it comes back with what was done, in order.
pub fn begin(asked: &Reliability, dir: &Path) -> JoinHandle<Outcome<Vec<Act>>> {
    let mut planned = vec![("fault", asked.fault.clone(), asked.fault_at())];
    if let Some(repair) = &asked.repair {
        planned.push(("repair", repair.clone(), asked.repair_at()));
    }
    planned.sort_by(|a, b| a.2.total_cmp(&b.2));
    let begun = Instant::now();
    let last = begun + Duration::from_secs_f64(asked.seconds + asked.patience);
    let dir = dir.to_path_buf();
    std::thread::spawn(move || {
        let mut acts = Vec::new();
        for (what, command, at) in planned {
            let moment = begun + Duration::from_secs_f64(at);
            std::thread::sleep(moment.saturating_duration_since(Instant::now()));
            let began = begun.elapsed().as_secs_f64();
            run(what, &command, &dir, last)?;
            acts.push(Act {
                what: what.into(),
                command,
                began,
                ended: begun.elapsed().as_secs_f64(),
            });
        }
        Ok(acts)
    })
}

fn run(what: &str, line: &str, dir: &Path, last: Instant) -> Outcome<()> {
    let met = |text: String| Trouble::met(format!("the {what}'s command `{line}` {text}"));
    // Standard output is for the report.
    let said = std::io::stderr().as_fd().try_clone_to_owned();
    let said = said.doing("use", Path::new("standard error"))?;
    let mut command = Command::new("sh");
    command
        .args(["-c", line])
        .env("DIR", dir)
        .process_group(0)
        .stdin(Stdio::null())
        .stdout(said);
    signals::let_through(&mut command);
    let mut child = command
        .spawn()
        .map_err(|error| met(format!("could not be started: {error}")))?;
    loop {
        match child.try_wait() {
            Ok(Some(status)) if status.success() => return Ok(()),
            Ok(Some(status)) => return Err(met(format!("failed: {status}"))),
            Ok(None) if Instant::now() < last => std::thread::sleep(LOOK_AGAIN),
            Ok(None) => {
                // With all that it started; it was not reaped, so the group's number is still its own.
                if let Some(group) = Pid::from_raw(child.id() as i32) {
                    let _ = kill_process_group(group, Signal::KILL);
                }
                let _ = child.wait();
                return Err(met(
                    "did not end within -t and --patience, and was ended".into()
                ));
            }
            Err(error) => return Err(met(format!("cannot be waited for: {error}"))),
        }
    }
}
