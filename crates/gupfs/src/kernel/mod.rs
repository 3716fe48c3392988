//! # kernel: does the running kernel do what gupfs counts on?
//!
//! Owns   trying the contract's facts in a process of its own, and what follows from what it finds.
//! Never  lets a try that hangs hold up more than its deadline; refuses a kernel for what could not be tried.
//! Enter  at `Trial::begin`, then `Trial::findings`; `judge` says whether to mount, and how.

mod child;

pub use child::{KernelFactsProcess, NAME};

use crate::exit::{CliError, CliResult, Exit};
use gupfs_contract::{CoherenceRule, FactFinding, FactVerdict, FactWeight};
use gupfs_fuse::FuseTransport;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// All facts take less than a second; a machine under load has time.
const DEADLINE: Duration = Duration::from_secs(60);

/// For a child that has answered to end.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_STEPS: u32 = 100;

/// Which facts to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum FactSelection {
    /// Those that decide whether something is mounted, and how.
    Deciding,
    All,
}

/// Facts that are being tried by a second process of this program: mounts of its own, which may hang on a strange kernel,
/// are none of ours. Dropped, it is told to end, and leaves no mount.
pub struct Trial {
    child: Child,
    /// Its mounts are below.
    place: TempDir,
}

impl Trial {
    pub fn begin(which: FactSelection, transport: FuseTransport) -> std::io::Result<Trial> {
        let place = tempfile::Builder::new().prefix("gupfs-kernel-").tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(NAME).arg(place.path());
        if which == FactSelection::All {
            command.arg("--all");
        }
        if transport == FuseTransport::Device {
            command.arg("--device");
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Trial { child, place })
    }

    /// Waits for the end of it.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn findings(mut self) -> Result<Vec<FactFinding>, String> {
        let mut pipe = self.child.stdout.take().ok_or("it has no output")?;
        let (send, receive) = mpsc::channel();
        // Nobody waits for this thread: a child that hangs on its own mount may keep the pipe open.
        let reader = std::thread::Builder::new().name("kernel facts".into());
        let reading = reader.spawn(move || {
            let mut text = String::new();
            let read = pipe.read_to_string(&mut text);
            let _ = send.send(read.map(|_| text));
        });
        reading.map_err(|error| error.to_string())?;
        let text = receive
            .recv_timeout(DEADLINE)
            .map_err(|_| format!("it took longer than {} s", DEADLINE.as_secs()))?
            .map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|_| "it ended without an answer".into())
    }
}

impl Drop for Trial {
    fn drop(&mut self) {
        // Told by this to end its mounts and itself; one that has answered is about to end anyway.
        drop(self.child.stdin.take());
        if !self.ended() {
            let _ = self.child.kill();
            self.ended();
        }
        let left = std::fs::read_dir(self.place.path());
        for entry in left.into_iter().flatten().flatten() {
            if let Err(error) = gupfs_fuse::mountpoint::detach(&entry.path()) {
                tracing::debug!(%error, path = %entry.path().display(), "a mount of a try stays");
            }
        }
    }
}

impl Trial {
    /// Whether the child has ended, after a while.
    fn ended(&mut self) -> bool {
        for _ in 0..GRACE_STEPS {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(GRACE / GRACE_STEPS);
        }
        false
    }
}

/// A rule's name, for people.
pub fn name_of(rule: CoherenceRule) -> &'static str {
    match rule {
        CoherenceRule::Features => "features",
        CoherenceRule::Lifetimes => "lifetimes",
        CoherenceRule::Invalidations => "invalidations",
        CoherenceRule::Names => "names",
        CoherenceRule::Notifications => "notifications",
        CoherenceRule::CachedAndDirect => "cached and direct I/O",
        CoherenceRule::Appends => "appends",
        CoherenceRule::Locks => "locks",
    }
}

/// How to mount, by what was found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Judgement {
    /// Files may be read through the kernel's page cache.
    pub page_cache: bool,
}

/// # Errors
/// When the kernel does otherwise where every mount counts on it; the rule is named.
pub fn judge(findings: &[FactFinding]) -> CliResult<Judgement> {
    let mut judgement = Judgement { page_cache: true };
    for finding in findings {
        match (&finding.verdict, finding.weight) {
            (FactVerdict::Differs(how), FactWeight::Required) => {
                let release = rustix::system::uname();
                return Err(CliError::new(format!(
                    "this kernel (Linux {}) breaks the rule '{}' that every mount counts on: not so: {} ({how})",
                    release.release().to_string_lossy(),
                    name_of(finding.rule),
                    finding.fact,
                ))
                .todo("start another kernel: files would be served that are not so")
                .todo("`gupfs doctor` lists every rule and how this kernel keeps it")
                .exit(Exit::Failed));
            }
            (FactVerdict::Differs(how), FactWeight::ForPageCache) => {
                tracing::warn!(
                    fact = finding.fact,
                    how,
                    "not so in this kernel: files are read past its page cache, more slowly"
                );
                judgement.page_cache = false;
            }
            (FactVerdict::Untried(why), FactWeight::Required | FactWeight::ForPageCache) => {
                tracing::warn!(
                    fact = finding.fact,
                    why,
                    "what every mount counts on could not be tried in this kernel, and is believed"
                );
            }
            _ => {}
        }
    }
    Ok(judgement)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_contract::try_all;
    use gupfs_sim::kernel::{Model, Quirk};

    fn judged(quirk: Option<Quirk>) -> Result<bool, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let findings = runtime.block_on(try_all(&Model { quirk }, |fact| {
            matches!(fact.weight, FactWeight::Required | FactWeight::ForPageCache)
        }));
        let judged = judge(&findings).map(|judgement| judgement.page_cache);
        judged.map_err(|error| error.to_string())
    }

    #[test]
    fn a_rule_that_could_not_be_tried_refuses_nothing() {
        let finding = |verdict| FactFinding {
            rule: CoherenceRule::Names,
            weight: FactWeight::Required,
            fact: "names are names".into(),
            verdict,
        };
        let untried = finding(FactVerdict::Untried("no /dev/fuse".into()));
        assert!(judge(&[untried]).is_ok());
        assert!(judge(&[finding(FactVerdict::Differs("no".into()))]).is_err());
    }

    #[test]
    fn a_kernel_that_breaks_what_is_counted_on_is_refused_by_the_rules_name() {
        assert_eq!(judged(None), Ok(true));
        for quirk in [Quirk::PagesSurviveAttributes, Quirk::AttributesNeverAgain] {
            let refusal = judged(Some(quirk)).unwrap_err();
            assert!(refusal.contains("'features'"), "{quirk:?}: {refusal}");
        }
        // We guard against it: a kernel that does otherwise is as good.
        assert_eq!(judged(Some(Quirk::LinkHasVersion)), Ok(true));
    }

    #[test]
    fn where_pages_outlive_a_write_the_page_cache_is_not_used() {
        for quirk in [Quirk::PagesSurviveWrites, Quirk::PagesDropBefore] {
            assert_eq!(judged(Some(quirk)), Ok(false));
        }
    }
}
