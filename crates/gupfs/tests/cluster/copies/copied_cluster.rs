//! Etcd, three metadata servers, an object server, and mounts.

use crate::etcd_members::{self, EtcdMembers};
use crate::running::{TIMEOUT, can_mount, gupfs};
use crate::test_cluster::{Daemon, Mounted, text};
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
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    format!("127.0.0.1:{}", listener.local_addr().unwrap().port())
}

impl CopiedCluster {
    /// None, and the test counts as not run, where there is no etcd or no FUSE.
    pub fn start(mounts: usize) -> Option<CopiedCluster> {
        if !can_mount() {
            return None;
        }
        let etcd = etcd_members::start(1, QUOTA)?;
        let dir = tempfile::tempdir().unwrap();
        let root = dir.path().canonicalize().unwrap();
        let members = etcd_flags(&etcd);
        let first = start_server(&root.join("m0"), &members, &[]);
        let address = first.address.clone();
        let key = text(&root.join("m0/cluster.key"));
        let join = ["--join", &address, "--key", &key];
        let others = (1..3).map(|n| start_server(&root.join(format!("m{n}")), &members, &join));
        let servers = std::iter::once(first).chain(others).collect();
        let cluster = Servers(servers);
        cluster.wait_whole(&key);
        let targets = root.join("osts");
        std::fs::create_dir(&targets).unwrap();
        let at = cluster.0[0].address.clone();
        let disk = text(&targets.join("disk0"));
        let added = gupfs(["ost", "add", &disk, "--mds", &at, "--key", &key]);
        assert!(added.status.success(), "{added:?}");
        let listen = free_address();
        let args = [
            "oss",
            &text(&targets),
            "--mds",
            &at,
            "--key",
            &key,
            "--listen",
            &listen,
        ];
        let oss = Daemon::try_start(&args).unwrap();
        let mut cluster = CopiedCluster {
            mounts: Vec::new(),
            oss,
            servers: cluster.0,
            etcd,
            dir,
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
        text(&self.root().join("m0/cluster.key"))
    }

    /// Through the second server's address.
    pub fn mount(&mut self) -> PathBuf {
        let point = self.root().join(format!("mnt{}", self.mounts.len()));
        std::fs::create_dir(&point).unwrap();
        let (at, key) = (text(&point), self.key());
        let args = ["mount", &self.servers[1].address, &at, "--key", &key];
        let daemon = Daemon::try_start(&args).unwrap();
        self.mounts.push(Mounted {
            at: point.clone(),
            daemon,
        });
        point
    }

    /// Where etcd has the register of this cluster.
    pub fn prefix(&self) -> String {
        let marker = std::fs::read_to_string(self.root().join("m0/gupfs.toml")).unwrap();
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
        list(&self.addresses(), &self.key())
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
        for mut mount in self.mounts.drain(..) {
            assert_eq!(mount.daemon.stop(), 0);
        }
        for server in &mut self.servers {
            assert_eq!(server.daemon.stop(), 0);
        }
        assert_eq!(self.oss.stop(), 0);
    }
}

struct Servers(Vec<Server>);

impl Servers {
    fn wait_whole(&self, key: &str) {
        wait_counting(3, || list(&self.0[0].address, key));
    }
}

fn list(addresses: &str, key: &str) -> Option<serde_json::Value> {
    let listed = gupfs(["mds", "list", "--mds", addresses, "--key", key, "--json"]);
    serde_json::from_slice(&listed.stdout).ok()
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
    let (path, address) = (text(dir), free_address());
    let etcd: Vec<&str> = etcd.iter().map(String::as_str).collect();
    let args = [&["mds", &path, "--listen", &address], &etcd[..], more].concat();
    Server {
        daemon: Daemon::try_start(&args).unwrap(),
        dir: dir.to_path_buf(),
        address,
    }
}
