//! `bench run` as a person starts it, with programs of a few lines that stand for the suite's.

#![allow(clippy::disallowed_methods)] // a real process ends in real time

mod program;

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use program::{Done, Program, empty};
use tempfile::TempDir;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

/// Two directories, a program and a plan.
struct Desk {
    dir: TempDir,
}

/// Writes the report that the suite's programs write; the rate is its last argument before `--json`.
const WELL: &str = r#"echo "$@" >> "$LOG"
touch "$1/file"
for last; do eval "before=\$rate rate=\$json json=\$last"; done
case "$before" in bad) echo no such luck >&2; exit 3;; esac
echo '{"program":"fake","version":"1","figures":[{"name":"rate","unit":"MB/s","better":"more","value":'"$before"'}]}' > "$json"
"#;

impl Desk {
    fn new(program: &str, plan: &str) -> Desk {
        let desk = Desk {
            dir: tempfile::tempdir().unwrap(),
        };
        for target in ["a", "b"] {
            std::fs::create_dir(desk.path(target)).unwrap();
        }
        let script = desk.path("fake");
        let log = desk.path("log");
        let text = format!("#!/bin/sh\nLOG={}\n{program}", log.display());
        std::fs::write(&script, text).unwrap();
        std::fs::set_permissions(&script, std::fs::Permissions::from_mode(0o755)).unwrap();
        desk.plan(plan);
        desk
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    /// Writes the plan; PROGRAM and TARGETS stand for those of the desk.
    fn plan(&self, text: &str) {
        let target = |name| {
            let dir = self.path(name);
            format!("[[target]]\nname = '{name}'\ndir = '{}'\n", dir.display())
        };
        let text = text
            .replace("PROGRAM", self.path("fake").to_str().unwrap())
            .replace("TARGETS", &(target("a") + &target("b")))
            .replace("DESK", self.dir.path().to_str().unwrap());
        std::fs::write(self.path("plan.toml"), text).unwrap();
    }

    fn program(&self, flags: &str) -> Program {
        let plan = self.path("plan.toml");
        Program::new(SUITE, &format!("run {} {flags}", plan.display())).on("--out", &self.out())
    }

    fn run(&self, flags: &str) -> Done {
        self.program(flags).run()
    }

    fn out(&self) -> PathBuf {
        self.path("out.jsonl")
    }

    fn lines(&self, kind: &str) -> Vec<serde_json::Value> {
        lines(&self.out(), kind)
    }

    fn log(&self) -> Vec<String> {
        let text = std::fs::read_to_string(self.path("log")).unwrap_or_default();
        text.lines().map(String::from).collect()
    }

    fn clean(&self) -> bool {
        empty(&self.path("a")) && empty(&self.path("b"))
    }
}

fn lines(path: &Path, kind: &str) -> Vec<serde_json::Value> {
    let text = std::fs::read_to_string(path).unwrap();
    text.lines()
        .map(|line| serde_json::from_str::<serde_json::Value>(line).unwrap())
        .filter(|line| line["kind"] == kind)
        .collect()
}

const PLAN: &str = "name = 'p'\nrepeat = 2\ndrop_caches = false\nTARGETS\n\
                    [[workload]]\nname = 'w'\nprogram = 'PROGRAM'\nargs = '{dir} {rate}'\nsweep = { rate = [10, 20] }\n";

#[test]
fn targets_alternate_and_every_run_is_kept() {
    let desk = Desk::new(WELL, PLAN);
    let done = desk.run("");
    assert_eq!(done.code, Some(0), "{}", done.err);
    let order: Vec<String> = desk
        .lines("run")
        .iter()
        .map(|run| {
            assert_eq!(run["cache"], "kept");
            let rate = run["setting"]["rate"].as_str().unwrap();
            assert_eq!(run["figures"][0]["value"].to_string(), format!("{rate}.0"));
            format!(
                "{}{rate}-{}",
                run["target"].as_str().unwrap(),
                run["repetition"]
            )
        })
        .collect();
    assert_eq!(
        order.join(" "),
        "a10-1 b10-1 a10-2 b10-2 a20-1 b20-1 a20-2 b20-2"
    );
    assert_eq!(
        desk.log().len(),
        12,
        "a warm-up for each setting and target"
    );
    let header = &desk.lines("plan")[0];
    assert!(header["machine"]["cpus"].as_u64().unwrap() > 0);
    assert_ne!(header["places"]["a"]["file_system"], "unknown");
    assert!(done.out.contains("w rate=20  rate    b"), "{}", done.out);
    assert!(done.out.contains("too few runs to tell"), "{}", done.out);
    assert!(desk.clean());
}

#[test]
fn what_ended_well_is_not_run_again() {
    let desk = Desk::new(WELL, PLAN);
    assert_eq!(desk.run("").code, Some(0));
    assert_eq!(desk.run("").code, Some(2), "it exists");
    let text = std::fs::read_to_string(desk.out()).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    let cut = lines[..6].join("\n") + "\n" + &lines[6][..20];
    std::fs::write(desk.out(), cut).unwrap();
    let before = desk.log().len();
    let done = desk.run("--resume");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert_eq!(desk.lines("run").len(), 8);
    // b20-1, a20-2, b20-2, and a warm-up for each target.
    assert_eq!(desk.log().len() - before, 5, "{:?}", desk.log());
    desk.plan(&PLAN.replace("20]", "30]"));
    let other = desk.run("--resume");
    assert_eq!(other.code, Some(2));
    assert!(other.err.contains("another plan"), "{}", other.err);
}

#[test]
fn a_run_that_fails_is_said_and_the_others_go_on() {
    let desk = Desk::new(WELL, &PLAN.replace("10", "'bad'"));
    let done = desk.run("");
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(done.err.contains("no such luck"), "{}", done.err);
    assert!(
        done.err.contains("2 of the settings failed"),
        "{}",
        done.err
    );
    assert_eq!(desk.lines("failed").len(), 2, "not tried again");
    assert_eq!(desk.lines("run").len(), 4);
    assert!(desk.clean());
}

#[test]
fn reports_that_hold_no_figures_are_failures() {
    for (text, says) in [
        ("exit 0", "wrote no report"),
        ("for last; do :; done; echo '{}' > $last", "has not what"),
        (
            "for last; do :; done; echo '{\"program\":\"x\",\"version\":\"1\",\"figures\":[]}' > $last",
            "no figures",
        ),
        ("sleep 60", "did not end within 1 s"),
    ] {
        let plan = PLAN.replace("repeat = 2", "repeat = 1\nwarm_up = 0\ntimeout = 1");
        let desk = Desk::new(text, &plan.replace("[10, 20]", "[10]"));
        let done = desk.run("");
        assert_eq!(done.code, Some(1), "{text}: {}", done.err);
        assert!(done.err.contains(says), "{text}: {}", done.err);
        assert!(desk.clean());
    }
}

#[test]
fn an_interrupted_run_ends_its_programs_and_keeps_what_it_has() {
    let text = format!(
        "{WELL}\ncase \"$before\" in 20) sleep 1000 & echo $! > \"$LOG.new\"; mv \"$LOG.new\" \"$LOG.pid\"; wait;; esac\n"
    );
    let teardown = "teardown = 'touch DESK/torn'\n[[workload]]";
    let desk = Desk::new(&text, &PLAN.replacen("[[workload]]", teardown, 1));
    let running = desk.program("").start();
    running.wait_for(&desk.path("log.pid"));
    running.kill(running.id(), "INT");
    let done = running.end();
    assert_eq!(done.code, Some(1), "{}", done.err);
    assert!(
        done.err.contains("ended by signal 2; 4 runs"),
        "{}",
        done.err
    );
    assert_eq!(desk.lines("run").len(), 4);
    assert!(desk.clean());
    assert!(desk.path("torn").exists());
    let sleeper = std::fs::read_to_string(desk.path("log.pid")).unwrap();
    let sleeper: u32 = sleeper.trim().parse().unwrap();
    // The kernel ends a process some time after kill(2) has returned.
    let until = Instant::now() + Duration::from_secs(60);
    while is_running(sleeper) {
        assert!(
            Instant::now() < until,
            "process {sleeper}, which the program started, still runs"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// False for a zombie too: its new parent may not have reaped it yet.
fn is_running(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat"));
    stat.is_ok_and(|stat| !stat.contains(") Z "))
}

#[test]
fn targets_are_set_up_and_torn_down() {
    let plan = "name = 'p'\nrepeat = 1\ndrop_caches = false\n\
                [[target]]\nname = 'new'\ndir = 'DESK/new'\nsetup = 'mkdir $DIR'\nteardown = 'rmdir $DIR'\nversion = 'echo v7; echo more'\n\
                [[workload]]\nname = 'w'\nprogram = 'PROGRAM'\nargs = '{dir} 5'\n";
    let desk = Desk::new(WELL, plan);
    let done = desk.run("");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(!desk.path("new").exists(), "nothing was left in it");
    assert_eq!(desk.lines("plan")[0]["places"]["new"]["version"], "v7");
    std::fs::remove_file(desk.out()).unwrap();
    desk.plan(&plan.replace("mkdir $DIR", "echo no disk; exit 4"));
    let done = desk.run("");
    assert_eq!(done.code, Some(1));
    assert!(
        done.err.contains("its setup command failed"),
        "{}",
        done.err
    );
    assert!(done.err.contains("no disk"), "{}", done.err);
}

#[test]
fn a_run_before_the_one_that_counts_works_in_the_same_directory() {
    let plan = PLAN.replace("args =", "first = '{dir} first'\nargs =");
    let desk = Desk::new(WELL, &plan);
    assert_eq!(desk.run("--only w --repeat 1").code, Some(0));
    let log = desk.log();
    let dir = |line: &str| line.split(' ').next().unwrap().to_owned();
    assert!(log[0].ends_with(" first"), "{log:?}");
    assert_eq!(dir(&log[0]), dir(&log[1]));
}

#[test]
fn bad_plans_are_refused_before_anything_is_made() {
    let desk = Desk::new(WELL, PLAN);
    for (plan, flags, says) in [
        (PLAN.replace("repeat", "repeats"), "", "repeats"),
        (
            PLAN.replace("PROGRAM", "no-such-program"),
            "",
            "no-such-program",
        ),
        (PLAN.into(), "--only nothing", "no workload is left"),
        (PLAN.into(), "--set x=1", "has no 'x'"),
        (PLAN.into(), "--price c=1", "no target 'c'"),
        (
            PLAN.into(),
            "--target c=/no/such/dir",
            "/no/such/dir is not a directory",
        ),
        (PLAN.into(), "--compare /no/such/file", "/no/such/file"),
    ] {
        desk.plan(&plan);
        let done = desk.run(flags);
        assert_ne!(done.code, Some(0), "{flags}");
        assert!(done.err.contains(says), "{says}: {}", done.err);
        assert!(!desk.out().exists(), "{flags}");
        assert!(desk.clean());
    }
}

#[test]
fn older_results_are_compared_by_what_they_have_in_common() {
    let desk = Desk::new(WELL, PLAN);
    assert_eq!(desk.run("").code, Some(0));
    let old = desk.path("old.jsonl");
    let text = std::fs::read_to_string(desk.out()).unwrap();
    std::fs::write(&old, text.replace("\"value\":20.0", "\"value\":10.0")).unwrap();
    std::fs::remove_file(desk.out()).unwrap();
    let done = desk.program("--repeat 4").on("--compare", &old).run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(done.out.contains("÷ older"), "{}", done.out);
    assert!(
        done.out
            .contains("2.00 (2.00 to 2.00): too few runs to tell"),
        "{}",
        done.out
    );
}

#[test]
fn the_suites_own_programs_run_by_a_plan_that_ships() {
    let desk = Desk::new("", "");
    let flags = "run quick --repeat 1 --set size=1M --set files=40";
    let done = Program::new(SUITE, flags)
        .on("--out", &desk.out())
        .on(
            "--target",
            Path::new(&format!("a={}", desk.path("a").display())),
        )
        .run();
    assert_eq!(done.code, Some(0), "{}", done.err);
    let runs = desk.lines("run");
    assert_eq!(runs.len(), 5);
    let each = |run: &serde_json::Value| run["figures"][0]["each"].as_array().map(Vec::len);
    assert_eq!(each(&runs[0]), Some(1));
    assert_eq!(runs[4]["program"], "metabench");
    assert!(desk.clean());
}

#[test]
fn plans_that_ship_are_listed_and_printed() {
    let list = Program::new(SUITE, "plans").run();
    assert_eq!(list.out.lines().count(), 4, "{}", list.out);
    let quick = Program::new(SUITE, "plans quick").run();
    assert!(quick.out.starts_with("name = \"quick\""));
    assert_eq!(Program::new(SUITE, "plans slow").run().code, Some(2));
}
