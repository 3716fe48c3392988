//! A host with root squash: its programs can do through open files all that POSIX permits, its root what every user may do.

use crate::keys;
use crate::running::can_mount;
use crate::test_cluster::{TestCluster, text};
use std::fs::{self, File, Permissions};
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::os::unix::fs::{PermissionsExt, chown};
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::{Command, Stdio};

const USER: u32 = 1000;

/// A program of an ordinary user: its open files stay usable whatever happens to modes and names, also when the metadata
/// server is killed in between.
const PROGRAM: &str = r"
import fcntl, os, sys
home = sys.argv[1]
big = bytes(range(256)) * 1024
def path(name):
    return os.path.join(home, name)
def pread_all(fd, size):
    data = os.pread(fd, size, 0)
    while len(data) < size:
        more = os.pread(fd, size - len(data), len(data))
        assert more, (len(data), size)
        data += more
    return data
def make(name, mode):
    return os.open(path(name), os.O_RDWR | os.O_CREAT | os.O_EXCL, mode)
# Made so that nobody may write it, and written.
small, large = make('small', 0o400), make('large', 0)
os.write(small, b'small')
os.write(large, big)
# Its mode goes while it is open.
changed = make('changed', 0o600)
os.write(changed, b'before')
os.fchmod(changed, 0)
os.write(changed, b' after')
# Its name goes.
nameless = make('nameless', 0o600)
os.write(nameless, b'x')
os.unlink(path('nameless'))
os.write(nameless, big)
never_named = os.open(home, os.O_TMPFILE | os.O_RDWR, 0)
os.write(never_named, b'tmp')
# A directory that is listed while its mode goes.
os.mkdir(path('dir'), 0o700)
for i in range(1200):
    os.close(os.open(path('dir/%d' % i), os.O_CREAT | os.O_WRONLY, 0o600))
listing = os.scandir(path('dir'))
next(listing)
os.chmod(path('dir'), 0)
assert len(list(listing)) == 1199
fcntl.lockf(small, fcntl.LOCK_EX)
fcntl.flock(large, fcntl.LOCK_EX)
print('half', flush=True)
sys.stdin.readline()
os.pwrite(small, b'SMALL', 0)
os.pwrite(large, b'LARGE', 0)
os.write(changed, b' again')
os.write(never_named, big)
os.ftruncate(nameless, 100)
os.ftruncate(large, 100_000)
os.fsync(large)
assert os.pread(small, 10, 0) == b'SMALL'
assert pread_all(large, 100_000) == b'LARGE' + big[5:100_000]
assert os.pread(changed, 100, 0) == b'before after again'
assert os.pread(nameless, 200, 0) == b'x' + big[:99]
assert os.pread(never_named, 10, 0) == b'tmp' + big[:7]
for fd in small, large, changed, nameless, never_named:
    os.close(fd)
# Opened anew it is as its mode says.
for name in 'large', 'changed':
    try:
        os.open(path(name), os.O_RDONLY)
        sys.exit(name + ' was opened')
    except PermissionError:
        pass
assert open(path('small'), 'rb').read() == b'SMALL'
print('done', flush=True)
";

fn is_denied<T>(what: std::io::Result<T>) -> bool {
    what.is_err_and(|error| error.kind() == ErrorKind::PermissionDenied)
}

#[test]
fn programs_of_a_host_with_root_squash_can_do_what_posix_permits() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    fs::set_permissions(cluster.root(), Permissions::from_mode(0o755)).unwrap();
    let with_roots = cluster.mounts[0].at.clone();
    fs::create_dir(with_roots.join("home")).unwrap();
    chown(with_roots.join("home"), Some(USER), Some(USER)).unwrap();
    make_of_root(&with_roots);
    // With a key made without --root.
    let key = keys::make(&cluster, "node7");
    let mount = keys::mount(&mut cluster, &text(&key), "60s").unwrap();
    let (home, roots) = (mount.join("home"), mount.join("of root"));

    assert!(is_denied(fs::read(&roots)));
    assert!(is_denied(fs::write(mount.join("new"), "x")));
    assert!(is_denied(File::options().append(true).open(&roots)));
    runs_while_the_server_is_killed(&mut cluster, &home);
    assert!(is_denied(fs::read(home.join("small"))));
    cluster.stop();
}

/// A file that only root can read, created on a host with the cluster key, where root is root.
fn make_of_root(mount: &Path) {
    fs::write(mount.join("of root"), "root only").unwrap();
    fs::set_permissions(mount.join("of root"), Permissions::from_mode(0o600)).unwrap();
}

#[test]
fn root_of_a_host_is_root_if_its_key_or_the_metadata_server_permits_it() {
    if !can_mount() {
        return;
    }
    let mut cluster = TestCluster::new(1, 1);
    make_of_root(&cluster.mounts[0].at);
    let (trusted, squashed) = (
        keys::make_with(&cluster, "backup", &["--root"]),
        keys::make(&cluster, "node7"),
    );
    let trusted = keys::mount(&mut cluster, &text(&trusted), "60s").unwrap();
    let squashed = keys::mount(&mut cluster, &text(&squashed), "60s").unwrap();
    let read = |mount: &Path| fs::read_to_string(mount.join("of root"));

    assert_eq!(read(&trusted).unwrap(), "root only");
    assert!(is_denied(read(&squashed)));
    cluster.mds.kill();
    cluster.mds.start_again_with(&["--root-squash", "false"]);
    assert_eq!(read(&squashed).unwrap(), "root only");
    // The cached state of the mount gives no right.
    cluster.mds.kill();
    cluster.mds.start_again();
    assert!(is_denied(read(&squashed)));
    assert_eq!(read(&trusted).unwrap(), "root only");
    cluster.stop();
}

fn runs_while_the_server_is_killed(cluster: &mut TestCluster, home: &Path) {
    let mut program = Command::new("python3");
    program
        .args(["-c", PROGRAM, &text(home)])
        .uid(USER)
        .gid(USER);
    let mut program = (program.stdin(Stdio::piped()).stdout(Stdio::piped()))
        .spawn()
        .unwrap();
    let mut printed = BufReader::new(program.stdout.take().unwrap()).lines();
    assert_eq!(printed.next().unwrap().unwrap(), "half");
    cluster.mds.kill();
    cluster.mds.start_again();
    writeln!(program.stdin.take().unwrap(), "go on").unwrap();
    assert_eq!(printed.next().map(Result::unwrap).as_deref(), Some("done"));
    assert!(program.wait().unwrap().success());
}
