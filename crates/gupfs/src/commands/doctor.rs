//! `gupfs doctor`: reports what this machine lacks, and how to get it.

mod caches;
#[cfg(feature = "etcd")]
mod etcd;
#[cfg(feature = "etcd")]
mod etcd_findings;

use crate::amount::show_size;
use crate::cluster::EtcdSettings;
use crate::config::Config;
use crate::exit::{CliError, CliResult, Exit};
use crate::kernel::{self, KernelProbe, ProbeSelection};
use crate::store_dir::OSTS_DEFAULT;
use crate::stores::DescriptorBudget;
use clap::Args;
use gupfs_contract::{ProbeOutcome, ProbeReport, RequirementLevel};
use gupfs_fuse::over_io_uring::{self, UringSupport};
use gupfs_fuse::pages_limit;
use serde::Serialize;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Oldest kernel whose FUSE the mount can talk to (protocol 7.36).
const KERNEL_MIN: (u32, u32) = (5, 17);

/// Below this, a file that is open for writing cannot be mapped shared.
const KERNEL_COMPLETE: (u32, u32) = (6, 6);

/// Below this the caches are too small to be useful: those of one process are bounded at about 400 MiB.
const MEMORY_MIN: u64 = 1 << 30;

/// File descriptors that a process should be allowed: each open object uses one.
const FILES_MIN: u64 = 4_096;

/// Check this machine and its kernel, or etcd: print what is missing and how to get it
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs doctor
  gupfs doctor /srv/gupfs
  gupfs doctor --etcd http://node1:2379,http://node2:2379,http://node3:2379
  gupfs doctor --config /etc/gupfs/mds.toml

With --etcd or --config it asks each member of etcd for its state, and measures for a second or so how fast etcd takes changes, with keys of its own \
that are removed afterwards; this machine is not checked.

Exit codes: 0 nothing is missing · 1 something is missing · 2 wrong arguments")]
pub struct Doctor {
    /// Also check the file system on which the store is or will be
    #[arg(conflicts_with_all = ["etcd", "config"])]
    dir: Option<PathBuf>,
    /// Check these members of etcd, which decides what metadata server owns the metadata
    #[arg(long, value_name = "URL,URL…", value_delimiter = ',')]
    etcd: Vec<String>,
    /// Configuration file of `gupfs mds`: its members of etcd if --etcd names none, its certificates, user and prefix
    #[arg(long, value_name = "FILE")]
    config: Option<PathBuf>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

#[derive(Serialize)]
struct Finding {
    about: &'static str,
    good: bool,
    /// Without it gupfs does not start, or not for every user.
    needed: bool,
    found: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    todo: Option<String>,
}

impl Doctor {
    pub fn run(self) -> CliResult<Exit> {
        match self.etcd()? {
            Some(settings) => check_etcd(settings, self.json),
            None => Ok(self.check_machine()),
        }
    }

    /// The etcd that is to be checked, and not this machine.
    fn etcd(&self) -> CliResult<Option<EtcdSettings>> {
        if self.etcd.is_empty() && self.config.is_none() {
            return Ok(None);
        }
        let mut config = Config::read_or_default(self.config.as_deref())?;
        if !self.etcd.is_empty() {
            config.mds.etcd = Some(self.etcd.clone());
        }
        let settings = EtcdSettings::of(&config.mds)?.ok_or_else(|| {
            CliError::new("the configuration names no member of etcd")
                .todo("name them with --etcd URL,URL,…, or as mds.etcd in the configuration")
                .exit(Exit::Unusable)
        });
        settings.map(Some)
    }

