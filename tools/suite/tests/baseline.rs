//! `gupfs-suite baseline` as a person starts it.

mod program;

use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};

use program::{Done, Program, empty};
use serde_json::Value;
use tempfile::TempDir;

const SUITE: &str = env!("CARGO_BIN_EXE_gupfs-suite");

/// A directory on a disk: one in memory might not take O_DIRECT.
fn on_disk() -> TempDir {
    tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap()
}

fn baseline(flags: &str) -> Program {
    Program::new(SUITE, &format!("baseline {flags}"))
}

fn json(done: &Done, path: &Path) -> Value {
    assert_eq!(done.code, Some(0), "{}", done.err);
    serde_json::from_slice(&std::fs::read(path).unwrap()).unwrap()
}

fn rate(report: &Value, name: &str) -> f64 {
    let figures = report["figures"].as_array().unwrap();
    let figure = figures.iter().find(|figure| figure["name"] == name);
    figure.unwrap_or_else(|| panic!("{name}: {report}"))["value"]
        .as_f64()
        .unwrap()
}

/// What was measured so many times.
fn assert_is_the_median(measured: &Value, times: usize) {
    let rates = measured["rates"].as_array().unwrap().iter();
    let mut rates: Vec<f64> = rates.map(|rate| rate.as_f64().unwrap()).collect();
    assert_eq!(rates.len(), times, "{measured}");
    rates.sort_by(f64::total_cmp);
    let median = (rates[(times - 1) / 2] + rates[times / 2]) / 2.0;
    // Numbers read from JSON are off by their last bit now and then.
    let said = measured["rate"].as_f64().unwrap();
    assert!(
        rates[0] > 0.0 && (said / median - 1.0).abs() < 1e-12,
        "{measured}"
    );
}

const LITTLE: &str = "--disk-size 8M --disk-seconds 0.1 --disk-streams 1,2";
const FILES: &str = "-n 2 -f 1M -b 64K --repeat 2";

#[test]
fn disks_and_files_are_measured_and_judged() {
    let dir = on_disk();
    let [disk, other, fs] = ["disk", "other", "fs"].map(|name| dir.path().join(name));
    for dir in [&disk, &other, &fs] {
        std::fs::create_dir(dir).unwrap();
    }
    let [report, out] = ["json", "out"].map(|name| dir.path().join(name));
    std::fs::write(&out, "{\"kind\":\"ceil").unwrap();
    let done = baseline(&format!("{LITTLE} {FILES} --target t"))
        .on("--disk", &disk)
        .on("--disk", &other)
        .on("--managed", &disk)
        .on("--fs", &fs)
        .on("--fs", &fs)
        .on("--json", &report)
        .on("--out", &out)
        .run();
    let report = json(&done, &report);
    for name in [
        "Disk_write",
        "Disk_read",
        "File_each_read",
        "One_file_write",
    ] {
        assert!(rate(&report, name) > 0.0, "{name}: {report}");
    }
    assert_eq!(
        report["disks"]["raw"]["each"][1]["points"]
            .as_array()
            .unwrap()
            .len(),
        4
    );
    for point in report["disks"]["raw"]["each"][1]["points"]
        .as_array()
        .unwrap()
    {
        assert_is_the_median(point, 2);
    }
    assert_is_the_median(&report["disks"]["raw"]["together"][0], 2);
    assert_eq!(report["hosts"], 2);
    let turns = report["disks"]["compared"][1]["managed"]
        .as_array()
        .unwrap();
    assert_eq!(turns.len(), 5);
    let judged = report["judged"].as_array().unwrap();
    assert_eq!(judged.len(), 4);
    for judged in judged {
        assert_eq!(judged["limited_by"], "disk");
        let share = judged["measured"].as_f64().unwrap() / judged["least"].as_f64().unwrap();
        assert!((judged["share"].as_f64().unwrap() - share).abs() < 1e-9);
    }
    for word in [
        "DISKS",
        "THROUGH THE VOLUME MANAGER",
        "% of the raw disks'",
        "FILE SYSTEM",
        "VERDICT",
    ] {
        assert!(done.out.contains(word), "{word}: {}", done.out);
    }
    assert!(done.out.contains("The network was not measured"));
    // What an interrupted write had left is gone.
    let lines = std::fs::read_to_string(&out).unwrap();
    let lines: Vec<Value> = lines
        .lines()
        .map(|l| serde_json::from_str(l).unwrap())
        .collect();
    assert_eq!(lines.len(), 2);
    assert!(
        lines
            .iter()
            .all(|line| line["kind"] == "ceiling" && line["target"] == "t")
    );
    assert!([disk, other, fs].iter().all(|dir| empty(dir)));
}

