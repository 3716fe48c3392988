//! Etcd, three metadata servers, an object server, and mounts.

use crate::etcd_members::{self, EtcdMembers};
use crate::running::{TIMEOUT, can_mount};
use crate::test_cluster::{Daemon, DaemonHosts, Mounted, command_after, text};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Room for etcd's data, in bytes.
const QUOTA: u64 = 64 << 20;

pub struct CopiedCluster {
    pub mounts: Vec<Mounted>,
    pub oss: Daemon,
    pub servers: Vec<Server>,
    pub etcd: EtcdMembers,
    dir: tempfile::TempDir,
    daemon_hosts: DaemonHosts,
}

/// Where the parts of a cluster are, unless all are on this host and in one directory.
#[derive(Default)]
pub struct CopiedClusterOptions {
    /// The directories of metadata servers, by their numbers.
    pub stores: BTreeMap<usize, PathBuf>,
    /// The names are "etcd", "mds0" to "mds2", "oss", "mnt0" and so on; "admin" is the host of commands.
    pub daemon_hosts: DaemonHosts,
}

/// A metadata server, or a copy.
pub struct Server {
    pub daemon: Daemon,
    pub dir: PathBuf,
    /// "127.0.0.1:port"
    pub address: String,
}

/// A port that is free now.
pub fn free_address() -> String {
    free_address_of("127.0.0.1")
}

/// A port that is free at this host's 127.0.0.1, with the address of a host where nothing else runs.
fn free_address_of(host: &str) -> String {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("{host}:{}", listener.local_addr().unwrap().port())
}

impl CopiedCluster {
    /// None, and the test counts as not run, where there is no etcd or no FUSE.
    pub fn start(mounts: usize) -> Option<CopiedCluster> {
        CopiedCluster::start_with(mounts, CopiedClusterOptions::default())
    }

    /// As `start`.
    pub fn start_with(mounts: usize, options: CopiedClusterOptions) -> Option<CopiedCluster> {
        if !can_mount() {
            return None;
        }
        let CopiedClusterOptions {
            stores,
            daemon_hosts,
        } = options;
        let etcd_host = daemon_hosts.before("etcd");
        let etcd = etcd_members::start_on(&etcd_host, &daemon_hosts.address("etcd"), QUOTA)?;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let members = etcd_flags(&etcd);
        let store = |number: usize| match stores.get(&number) {
            Some(store) => store.clone(),
            None => root.join(format!("m{number}")),
        };
        let start = |number: usize, more: &[&str]| {
            let name = format!("mds{number}");
            let address = free_address_of(&daemon_hosts.address(&name));
            let at = (daemon_hosts.before(&name), address);
            start_server_at(&store(number), at, &members, more)
        };
        let first = start(0, &[]);
        // The first server's disk may be lost; the key is everywhere.
        std::fs::copy(first.dir.join("cluster.key"), root.join("cluster.key")).unwrap();
        let (address, key) = (first.address.clone(), text(&root.join("cluster.key")));
        let join = ["--join", &address, "--key", &key];
        let others = (1..3).map(|number| start(number, &join));
        let servers = std::iter::once(first).chain(others).collect();
        let oss = daemon_hosts.before("oss");
        let admin = daemon_hosts.before("admin");
        wait_counting(3, || list(&admin, &address, &key));
        let targets = root.join("osts");
        std::fs::create_dir(&targets).unwrap();
        let disk = text(&targets.join("disk0"));
        let added = command_after(&oss)
            .args(["ost", "add", &disk, "--mds", &address, "--key", &key])
            .output()
            .unwrap();
        assert!(added.status.success(), "{added:?}");
        let listen = free_address_of(&daemon_hosts.address("oss"));
        let args = [
            "oss",
            &text(&targets),
            "--mds",
            &address,
            "--key",
            &key,
            "--listen",
            &listen,
        ];
        let oss = Daemon::try_start_after(oss, &args).unwrap();
        let mut cluster = CopiedCluster {
            mounts: Vec::new(),
            oss,
            servers,
            etcd,
            dir,
            daemon_hosts,
        };
        for _ in 0..mounts {
            cluster.mount();
        }
        Some(cluster)
    }

    pub fn root(&self) -> PathBuf {
        self.dir.path().canonicalize().unwrap()
    }

    pub fn key(&self) -> String {
        text(&self.root().join("cluster.key"))
    }

    /// Through the second server's address.
    pub fn mount(&mut self) -> PathBuf {
        let name = format!("mnt{}", self.mounts.len());
        let point = self.root().join(&name);
        std::fs::create_dir(&point).unwrap();
        let (at, key) = (text(&point), self.key());
        let args = ["mount", &self.servers[1].address, &at, "--key", &key];
        let host = self.daemon_hosts.before(&name);
        let daemon = Daemon::try_start_after(host, &args).unwrap();
        self.mounts.push(Mounted {
            at: point.clone(),
            daemon,
        });
        point
    }

