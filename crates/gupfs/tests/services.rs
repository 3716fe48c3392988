//! What a service manager and mount(8) see: readiness, what a start waits for, a mount in the background.

#![allow(clippy::disallowed_methods)] // a real process is waited for, in real time

mod running;

use running::{TIMEOUT, TestStore, can_mount, command, gupfs, is_mounted, wait_until_unmounted};
use std::fs;
use std::os::unix::net::UnixDatagram;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// The socket of a service manager.
struct ServiceManager {
    socket: UnixDatagram,
    path: PathBuf,
}

impl ServiceManager {
    fn listen(dir: &Path) -> ServiceManager {
        let path = dir.join("notify");
        let socket = UnixDatagram::bind(&path).unwrap();
        socket.set_read_timeout(Some(TIMEOUT)).unwrap();
        ServiceManager { socket, path }
    }

    /// The next notification.
    fn next(&self) -> String {
        let mut bytes = [0; 4096];
        let len = self.socket.recv(&mut bytes).expect("a notification");
        String::from_utf8(bytes[..len].to_vec()).unwrap()
    }

    fn wait_for(&self, part: &str) -> String {
        let begun = Instant::now();
        loop {
            let notification = self.next();
            if notification.contains(part) {
                return notification;
            }
            assert!(begun.elapsed() < TIMEOUT, "{notification}");
        }
    }
}

#[test]
fn a_service_manager_learns_when_a_process_is_ready_alive_and_stopping() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let manager = ServiceManager::listen(&test_store.dir());
    let (store, mnt) = (test_store.store(), test_store.mnt());
    let mut up = command();
    up.args([
        "up",
        store.to_str().unwrap(),
        "--mount",
        mnt.to_str().unwrap(),
    ])
    .args(["--osts", "2"])
    .env("NOTIFY_SOCKET", &manager.path)
    .env("WATCHDOG_USEC", "600000")
    .stdout(std::process::Stdio::null());
    let mut up = up.spawn().unwrap();
    let ready = manager.wait_for("READY=1");
    assert!(ready.starts_with("STATUS=mounted at "), "{ready}");
    assert!(is_mounted(&mnt), "ready means usable");
    for _ in 0..3 {
        manager.wait_for("WATCHDOG=1");
    }
    assert!(gupfs(["stop", store.to_str().unwrap()]).status.success());
    manager.wait_for("STOPPING=1");
    manager.wait_for("STATUS=stopped");
    assert!(up.wait().unwrap().success());
}

/// A store that also serves other hosts, on this one.
fn serving(test_store: &TestStore) -> (running::UpProcess, String, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap().to_string();
    drop(listener);
    let more = ["--osts", "2", "--listen", &address];
    let up = running::UpProcess::start(&test_store.store(), &test_store.mnt(), &more);
    let key = test_store.store().join("cluster.key");
    (up, address, key.to_str().unwrap().to_owned())
}

/// Logs of mounts of the test go to its directory where it is not root; root's are in /var/log/gupfs.
fn run(command: &mut Command, dir: &Path) -> Output {
    command.env("XDG_STATE_HOME", dir).output().unwrap()
}

fn text(output: &Output) -> String {
    let [out, err] = [&output.stdout, &output.stderr].map(|bytes| String::from_utf8_lossy(bytes));
    format!("{out}{err}")
}

fn log_of(mnt: &Path) -> PathBuf {
    let name = mnt.to_str().unwrap().trim_matches('/').replace('/', "-");
    Path::new("/var/log/gupfs").join(format!("mount-{name}.log"))
}

#[test]
fn a_mount_in_the_background_returns_when_it_is_mounted_or_says_why_it_is_not() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let (up, address, key) = serving(&test_store);
    let (dir, point) = (test_store.dir(), test_store.dir().join("second"));
    fs::create_dir(&point).unwrap();
    fs::write(test_store.mnt().join("file"), "bytes").unwrap();
    let mount = |address: &str| {
        let mut mount = command();
        mount.args([
            "mount",
            address,
            point.to_str().unwrap(),
            "--key",
            &key,
            "--background",
        ]);
        run(&mut mount, &dir)
    };
    let mounted = mount(&address);
    assert!(mounted.status.success(), "{}", text(&mounted));
    assert!(
        text(&mounted).contains("in the background"),
        "{}",
        text(&mounted)
    );
    assert_eq!(fs::read_to_string(point.join("file")).unwrap(), "bytes");
    let again = mount(&address);
    assert_eq!(again.status.code(), Some(2), "{}", text(&again));
    assert!(text(&again).contains("is being served"), "{}", text(&again));
    assert!(gupfs(["stop", point.to_str().unwrap()]).status.success());
    wait_until_unmounted(&point);

    // As mount(8) executes it.
    let helper = |source: &str, options: &str| {
        let mut helper = command();
        let flags = format!("key={key},{options}");
        helper
            .arg0("/sbin/mount.gupfs")
            .args([source, point.to_str().unwrap(), "-o", &flags]);
        run(&mut helper, &dir)
    };
    let mounted = helper(&format!("{address}:/"), "rw,_netdev,nofail,nosuid,ro");
    assert!(mounted.status.success(), "{}", text(&mounted));
    assert!(fs::write(point.join("other"), "").is_err(), "read-only");
    assert!(
        Command::new("umount")
            .arg(&point)
            .status()
            .unwrap()
            .success()
    );
    wait_until_unmounted(&point);
    let refused = helper(&format!("{address}:/"), "bogus");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert!(
        text(&refused).contains("there is no mount option 'bogus'"),
        "{}",
        text(&refused)
    );
    let refused = helper("/srv/gupfs", "rw");
    assert_eq!(refused.status.code(), Some(1), "{}", text(&refused));
    assert_eq!(up.stop(), 0);
    let _ = fs::remove_file(log_of(&point));
}

#[test]
fn a_mount_says_at_once_what_it_waits_for() {
    if !can_mount() {
        return;
    }
    let test_store = TestStore::new();
    let point = test_store.mnt();
    for (server, why) in [
        ("127.0.0.1:9", "Connection refused"),
        ("nowhere.invalid", "nowhere.invalid"),
    ] {
        let manager = ServiceManager::listen(&test_store.dir());
        let mut mount = command();
        mount
            .args(["mount", server, point.to_str().unwrap()])
            .env("NOTIFY_SOCKET", &manager.path);
        let begun = Instant::now();
        let mut mount = mount.stdout(std::process::Stdio::null()).spawn().unwrap();
        let waiting = manager.wait_for("STATUS=waits for the metadata server");
        assert!(waiting.contains(why), "{waiting}");
        assert!(
            begun.elapsed() < Duration::from_secs(10),
            "{:?}",
            begun.elapsed()
        );
        mount.kill().unwrap();
        mount.wait().unwrap();
        fs::remove_file(&manager.path).unwrap();
    }
}
