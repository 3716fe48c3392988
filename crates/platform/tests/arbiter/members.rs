//! Real members of etcd on loopback. GUPFS_ETCD and GUPFS_ETCDCTL name other programs than those in PATH.

use super::certificates::Certificates;
use gupfs_platform::arbiter::EtcdOptions;
use gupfs_skips::{Need, skip};
use std::ffi::OsString;
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

pub struct EtcdMembers {
    pub members: Vec<EtcdMember>,
    dir: tempfile::TempDir,
    quota: u64,
    /// None: clients use no TLS.
    certificates: Option<Certificates>,
    host: EtcdHost,
    _alone: parking_lot::MutexGuard<'static, ()>,
}

/// The host of all members and of their commands.
struct EtcdHost {
    /// The words before a command that has it run there.
    before: Vec<String>,
    address: String,
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

impl EtcdHost {
    fn local() -> EtcdHost {
        EtcdHost {
            before: Vec::new(),
            address: "127.0.0.1".into(),
        }
    }

    fn command(&self, name: &str) -> Command {
        let [first, words @ ..] = &self.before[..] else {
            return Command::new(program(name));
        };
        let mut command = Command::new(first);
        command.args(words).arg(program(name));
        command
    }
}

fn program(name: &str) -> OsString {
    let variable = format!("GUPFS_{}", name.to_uppercase());
    std::env::var_os(variable).unwrap_or_else(|| name.into())
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
    start_members(count, quota, None, EtcdHost::local())
}

/// As `start`, one member on the host of this address, where a command runs after the words `before`.
#[allow(dead_code)] // the arbiter's own tests need no hosts
pub fn start_on(before: &[String], address: &str, quota: u64) -> Option<EtcdMembers> {
    let host = EtcdHost {
        before: before.to_vec(),
        address: address.to_string(),
    };
    start_members(1, quota, None, host)
}

/// As `start`, and members and clients need these certificates.
pub fn start_secured(count: usize, quota: u64, own: Certificates) -> Option<EtcdMembers> {
    start_members(count, quota, Some(own), EtcdHost::local())
}

fn start_members(
    count: usize,
    quota: u64,
    certificates: Option<Certificates>,
    host: EtcdHost,
) -> Option<EtcdMembers> {
    // One etcd at a time: its elections depend on time.
    static ALONE: parking_lot::Mutex<()> = parking_lot::Mutex::new(());
    let alone = ALONE.lock();
    for name in ["etcd", "etcdctl"] {
        if Command::new(program(name)).arg("--help").output().is_err() {
            skip(Need::Program, format!("{name} is not installed"));
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
        certificates,
        host,
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
        let scheme = match self.certificates {
            Some(_) => "https",
            None => "http",
        };
        let (address, port) = (&self.host.address, self.members[number].client_port);
        format!("{scheme}://{address}:{port}")
    }

    pub fn options(&self, prefix: &str) -> EtcdOptions {
        EtcdOptions {
            endpoints: (0..self.members.len())
                .map(|number| self.url(number))
                .collect(),
            prefix: prefix.to_owned(),
            user: None,
            tls: self.certificates.as_ref().map(Certificates::tls),
        }
    }

    /// Also after it was killed.
    pub fn start(&mut self, number: usize) {
        let address = &self.host.address;
        let peer = |member: &EtcdMember| format!("http://{address}:{}", member.peer_port);
        let members = self.members.iter().enumerate();
        let all: Vec<String> = members
            .map(|(at, member)| format!("m{at}={}", peer(member)))
            .collect();
        let (client, peer) = (self.url(number), peer(&self.members[number]));
        let log = self.dir.path().join(format!("m{number}.log"));
        let mut append = std::fs::File::options();
        let log = append.create(true).append(true).open(log).unwrap();
        let mut etcd = self.host.command("etcd");
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
        if let Some(own) = &self.certificates {
            etcd.arg("--client-cert-auth")
                .arg("--trusted-ca-file")
                .arg(own.ca())
                .arg("--cert-file")
                .arg(own.cert())
                .arg("--key-file")
                .arg(own.key());
        }
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
        let output = self.etcdctl(args, number).output();
        output.is_ok_and(|output| output.status.success())
    }

    /// What a command of etcdctl prints at this member.
    pub fn output(&self, args: &[&str], number: usize) -> String {
        let output = self.etcdctl(args, number).output().unwrap();
        assert!(output.status.success(), "{output:?}");
        String::from_utf8(output.stdout).unwrap()
    }

    fn etcdctl(&self, args: &[&str], number: usize) -> Command {
        let mut ctl = self.host.command("etcdctl");
        ctl.env("ETCDCTL_API", "3")
            .args(["--endpoints", &self.url(number)]);
        if let Some(own) = &self.certificates {
            ctl.arg("--cacert")
                .arg(own.ca())
                .arg("--cert")
                .arg(own.cert())
                .arg("--key")
                .arg(own.key());
        }
        ctl.args(args);
        ctl
    }

    /// The member that leads.
    pub fn leader(&self) -> usize {
        let leads = |number: &usize| {
            let status = ["endpoint", "status", "--write-out", "json"];
            let output = self.etcdctl(&status, *number).output().unwrap();
            let status = String::from_utf8_lossy(&output.stdout).into_owned();
            let id = number_after(&status, "\"member_id\":");
            id.is_some() && id == number_after(&status, "\"leader\":")
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

fn number_after(text: &str, mark: &str) -> Option<u64> {
    let digits = text.split_once(mark)?.1;
    let end = digits.find(|c: char| !c.is_ascii_digit())?;
    digits[..end].parse().ok()
}
