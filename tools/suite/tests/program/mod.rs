//! A program of the suite under test.

// Each test program uses some of it, and waits for real processes.
#![allow(dead_code, clippy::disallowed_methods)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

pub struct Program(Command);

pub struct Running(Child);

pub struct Done {
    pub code: Option<i32>,
    pub out: String,
    pub err: String,
}

impl Program {
    pub fn new(program: &str, flags: &str) -> Program {
        let mut command = Command::new(program);
        command.args(flags.split_whitespace()).stdin(Stdio::null());
        Program(command)
    }

    /// With arguments that have spaces in them.
    pub fn of(program: &str, arguments: &[&str]) -> Program {
        let mut command = Command::new(program);
        command.args(arguments).stdin(Stdio::null());
        Program(command)
    }

    pub fn on(mut self, flag: &str, path: &Path) -> Program {
        self.0.arg(flag).arg(path);
        self
    }

    pub fn env(mut self, name: &str, value: &str) -> Program {
        self.0.env(name, value);
        self
    }

    pub fn start(mut self) -> Running {
        let piped = self.0.stdout(Stdio::piped()).stderr(Stdio::piped());
        Running(piped.spawn().unwrap())
    }

    pub fn run(self) -> Done {
        self.start().end()
    }

    /// Runs well in `work` of a directory, and leaves nothing there: how it ended, and its JSON report.
    pub fn report(self, dir: &Path) -> (Done, Value) {
        let (work, json) = (dir.join("work"), dir.join("json"));
        std::fs::create_dir_all(&work).unwrap();
        let started = self.on("-d", &work).on("--json", &json);
        let command = format!("{:?}", started.0);
        let done = started.run();
        assert_eq!(done.code, Some(0), "{command}: {}", done.err);
        assert!(empty(&work), "{command}");
        let report = serde_json::from_slice(&std::fs::read(&json).unwrap());
        (done, report.unwrap())
    }
}

impl Done {
    /// It failed with this code, and printed no report.
    #[track_caller]
    pub fn failed_with(&self, code: i32) {
        let ended = (self.code, self.out.as_str());
        assert_eq!(ended, (Some(code), ""), "{}", self.err);
    }
}

/// No more time has passed since then.
#[track_caller]
pub fn within(seconds: u64, since: Instant) {
    let took = since.elapsed();
    assert!(took < Duration::from_secs(seconds), "{took:?}");
}

impl Running {
    pub fn id(&self) -> u32 {
        self.0.id()
    }

    /// The processes that it started, once there are so many.
    pub fn children(&self, count: usize) -> Vec<u32> {
        let path = format!("/proc/{0}/task/{0}/children", self.id());
        eventually(|| {
            let text = std::fs::read_to_string(&path).ok()?;
            let children: Vec<u32> = text.split_whitespace().flat_map(str::parse).collect();
            (children.len() == count).then_some(children)
        })
    }

    pub fn wait_for(&self, path: &Path) {
        self.wait_until(|| path.exists());
    }

    pub fn wait_until(&self, is: impl Fn() -> bool) {
        eventually(|| is().then_some(()));
    }

    pub fn kill(&self, process: u32, signal: &str) {
        let killed = Command::new("kill")
            .args([format!("-{signal}"), process.to_string()])
            .status();
        assert!(killed.unwrap().success());
    }

    pub fn end(self) -> Done {
        let output = self.0.wait_with_output().unwrap();
        Done {
            code: output.status.code(),
            out: String::from_utf8(output.stdout).unwrap(),
            err: String::from_utf8(output.stderr).unwrap(),
        }
    }
}

/// Each of these flags, behind a program's words, is answered with an exit code and what it says, before anything is made.
pub fn refuses(program: &str, words: &str, wrong: &[(&str, i32, &str)]) {
    let dir = tempfile::tempdir().unwrap();
    for (flags, code, says) in wrong {
        let done = Program::new(program, &format!("{words} {flags}"))
            .on("-d", dir.path())
            .run();
        assert_eq!(done.code, Some(*code), "{flags}: {}", done.err);
        assert!(done.err.contains(says), "{flags}: {}", done.err);
        assert_eq!(done.out, "");
        assert!(empty(dir.path()));
    }
}

#[track_caller]
pub fn eventually<T>(mut is: impl FnMut() -> Option<T>) -> T {
    let until = Instant::now() + Duration::from_secs(60);
    loop {
        if let Some(found) = is() {
            return found;
        }
        assert!(Instant::now() < until, "it did not happen within 60 s");
        std::thread::sleep(Duration::from_millis(1));
    }
}

pub fn empty(dir: &Path) -> bool {
    std::fs::read_dir(dir).unwrap().next().is_none()
}
