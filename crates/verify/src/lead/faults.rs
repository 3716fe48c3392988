//! Trouble from outside: a command that is run while the workers work.

use std::process::{Child, Command, Stdio};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::dice::Dice;

/// How many times it was run, and how many times it said that it failed.
#[derive(Clone, Copy, Debug, Default)]
pub struct Injected {
    pub done: usize,
    pub failed: usize,
}

/// Runs the command once, somewhere in the first half of a round.
pub fn inject(command: &str, round: u32, seed: u64, length: Duration) -> JoinHandle<bool> {
    let mut dice = Dice::of(&[seed, u64::from(round), 0xFA17]);
    let wait = length.mul_f64(dice.below(1000) as f64 / 2000.0);
    let command = command.to_string();
    std::thread::spawn(move || {
        std::thread::sleep(wait);
        let started = Command::new("sh")
            .args(["-c", &command])
            .env("VERIFY_ROUND", round.to_string())
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .spawn();
        started.is_ok_and(finished)
    })
}

fn finished(mut child: Child) -> bool {
    child.wait().is_ok_and(|status| status.success())
}