/// Hosts are processes here that a command starts.
#[test]
fn streams_flow_between_every_client_and_every_server() {
    let dir = on_disk();
    let report = dir.path().join("json");
    let through = format!("{SUITE} baseline --worker # {{host}}");
    let flags = "--client a --client b --server c=127.0.0.1 --server d=127.0.0.1 --message 2K,64K --streams 1,2 --seconds 0.1";
    let done = baseline(flags)
        .on("--through", Path::new(&through))
        .on("--json", &report)
        .run();
    let report = json(&done, &report);
    let pairs = report["network"]["pairs"].as_array().unwrap();
    assert_eq!(pairs.len(), 4);
    for pair in pairs {
        let points = pair["points"].as_array().unwrap();
        assert_eq!(points.len(), 8);
        for point in points {
            assert_is_the_median(point, 3);
        }
    }
    for (index, name) in [(0, "Network_write"), (1, "Network_read")] {
        let all = &report["network"]["together"][index];
        assert_is_the_median(all, 3);
        let each = all["each"]
            .as_array()
            .unwrap()
            .iter()
            .map(|rate| rate.as_f64().unwrap());
        assert!((each.sum::<f64>() - rate(&report, name)).abs() < 1e-6);
    }
    assert!(
        done.out.contains("a to c")
            && done.out.contains("All 4 pairs at once")
            && done.out.contains("medians of 3"),
        "{}",
        done.out
    );
}

struct Agent(Child, String);

impl Agent {
    fn start(token: &Path) -> Agent {
        let mut agent = Command::new(SUITE)
            .args(["baseline", "--serve", "127.0.0.1:0", "--token-file"])
            .arg(token)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(agent.stdout.take().unwrap())
            .read_line(&mut line)
            .unwrap();
        let address = line
            .trim()
            .strip_prefix("listening on ")
            .unwrap()
            .to_owned();
        Agent(agent, address)
    }
}

