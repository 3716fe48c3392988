//! The host and directory of a mount, and the way to start workers there.

use std::path::PathBuf;

use gupfs_kit::place::{self, Via};

/// A mount and the way to it.
#[derive(Clone, Debug, PartialEq)]
pub struct MountAddress {
    /// As the user wrote it.
    pub name: String,
    pub access: Access,
    pub directory: PathBuf,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Access {
    /// On this host.
    Here,
    /// A command that starts a worker there and connects its pipes with ours.
    Shell(String),
    /// An agent that listens there.
    Agent { address: String, token: String },
}

impl MountAddress {
    /// `DIR`, `HOST:/DIR` (through a command) or `tcp://HOST:PORT/DIR` (an agent).
    pub fn parse(text: &str, through: &str, token: Option<&str>) -> Result<MountAddress, String> {
        let (via, directory) = place::split(text)
            .ok_or_else(|| format!("'{text}' names no directory: tcp://HOST:PORT/DIR"))?;
        let access = match via {
            Via::Here => Access::Here,
            Via::Command(host) if !place::is_host_name(host) => {
                return Err(format!("'{host}' is no host"));
            }
            Via::Command(host) => Access::Shell(through.replace("{host}", host)),
            Via::Agent(address) => Access::Agent {
                address: address.into(),
                token: token
                    .ok_or_else(|| {
                        format!("the agent of '{text}' asks for a token: give --token-file")
                    })?
                    .into(),
            },
        };
        Ok(MountAddress {
            name: text.into(),
            access,
            directory: directory.into(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mount_is_here_or_behind_a_command_or_an_agent() {
        let parse = |text| MountAddress::parse(text, "ssh {host} gupfs verify --worker", Some("t"));
        assert_eq!(parse("/mnt/a").unwrap().access, Access::Here);
        assert_eq!(
            parse("me@node1:/mnt/a").unwrap().access,
            Access::Shell("ssh me@node1 gupfs verify --worker".into())
        );
        let agent = parse("tcp://node1:7000/mnt/a").unwrap();
        assert_eq!(agent.directory, PathBuf::from("/mnt/a"));
        assert!(parse("tcp://node1:7000").is_err());
        assert!(parse("a;reboot:/mnt").is_err());
    }
}
