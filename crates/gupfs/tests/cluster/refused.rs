//! Processes that do not belong to the cluster are rejected at once, with the reason.

use crate::running::{can_mount, gupfs, refused};
use crate::test_cluster::{Daemon, TestCluster, text};
use expect_test::expect;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Output;

fn printed(cluster: &TestCluster, output: &Output) -> String {
    refused(output, &cluster.root()).replace(&cluster.at, "AT")
}

#[test]
fn keys_that_are_wrong_missing_or_open_to_others() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 0);
    let point = cluster.root().join("mnt");
    fs::create_dir(&point).unwrap();
    let wrong = cluster.root().join("wrong.key");
    fs::write(&wrong, [1; 32]).unwrap();
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o600)).unwrap();
    let mount = |key: &str| {
        let (at, point) = (&cluster.at, text(&point));
        printed(&cluster, &gupfs(["mount", at, &point, "--key", key]))
    };
    expect![[r#"
        2
        gupfs mount: cannot reach the metadata server at 'AT': the server did not prove that it has the key of this cluster.
    "#]]
    .assert_eq(&mount(&text(&wrong)));
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o644)).unwrap();
    expect![[r#"
        2
        gupfs mount: other users than its owner can read the key 'DIR/wrong.key'.
          → chmod 600 'DIR/wrong.key'.
    "#]]
    .assert_eq(&mount(&text(&wrong)));
    fs::set_permissions(&wrong, fs::Permissions::from_mode(0o600)).unwrap();
    fs::write(&wrong, [1; 31]).unwrap();
    expect![[r#"
        2
        gupfs mount: 'DIR/wrong.key' is not a key of gupfs: it has 31 bytes and does not contain 'gupfs client key'.
          → a cluster key has 32 bytes; a client key is a text file that `gupfs key client` wrote.
    "#]]
    .assert_eq(&mount(&text(&wrong)));
    let status = gupfs(["status", &cluster.at, "--key", &cluster.key()]);
    let status = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(status.contains("were rejected"), "{status}");
    cluster.stop();
}

#[test]
fn a_server_without_a_key_listens_only_on_this_host() {
    let dir = tempfile::tempdir().unwrap();
    let target = text(dir.path());
    if std::path::Path::new("/etc/gupfs/cluster.key").exists() {
        gupfs_skips::skip(
            gupfs_skips::Need::FileSystem,
            "the command would use this host's /etc/gupfs/cluster.key",
        );
        return;
    }
    let output = gupfs(["oss", &target, "--listen", "0.0.0.0:0"]);
    expect![[r#"
        2
        gupfs oss: cannot listen at '0.0.0.0:0' without the cluster key: every host that reaches this address could read and write all files.
          → name the key file with --key, or listen at 127.0.0.1.
    "#]]
    .assert_eq(&refused(&output, dir.path()));
}

/// A bind mount of a directory.
struct Bound(PathBuf);

impl Bound {
    fn new(dir: &Path, at: PathBuf) -> Bound {
        fs::create_dir(&at).unwrap();
        rustix::mount::mount_bind(dir, &at).unwrap();
        Bound(at)
    }
}

impl Drop for Bound {
    fn drop(&mut self) {
        let _ = rustix::mount::unmount(&self.0, rustix::mount::UnmountFlags::DETACH);
    }
}

#[test]
fn a_store_has_one_metadata_server() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 0);
    let second = Daemon::try_start(&["mds", &text(&cluster.store()), "--listen", "127.0.0.1:0"]);
    let why = second.err().unwrap();
    assert!(why.contains("is in use by process"), "{why}");
    // The same directory by another path, as a bind mount shows it, is the same store.
    let elsewhere = Bound::new(&cluster.store(), cluster.root().join("elsewhere"));
    let third = Daemon::try_start(&["mds", &text(&elsewhere.0), "--listen", "127.0.0.1:0"]);
    let why = third.err().unwrap();
    assert!(why.contains("is in use by process"), "{why}");
    drop(elsewhere);
    let mount = cluster.root().join("nowhere");
    fs::create_dir(&mount).unwrap();
    let output = gupfs(["up", &text(&cluster.store()), "--mount", &text(&mount)]);
    assert!(printed(&cluster, &output).contains("is in use by process"));
    cluster.stop();
}

/// Every file and directory of a store, with its mode.
fn modes(dir: &Path) -> Vec<(PathBuf, u32)> {
    let mut all = vec![(dir.to_path_buf(), mode(dir))];
    for entry in fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        match path.is_dir() {
            true => all.extend(modes(&path)),
            false => all.push((path.clone(), mode(&path))),
        }
    }
    all
}

fn mode(path: &Path) -> u32 {
    fs::symlink_metadata(path).unwrap().permissions().mode() & 0o7777
}

#[test]
fn only_its_owner_can_access_a_store_whatever_the_umask() {
    for umask in ["0", "077"] {
        let dir = tempfile::tempdir().unwrap();
        let store = dir.path().join("store");
        let by = ["sh", "-c", &format!("umask {umask}; exec \"$0\" \"$@\"")];
        let by: Vec<String> = by.iter().map(ToString::to_string).collect();
        let start = || {
            let args = ["mds", &text(&store), "--listen", "127.0.0.1:0"];
            Daemon::try_start_after(by.clone(), &args).unwrap()
        };
        let mut mds = start();
        assert_eq!(mode(&store), 0o700);
        // No other user can enter that directory; the lock file and the key have restrictive modes themselves.
        for name in ["gupfs.lock", "cluster.key"] {
            assert_eq!(mode(&store.join(name)), 0o600, "{name} with umask {umask}");
        }
        for (path, mode) in modes(&store).iter().filter(|(path, _)| path.is_dir()) {
            let at = path.display();
            assert_eq!(mode & 0o077, 0, "{at}: {mode:o} with umask {umask}");
        }
        assert_eq!(mds.stop(), 0);
        // A store of an older version: every user can read and lock its directory.
        fs::set_permissions(&store, fs::Permissions::from_mode(0o755)).unwrap();
        fs::remove_file(store.join("gupfs.lock")).unwrap();
        let neighbour = fs::File::open(&store).unwrap();
        rustix::fs::flock(&neighbour, rustix::fs::FlockOperation::LockExclusive).unwrap();
        let mut again = start();
        let second = Daemon::try_start(&["mds", &text(&store), "--listen", "127.0.0.1:0"]);
        let why = second.err().unwrap();
        assert!(why.contains("is in use by process"), "{why}");
        assert_eq!(again.stop(), 0);
        assert_eq!(mode(&store), 0o755);
    }
}