impl Drop for Agent {
    fn drop(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

#[test]
fn agents_work_for_those_who_know_the_token() {
    let dir = on_disk();
    let [token, wrong, disk, report] =
        ["token", "wrong", "disk", "json"].map(|name| dir.path().join(name));
    std::fs::write(&token, "a token for this test\n").unwrap();
    std::fs::write(&wrong, "a token for another test\n").unwrap();
    std::fs::create_dir(&disk).unwrap();
    let agent = Agent::start(&token);
    let place = format!("tcp://{}{}", agent.1, disk.display());
    let flags = format!(
        "{LITTLE} --disk {place} --client here --server tcp://{} --message 64K --streams 2 --seconds 0.1",
        agent.1
    );
    let done = baseline(&flags)
        .on("--token-file", &token)
        .on("--json", &report)
        .run();
    let report = json(&done, &report);
    assert!(rate(&report, "Disk_read") > 0.0 && rate(&report, "Network_read") > 0.0);
    assert!(empty(&disk));
    let done = baseline(&flags).on("--token-file", &wrong).run();
    done.failed_with(1);
    assert!(
        done.err.contains(&format!("the worker on {}", agent.1)),
        "{}",
        done.err
    );
}

#[test]
fn a_run_that_is_ended_leaves_nothing() {
    let dir = on_disk();
    let [disk, fs] = ["disk", "fs"].map(|name| dir.path().join(name));
    std::fs::create_dir(&disk).unwrap();
    std::fs::create_dir(&fs).unwrap();
    for flag in ["--disk", "--fs"] {
        let path = if flag == "--disk" { &disk } else { &fs };
        let running =
            baseline("--disk-size 8M --disk-seconds 1000 -n 1 -f 1G -b 512 --repeat 1000")
                .on(flag, path)
                .start();
        running.children(1);
        match flag {
            "--fs" => running.wait_until(|| !empty(&fs)),
            _ => std::thread::sleep(std::time::Duration::from_millis(300)),
        }
        running.kill(running.id(), "INT");
        let done = running.end();
        done.failed_with(1);
        assert!(done.err.contains("ended by signal 2"), "{}", done.err);
        assert!(empty(path), "{flag}");
    }
}

#[test]
fn bad_input_is_refused() {
    let dir = on_disk();
    let plain = dir.path().join("plain");
    std::fs::write(&plain, "").unwrap();
    let plain = plain.display();
    for (flags, code, says) in [
        ("".into(), 2, "give what shall be measured"),
        ("--client a".into(), 2, "the network needs"),
        ("--host a".into(), 2, "the network needs"),
        ("--client a --server here".into(), 2, "say here=ADDRESS"),
        ("--client a;b --server c".into(), 2, "no name of a host"),
        (
            "--host tcp://a:1 --host tcp://b:1".into(),
            2,
            "give --token-file",
        ),
        ("--disk . --disk-seconds 0".into(), 2, "above 0"),
        ("--disk . --disk-record 700".into(), 2, "multiple of 512"),
        ("--disk . --disk-size 1M".into(), 2, "each of 8 streams"),
        ("--fs . -b 64M".into(), 2, "more than there is"),
        ("--disk . --out x".into(), 2, "--target"),
        (
            format!("--disk {plain}"),
            2,
            "neither a block device nor a directory",
        ),
        ("--disk . --read-only".into(), 2, "give the device"),
        ("--disk . --disk-size 8000000G".into(), 1, "MB free"),
        ("--fs /nowhere".into(), 1, "No such file"),
        (format!("--fs . --judge {plain}"), 2, "--judge needs"),
    ] {
        let done = baseline(&flags).run();
        assert_eq!(done.code, Some(code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.out, "");
    }
}

/// A device over a file; gone when it is dropped.
struct Loop(String);

impl Loop {
    fn over(file: &Path) -> Option<Loop> {
        std::fs::File::create(file)
            .unwrap()
            .set_len(16 << 20)
            .unwrap();
        let made = Command::new("losetup")
            .args(["--find", "--show"])
            .arg(file)
            .output()
            .ok()?;
        let name = String::from_utf8(made.stdout).unwrap();
        made.status.success().then(|| Loop(name.trim().to_owned()))
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        assert!(
            Command::new("losetup")
                .args(["--detach", &self.0])
                .status()
                .unwrap()
                .success()
        );
    }
}

#[test]
fn a_device_in_use_is_only_read() {
    use std::os::unix::fs::OpenOptionsExt;
    let dir = on_disk();
    let Some(device) = Loop::over(&dir.path().join("file")) else {
        gupfs_skips::skip(
            gupfs_skips::Need::LoopDevices,
            "a loop device needs root and losetup",
        );
        return;
    };
    let run = |flags: &str| {
        baseline(&format!("--disk-seconds 0.1 --disk-streams 1,2 {flags}"))
            .on("--disk", Path::new(&device.0))
            .run()
    };
    let held = std::fs::File::options()
        .read(true)
        .write(true)
        .custom_flags(libc::O_EXCL)
        .open(&device.0)
        .unwrap();
    let done = run("--disk-size 8M");
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("is mounted or held"), "{}", done.err);
    let read = run("--disk-size 8M --read-only");
    assert_eq!(read.code, Some(0), "{}", read.err);
    let holds =
        |byte: u8| std::fs::read(dir.path().join("file")).unwrap()[..8 << 20].contains(&byte);
    assert!(!holds(1));
    drop(held);
    let done = run("--disk-size 8M");
    assert_eq!(done.code, Some(0), "{}", done.err);
    assert!(holds(1));
    let done = run("--disk-size 1G");
    assert_eq!(done.code, Some(2), "{}", done.err);
    assert!(done.err.contains("has 16 MB"), "{}", done.err);
}
