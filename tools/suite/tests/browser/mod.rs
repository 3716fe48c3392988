//! A page in headless Chromium, driven over its debugging pipe: messages are JSON that ends with a zero byte.

// Waits for a real process.
#![allow(clippy::disallowed_methods)]

use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use serde_json::{Value, json};
use tempfile::TempDir;

/// No page takes so long. A browser that hangs is ended, and who waits for it is told.
const TOO_LONG: Duration = Duration::from_secs(300);

pub struct Browser {
    child: Child,
    to: File,
    from: BufReader<File>,
    session: String,
    asked: u64,
    /// What the page's console and its scripts complained of.
    pub errors: Vec<String>,
    loaded: bool,
    _home: TempDir,
}

/// Chromium, installed by need.sh if it can be.
pub fn chromium() -> Option<&'static str> {
    let names = ["chromium", "chromium-browser", "google-chrome"];
    let found = || {
        names.into_iter().find(|name| {
            let looked = Command::new("sh")
                .args(["-c", &format!("command -v {name}")])
                .output();
            looked.is_ok_and(|looked| looked.status.success())
        })
    };
    found().or_else(|| {
        let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../scripts/need.sh");
        let _ = Command::new(script).arg("browser").status();
        found()
    })
}

impl Browser {
    pub fn start(program: &str) -> Browser {
        let home = tempfile::tempdir().unwrap();
        let pipes = ["to", "from"].map(|name| home.path().join(name));
        let made = Command::new("mkfifo").args(&pipes).status().unwrap();
        assert!(made.success());
        let profile = format!("--user-data-dir={}", home.path().join("profile").display());
        let flags = [
            "--headless",
            "--no-sandbox",
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--remote-debugging-pipe",
        ];
        // It reads from descriptor 3 and writes to 4.
        let child = Command::new("sh")
            .args(["-c", "exec \"$@\" 3<\"$TO\" 4>\"$FROM\"", "sh", program])
            .args(flags)
            .arg(profile)
            .env("TO", &pipes[0])
            .env("FROM", &pipes[1])
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let process = Pid::from_child(&child);
        let process = pidfd_open(process, PidfdFlags::empty()).unwrap();
        std::thread::spawn(move || {
            std::thread::sleep(TOO_LONG);
            // Does nothing if it has ended.
            let _ = pidfd_send_signal(process, Signal::KILL);
        });
        let to = File::options().write(true).open(&pipes[0]).unwrap();
        let from = BufReader::new(File::open(&pipes[1]).unwrap());
        let mut browser = Browser {
            child,
            to,
            from,
            session: String::new(),
            asked: 0,
            errors: Vec::new(),
            loaded: false,
            _home: home,
        };
        let made = browser.ask("Target.createTarget", json!({"url": "about:blank"}));
        let target = json!({"targetId": made["targetId"], "flatten": true});
        let attached = browser.ask("Target.attachToTarget", target);
        browser.session = attached["sessionId"].as_str().unwrap().to_owned();
        for domain in ["Page", "Runtime", "Log"] {
            browser.ask(&format!("{domain}.enable"), json!({}));
        }
        browser
    }

    /// Opens a page at a width, as a phone or a desk would, or a printer.
    pub fn open(&mut self, page: &Path, width: u32, media: &str) {
        let metrics =
            json!({"width": width, "height": 800, "deviceScaleFactor": 1, "mobile": width < 500});
        self.ask("Emulation.setDeviceMetricsOverride", metrics);
        self.ask("Emulation.setEmulatedMedia", json!({"media": media}));
        self.loaded = false;
        let url = format!("file://{}", page.display());
        self.ask("Page.navigate", json!({"url": url}));
        while !self.loaded {
            self.hear();
        }
    }

    pub fn evaluate(&mut self, script: &str) -> Value {
        let asked = json!({"expression": script, "returnByValue": true});
        let said = self.ask("Runtime.evaluate", asked);
        assert!(said["exceptionDetails"].is_null(), "{said}");
        said["result"]["value"].clone()
    }

    /// All of it, as PNG in base64.
    pub fn picture(&mut self) -> String {
        let all = json!({"captureBeyondViewport": true});
        let said = self.ask("Page.captureScreenshot", all);
        said["data"].as_str().unwrap().to_owned()
    }

    fn ask(&mut self, method: &str, params: Value) -> Value {
        self.asked += 1;
        let id = self.asked;
        let mut message = json!({"id": id, "method": method, "params": params});
        if !self.session.is_empty() {
            message["sessionId"] = self.session.clone().into();
        }
        self.to
            .write_all(format!("{message}\0").as_bytes())
            .unwrap();
        loop {
            let mut heard = self.hear();
            if heard["id"] == id {
                assert!(heard["error"].is_null(), "{method}: {heard}");
                return heard["result"].take();
            }
        }
    }

    fn hear(&mut self) -> Value {
        let mut bytes = Vec::new();
        self.from.read_until(0, &mut bytes).unwrap();
        assert_eq!(
            bytes.pop(),
            Some(0),
            "the browser has ended, or took too long"
        );
        let heard: Value = serde_json::from_slice(&bytes).unwrap();
        match heard["method"].as_str() {
            Some("Page.loadEventFired") => self.loaded = true,
            Some("Runtime.exceptionThrown" | "Log.entryAdded") => {
                self.errors.push(heard["params"].to_string());
            }
            _ => {}
        }
        heard
    }
}

impl Drop for Browser {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
