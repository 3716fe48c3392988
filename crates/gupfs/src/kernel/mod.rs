//! # kernel: does the running kernel do what gupfs counts on?
//!
//! Owns   trying the contract's facts in a process of its own, and what follows from what it finds.
//! Never  lets a try that hangs hold up more than its deadline; refuses a kernel for what could not be tried.
//! Enter  at `Trial::begin`, then `Trial::findings`; `refuse` says whether to mount.

mod child;

pub use child::{Facts, NAME};

use crate::exit::{Exit, Outcome, Trouble};
use gupfs_contract::{Finding, Rule, Verdict, Weight};
use gupfs_door::Transport;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

/// All facts take less than a second; a machine under load has time.
const DEADLINE: Duration = Duration::from_secs(60);

/// Which facts to try.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Which {
    /// Those without which nothing is mounted.
    CountedOn,
    All,
}

/// Facts that are being tried by a second process of this program: mounts of its own, which may hang on a strange kernel,
/// are none of ours.
pub struct Trial {
    child: Child,
}

impl Trial {
    pub fn begin(which: Which, transport: Transport) -> std::io::Result<Trial> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(NAME);
        if which == Which::All {
            command.arg("--all");
        }
        if transport == Transport::Device {
            command.arg("--device");
        }
        let child = command
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(Trial { child })
    }

    /// Waits for the end of it.
    ///
    /// # Errors
    /// Why nothing can be said.
    pub fn findings(mut self) -> Result<Vec<Finding>, String> {
        let mut pipe = self.child.stdout.take().ok_or("it has no output")?;
        let (send, receive) = mpsc::channel();
        let text = std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut text = String::new();
                let read = pipe.read_to_string(&mut text);
                // Nobody listens any more if it took too long.
                let _ = send.send(read.map(|_| text));
            });
            let text = receive.recv_timeout(DEADLINE);
            if text.is_err() {
                // Its end is the end of the pipe, and of who reads it.
                let _ = self.child.kill();
            }
            text
        });
        let ended = self.child.wait().map_err(|error| error.to_string())?;
        let text = text
            .map_err(|_| format!("it took longer than {} s", DEADLINE.as_secs()))?
            .map_err(|error| error.to_string())?;
        match ended.success() {
            true => serde_json::from_str(&text).map_err(|error| error.to_string()),
            false => Err(format!("it ended with {ended}")),
        }
    }
}

/// A rule's name, for people.
pub fn name_of(rule: Rule) -> &'static str {
    match rule {
        Rule::Features => "features",
        Rule::Lifetimes => "lifetimes",
        Rule::Invalidations => "invalidations",
        Rule::Names => "names",
        Rule::Notifications => "notifications",
        Rule::TwoDoors => "two doors",
        Rule::Appends => "appends",
        Rule::Locks => "locks",
    }
}

/// # Errors
/// When the kernel does otherwise where every mount counts on it; the rule is named.
pub fn refuse(findings: &[Finding]) -> Outcome<()> {
    for finding in findings {
        match (&finding.verdict, finding.weight) {
            (Verdict::Differs(how), Weight::CountedOn) => {
                let release = rustix::system::uname();
                return Err(Trouble::new(format!(
                    "this kernel (Linux {}) breaks the rule '{}' that every mount counts on: not so: {} ({how})",
                    release.release().to_string_lossy(),
                    name_of(finding.rule),
                    finding.fact,
                ))
                .todo("start another kernel: files would be served that are not so")
                .todo("`gupfs doctor` lists every rule and how this kernel keeps it")
                .exit(Exit::Failed));
            }
            (Verdict::Untried(why), _) => {
                tracing::debug!(fact = finding.fact, why, "the kernel was not tried");
            }
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_contract::try_all;
    use gupfs_sim::kernel::{Model, Quirk};

    fn refusal(quirk: Option<Quirk>) -> Option<String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let findings = runtime.block_on(try_all(&Model { quirk }, |fact| {
            fact.weight == Weight::CountedOn
        }));
        refuse(&findings).err().map(|trouble| trouble.to_string())
    }

    #[test]
    fn a_kernel_that_breaks_what_is_counted_on_is_refused_by_the_rules_name() {
        assert_eq!(refusal(None), None);
        let broken = [
            (Quirk::AttributesNeverAgain, "'features'"),
            (Quirk::InvalidationIgnored, "'invalidations'"),
            (Quirk::NamesSurvive, "'names'"),
            (Quirk::FlockUnlocks, "'locks'"),
        ];
        for (quirk, name) in broken {
            let refusal = refusal(Some(quirk)).unwrap();
            assert!(refusal.contains(name), "{quirk:?}: {refusal}");
        }
        // We guard against it: a kernel that does otherwise is as good.
        assert_eq!(refusal(Some(Quirk::LinkHasVersion)), None);
    }
}
