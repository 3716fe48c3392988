//! `gupfs-suite lab` as a person starts it. Without root every test is skipped.

mod program;

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use gupfs_skips::{Need, skip};
use program::{Done, Program, Running};

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

fn is_root() -> bool {
    let root = rustix::process::geteuid().is_root();
    if !root {
        skip(Need::Root, "a lab needs root");
    }
    root
}

/// The lab's name, which it says first.
fn name(done: &Done) -> String {
    let name = done.err.split(':').next().unwrap().to_owned();
    assert!(name.starts_with("gupfs-lab"), "{}", done.err);
    name
}

/// Networks, directories, mounts and processes of a lab.
fn left_of(lab: &str) -> Vec<String> {
    let begin = format!("{lab}-");
    let entries = |dir: &str| std::fs::read_dir(dir).into_iter().flatten().flatten();
    let networks = entries("/run/netns").map(|entry| entry.path().display().to_string());
    let mut left: Vec<String> = networks.filter(|path| path.contains(&begin)).collect();
    let dir = format!("/run/gupfs-lab/{lab}");
    left.extend(Path::new(&dir).exists().then(|| dir.clone()));
    let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
    left.extend(
        mounts
            .lines()
            .filter(|line| line.contains(&format!("{dir}/")))
            .map(String::from),
    );
    for entry in entries("/proc") {
        let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
        let told = format!("LAB={lab}");
        if environment
            .split(|byte| *byte == 0)
            .any(|word| word == told.as_bytes())
        {
            left.push(entry.path().display().to_string());
        }
    }
    left
}

fn plan(dir: &Path, text: &str) -> PathBuf {
    let path = dir.join("plan.toml");
    std::fs::write(&path, text).unwrap();
    path
}

/// A lab whose command is a shell's line.
fn lab(flags: &str, line: &str) -> Running {
    let words = ["lab"].into_iter().chain(flags.split_whitespace());
    let mut words: Vec<&str> = words.collect();
    words.extend(["--", "sh", "-c", line]);
    Program::of(SUITE, &words).start()
}

#[test]
fn two_labs_at_once_have_links_as_slow_as_wanted_and_leave_nothing() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let measure = |out: &str| {
        format!(
            "bench baseline --client c1 --server s1=$S1 --through 'on {{host}} bench baseline --worker' --message 64K --streams 1 \
             --seconds 2 --json {}",
            dir.path().join(out).display()
        )
    };
    // 8 and 24 MB/s, of 1000² bytes.
    let slow = lab("--servers 1 --clients 1 --link 64mbit", &measure("slow"));
    let faster = lab("--servers 1 --clients 2 --link 192mbit", &measure("faster"));
    let (slow, faster) = (slow.end(), faster.end());
    for done in [&slow, &faster] {
        assert_eq!(done.code, Some(0), "{}", done.err);
        assert!(done.out.contains("c1 to s1"), "{}", done.out);
        assert_eq!(left_of(&name(done)), [""; 0]);
    }
    assert_ne!(name(&slow), name(&faster));
    assert!(faster.err.contains("c2 10.99.0.3"), "{}", faster.err);
    // A link is never faster than wanted; a slow host may not fill it. The second carries more than the first could.
    for (out, least, carries) in [("slow", 0.8, 8.0), ("faster", 8.2, 24.0)] {
        let report = std::fs::read(dir.path().join(out)).unwrap();
        let report: serde_json::Value = serde_json::from_slice(&report).unwrap();
        for figure in report["figures"].as_array().unwrap() {
            let rate = figure["value"].as_f64().unwrap() * 1.048576;
            assert!(
                (least..1.02 * carries).contains(&rate),
                "{carries}: {figure}"
            );
        }
    }
}

#[test]
fn a_plan_starts_what_it_says_and_stops_it() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let plan = plan(
        dir.path(),
        &format!(
            "servers = 2\nclients = 1\n\
             [[step]]\non = 'servers'\ncommand = 'echo $HOST is $NUMBER at $ADDRESS; exec sleep 1000'\nready = ' at 10.99'\n\
             stop = 'echo $HOST >> {0}/stopped'\n\
             [[step]]\non = 'c1'\ncommand = 'mkdir mnt && mount -t tmpfs lab mnt && echo $CLIENTS sees $S2 > mnt/file && cat mnt/file'\n\
             [[step]]\non = 's1'\ncommand = 'exec {SUITE} baseline --serve $ADDRESS:7010 --token-file {0}/token'\nport = 7010\n",
            dir.path().display()
        ),
    );
    std::fs::write(dir.path().join("token"), "sixteen letters and more").unwrap();
    let flags = format!("--plan {}", plan.display());
    let done = lab(
        &flags,
        "cat $LAB_DIR/1-s2.log $LAB_DIR/c1/mnt/file; on s1 true",
    )
    .end();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let said = "c1 sees 10.99.0.2\ns2 is 2 at 10.99.0.2\nc1 sees 10.99.0.2\n";
    assert_eq!(done.out, said);
    let stopped = std::fs::read_to_string(dir.path().join("stopped")).unwrap();
    assert_eq!(stopped, "s2\ns1\n");
    assert_eq!(left_of(&name(&done)), [""; 0]);
}

