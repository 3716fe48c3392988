//! `gupfs-verify` on file systems that agree with themselves, and on what is none; short. VERIFY_SECONDS makes it longer.
//!
//! As root: it mounts. Without, what needs mounts is left out and said.

#![allow(clippy::disallowed_methods)] // These tests stand outside every simulated world.

use gupfs_skips::{Need, skip};
use gupfs_verify::history::{Answer, Call, Flavour, Record, SpliceCall};
use gupfs_verify::report::{FindingKind, ReportedFinding, Script};
use gupfs_verify::subject::{Range, Subject};
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

const PROGRAM: &str = env!("CARGO_BIN_EXE_gupfs-verify");

fn seconds() -> String {
    std::env::var("VERIFY_SECONDS").unwrap_or("4".into())
}

fn verify(arguments: &[&str]) -> Output {
    Command::new(PROGRAM).args(arguments).output().unwrap()
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

fn report(output: &Output) -> serde_json::Value {
    serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", text(output)))
}

/// Groups of operations that do not run by themselves, with others.
const ON_REQUEST: &str = "splice,held,mmap,data";

fn agrees(a: &Path, b: &Path) {
    let out = tempfile::tempdir().unwrap();
    let (a, b) = (a.to_str().unwrap(), b.to_str().unwrap());
    let found = out.path().to_str().unwrap();
    let length = ["--seconds", &seconds(), "--json", "--out", found];
    let usual = verify(&[&[a, b], &length[..]].concat());
    let on_request = verify(&[&[a, b, "--ops", ON_REQUEST, "--round", "1"], &length[..]].concat());
    for output in [usual, on_request] {
        let report = report(&output);
        assert_eq!(report["verdict"], "agreed", "{report:#}");
        assert_eq!(report["figures"]["undecided"], 0);
    }
}

fn run(program: &str, arguments: &[&str]) -> bool {
    Command::new(program)
        .args(arguments)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .status()
        .is_ok_and(|status| status.success())
}

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(Need::Root, "mounting needs root");
    }
    root
}

/// A mount that goes away.
struct Mounted<'a>(&'a Path);

impl Drop for Mounted<'_> {
    fn drop(&mut self) {
        run("umount", &[self.0.to_str().unwrap()]);
    }
}

/// Mounts a fresh file system of this kind twice, and verifies that both agree.
fn agrees_on(kind: &str) {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let (a, b) = (place.path().join("a"), place.path().join("b"));
    std::fs::create_dir(&a).unwrap();
    std::fs::create_dir(&b).unwrap();
    let (a_text, b_text) = (a.to_str().unwrap(), b.to_str().unwrap());
    if kind == "tmpfs" {
        assert!(run("mount", &["-t", "tmpfs", "verify", a_text]));
    } else {
        let image = place.path().join("image");
        let file = std::fs::File::create(&image).unwrap();
        file.set_len(400 << 20).unwrap();
        let image = image.to_str().unwrap();
        assert!(
            run(&format!("/sbin/mkfs.{kind}"), &["-q", image]),
            "mkfs.{kind}"
        );
        assert!(run("mount", &["-o", "loop", image, a_text]));
    }
    let _first = Mounted(&a);
    assert!(run("mount", &["--bind", a_text, b_text]));
    let _second = Mounted(&b);
    agrees(&a, &b);
}

#[test]
fn ext4_agrees_with_itself() {
    agrees_on("ext4");
}

#[test]
fn xfs_agrees_with_itself() {
    agrees_on("xfs");
}

#[test]
fn tmpfs_agrees_with_itself() {
    agrees_on("tmpfs");
}

#[test]
fn a_finding_about_what_is_spliced_or_held_is_played_again() {
    let record = |moment: u64, worker, subject, call, answer| Record {
        worker,
        number: moment as u32,
        subject,
        call,
        start: moment * 10,
        end: Some(moment * 10 + 5),
        answer,
    };
    let (from, to) = (0, 4096);
    let splice = Call::Splice {
        range: Range { from, to },
        how: SpliceCall::Sendfile,
        flavour: Flavour::Fresh,
    };
    let create = Call::Create {
        at: 0,
        exclusive: true,
    };
    let chmod = Call::SetMode { mode: 0o640 };
    // What they answered when they were found does not matter.
    let records = vec![
        record(1, 0, Subject::HeldAttr(0), chmod, Answer::Done),
        record(2, 1, Subject::HeldAttr(0), Call::Stat, Answer::None),
        record(3, 1, Subject::HeldDir(1), create, Answer::Done),
        record(4, 0, Subject::HeldDir(1), Call::GetCwd, Answer::None),
        record(5, 1, Subject::Spliced(0), splice, Answer::None),
    ];
    let script = Script {
        close_to_open: false,
        mount_of: vec![0, 0],
        found: ReportedFinding {
            what: FindingKind::Disagreement,
            about: "the mode of held/attr0".into(),
            round: 3,
            records,
            fails: 1,
            before: String::new(),
            replayed: None,
        },
    };
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("found.sh");
    let line = serde_json::to_string(&script).unwrap();
    std::fs::write(&file, format!("#!/bin/sh\n#: {line}\n")).unwrap();
    let output = verify(&[
        place.path().to_str().unwrap(),
        "--replay",
        file.to_str().unwrap(),
    ]);
    assert!(
        text(&output).contains("failed again 0 of "),
        "{}",
        text(&output)
    );
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
    let left = std::fs::read_dir(place.path()).unwrap().count();
    assert_eq!(left, 1, "only the script is left");
}

