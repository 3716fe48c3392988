//! `gupfs key`: keys of hosts that only mount.

use crate::cluster::{KeyList, change_list, read_cluster_key, write_client_key};
use crate::control::{ControlRequest, ControlTarget};
use crate::exit::{CliError, CliResult, Exit};
use crate::node::StatusReply;
use crate::store_dir::StoreDir;
use clap::{Args, Subcommand};
use gupfs_platform::Platform;
use gupfs_rpc::{CLIENT_NAME_MAX, ClientKeyId, ClientKeyOptions};
use std::path::{Path, PathBuf};

/// Make, list and revoke keys of hosts that mount
#[derive(Subcommand)]
pub enum Key {
    Client(Client),
    List(List),
    Revoke(Revoke),
}

/// Make a key for a host that mounts
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs key client node7 /srv/gupfs
  gupfs key client backup /srv/gupfs --root --out /root/backup.key

Run it where the metadata store is. Copy the file to that host as /etc/gupfs/client.key (0600): with it the host can mount, and access what its users may access; it cannot act as a server or as another host. The metadata server accepts the key at once.

Exit codes: 0 made · 1 the key could not be made · 2 wrong name, or not a metadata store")]
pub struct Client {
    /// A name for people: letters, digits, '.', '-', '_'
    name: String,
    /// The metadata server's directory; without it, the only one mounted here
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// Root of this host is root of the file system; without it, the servers map it to nobody
    #[arg(long)]
    root: bool,
    /// The file to make [default: NAME.key]
    #[arg(long, value_name = "FILE")]
    out: Option<PathBuf>,
}

/// List the keys of hosts that mount
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs key list /srv/gupfs
  gupfs key list /srv/gupfs --json

Exit codes: 0 listed · 1 the list cannot be read · 2 not a metadata store")]
pub struct List {
    /// The metadata server's directory; without it, the only one mounted here
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
    /// As one JSON object
    #[arg(long)]
    json: bool,
}

/// Revoke the key of a host: its connections and sessions end within a few seconds
#[derive(Args)]
#[command(after_help = "Examples:
  gupfs key revoke node7 /srv/gupfs

Writes that the host has not sent to the servers are lost. The name can be used again: `gupfs key client` makes another key.

Exit codes: 0 revoked · 1 there is no such key, or the list cannot be written · 2 not a metadata store")]
pub struct Revoke {
    /// The key's name
    name: String,
    /// The metadata server's directory; without it, the only one mounted here
    #[arg(value_name = "DIR")]
    dir: Option<PathBuf>,
}

impl Key {
    pub fn run(self) -> CliResult<Exit> {
        match self {
            Key::Client(client) => client.run(),
            Key::List(list) => list.run(),
            Key::Revoke(revoke) => revoke.run(),
        }
    }
}

impl Client {
    fn run(self) -> CliResult<Exit> {
        if !ClientKeyId::is_valid_name(&self.name) {
            return Err(CliError::new(format!(
                "'{}' cannot be the name of a key: it has 1 to {CLIENT_NAME_MAX} letters, digits, '.', '-', '_'",
                self.name
            ))
            .exit(Exit::Unusable));
        }
        let store_dir = store_dir_to_change(self.dir.as_deref())?;
        let Some(cluster) = read_cluster_key(Some(&store_dir.key()))? else {
            return Err(CliError::new("this store has no cluster key"));
        };
        let platform = Platform::real();
        let key_id = ClientKeyId {
            name: self.name.clone(),
            number: platform.random.u64(),
        };
        let out = self
            .out
            .unwrap_or_else(|| format!("{}.key", self.name).into());
        let options = ClientKeyOptions { root: self.root };
        change_list(&store_dir, |list| {
            if list.active(&key_id.name).is_some() {
                return Err(
                    CliError::new(format!("a key '{}' exists already", key_id.name)).todo(
                        "give another name, or first revoke that key with `gupfs key revoke`",
                    ),
                );
            }
            write_client_key(&out, &cluster, &key_id).map_err(|error| {
                CliError::new(format!("cannot create the key file '{}'", out.display()))
                    .because(&error)
            })?;
            list.add(&key_id, options, platform.clock.now());
            Ok(())
        })
        // The server would refuse a key that is not in the list: remove its file.
        .inspect_err(|_| {
            if was_created_by_this_run(&out, &key_id) {
                let _ = std::fs::remove_file(&out);
            }
        })?;
        println!(
            "'{}' is the key of '{}'. Copy it to that host as /etc/gupfs/client.key, mode 0600, and remove it here.",
            out.display(),
            self.name
        );
        Ok(Exit::Fine)
    }
}

