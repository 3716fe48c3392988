//! Processes of one file system that report their steps: one with all roles, or a metadata server, an object server and mounts.

use crate::running::{command, wait_until_unmounted};
use crate::trace::Traces;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct Cluster {
    pub traces: Traces,
    pub mounts: Vec<PathBuf>,
    /// Options of commands that send requests to the metadata server.
    pub mds: Vec<String>,
    servers: Vec<Child>,
    processes: Vec<Child>,
    dir: tempfile::TempDir,
}

impl Cluster {
    /// `gupfs up`: function calls instead of connections.
    pub fn in_one_process() -> Cluster {
        let mut cluster = Cluster::empty();
        let mount = cluster.new_mount_point();
        let store = cluster.path("store");
        let args = [
            "up",
            &store,
            "--mount",
            &text(&mount),
            "--transport",
            "device",
        ];
        cluster.start("up", command().args(args));
        cluster
    }

    /// Over TCP, with one target.
    pub fn over_tcp(mounts: usize) -> Cluster {
        Cluster::with_servers(1, mounts)
    }

    /// Over TCP, with object servers of one target each.
    pub fn with_servers(servers: usize, mounts: usize) -> Cluster {
        let mut cluster = Cluster::empty();
        let store = cluster.path("mds");
        let ready = cluster.start(
            "mds",
            command().args(["mds", &store, "--listen", "127.0.0.1:0"]),
        );
        let (at, key) = (
            word_after(&ready, "served at "),
            format!("{store}/cluster.key"),
        );
        cluster.mds = ["--mds", &at, "--key", &key].map(String::from).into();
        for server in 0..servers {
            cluster.start_server(server);
        }
        for mount in 0..mounts {
            let point = text(&cluster.new_mount_point());
            let args = ["mount", &at, &point, "--key", &key, "--transport", "device"];
            cluster.start(&format!("mount{mount}"), command().args(args));
        }
        cluster
    }

    fn start_server(&mut self, number: usize) {
        let osts = self.path(&format!("osts{number}"));
        std::fs::create_dir(&osts).unwrap();
        let mut add = command();
        add.args(["ost", "add", &format!("{osts}/disk")])
            .args(&self.mds);
        let added = add.output().unwrap();
        assert!(added.status.success(), "{added:?}");
        let mut serve = command();
        serve
            .args(["oss", &osts, "--listen", "127.0.0.1:0"])
            .args(&self.mds);
        self.start(&format!("oss{number}"), &mut serve);
        let server = self.processes.pop().unwrap();
        self.servers.push(server);
    }

    pub fn kill_server(&mut self, number: usize) {
        self.servers[number].kill().unwrap();
        self.servers[number].wait().unwrap();
    }

    fn empty() -> Cluster {
        Cluster {
            traces: Traces::default(),
            mounts: Vec::new(),
            mds: Vec::new(),
            servers: Vec::new(),
            processes: Vec::new(),
            dir: tempfile::tempdir().unwrap(),
        }
    }

    fn path(&self, name: &str) -> String {
        text(&self.dir.path().canonicalize().unwrap().join(name))
    }

    fn new_mount_point(&mut self) -> PathBuf {
        let point = PathBuf::from(self.path(&format!("mnt{}", self.mounts.len())));
        std::fs::create_dir(&point).unwrap();
        self.mounts.push(point.clone());
        point
    }

    /// The line in which the process says that it is ready.
    fn start(&mut self, name: &str, command: &mut Command) -> String {
        let log = PathBuf::from(self.path(&format!("{name}.log")));
        self.traces.follow(command, log.clone());
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let lines = BufReader::new(child.stdout.take().unwrap()).lines();
        self.processes.push(child);
        let mut lines = lines.map(|line| line.unwrap());
        let ready = lines.by_ref().find(|line| line.contains("ready in"));
        // A process that prints to a pipe without a reader would be killed.
        std::thread::spawn(move || lines.for_each(drop));
        ready.unwrap_or_else(|| panic!("{name}: {}", std::fs::read_to_string(&log).unwrap()))
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // Mounts were started last and end first.
        let others = self.servers.drain(..);
        for mut process in self.processes.drain(..).rev().chain(others) {
            let _ = process.kill();
            let _ = process.wait();
        }
        for mount in &self.mounts {
            wait_until_unmounted(mount);
        }
    }
}

fn text(path: &Path) -> String {
    path.to_str().unwrap().into()
}

fn word_after(line: &str, before: &str) -> String {
    let (_, rest) = line.split_once(before).unwrap();
    rest.split([' ', ',']).next().unwrap().into()
}
