//! Removes a lab, whether it ended well or was killed.

use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use rustix::mount::{UnmountFlags, unmount};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use super::directory::LabDirectory;
use super::links;
use crate::error::{ErrorContext, SuiteError, SuiteResult};

/// How long processes may take to end after they were asked to.
const PATIENCE: Duration = Duration::from_secs(10);

const LOOK_AGAIN: Duration = Duration::from_millis(20);

/// Removes what killed labs left.
pub fn all() -> SuiteResult<()> {
    let (abandoned, living) = LabDirectory::abandoned()?;
    let mut left = Vec::new();
    for place in &abandoned {
        match remove(place) {
            Ok(()) => println!("{} is removed", place.lab),
            Err(error) => left.push(error.to_string()),
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
        false => Err(SuiteError::failed(left.join("\n"))),
    }
}

/// Ends what runs in a lab's hosts, unmounts what is mounted below its directory, removes both. Goes on after a failure.
/// Where it is not known what is mounted, nothing is removed.
pub fn remove(place: &LabDirectory) -> SuiteResult<()> {
    remove_by(&place.lab, &place.dir, Path::new(MOUNTS))
}

fn remove_by(lab: &str, dir: &Path, list: &Path) -> SuiteResult<()> {
    let mut left = Vec::new();
    let mut tried =
        |outcome: SuiteResult<()>| left.extend(outcome.err().map(|error| error.to_string()));
    let namespaces = links::namespaces(lab);
    tried(end_all_in(&namespaces));
    let known = take_apart(dir, &namespaces, list, &mut tried);
    tried(known);
    match left.is_empty() {
        true => Ok(()),
        false => Err(SuiteError::failed(format!(
            "of {lab} there is left: {}; see to it, then run `lab --clean`",
            left.join("; ")
        ))),
    }
}

/// Fails where it is not known what is mounted.
fn take_apart(
    dir: &Path,
    namespaces: &[String],
    list: &Path,
    tried: &mut impl FnMut(SuiteResult<()>),
) -> SuiteResult<()> {
    for mount in mounts_below(dir, list)?.into_iter().rev() {
        // Detached: what serves it is gone already.
        tried(unmount(&mount, UnmountFlags::DETACH).doing("unmount", &mount));
    }
    for namespace in namespaces {
        tried(links::remove(namespace));
    }
    // A mount that could not be unmounted, or that may be there, must not be emptied.
    if mounts_below(dir, list)?.is_empty() {
        tried(std::fs::remove_dir_all(dir).doing("remove", dir));
    }
    Ok(())
}

fn end_all_in(namespaces: &[String]) -> SuiteResult<()> {
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
        false => Err(SuiteError::failed(format!(
            "processes that cannot be ended: {}",
            left.join(" ")
        ))),
    }
}

/// Living processes whose network is one of these.
fn processes_in(namespaces: &[String]) -> Vec<(i32, OwnedFd)> {
    let ours: Vec<_> = namespaces
        .iter()
        .filter_map(|name| links::identity(&links::file(name)))
        .collect();
    let entries = std::fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<i32>().ok());
    let found = pids.filter_map(|pid| {
        // First held, then looked at: its number cannot become another's in between.
        let process = pidfd_open(Pid::from_raw(pid)?, PidfdFlags::empty()).ok()?;
        let network = links::identity(&PathBuf::from(format!("/proc/{pid}/ns/net")))?;
        ours.contains(&network).then_some((pid, process))
    });
    found.collect()
}

const MOUNTS: &str = "/proc/self/mountinfo";

/// In the order in which they were mounted.
fn mounts_below(dir: &Path, list: &Path) -> SuiteResult<Vec<PathBuf>> {
    let text = std::fs::read_to_string(list).doing("read", list)?;
    mounts_in(&text, dir)
}

/// Of the kernel's list, which is never empty: there is a root.
fn mounts_in(list: &str, dir: &Path) -> SuiteResult<Vec<PathBuf>> {
    let points = list.lines().map(|line| line.split(' ').nth(4));
    let points: Option<Vec<_>> = points.collect();
    match points {
        Some(points) if !points.is_empty() => {
            let points = points.into_iter();
            let points = points.map(|point| PathBuf::from(point.replace("\\040", " ")));
            Ok(points.filter(|point| point.starts_with(dir)).collect())
        }
        _ => Err(SuiteError::failed(format!(
            "{MOUNTS} is not understood: what is mounted below {} is not known",
            dir.display()
        ))),
    }
}

#[test]
fn what_is_mounted_is_known_or_an_error() {
    let list = "22 1 254:0 / / rw shared:1 - ext4 /dev/vda rw\n\
        40 22 0:40 / /tmp/lab/a\\040b rw - fuse x rw\n41 22 0:41 / /tmp/other rw - tmpfs x rw\n";
    let below = mounts_in(list, Path::new("/tmp/lab")).unwrap();
    assert_eq!(below, [PathBuf::from("/tmp/lab/a b")]);
    for unknown in ["", "22 1 254:0\n"] {
        assert!(mounts_in(unknown, Path::new("/tmp/lab")).is_err());
    }
}

#[test]
fn a_lab_whose_mounts_are_not_known_stays() {
    let dir = tempfile::tempdir().unwrap();
    let lab = dir.path().join("no-such-lab");
    let kept = lab.join("kept");
    std::fs::create_dir(&lab).unwrap();
    std::fs::write(&kept, "of a mount").unwrap();
    let remove = |list: &Path| remove_by("no-such-lab", &lab, list);
    let list = dir.path().join("mountinfo");
    let unreadable = remove(&list).unwrap_err().to_string();
    assert!(unreadable.contains("cannot read"), "{unreadable}");
    std::fs::write(&list, "").unwrap();
    let empty = remove(&list).unwrap_err().to_string();
    assert!(empty.contains("is not known"), "{empty}");
    assert!(kept.exists());
    std::fs::write(&list, "22 1 254:0 / / rw - ext4 /dev/vda rw\n").unwrap();
    remove(&list).unwrap();
    assert!(!lab.exists());
}
