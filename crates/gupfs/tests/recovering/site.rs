//! A site with a cluster as in docs/operate.md, so that its commands can be executed exactly as printed: the same paths, names of
//! hosts, units and configurations.
//!
//! All its hosts are this one, in namespaces with mounts and a network that only the thread of the test and its processes see. `/etc`,
//! `/srv`, `/mnt`, `/run`, `/var/log` and `/usr/local/bin` are private there. Nothing is left when the thread and its processes have
//! ended.

use crate::chapter;
use crate::running::TIMEOUT;
use rustix::process::{Pid, Signal, kill_process, kill_process_group};
use rustix::thread::{UnshareFlags, unshare_unsafe};
use std::fs::{self, File};
use std::io::Write;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// The setup of every site before its cluster; `$T` is its directory, `$P` the project, `$G` the binary.
///
/// - node1 to node7 are this host.
/// - `systemctl` stands in for systemd, `scp` copies.
/// - units and configurations are those of the project.
const HOSTS: &str = r#"
mkdir "$T/bin" "$T/srv" "$T/mnt" "$T/log" "$T/home" "$T/etc"
cp -a /etc/. "$T/etc"
mkdir -p "$T/etc/systemd/system" "$T/etc/gupfs" "$T/srv/osts" "$T/srv/backup" "$T/mnt/gupfs"
cp "$P"/systemd/*.service "$T/etc/systemd/system"
cp "$P"/docs/cluster/*.toml "$T/etc/gupfs"
rm -f "$T/etc/fstab"
ln -s "$G" "$T/bin/gupfs"
cp "$P/crates/gupfs/tests/recovering/systemctl.sh" "$T/bin/systemctl"
printf '#!/bin/sh\n# Hosts are one: copies, and leaves the file whole where it is the same.\nset -eu\n%s\n' \
    '[ "$1" != -p ] || shift; from=${1#*:}; to=${2#*:}; [ "$from" -ef "$to" ] || cp -p "$from" "$to"' > "$T/bin/scp"
chmod 755 "$T"/bin/*
ip link set lo up
for n in 1 2 3 7; do
    ip address add "10.0.0.$n/32" dev lo
    echo "10.0.0.$n node$n" >> "$T/etc/hosts"
done
# Mounts of others that end are to end here, too; ours are not to be seen elsewhere.
mount --make-rslave /
for dir in etc srv mnt; do mount --bind "$T/$dir" "/$dir"; done
mount --bind "$T/bin" /usr/local/bin
mount --bind "$T/log" /var/log
mount -t tmpfs none /run
mkdir /run/units
"#;

/// As the chapter "A cluster" has it, with the units. Root of node7 is root of the file system.
const CLUSTER: &str = "
systemctl start gupfs-mds
until [ -s /srv/gupfs/cluster.key ]; do sleep 0.02; done
scp -p node1:/srv/gupfs/cluster.key /etc/gupfs/cluster.key
gupfs ost add /srv/osts/disk1 --mds node1
gupfs ost add /srv/osts/disk2 --mds node1
systemctl start gupfs-oss
gupfs key client node7 /srv/gupfs --root && scp -p node7.key node7:/etc/gupfs/client.key && rm node7.key
systemctl start gupfs-mount
";

pub struct Site {
    heading: &'static str,
    dir: PathBuf,
    /// Process groups of the commands, in which processes may still run.
    groups: Vec<Pid>,
    followed: bool,
}

/// Runs a test at a new site: it sets up a cluster there (`Site::set_up`), causes the loss of this heading, executes the
/// commands (`Site::follow`), and checks the promises.
pub fn recover(heading: &'static str, loss: impl FnOnce(&mut Site) + Send + 'static) {
    if !crate::running::can_mount() {
        return;
    }
    let dir = tempfile::Builder::new().prefix("gupfs-site-").tempdir();
    let dir = dir.expect("a temporary directory");
    let at = dir.path().canonicalize().unwrap();
    // A separate thread, because it has private mounts and a private network.
    let thread = std::thread::spawn(move || {
        let mut site = Site::enter(heading, at);
        loss(&mut site);
        assert!(site.followed, "the commands of '{heading}' were not typed");
    });
    if let Err(panic) = thread.join() {
        std::panic::resume_unwind(panic);
    }
}

impl Site {
    fn enter(heading: &'static str, dir: PathBuf) -> Site {
        // SAFETY: file descriptors stay shared, so nothing that Rust counts on changes.
        unsafe { unshare_unsafe(UnshareFlags::NEWNS | UnshareFlags::NEWNET) }.unwrap();
        let mut site = Site {
            heading,
            dir,
            groups: Vec::new(),
            followed: false,
        };
        site.run(HOSTS, Path::new("/"));
        site
    }

    pub fn set_up(&mut self) {
        self.sh(CLUSTER);
        self.wait_for_mount();
    }

    /// Executes the commands of the loss; returns their output.
    pub fn follow(&mut self) -> String {
        let losses = chapter::losses();
        let loss = losses.iter().find(|loss| loss.heading == self.heading);
        let loss = loss.unwrap_or_else(|| panic!("operate.md names no '{}'", self.heading));
        self.followed = true;
        self.sh(&loss.commands)
    }

    /// Creates an ext4 file system of so many MiB in a file, and a line in /etc/fstab that mounts it at this directory.
    pub fn disk(&mut self, dir: &str, mib: u64) {
        let image = self.dir.join(format!("{}.img", dir.replace('/', "-")));
        File::create(&image).unwrap().set_len(mib << 20).unwrap();
        let image = image.display();
        self.sh(&format!(
            "mkfs.ext4 -q -m 0 {image}; mkdir -p {dir}; echo '{image} {dir} ext4 loop 0 0' >> /etc/fstab"
        ));
    }

    /// Executes commands that must succeed; returns their output.
    pub fn sh(&mut self, commands: &str) -> String {
        let home = self.dir.join("home");
        self.run(commands, &home)
    }

    fn run(&mut self, commands: &str, dir: &Path) -> String {
        let printed = self.dir.join("said");
        let file = File::create(&printed).unwrap();
        let project = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let mut child = Command::new("sh")
            .args(["-euc", commands])
            .env_clear()
            .env("PATH", "/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin")
            .env("T", &self.dir)
            .env("P", project.canonicalize().unwrap())
            .env("G", env!("CARGO_BIN_EXE_gupfs"))
            .current_dir(dir)
            .process_group(0)
            .stdin(Stdio::null())
            .stdout(file.try_clone().unwrap())
            .stderr(file)
            .spawn()
            .unwrap();
        self.groups.push(Pid::from_child(&child));
        let begun = Instant::now();
        let status = loop {
            match child.try_wait().unwrap() {
                Some(status) => break Some(status),
                None if begun.elapsed() > TIMEOUT => break None,
                None => std::thread::sleep(Duration::from_millis(10)),
            }
        };
        let printed = fs::read_to_string(printed).unwrap();
        eprintln!("{:.1?} for {commands}\n{printed}", begun.elapsed());
        match status {
            Some(status) if status.success() => printed,
            Some(status) => panic!("{status}: {commands}\n{printed}"),
            None => panic!("it does not end: {commands}\n{printed}"),
        }
    }

    /// kill -9 of a unit's daemon; systemd starts it again.
    pub fn kill(&self, unit: &str) {
        let pid = self.daemon(unit).expect("it runs");
        kill_process(pid, Signal::KILL).unwrap();
        self.until("it is started again", || {
            self.daemon(unit).is_some_and(|now| now != pid)
        });
    }

    pub fn daemon(&self, unit: &str) -> Option<Pid> {
        pid(Path::new(&format!("/run/units/{unit}.main")))
    }

    pub fn until(&self, what: &str, mut is_so: impl FnMut() -> bool) {
        let begun = Instant::now();
        while !is_so() {
            assert!(begun.elapsed() < TIMEOUT, "never so: {what}");
            std::thread::sleep(Duration::from_millis(50));
        }
    }

    pub fn wait_for_mount(&self) {
        self.until("mounted", is_mounted);
    }

    /// The OSTs in the status of the metadata server; null if it does not serve.
    pub fn targets(&self) -> serde_json::Value {
        let output = crate::running::gupfs(["status", "--json", "/srv/gupfs"]);
        let status: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap_or_default();
        status["mds"]["targets"].clone()
    }

    /// Why an OST is not used; empty if it is.
    pub fn why_not(&self, ost: usize) -> String {
        let why = &self.targets()[ost]["why_not"];
        why.as_str().unwrap_or_default().to_string()
    }
}

fn pid(file: &Path) -> Option<Pid> {
    let text = fs::read_to_string(file).ok()?;
    Pid::from_raw(text.trim().parse().ok()?)
}

impl Drop for Site {
    /// Supervisors first: they would start what ends.
    fn drop(&mut self) {
        let units = fs::read_dir("/run/units").into_iter().flatten().flatten();
        let mut files: Vec<PathBuf> = units.map(|entry| entry.path()).collect();
        files.sort_by_key(|file| file.extension().is_none_or(|ext| ext != "supervisor"));
        let pids: Vec<Pid> = files.iter().filter_map(|file| pid(file)).collect();
        let groups = self.groups.iter();
        for group in groups {
            let _ = kill_process_group(*group, Signal::KILL); // it may have ended
        }
        for pid in &pids {
            let _ = kill_process(*pid, Signal::KILL);
        }
        if std::thread::panicking() {
            for log in fs::read_dir("/var/log").into_iter().flatten().flatten() {
                let text = fs::read_to_string(log.path()).unwrap_or_default();
                eprintln!("--- {}\n{text}", log.path().display());
            }
        }
        let begun = Instant::now();
        let lives = |pid: &Pid| {
            let state = fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
            !state.is_empty() && !state.contains(") Z ")
        };
        while pids.iter().any(lives) && begun.elapsed() < TIMEOUT {
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

/// As this thread sees it.
pub fn is_mounted() -> bool {
    let table = fs::read_to_string("/proc/thread-self/mountinfo").unwrap();
    table
        .lines()
        .any(|line| line.split(' ').nth(4) == Some("/mnt/gupfs"))
}

/// Files of the mount.
pub fn at(name: &str) -> PathBuf {
    Path::new("/mnt/gupfs").join(name)
}

pub fn write_synced(name: &str, bytes: &[u8]) {
    let mut file = File::create(at(name)).unwrap();
    file.write_all(bytes).unwrap();
    file.sync_all().unwrap();
}