    fn check_machine(self) -> Exit {
        let mut findings = vec![
            release(),
            device(),
            right_to_mount(),
            memory(),
            files(),
            rings(),
            requests(),
        ];
        findings.extend(self.dir.as_deref().map(space));
        let facts = test_facts();
        match &facts {
            Ok(facts) => {
                findings.extend(rules(facts));
                findings.extend(caches::findings(facts));
            }
            Err(why) => findings.push(no_facts(why)),
        }
        print(&findings, self.json, "facts", || {
            serde_json::to_value(facts.unwrap_or_default()).expect("facts are plain data")
        })
    }
}

#[cfg(feature = "etcd")]
fn check_etcd(settings: EtcdSettings, json: bool) -> CliResult<Exit> {
    etcd::run(settings, json)
}

#[cfg(not(feature = "etcd"))]
fn check_etcd(_: EtcdSettings, _: bool) -> CliResult<Exit> {
    Err(crate::cluster::built_without_etcd())
}

/// Prints findings as lines, or as one JSON object with more under this name.
fn print(
    findings: &[Finding],
    json: bool,
    name: &str,
    more: impl FnOnce() -> serde_json::Value,
) -> Exit {
    let healthy = findings
        .iter()
        .all(|finding| finding.good || !finding.needed);
    if json {
        println!(
            "{}",
            serde_json::json!({ "healthy": healthy, "findings": findings, name: more() })
        );
    } else {
        for finding in findings {
            let mark = match (finding.good, finding.needed) {
                (true, _) => "ok     ",
                (false, true) => "MISSING",
                (false, false) => "note   ",
            };
            println!("{mark}  {:<12} {}", finding.about, finding.found);
            if let Some(todo) = &finding.todo {
                println!("{:23}→ {todo}", "");
            }
        }
    }
    if healthy { Exit::Fine } else { Exit::Failed }
}

fn finding(about: &'static str, good: bool, found: String, todo: impl Into<String>) -> Finding {
    Finding {
        about,
        good,
        needed: true,
        found,
        todo: (!good).then(|| todo.into()),
    }
}

fn release() -> Finding {
    let release = rustix::system::uname()
        .release()
        .to_string_lossy()
        .into_owned();
    let mut numbers = release
        .split(|c: char| !c.is_ascii_digit())
        .filter_map(|part| part.parse().ok());
    let version = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    let mut kernel = finding(
        "kernel",
        version >= KERNEL_COMPLETE,
        format!(
            "Linux {release}; needed {}.{}, complete from {}.{}",
            KERNEL_MIN.0, KERNEL_MIN.1, KERNEL_COMPLETE.0, KERNEL_COMPLETE.1
        ),
        "before 6.6 files that are open for writing cannot be mapped shared (Debian 12: linux-image-amd64 from bookworm-backports)",
    );
    kernel.needed = version < KERNEL_MIN;
    kernel
}

fn device() -> Finding {
    let path = Path::new("/dev/fuse");
    let opened = std::fs::OpenOptions::new()
        .read(true)
        .write(true)
        .open(path);
    match opened {
        Ok(_) => finding("/dev/fuse", true, "can be opened".into(), ""),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => finding(
            "/dev/fuse",
            false,
            "does not exist".into(),
            "modprobe fuse; in a container: start it with --device /dev/fuse --cap-add SYS_ADMIN",
        ),
        Err(error) => finding(
            "/dev/fuse",
            false,
            format!("cannot be opened: {error}"),
            "run as root, or chmod 666 /dev/fuse",
        ),
    }
}

fn right_to_mount() -> Finding {
    if rustix::process::geteuid().is_root() {
        return finding("mounting", true, "root can mount".into(), "");
    }
    let helper = std::env::var_os("PATH")
        .into_iter()
        .flat_map(|path| std::env::split_paths(&path).collect::<Vec<_>>())
        .map(|dir| dir.join("fusermount3"))
        .find(|path| path.exists());
    match helper {
        Some(path) => finding("mounting", true, format!("through {}", path.display()), ""),
        None => finding(
            "mounting",
            false,
            "neither root nor fusermount3".into(),
            "apt-get install fuse3, or run as root",
        ),
    }
}

fn memory() -> Finding {
    let available = std::fs::read_to_string("/proc/meminfo")
        .ok()
        .and_then(|text| {
            let line = text
                .lines()
                .find(|line| line.starts_with("MemAvailable:"))?;
            line.split_whitespace().nth(1)?.parse::<u64>().ok()
        })
        .map_or(0, |kib| kib << 10);
    let mut memory = finding(
        "memory",
        available >= MEMORY_MIN,
        format!(
            "{} available; {} or more is recommended",
            show_size(available),
            show_size(MEMORY_MIN)
        ),
        "gupfs runs, but its caches get little memory: more reads go to the disk",
    );
    memory.needed = false;
    memory
}

fn rings() -> Finding {
    let (good, found, todo) = match over_io_uring::support() {
        UringSupport::Ready => (true, "the kernel sends requests over it".into(), String::new()),
        UringSupport::Disabled => (
            false,
            "FUSE over io_uring is switched off: the kernel sends requests through /dev/fuse".into(),
            format!(
                "echo Y > {}, or `gupfs up --transport io-uring`: small requests are answered about twice as fast",
                over_io_uring::PARAMETER
            ),
        ),
        UringSupport::NotInKernel => (
            false,
            "this kernel has no FUSE over io_uring: it sends requests through /dev/fuse".into(),
            "Linux 6.14 or newer, built with CONFIG_FUSE_IO_URING".into(),
        ),
        UringSupport::LeaksMemory => (
            false,
            "this kernel leaks memory with FUSE over io_uring: gupfs uses /dev/fuse".into(),
            "Linux 6.18.3 or newer".into(),
        ),
        UringSupport::RingsRefused(error) => (
            false,
            format!("this process may not use io_uring ({error}): gupfs uses /dev/fuse"),
            "sysctl kernel.io_uring_disabled=0; in a container: permit io_uring in its seccomp profile"
                .into(),
        ),
    };
    let mut rings = finding("io_uring", good, found, todo);
    rings.needed = false;
    rings
}

fn requests() -> Finding {
    let (limit, wanted) = (pages_limit::get(), pages_limit::wanted());
    let enough = limit >= wanted;
    let raised = !enough && pages_limit::is_writable();
    let found = match (enough, raised) {
        (true, _) => format!("up to {limit} pages: 1 MiB of any buffer is one request"),
        (_, true) => format!("up to {limit} pages; {wanted} after the first mount of gupfs"),
        _ => format!(
            "up to {limit} pages: 1 MiB of a buffer that does not begin on a page boundary is two requests"
        ),
    };
    let todo = match pages_limit::exists() {
        true => format!("as root: sysctl fs.fuse.max_pages_limit={wanted}"),
        false => "Linux 6.13 or newer".into(),
    };
    let mut requests = finding("requests", enough || raised, found, todo);
    requests.needed = false;
    requests
}

/// Probes every behaviour of the kernel now.
fn test_facts() -> Result<Vec<ProbeReport>, String> {
    let probe = KernelProbe::begin(ProbeSelection::All, gupfs_fuse::FuseTransport::Auto);
    probe.map_err(|error| error.to_string())?.findings()
}

fn no_facts(why: &str) -> Finding {
    let what = format!("could not be tested: {why}");
    Finding {
        needed: false,
        ..finding(
            "kernel rules",
            false,
            what,
            "the findings above may show the reason",
        )
    }
}

/// The number of behaviours that the kernel has, by rule, and a line for each that it lacks.
fn rules(facts: &[ProbeReport]) -> Vec<Finding> {
    let holds = |fact: &&ProbeReport| fact.outcome == ProbeOutcome::Holds;
    let by_rule = facts.chunk_by(|one, next| one.rule == next.rule);
    let counts: Vec<String> = by_rule
        .map(|facts| {
            let holding = facts.iter().filter(holds).count();
            format!("{} {holding}", kernel::name_of(facts[0].rule))
        })
        .collect();
    let holding = facts.iter().filter(holds).count();
    let what = format!(
        "{holding} of {} behaviours hold: {}",
        facts.len(),
        counts.join(", ")
    );
    let mut findings = vec![finding("kernel rules", true, what, "")];
    let mut untried: BTreeMap<&str, usize> = BTreeMap::new();
    for fact in facts {
        match &fact.outcome {
            ProbeOutcome::Holds => {}
            ProbeOutcome::Untested(why) => *untried.entry(why).or_default() += 1,
            ProbeOutcome::Differs(how) => findings.push(differs(fact, how)),
        }
    }
    for (why, count) in untried {
        let (what, todo) = (
            format!("not probed: {count} behaviours: {why}"),
            "run as root on a host with /dev/fuse to test more",
        );
        findings.push(Finding {
            needed: false,
            ..finding("kernel rules", false, what, todo)
        });
    }
    findings
}

fn differs(fact: &ProbeReport, how: &str) -> Finding {
    let what = format!("does not hold: {}: {how}", fact.behaviour);
    let todo = match fact.requirement {
        RequirementLevel::Required => "`gupfs up` refuses this kernel: use another one",
        RequirementLevel::ForPageCache => {
            "gupfs works without the page cache, more slowly; Linux 6.18 does not have this problem"
        }
        RequirementLevel::ForSharing if fact.caches.is_empty() => {
            "a file system that several hosts mount needs a newer kernel"
        }
        RequirementLevel::ForSharing => {
            "mounts that share files do without the caches that depend on it; they are listed below"
        }
        RequirementLevel::Tolerated => "nothing to do: gupfs handles both behaviours",
    };
    Finding {
        needed: fact.requirement == RequirementLevel::Required,
        ..finding(kernel::name_of(fact.rule), false, what, todo)
    }
}

fn files() -> Finding {
    let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
    // No limit is None.
    let most = limit.maximum.unwrap_or(u64::MAX);
    let needed = DescriptorBudget::needed(usize::from(OSTS_DEFAULT)) as u64;
    let mut files = finding(
        "open files",
        most >= FILES_MIN,
        match limit.maximum {
            Some(most) if most < needed => format!(
                "at most {most}; a store of {} OSTs needs {needed}",
                OSTS_DEFAULT
            ),
            Some(most) => format!("at most {most}; {FILES_MIN} or more is recommended"),
            None => "no limit".into(),
        },
        "ulimit -n 65536, or LimitNOFILE= in the service's unit",
    );
    files.needed = most < needed;
    files
}

fn space(dir: &Path) -> Finding {
    // The store itself may not exist yet.
    let existing = dir.ancestors().find(|path| path.exists()).unwrap_or(dir);
    let existing = if existing.as_os_str().is_empty() {
        Path::new(".")
    } else {
        existing
    };
    match rustix::fs::statvfs(existing) {
        Ok(space) => {
            let free = space.f_bavail * space.f_frsize;
            finding(
                "space",
                free >= crate::store_dir::SPACE_MIN,
                format!(
                    "{} free under '{}'; a new store needs {}",
                    show_size(free),
                    existing.display(),
                    show_size(crate::store_dir::SPACE_MIN)
                ),
                "free some space there, or choose a larger file system",
            )
        }
        Err(errno) => finding(
            "space",
            false,
            format!(
                "cannot get the free space of '{}': {errno}",
                existing.display()
            ),
            "give a directory that exists",
        ),
    }
}
