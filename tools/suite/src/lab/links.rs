//! Network namespaces and the links between them: every host has one to a switch.

use std::fmt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::str::FromStr;

use serde::Deserialize;

use super::hosts::{Hosts, PREFIX_BITS};
use crate::error::{SuiteError, SuiteResult};

/// Where `ip netns` keeps names of namespaces.
const NAMES: &str = "/run/netns";

/// The rate of a link in each direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub struct Rate {
    bits: u64,
}

impl FromStr for Rate {
    type Err = String;

    fn from_str(text: &str) -> Result<Rate, String> {
        let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let unit = match &text[digits..] {
            "kbit" => 1_000,
            "mbit" => 1_000_000,
            "gbit" => 1_000_000_000,
            _ => 0,
        };
        let bits = text[..digits].parse::<u64>().ok();
        match bits.and_then(|bits| bits.checked_mul(unit)) {
            Some(bits) if (8_000..=1_000_000_000_000).contains(&bits) => Ok(Rate { bits }),
            _ => Err(format!(
                "'{text}' is no rate of a link; write digits, and kbit, mbit or gbit behind them, from 8kbit to 1000gbit"
            )),
        }
    }
}

impl TryFrom<String> for Rate {
    type Error = String;

    fn try_from(text: String) -> Result<Rate, String> {
        text.parse()
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self.bits {
            bits if bits.is_multiple_of(1_000_000_000) => write!(f, "{}gbit", bits / 1_000_000_000),
            bits if bits.is_multiple_of(1_000_000) => write!(f, "{}mbit", bits / 1_000_000),
            bits => write!(f, "{}kbit", bits / 1_000),
        }
    }
}

impl Rate {
    /// Bytes that may leave at once: enough for the largest packet and for what passes between two looks of the kernel's
    /// at its clock.
    fn burst(self) -> u64 {
        (self.bits / 8 / 200).max(256 << 10)
    }
}

/// The name of a host's namespace.
pub fn namespace(lab: &str, host: &str) -> String {
    format!("{lab}-{host}")
}

/// The device and inode numbers that distinguish the namespace of a file from all others.
pub fn identity(file: &Path) -> Option<(u64, u64)> {
    let found = std::fs::metadata(file).ok()?;
    Some((found.dev(), found.ino()))
}

/// The file that stands for a namespace.
pub fn file(namespace: &str) -> PathBuf {
    Path::new(NAMES).join(namespace)
}

/// Makes the namespaces and links of a lab. After a failure [`remove`] finds those that were made.
pub fn make(lab: &str, hosts: &Hosts, link: Option<Rate>) -> SuiteResult<()> {
    let hub = namespace(lab, "hub");
    run("ip", &["netns", "add", &hub])?;
    in_namespace(&hub, "link add switch type bridge")?;
    in_namespace(&hub, "link set switch up")?;
    for (number, host) in hosts.all().iter().enumerate() {
        let name = namespace(lab, &host.name);
        let port = format!("port{number}");
        run("ip", &["netns", "add", &name])?;
        in_namespace(&name, "link set lo up")?;
        in_namespace(
            &hub,
            &format!("link add {port} type veth peer name eth0 netns {name}"),
        )?;
        in_namespace(&hub, &format!("link set {port} master switch up"))?;
        in_namespace(
            &name,
            &format!("address add {}/{PREFIX_BITS} dev eth0", host.address),
        )?;
        in_namespace(&name, "link set eth0 up")?;
        if let Some(rate) = link {
            limit(&hub, &port, rate)?;
            limit(&name, "eth0", rate)?;
        }
    }
    Ok(())
}

fn in_namespace(namespace: &str, words: &str) -> SuiteResult<()> {
    let words: Vec<&str> = ["-n", namespace]
        .into_iter()
        .chain(words.split(' '))
        .collect();
    run("ip", &words)
}

/// Limits the rate at which packets leave through the device.
fn limit(namespace: &str, device: &str, rate: Rate) -> SuiteResult<()> {
    let words = format!(
        "-n {namespace} qdisc add dev {device} root tbf rate {rate} burst {} latency 100ms",
        rate.burst()
    );
    run("tc", &words.split(' ').collect::<Vec<_>>())
}

fn run(tool: &str, words: &[&str]) -> SuiteResult<()> {
    let done = Command::new(tool)
        .args(words)
        .env("PATH", path_with_system_tools())
        .output()
        .map_err(|error| {
            SuiteError::failed(format!(
                "{tool} (Debian: iproute2) cannot be started: {error}"
            ))
        })?;
    match done.status.success() {
        true => Ok(()),
        false => Err(SuiteError::failed(format!(
            "`{tool} {}` failed: {}",
            words.join(" "),
            String::from_utf8_lossy(&done.stderr).trim()
        ))),
    }
}

/// Those lie where root's PATH not always leads.
pub fn path_with_system_tools() -> String {
    let path = std::env::var("PATH").unwrap_or_else(|_| "/usr/bin:/bin".into());
    format!("{path}:/usr/sbin:/sbin")
}

/// The namespaces that a lab has.
pub fn namespaces(lab: &str) -> Vec<String> {
    let entries = std::fs::read_dir(NAMES).into_iter().flatten().flatten();
    let names = entries.filter_map(|entry| entry.file_name().into_string().ok());
    let begin = namespace(lab, "");
    names.filter(|name| name.starts_with(&begin)).collect()
}

/// Removes a namespace with its links; what is known by no name ends with the last process in it.
pub fn remove(namespace: &str) -> SuiteResult<()> {
    run("ip", &["netns", "delete", namespace])
}

#[test]
fn a_rate_reads_as_it_shows() {
    for text in ["400mbit", "10gbit", "56kbit", "1500kbit"] {
        assert_eq!(text.parse::<Rate>().unwrap().to_string(), text);
    }
    for wrong in ["", "400", "mbit", "4mb", "1kbit", "2000gbit", "-4mbit"] {
        assert!(wrong.parse::<Rate>().is_err(), "{wrong}");
    }
}
