//! The steps that running processes report: trace events with the target "walk", one for each function of a walk that begins.

use crate::page::Step;
use crate::running::TIMEOUT;
use gupfs_proto::Timestamp;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

/// A log in which nothing was written for this long is quiet.
const QUIET: Duration = Duration::from_millis(500);

/// The logs of the processes that take part.
#[derive(Default)]
pub struct Traces {
    logs: Vec<PathBuf>,
}

/// One line of a log.
#[derive(serde::Deserialize)]
struct Event {
    timestamp: String,
    target: String,
    #[serde(default)]
    file: String,
    #[serde(default)]
    message: String,
}

impl Traces {
    /// Makes the process write its steps to `log`.
    pub fn follow(&mut self, command: &mut Command, log: PathBuf) {
        let file = std::fs::File::create(&log).unwrap();
        command
            .args(["--log", "json", "--log-level", "error,walk=trace"])
            .stderr(Stdio::from(file));
        self.logs.push(log);
    }

    /// The steps between the beginning and the return of `call`, in their order.
    pub fn during(&self, call: impl FnOnce()) -> Vec<Step> {
        self.during_soon(QUIET, call)
    }

    /// The same for a call that has to begin soon: the logs need to be quiet for less time before.
    pub fn during_soon(&self, quiet: Duration, call: impl FnOnce()) -> Vec<Step> {
        self.wait_until_quiet(quiet);
        let start = now();
        call();
        let end = now();
        self.wait_until_quiet(QUIET);
        let mut events: Vec<(String, Step)> = Vec::new();
        for log in &self.logs {
            let text = std::fs::read_to_string(log).unwrap();
            for line in text.lines().filter(|line| line.starts_with('{')) {
                let event: Event = serde_json::from_str(line).unwrap();
                if event.target == "walk" && (&start..=&end).contains(&&event.timestamp) {
                    events.push((event.timestamp, Step::new(&event.file, &event.message)));
                }
            }
        }
        // Stable: events of one process in one microsecond stay in their order.
        events.sort_by(|a, b| a.0.cmp(&b.0));
        events.into_iter().map(|(_, step)| step).collect()
    }

    fn wait_until_quiet(&self, quiet: Duration) {
        let sizes = || -> Vec<u64> {
            self.logs
                .iter()
                .map(|log| std::fs::metadata(log).unwrap().len())
                .collect()
        };
        let begun = Instant::now();
        let (mut before, mut since) = (sizes(), begun);
        while since.elapsed() < quiet {
            assert!(begun.elapsed() < TIMEOUT, "the logs grow without a pause");
            std::thread::sleep(Duration::from_millis(20));
            let now = sizes();
            if now != before {
                (before, since) = (now, Instant::now());
            }
        }
    }
}

/// As the logs write it: RFC 3339 in UTC with microseconds, so that text compares as time does.
fn now() -> String {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let (secs, micros) = (since.as_secs(), since.subsec_micros());
    let date = Timestamp::new(secs as i64, 0).format_date();
    let (hour, minute, second) = (secs / 3600 % 24, secs / 60 % 60, secs % 60);
    format!("{date}T{hour:02}:{minute:02}:{second:02}.{micros:06}Z")
}
