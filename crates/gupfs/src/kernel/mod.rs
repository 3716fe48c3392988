//! # kernel: probes of the running kernel, and how to mount on it
//!
//! Owns   probing the kernel's behaviours (crate `contract`) in a separate process, and the decision that follows from the findings.
//! Never  waits for a hanging probe past its deadline; refuses a kernel because of a behaviour that could not be probed.
//! Enter  at `KernelProbe::begin`, then `KernelProbe::findings`; `decide` says whether to mount, and how.

mod process;

pub use process::{KernelProbesProcess, NAME};

use crate::exit::{CliError, CliResult, Exit};
use gupfs_contract::{
    CoherenceRule, KernelCache, ProbeOutcome, ProbeReport, RequirementLevel, cache_support,
};
use gupfs_fuse::FuseTransport;
use std::io::Read;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;
use tempfile::TempDir;

/// All probes take some 3 seconds; a host under load may take longer.
const DEADLINE: Duration = Duration::from_secs(60);

/// How long the child process may take to exit after its result.
const GRACE: Duration = Duration::from_secs(1);
const GRACE_STEPS: u32 = 100;

/// Which behaviours to probe.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum ProbeSelection {
    /// The behaviours that decide whether and how to mount.
    Deciding,
    /// Also those that decide what the kernel may cache where mounts share files.
    DecidingForSharing,
    All,
}

/// A running probe: a second process of this program probes behaviours on its own mounts, so that a mount which hangs does not affect this
/// process. A drop ends it and removes its mounts.
pub struct KernelProbe {
    child: Child,
    /// Its mounts are in this directory.
    dir: TempDir,
}

impl KernelProbe {
    /// # Errors
    /// If the process cannot be started.
    pub fn begin(which: ProbeSelection, transport: FuseTransport) -> std::io::Result<KernelProbe> {
        let dir = tempfile::Builder::new().prefix("gupfs-kernel-").tempdir()?;
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(NAME).arg(dir.path());
        match which {
            ProbeSelection::Deciding => {}
            ProbeSelection::DecidingForSharing => drop(command.arg("--sharing")),
            ProbeSelection::All => drop(command.arg("--all")),
        }
        if transport == FuseTransport::Device {
            command.arg("--device");
        }
        let child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()?;
        Ok(KernelProbe { child, dir })
    }

    /// Waits for the findings.
    ///
    /// # Errors
    /// Why there are none.
    pub fn findings(mut self) -> Result<Vec<ProbeReport>, String> {
        let mut pipe = self
            .child
            .stdout
            .take()
            .ok_or("the process has no standard output")?;
        let (send, receive) = mpsc::channel();
        // Not joined: a child that hangs on its own mount may keep the pipe open.
        let reader = std::thread::Builder::new().name("kernel facts".into());
        let reading = reader.spawn(move || {
            let mut text = String::new();
            let read = pipe.read_to_string(&mut text);
            let _ = send.send(read.map(|_| text));
        });
        reading.map_err(|error| error.to_string())?;
        let text = receive
            .recv_timeout(DEADLINE)
            .map_err(|_| format!("the probes took longer than {} s", DEADLINE.as_secs()))?
            .map_err(|error| error.to_string())?;
        serde_json::from_str(&text).map_err(|_| "the process ended without findings".into())
    }
}

impl Drop for KernelProbe {
    fn drop(&mut self) {
        // The end of its standard input tells the process to remove its mounts and exit.
        drop(self.child.stdin.take());
        if !self.wait_for_end() {
            let _ = self.child.kill();
            self.wait_for_end();
        }
        let mounts = std::fs::read_dir(self.dir.path());
        for entry in mounts.into_iter().flatten().flatten() {
            if let Err(error) = gupfs_fuse::mountpoint::detach(&entry.path()) {
                tracing::debug!(%error, path = %entry.path().display(), "cannot remove a mount of a kernel probe");
            }
        }
    }
}

impl KernelProbe {
    /// Waits up to `GRACE` for the end of the process; returns whether it has ended.
    fn wait_for_end(&mut self) -> bool {
        for _ in 0..GRACE_STEPS {
            if matches!(self.child.try_wait(), Ok(Some(_))) {
                return true;
            }
            std::thread::sleep(GRACE / GRACE_STEPS);
        }
        false
    }
}

/// The name of a rule, for messages.
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

/// How to mount on this kernel.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct KernelVerdict {
    /// Whether files may use the kernel's page cache.
    pub page_cache: bool,
    /// Whether the kernel may cache attributes where mounts share files. False if not all behaviours that this requires were probed.
    pub shared_attributes: bool,
}