/// Whether this run made the file: it contains the random number of the key.
fn was_created_by_this_run(path: &Path, key_id: &ClientKeyId) -> bool {
    let number = format!("{:016x}", key_id.number);
    std::fs::read_to_string(path).is_ok_and(|text| text.contains(&number))
}

impl List {
    fn run(self) -> CliResult<Exit> {
        let store_dir = store_dir(self.dir.as_deref())?;
        let path = store_dir.client_keys();
        let list = KeyList::read(&path).map_err(|why| {
            CliError::new(format!(
                "cannot read the list of client keys '{}': {why}",
                path.display()
            ))
            .todo("run as the user that owns the store, or as root")
        })?;
        if self.json {
            println!("{}", serde_json::json!({ "keys": list.keys }));
            return Ok(Exit::Fine);
        }
        if list.keys.is_empty() {
            println!("There are no client keys; `gupfs key client NAME` makes one.");
        }
        for key in &list.keys {
            let root = if key.root {
                "root is root"
            } else {
                "root is nobody"
            };
            let revoked = if key.revoked.is_some() {
                " · revoked"
            } else {
                ""
            };
            println!("{} · {root}{revoked}", key.name);
        }
        Ok(Exit::Fine)
    }
}

impl Revoke {
    fn run(self) -> CliResult<Exit> {
        let store_dir = store_dir_to_change(self.dir.as_deref())?;
        change_list(&store_dir, |list| {
            let Some(key) = list.active(&self.name) else {
                return Err(CliError::new(format!("there is no key '{}'", self.name))
                    .todo("`gupfs key list` shows the keys"));
            };
            key.revoked = Some(Platform::real().clock.now().secs);
            Ok(())
        })?;
        println!("The key of '{}' is revoked.", self.name);
        Ok(Exit::Fine)
    }
}

/// The directory of a metadata store on this host.
fn store_dir(dir: Option<&Path>) -> CliResult<StoreDir> {
    let target = ControlTarget::find(dir)?;
    let Some(store_dir) = target.store_dir() else {
        return Err(CliError::new(format!(
            "'{}' is a mount of remote servers; run this command on the host of the metadata store",
            target.name()
        ))
        .exit(Exit::Unusable));
    };
    store_dir.read_marker()?;
    Ok(store_dir.clone())
}

/// The same, to change its list of keys: where the metadata has copies, the owner's list is the one that all get.
fn store_dir_to_change(dir: Option<&Path>) -> CliResult<StoreDir> {
    let store_dir = store_dir(dir)?;
    if store_dir.read_marker()?.copy().is_none() {
        return Ok(store_dir);
    }
    let target = ControlTarget::find(Some(store_dir.root()))?;
    let reply: CliResult<StatusReply> = target.request(&ControlRequest::Status);
    let copies = reply.map(|reply| reply.status["copies"].clone());
    let copies = copies.unwrap_or_default();
    let owner = copies["members"].as_array().into_iter().flatten();
    let owner = owner.clone().find(|copy| copy["is_owner"] == true);
    match owner {
        Some(owner) if owner["copy"] == copies["reporter"] => Ok(store_dir),
        _ => {
            let at = owner.and_then(|owner| owner["address"].as_str());
            Err(CliError::new(format!(
                "the metadata server of '{}' does not own the metadata now",
                store_dir.root().display()
            ))
            .todo(match at {
                Some(at) => format!("run this command on the host of the owner, {at}"),
                None => {
                    "run this command on the host of the owner, which `gupfs mds list` names".into()
                }
            }))
        }
    }
}
