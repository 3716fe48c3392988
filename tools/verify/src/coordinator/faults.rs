//! Faults from outside: a command that is run while the workers work.

use std::os::unix::process::CommandExt;
use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process_group};

use super::Settings;
use crate::rng::Rng;

/// How many times it was run, and how many times it said that it failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injected {
    pub done: usize,
    pub failed: usize,
}

/// How often it is looked whether the command has ended.
const LOOK: Duration = Duration::from_millis(10);

/// Runs the command once, somewhere in the first half of a round. One that runs for longer than an operation may is ended, with all
/// that it started, and has failed.
pub fn inject(
    command: &str,
    round: u32,
    settings: &Settings,
    length: Duration,
) -> JoinHandle<bool> {
    let mut rng = Rng::of(&[settings.seed, u64::from(round), 0xFA17]);
    let wait = length.mul_f64(rng.below(1000) as f64 / 2000.0);
    let (command, deadline) = (command.to_string(), settings.deadline);
    std::thread::spawn(move || {
        std::thread::sleep(wait);
        let started = Command::new("sh")
            .args(["-c", &command])
            .env("VERIFY_ROUND", round.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        started.is_ok_and(|child| finished(child, deadline))
    })
}

fn finished(mut child: Child, deadline: Duration) -> bool {
    let begun = Instant::now();
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if begun.elapsed() < deadline => std::thread::sleep(LOOK),
            Ok(None) | Err(_) => break,
        }
    }
    if let Some(group) = Pid::from_raw(child.id() as i32) {
        // It fails only when all have ended meanwhile.
        let _ = kill_process_group(group, Signal::KILL);
    }
    // Killed: this does not wait.
    let _ = child.wait();
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sh(command: &str) -> Child {
        let mut sh = Command::new("sh");
        sh.args(["-c", command]).process_group(0).spawn().unwrap()
    }

    #[test]
    fn a_command_that_does_not_end_is_ended() {
        let long = Duration::from_secs(60);
        assert!(finished(sh("true"), long));
        assert!(!finished(sh("false"), long));
        let begun = Instant::now();
        assert!(!finished(sh("sleep 600 & wait"), Duration::from_millis(50)));
        assert!(begun.elapsed() < long);
    }
}
