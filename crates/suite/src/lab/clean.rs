//! Removing a lab, whether it ended well or was killed.

use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::place::Place;
use super::wires;
use crate::trouble::{Doing, Outcome, Trouble};

/// How long processes may take to end after they were asked to.
const PATIENCE: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Removes what killed labs left.
pub fn all() -> Outcome<()> {
    let (abandoned, living) = Place::abandoned()?;
    let mut left = Vec::new();
    for place in &abandoned {
        match remove(place) {
            Ok(()) => println!("{} is removed", place.lab),
            Err(trouble) => left.push(trouble.to_string()),
        }
    }
    if abandoned.is_empty() {
        println!("no lab was left behind");
    }
    if living > 0 {
        println!("labs that live, and were left alone: {living}");
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(Trouble::met(left.join("\n"))),
    }
}

/// Ends what runs in a lab's hosts, unmounts what is mounted below its directory, removes both. Goes on after a failure.
pub fn remove(place: &Place) -> Outcome<()> {
    let mut left = Vec::new();
    let mut tried =
        |outcome: Outcome<()>| left.extend(outcome.err().map(|trouble| trouble.to_string()));
    let namespaces = wires::namespaces(&place.lab);
    tried(end_all_in(&namespaces));
    for mount in mounts_below(&place.dir).into_iter().rev() {
        // Detached: what serves it is gone already.
        tried(unmount(&mount, UnmountFlags::DETACH).doing("unmount", &mount));
    }
    for namespace in &namespaces {
        tried(wires::remove(namespace));
    }
    // A mount that could not be unmounted must not be emptied.
    if mounts_below(&place.dir).is_empty() {
        tried(std::fs::remove_dir_all(&place.dir).doing("remove", &place.dir));
    }
    match left.is_empty() {
        true => Ok(()),
        false => Err(Trouble::met(format!(
            "of {} there is left: {}; see to it, then run `lab --clean`",
            place.lab,
            left.join("; ")
        ))),
    }
}

fn end_all_in(namespaces: &[String]) -> Outcome<()> {
    for signal in [Signal::TERM, Signal::KILL] {
        let until = Instant::now() + PATIENCE;
        let mut asked = Vec::new();
        loop {
            let processes = processes_in(namespaces);
            if processes.is_empty() {
                return Ok(());
            }
            for (pid, process) in processes {
                if !asked.contains(&pid) {
                    asked.push(pid);
                    // It fails only if the process has ended meanwhile.
                    let _ = pidfd_send_signal(process, signal);
                }
            }
            if Instant::now() >= until {
                break;
            }
            std::thread::sleep(LOOK_AGAIN);
        }
    }
    let left: Vec<_> = processes_in(namespaces)
        .iter()
        .map(|(pid, _)| pid.to_string())
        .collect();
    match left.is_empty() {
        true => Ok(()),
        false => Err(Trouble::met(format!(
            "processes that cannot be ended: {}",
            left.join(" ")
        ))),
    }
}

/// Living processes whose network is one of these.
fn processes_in(namespaces: &[String]) -> Vec<(i32, OwnedFd)> {
    let identity = |path: &Path| {
        let found = std::fs::metadata(path).ok()?;
        Some((found.dev(), found.ino()))
    };
    let ours: Vec<_> = namespaces
        .iter()
        .filter_map(|name| identity(&wires::file(name)))
        .collect();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found = pids.filter_map(|pid| {
        // First held, then looked at: its number cannot become another's in between.
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let network = identity(&PathBuf::from(format!("/proc/{pid}/ns/net")))?;
        ours.contains(&network).then_some((pid, process))
    });
    found.collect()
}

/// In the order in which they were mounted.
fn mounts_below(dir: &Path) -> Vec<PathBuf> {
    let text = std::fs::read_to_string("/proc/self/mountinfo").unwrap_or_default();
    let points = text.lines().filter_map(|line| line.split(' ').nth(4));
    let points = points.map(|point| PathBuf::from(point.replace("\\040", " ")));
    points.filter(|point| point.starts_with(dir)).collect()
}