#[test]
fn different_file_systems_are_refused() {
    let (a, b) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (a, b) = (a.path().to_str().unwrap(), b.path().to_str().unwrap());
    let output = verify(&[a, b, "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("not the same file system"));
    assert_eq!(std::fs::read_dir(a).unwrap().count(), 0, "nothing is left");
}

#[test]
fn what_is_not_there_or_cannot_be_written_is_refused() {
    for directory in ["/nowhere/at/all", "/proc"] {
        let output = verify(&[directory, directory, "--seconds", "1"]);
        assert_eq!(output.status.code(), Some(2), "{}", text(&output));
        assert!(text(&output).contains(directory), "{}", text(&output));
    }
}

#[test]
fn a_full_file_system_is_no_verdict() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    assert!(run(
        "mount",
        &["-t", "tmpfs", "-o", "size=600k", "verify", path]
    ));
    let _mounted = Mounted(place.path());
    let output = verify(&[path, path, "--seconds", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("No space left"), "{}", text(&output));
}

#[test]
fn a_file_system_that_is_read_only_is_no_verdict() {
    if !is_root() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let path = place.path().to_str().unwrap();
    assert!(run("mount", &["-t", "tmpfs", "-o", "ro", "verify", path]));
    let _mounted = Mounted(place.path());
    let output = verify(&[path, path, "--seconds", "5"]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(text(&output).contains("Read-only"), "{}", text(&output));
}

#[test]
fn an_agent_stands_strangers_that_leave_or_say_too_much() {
    let place = tempfile::tempdir().unwrap();
    let token = place.path().join("token");
    std::fs::write(&token, "correct horse battery staple").unwrap();
    let agent = agent(&token);
    for said in [&b""[..], &[0xff; 4096]] {
        for _ in 0..20 {
            let mut stranger = std::net::TcpStream::connect(&agent.address).unwrap();
            // It may have been sent away before it has said all.
            let _ = stranger.write_all(said);
        }
    }
    let mount = place.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let there = format!("tcp://{}{}", agent.address, mount.display());
    let known = token.to_str().unwrap();
    let output = verify(&[&there, "--token-file", known, "--seconds", "1"]);
    assert_eq!(output.status.code(), Some(0), "{}", text(&output));
}

/// An agent that is ended with the test.
struct Agent {
    process: Child,
    address: String,
}

impl Drop for Agent {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn agent(token: &Path) -> Agent {
    let mut process = Command::new(PROGRAM)
        .args(["--agent", "127.0.0.1:0", "--token-file"])
        .arg(token)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    let mut out = BufReader::new(process.stdout.take().unwrap());
    out.read_line(&mut line).unwrap();
    let address = line.trim().rsplit(' ').next().unwrap().to_string();
    Agent { process, address }
}

#[test]
fn an_agent_works_for_who_knows_the_token() {
    let place = tempfile::tempdir().unwrap();
    let token = place.path().join("token");
    std::fs::write(&token, "correct horse battery staple").unwrap();
    let agent = agent(&token);
    let mount = place.path().join("mount");
    std::fs::create_dir(&mount).unwrap();
    let here = mount.to_str().unwrap();
    let there = format!("tcp://{}{here}", agent.address);
    let known = token.to_str().unwrap();
    let output = verify(&[
        here,
        &there,
        "--token-file",
        known,
        "--seconds",
        "3",
        "--json",
    ]);
    let report = report(&output);
    assert_eq!(report["verdict"], "agreed", "{report:#}");
    assert!(report["figures"]["clock_uncertain_us"].as_f64() > Some(0.0));

    let wrong = place.path().join("wrong");
    std::fs::write(&wrong, "wrong horse battery staple").unwrap();
    let output = verify(&[
        here,
        &there,
        "--token-file",
        wrong.to_str().unwrap(),
        "--seconds",
        "1",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
}

#[test]
fn a_worker_through_a_command_that_dies_is_no_verdict() {
    let place = tempfile::tempdir().unwrap();
    let here = place.path().to_str().unwrap();
    let there = format!("host:{here}");
    let through = format!("timeout 2 {PROGRAM} --worker");
    let output = verify(&[
        here,
        &there,
        "--through",
        &through,
        "--seconds",
        "10",
        "--json",
    ]);
    assert_eq!(output.status.code(), Some(2), "{}", text(&output));
    assert!(report(&output)["reason"].as_str().unwrap().contains("gone"));
}