    /// Where etcd has the register of this cluster.
    pub fn prefix(&self) -> String {
        let marker = std::fs::read_to_string(self.servers[0].dir.join("gupfs.toml")).unwrap();
        let cluster = marker
            .lines()
            .find_map(|line| line.strip_prefix("cluster = "));
        format!("gupfs/{}", cluster.unwrap().trim_matches('"'))
    }

    pub fn points(&self) -> Vec<PathBuf> {
        self.mounts.iter().map(|mount| mount.at.clone()).collect()
    }

    /// What `gupfs mds list` says; None if no server answers.
    pub fn list(&self) -> Option<serde_json::Value> {
        let admin = self.daemon_hosts.before("admin");
        list(&admin, &self.addresses(), &self.key())
    }

    pub fn addresses(&self) -> String {
        let addresses = self.servers.iter().map(|server| server.address.clone());
        addresses.collect::<Vec<String>>().join(",")
    }

    /// The number of the server that owns the metadata. Waits for one.
    pub fn owner(&self) -> usize {
        let begun = Instant::now();
        loop {
            let owner = self.list().and_then(|list| {
                let copies = list["copies"].as_array()?.clone();
                let owner = copies.into_iter().find(|copy| copy["is_owner"] == true)?;
                let address = owner["address"].as_str()?;
                self.servers
                    .iter()
                    .position(|server| server.address == address)
            });
            if let Some(owner) = owner {
                return owner;
            }
            assert!(begun.elapsed() < TIMEOUT, "no owner: {:?}", self.list());
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    /// Returns when all servers count.
    pub fn wait_whole(&self) {
        wait_counting(3, || self.list());
    }

    /// Returns when so many servers count.
    pub fn wait_counting(&self, count: usize) {
        wait_counting(count, || self.list());
    }

    /// Stops everything, and checks that it ends cleanly.
    pub fn stop(mut self) {
        self.end_mounts();
        for server in &mut self.servers {
            assert_eq!(server.daemon.stop(), 0);
        }
        assert_eq!(self.oss.stop(), 0);
    }

    /// The same, but keeps the files, and the owner stops last: the copies have all that it has.
    pub fn end_all_equal(&mut self) {
        self.end_mounts();
        assert_eq!(self.oss.stop(), 0);
        self.wait_whole();
        let owner = self.owner();
        for server in (0..3).filter(|server| *server != owner).chain([owner]) {
            assert_eq!(self.servers[server].daemon.stop(), 0);
        }
    }

    fn end_mounts(&mut self) {
        for mut mount in self.mounts.drain(..) {
            assert_eq!(mount.daemon.stop(), 0);
        }
    }
}

fn list(host: &[String], addresses: &str, key: &str) -> Option<serde_json::Value> {
    let mut list = command_after(host);
    list.args(["mds", "list", "--mds", addresses, "--key", key, "--json"]);
    serde_json::from_slice(&list.output().unwrap().stdout).ok()
}

fn wait_counting(count: usize, list: impl Fn() -> Option<serde_json::Value>) {
    let begun = Instant::now();
    loop {
        let listed = list();
        let counting = listed.as_ref().map_or(0, |list| {
            let copies = list["copies"].as_array().unwrap().iter();
            let counting = copies.filter(|copy| copy["standing"] == "counting");
            counting.count()
        });
        let is_held = listed.as_ref().is_some_and(|list| list["is_held"] == true);
        if counting == count && is_held {
            return;
        }
        assert!(begun.elapsed() < TIMEOUT, "not {count} copies: {listed:?}");
        std::thread::sleep(Duration::from_millis(100));
    }
}

pub fn etcd_flags(etcd: &EtcdMembers) -> Vec<String> {
    let urls = (0..etcd.members.len()).map(|number| etcd.url(number));
    urls.flat_map(|url| ["--etcd".to_string(), url]).collect()
}

/// Starts a metadata server in a directory.
pub fn start_server(dir: &Path, etcd: &[String], more: &[&str]) -> Server {
    start_server_at(dir, (Vec::new(), free_address()), etcd, more)
}

/// On the host of the command prefix.
fn start_server_at(
    dir: &Path,
    (host, address): (Vec<String>, String),
    etcd: &[String],
    more: &[&str],
) -> Server {
    let path = text(dir);
    let etcd: Vec<&str> = etcd.iter().map(String::as_str).collect();
    let args = [&["mds", &path, "--listen", &address], &etcd[..], more].concat();
    Server {
        daemon: Daemon::try_start_after(host, &args).unwrap(),
        dir: dir.to_path_buf(),
        address,
    }
}