#[test]
fn what_fails_or_is_interrupted_leaves_nothing() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    for (text, says) in [
        (
            "on = 'c1'\ncommand = 'echo no memory; exit 3'",
            "exit status: 3; it said:\nno memory",
        ),
        (
            "on = 'c1'\ncommand = 'sleep 1000'\ntimeout = 0.2",
            "did not end within 0.2 s",
        ),
        (
            "on = 'c1'\ncommand = 'sleep 1000'\nready = 'x'\ntimeout = 0.2",
            "did not get ready",
        ),
        (
            "on = 'c1'\ncommand = 'echo x; sleep 0.2; exit 4'\nready = 'x'",
            "ended meanwhile: exit status: 4",
        ),
    ] {
        let plan = plan(dir.path(), &format!("clients = 1\n[[step]]\n{text}\n"));
        let done = lab(&format!("--plan {}", plan.display()), "sleep 1000").end();
        assert_eq!(done.code, Some(1), "{text}: {}", done.err);
        assert!(done.err.contains(says), "{text}: {}", done.err);
        assert_eq!(left_of(&name(&done)), [""; 0]);
    }
    let failed = lab("--clients 1", "exit 5").end();
    assert_eq!(failed.code, Some(1));
    assert!(failed.err.contains("exit status: 5"), "{}", failed.err);

    let begun = dir.path().join("begun");
    // What a command leaves in a host is ended, too.
    let line = format!(
        "on c1 setsid sleep 1000 & touch {}; sleep 1000",
        begun.display()
    );
    let running = lab("--clients 1", &line);
    running.wait_for(&begun);
    running.kill(running.id(), "INT");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("ended by signal 2"), "{}", done.err);
    assert_eq!(left_of(&name(&done)), [""; 0]);
}

#[test]
fn a_killed_lab_is_found_and_removed() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let begun = dir.path().join("begun");
    let line = format!(
        "on c1 setsid sleep 1000 >/dev/null 2>&1 & mkdir $LAB_DIR/c1/mnt; mount -t tmpfs lab $LAB_DIR/c1/mnt; echo $LAB > {0}.new; mv {0}.new {0}; \
         exec sleep 1000",
        begun.display()
    );
    let running = lab("--clients 1", &line);
    running.wait_for(&begun);
    let lab = std::fs::read_to_string(&begun).unwrap().trim().to_owned();
    let clean = || Program::new(SUITE, "lab --clean").run();
    let done = clean();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(
        left_of(&lab).len() > 3,
        "a living lab is left alone: {}",
        done.out
    );
    running.kill(running.id(), "KILL");
    running.end();
    assert!(left_of(&lab).len() > 3);
    let done = clean();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(left_of(&lab), [""; 0]);
}

#[test]
fn bad_input_is_refused() {
    if !is_root() {
        return;
    }
    let dir = tempfile::tempdir().unwrap();
    let wrong = plan(
        dir.path(),
        "clients = 1\n[[step]]\non = 'c2'\ncommand = 'x'\n",
    );
    for (flags, says) in [
        ("".into(), "a lab needs hosts"),
        ("--servers 1 --link 4mb".into(), "no rate of a link"),
        ("--servers 600 --clients 600".into(), "at most 1000 hosts"),
        ("--clean --servers 1".into(), "cannot be used with"),
        ("--plan /nowhere".into(), "cannot read the plan"),
        (format!("--plan {}", wrong.display()), "step 1 (x): 'c2'"),
    ] {
        let done = Program::new(SUITE, &format!("lab {flags}")).run();
        assert_eq!(done.code, Some(2), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
    }
}

#[test]
fn others_than_root_are_refused() {
    use std::os::unix::process::CommandExt;
    if !is_root() {
        return;
    }
    // A directory in which other users may start it.
    let dir = tempfile::tempdir_in("/tmp").unwrap();
    let program = dir.path().join("suite");
    std::fs::copy(SUITE, &program).unwrap();
    let everyone = std::os::unix::fs::PermissionsExt::from_mode(0o755);
    std::fs::set_permissions(dir.path(), everyone).unwrap();
    let done = Command::new(&program)
        .args(["lab", "--servers", "1"])
        .uid(65534)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    assert_eq!(done.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&done.stderr).contains("run it as root"));
}
