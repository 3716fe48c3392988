//! Hosts and paths on them, as a user writes them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use gupfs_kit::place::{self, Via};

/// How a worker on a host is reached.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Access {
    Here,
    /// By the command of `--through`, with this name in it.
    Through(String),
    /// By an agent that listens at `HOST:PORT`.
    Agent(String),
}

/// A host of the network's measurement.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Host {
    pub access: Access,
    /// Where the others connect to it, if that is not its name.
    address: Option<String>,
}

/// A path on some host.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostPath {
    pub access: Access,
    pub path: PathBuf,
}

impl Host {
    /// Where others connect to it; nothing is known of this host unless it was said.
    pub fn address(&self) -> Option<&str> {
        let named = match &self.access {
            Access::Here => None,
            Access::Through(name) => Some(name.rsplit('@').next().unwrap_or(name)),
            Access::Agent(address) => address.rsplit_once(':').map(|(host, _)| host),
        };
        self.address.as_deref().or(named)
    }
}

fn access(text: &str) -> Result<Access, String> {
    if let Some(address) = text.strip_prefix("tcp://") {
        let port = address
            .rsplit_once(':')
            .map(|(_, port)| port.parse::<u16>());
        return match port {
            Some(Ok(_)) => Ok(Access::Agent(address.into())),
            _ => Err(format!("'{text}' names no port: tcp://HOST:PORT")),
        };
    }
    match text {
        "here" => Ok(Access::Here),
        name if place::is_host_name(name) => Ok(Access::Through(name.into())),
        other => Err(format!("'{other}' is no name of a host")),
    }
}

impl FromStr for Host {
    type Err = String;

    /// `here`, `NAME` or `tcp://HOST:PORT`, each with `=ADDRESS` behind it or not.
    fn from_str(text: &str) -> Result<Host, String> {
        let (name, address) = match text.split_once('=') {
            Some((_, "")) => return Err("write HOST=ADDRESS".into()),
            Some((name, address)) => (name, Some(address.to_owned())),
            None => (text, None),
        };
        let access = access(name)?;
        Ok(Host { access, address })
    }
}

impl FromStr for HostPath {
    type Err = String;

    /// `PATH` (here), `NAME:/PATH` or `tcp://HOST:PORT/PATH`.
    fn from_str(text: &str) -> Result<HostPath, String> {
        let (via, path) = place::split(text)
            .ok_or_else(|| format!("'{text}' has no path: tcp://HOST:PORT/PATH"))?;
        let access = match via {
            Via::Here if text.is_empty() => return Err("write a path".into()),
            Via::Here => Access::Here,
            Via::Command(host) => access(host)?,
            Via::Agent(address) => access(&format!("tcp://{address}"))?,
        };
        Ok(HostPath {
            access,
            path: path.into(),
        })
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match self {
            Access::Here => f.write_str("here"),
            Access::Through(name) => f.write_str(name),
            Access::Agent(address) => f.write_str(address),
        }
    }
}

impl fmt::Display for HostPath {
    fn fmt(&self, f: &mut fmt::Formatter) -> fmt::Result {
        match &self.access {
            Access::Here => write!(f, "{}", self.path.display()),
            access => write!(f, "{access}:{}", self.path.display()),
        }
    }
}

#[test]
fn a_host_or_place_is_here_or_behind_a_command_or_an_agent() {
    let address = |text: &str| text.parse::<Host>().unwrap().address().map(str::to_owned);
    assert_eq!(address("here"), None);
    assert_eq!(address("here=10.0.0.1").as_deref(), Some("10.0.0.1"));
    assert_eq!(address("me@node1").as_deref(), Some("node1"));
    assert_eq!(address("node1=ib1").as_deref(), Some("ib1"));
    assert_eq!(address("tcp://node2:7000").as_deref(), Some("node2"));
    for wrong in ["", "a;reboot", "-oProxyCommand=x", "tcp://node2", "node1="] {
        assert!(wrong.parse::<Host>().is_err(), "{wrong}");
    }
    let shown = |text: &str| text.parse::<HostPath>().unwrap().to_string();
    assert_eq!(shown("/dev/sdb"), "/dev/sdb");
    assert_eq!(shown("some/dir"), "some/dir");
    assert_eq!(shown("node1:/dev/sdb"), "node1:/dev/sdb");
    assert_eq!(shown("tcp://node2:7000/mnt/x"), "node2:7000:/mnt/x");
    for wrong in ["", "a b:/x", "tcp://node2:7000"] {
        assert!(wrong.parse::<HostPath>().is_err(), "{wrong}");
    }
}
