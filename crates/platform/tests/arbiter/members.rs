//! Real members of etcd on loopback.

use gupfs_platform::arbiter::EtcdOptions;
use gupfs_skips::{Need, skip};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct EtcdMembers {
    pub members: Vec<EtcdMember>,
    dir: tempfile::TempDir,
    quota: u64,
    _alone: parking_lot::MutexGuard<'static, ()>,
}

pub struct EtcdMember {
    child: Option<Child>,
    client_port: u16,
    peer_port: u16,
}

impl Drop for EtcdMembers {
    fn drop(&mut self) {
        for member in &mut self.members {
            member.kill();
        }
    }
}

impl EtcdMember {
    pub fn kill(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }

    pub fn signal(&self, signal: rustix::process::Signal) {
        if let Some(child) = &self.child {
            rustix::process::kill_process(rustix::process::Pid::from_child(child), signal).unwrap();
        }
    }
}

fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap()
        .port()
}

/// None, and the test is counted as not run, where etcd is not installed.
pub fn start(count: usize, quota: u64) -> Option<EtcdMembers> {
    // One etcd at a time: its elections depend on time.
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let alone = ALONE.lock();
    for program in ["etcd", "etcdctl"] {
        if Command::new(program).arg("--help").output().is_err() {
            skip(Need::Program, format!("{program} is not installed"));
            return None;
        }
    }
    let member = |_| EtcdMember {
        child: None,
        client_port: free_port(),
        peer_port: free_port(),
    };
    let mut members = EtcdMembers {
        members: (0..count).map(member).collect(),
        dir: tempfile::tempdir().unwrap(),
        quota,
        _alone: alone,
    };
    for number in 0..count {
        members.start(number);
    }
    members.wait_until_healthy();
    Some(members)
}

impl EtcdMembers {
    fn data(&self, number: usize) -> PathBuf {
        self.dir.path().join(format!("m{number}"))
    }

    pub fn url(&self, number: usize) -> String {
        format!("http://127.0.0.1:{}", self.members[number].client_port)
    }

    pub fn options(&self, prefix: &str) -> EtcdOptions {
        EtcdOptions {
            endpoints: (0..self.members.len())
                .map(|number| self.url(number))
                .collect(),
            prefix: prefix.to_owned(),
            user: None,
        }
    }

    /// Also after it was killed.
    pub fn start(&mut self, number: usize) {
        let peer = |member: &EtcdMember| format!("http://127.0.0.1:{}", member.peer_port);
        let members = self.members.iter().enumerate();
        let all: Vec<String> = members
            .map(|(at, member)| format!("m{at}={}", peer(member)))
            .collect();
        let (client, peer) = (self.url(number), peer(&self.members[number]));
        let log = self.dir.path().join(format!("m{number}.log"));
        let mut append = std::fs::File::options();
        let log = append.create(true).append(true).open(log).unwrap();
        let mut etcd = Command::new("etcd");
        etcd.args(["--name", &format!("m{number}")])
            .arg("--data-dir")
            .arg(self.data(number))
            .args([
                "--listen-client-urls",
                &client,
                "--advertise-client-urls",
                &client,
            ])
            .args([
                "--listen-peer-urls",
                &peer,
                "--initial-advertise-peer-urls",
                &peer,
            ])
            .args([
                "--initial-cluster",
                &all.join(","),
                "--initial-cluster-state",
                "new",
            ])
            .args(["--quota-backend-bytes", &self.quota.to_string()])
            .args(["--logger", "zap", "--log-level", "warn"])
            .stdin(Stdio::null())
            .stdout(log.try_clone().unwrap())
            .stderr(log);
        self.members[number].child = Some(etcd.spawn().unwrap());
    }

    pub fn wait_until_healthy(&self) {
        let begun = Instant::now();
        for number in 0..self.members.len() {
            if self.members[number].child.is_none() {
                continue;
            }
            while !self.ctl(&["endpoint", "health"], number) {
                assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.logs());
                std::thread::sleep(Duration::from_millis(100));
            }
        }
    }

    fn logs(&self) -> String {
        let log = |number| std::fs::read_to_string(self.dir.path().join(format!("m{number}.log")));
        (0..self.members.len())
            .filter_map(|number| log(number).ok())
            .collect()
    }

    /// Whether a command of etcdctl succeeds at this member.
    pub fn ctl(&self, args: &[&str], number: usize) -> bool {
        let mut ctl = Command::new("etcdctl");
        ctl.env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url(number)])
            .args(args);
        ctl.output().is_ok_and(|output| output.status.success())
    }

    /// The member that leads.
    pub fn leader(&self) -> usize {
        let leads = |number: &usize| {
            let mut ctl = Command::new("etcdctl");
            ctl.env("ETCDCTL_API", "3")
                .args(["--endpoints", &self.url(*number)]);
            let output = ctl.args(["endpoint", "status"]).output().unwrap();
            // address, id, version, size, leads, …
            String::from_utf8_lossy(&output.stdout).split(", ").nth(4) == Some("true")
        };
        let begun = Instant::now();
        loop {
            if let Some(leader) = (0..self.members.len()).find(leads) {
                return leader;
            }
            assert!(begun.elapsed() < Duration::from_secs(60), "{}", self.logs());
            std::thread::sleep(Duration::from_millis(100));
        }
    }
}