/// Decides how to mount.
///
/// # Errors
/// If the kernel lacks a behaviour that every mount requires; names the rule.
pub fn decide(findings: &[ProbeReport]) -> CliResult<KernelVerdict> {
    let shared_attributes = (cache_support(findings).iter())
        .any(|support| support.cache == KernelCache::Attributes && support.is_usable());
    let mut verdict = KernelVerdict {
        page_cache: true,
        shared_attributes,
    };
    for finding in findings {
        match (&finding.outcome, finding.requirement) {
            (ProbeOutcome::Differs(how), RequirementLevel::Required) => {
                let release = rustix::system::uname();
                return Err(CliError::new(format!(
                    "this kernel (Linux {}) violates the rule '{}' that every mount requires: {}: {how}",
                    release.release().to_string_lossy(),
                    name_of(finding.rule),
                    finding.behaviour,
                ))
                .todo("use another kernel: on this one programs could read wrong data")
                .todo("`gupfs doctor` lists every rule and whether this kernel obeys it")
                .exit(Exit::Failed));
            }
            (ProbeOutcome::Differs(how), RequirementLevel::ForPageCache) => {
                tracing::warn!(
                    behaviour = finding.behaviour,
                    how,
                    "this kernel lacks a behaviour that the page cache requires: files use direct I/O, which is slower"
                );
                verdict.page_cache = false;
            }
            (
                ProbeOutcome::Untested(why),
                RequirementLevel::Required | RequirementLevel::ForPageCache,
            ) => {
                tracing::warn!(
                    behaviour = finding.behaviour,
                    why,
                    "a behaviour that every mount requires could not be probed on this kernel; assuming that the kernel has it"
                );
            }
            _ => {}
        }
    }
    Ok(verdict)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gupfs_contract::probe_all;
    use gupfs_sim::kernel::{Model, Quirk};

    fn decided(quirk: Option<Quirk>) -> Result<bool, String> {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .build()
            .unwrap();
        let findings = runtime.block_on(probe_all(&Model { quirk }, |fact| {
            matches!(
                fact.requirement,
                RequirementLevel::Required | RequirementLevel::ForPageCache
            )
        }));
        let decided = decide(&findings).map(|verdict| verdict.page_cache);
        decided.map_err(|error| error.to_string())
    }

    #[test]
    fn a_behaviour_that_could_not_be_probed_refuses_no_kernel() {
        let finding = |outcome| ProbeReport {
            rule: CoherenceRule::Names,
            requirement: RequirementLevel::Required,
            caches: Vec::new(),
            behaviour: "names are names".into(),
            outcome,
        };
        let untried = finding(ProbeOutcome::Untested("no /dev/fuse".into()));
        assert!(decide(&[untried]).is_ok());
        assert!(decide(&[finding(ProbeOutcome::Differs("no".into()))]).is_err());
    }

    #[test]
    fn a_kernel_without_a_required_behaviour_is_refused_with_the_rules_name() {
        assert_eq!(decided(None), Ok(true));
        for quirk in [Quirk::PagesSurviveAttributes, Quirk::AttributesNeverExpire] {
            let refusal = decided(Some(quirk)).unwrap_err();
            assert!(refusal.contains("'features'"), "{quirk:?}: {refusal}");
        }
        // gupfs works with both behaviours.
        assert_eq!(decided(Some(Quirk::LinkHasVersion)), Ok(true));
    }

    #[test]
    fn a_kernel_that_lacks_a_behaviour_loses_the_caches_that_depend_on_it_and_mounts() {
        use KernelCache::{Attributes, Mappings, Names, Pages, Splice};
        let lost: [(Quirk, &[KernelCache]); 6] = [
            (Quirk::NoIncEpoch, &[Names]),
            (Quirk::NamesNeverExpire, &[Names]),
            (Quirk::RepliesHaveNoVersion, &[Attributes]),
            (Quirk::AclsSurviveInvalidation, &[Attributes]),
            (Quirk::PagesSurviveInvalidation, &[Pages, Mappings, Splice]),
            (Quirk::MappingsSurviveInvalidation, &[Mappings]),
        ];
        let probed = |quirk| {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .start_paused(true)
                .build()
                .unwrap();
            runtime.block_on(probe_all(&Model { quirk }, |_| true))
        };
        assert!(decide(&probed(None)).unwrap().shared_attributes);
        assert!(
            !decide(&[]).unwrap().shared_attributes,
            "nothing was probed"
        );
        for (quirk, caches) in lost {
            let findings = probed(Some(quirk));
            let verdict = decide(&findings).unwrap();
            assert!(
                !verdict.shared_attributes || !caches.contains(&Attributes),
                "{quirk:?}"
            );
            let lacking: Vec<KernelCache> = cache_support(&findings)
                .into_iter()
                .filter(|support| !support.lacks.is_empty())
                .map(|support| support.cache)
                .collect();
            assert_eq!(lacking, caches, "{quirk:?}");
        }
    }

    #[test]
    fn a_kernel_whose_pages_survive_writes_gets_no_page_cache() {
        for quirk in [Quirk::PagesSurviveWrites, Quirk::PagesDropBefore] {
            assert_eq!(decided(Some(quirk)), Ok(false));
        }
    }
}
