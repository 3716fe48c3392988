//! Processes of one file system that report their steps: one with all roles, or a metadata server, an object server and mounts.

use crate::running::{command, wait_until_unmounted};
use crate::trace::Traces;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

pub struct Cluster {
    pub traces: Traces,
    pub mounts: Vec<PathBuf>,
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
        let mut cluster = Cluster::empty();
        let (store, osts) = (cluster.path("mds"), cluster.path("osts"));
        let ready = cluster.start(
            "mds",
            command().args(["mds", &store, "--listen", "127.0.0.1:0"]),
        );
        let (at, key) = (
            word_after(&ready, "served at "),
            format!("{store}/cluster.key"),
        );
        std::fs::create_dir(&osts).unwrap();
        let added = command()
            .args([
                "ost",
                "add",
                &format!("{osts}/disk"),
                "--mds",
                &at,
                "--key",
                &key,
            ])
            .output()
            .unwrap();
        assert!(added.status.success(), "{added:?}");
        let listen = ["--listen", "127.0.0.1:0"];
        cluster.start(
            "oss",
            command()
                .args(["oss", &osts, "--mds", &at, "--key", &key])
                .args(listen),
        );
        for mount in 0..mounts {
            let point = text(&cluster.new_mount_point());
            let args = ["mount", &at, &point, "--key", &key, "--transport", "device"];
            cluster.start(&format!("mount{mount}"), command().args(args));
        }
        cluster
    }

    fn empty() -> Cluster {
        Cluster {
            traces: Traces::default(),
            mounts: Vec::new(),
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
        for mut process in self.processes.drain(..).rev() {
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
