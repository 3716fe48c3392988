//! The library `files` beside a mount: the same calls of the same users have the same results, whatever owners and modes the files have.

use crate::running::can_mount;
use crate::test_cluster::TestCluster;
use gupfs_files::{ClusterFiles, ConnectOptions, FollowLinks, OpenRequest, UserFiles};
use gupfs_proto::meta::{AccessMode, RenameMode};
use gupfs_proto::{Caller, FsError, errno_number};
use std::collections::BTreeMap;
use std::ffi::CString;
use std::fs;
use std::io::{Error, Result as IoResult};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt, PermissionsExt, lchown, symlink};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// (uid, gid, supplementary groups).
type TestUser = (u32, u32, &'static [u32]);

const USERS: &[TestUser] = &[(0, 0, &[]), (1000, 1000, &[]), (1001, 1001, &[1000])];

/// Directories with their modes, owners and groups.
const DIRECTORIES: &[(&str, u32, u32, u32)] = &[
    ("all", 0o777, 0, 0),
    ("sticky", 0o1777, 0, 0),
    ("sticky1000", 0o1777, 1000, 1000),
    ("sticky_group", 0o1770, 0, 1000),
    ("closed", 0o700, 0, 0),
    ("search", 0o711, 0, 0),
    ("group", 0o770, 0, 1000),
    ("setgid", 0o2777, 0, 1000),
    ("own", 0o700, 1000, 1000),
];

const NAMES: &[&str] = &["a", "b", "c"];

#[derive(Clone, Debug)]
enum Call {
    Stat(String, bool),
    Open(String, OpenRequest),
    MakeDirectory(String, u32),
    RemoveDirectory(String),
    RemoveFile(String),
    Rename(String, String),
    Link(String, String),
    Symlink(String, String),
    ReadLink(String),
    SetMode(String, u32),
    SetOwner(String, Option<u32>, Option<u32>),
    Truncate(String),
    List(String),
    Access(String, u8),
}

struct Random(u64);

impl Random {
    fn below(&mut self, limit: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 % limit as u64) as usize
    }

    fn of<T: Copy>(&mut self, all: &[T]) -> T {
        all[self.below(all.len())]
    }

    fn path(&mut self) -> String {
        let (dir, _, _, _) = self.of(DIRECTORIES);
        let name = self.of(NAMES);
        match self.below(24) {
            0 => dir.to_string(),
            1 => format!("{dir}/"),
            2 => format!("{dir}/{name}/"),
            3 => format!("{dir}/."),
            4 => format!("{dir}/.."),
            5 => format!("{dir}/{name}/.."),
            6 => format!("{dir}/../{dir}/./{name}"),
            7..=9 => format!("{dir}/{name}/{}", self.of(NAMES)),
            _ => format!("{dir}/{name}"),
        }
    }

    fn call(&mut self) -> Call {
        let path = self.path();
        let mode = self.of(&[
            0o777, 0o755, 0o700, 0o600, 0o644, 0o666, 0o4755, 0o2755, 0, 0o070,
        ]);
        match self.below(20) {
            0..=1 => Call::Stat(path, self.below(2) == 0),
            2..=6 => Call::Open(path, self.open_request(mode)),
            7..=8 => Call::MakeDirectory(path, mode),
            9 => Call::RemoveDirectory(path),
            10 => Call::RemoveFile(path),
            11..=12 => Call::Rename(path, self.path()),
            13 => Call::Link(path, self.path()),
            14 => Call::Symlink(
                format!("../{}/{}", self.of(DIRECTORIES).0, self.of(NAMES)),
                path,
            ),
            15 => Call::ReadLink(path),
            16 => Call::SetMode(path, mode),
            17 => Call::SetOwner(
                path,
                self.of(&[None, Some(0), Some(1000), Some(1001)]),
                self.of(&[None, Some(0), Some(1000), Some(1001)]),
            ),
            18 => match self.below(2) {
                0 => Call::Truncate(path),
                _ => Call::List(path),
            },
            _ => Call::Access(path, self.of(&[0, 1, 2, 4, 6])),
        }
    }

    fn open_request(&mut self, mode: u32) -> OpenRequest {
        let (read, write) = self.of(&[(true, false), (false, true), (true, true)]);
        let creates = self.below(2) == 0;
        OpenRequest {
            read,
            write,
            create: creates.then_some(mode),
            exclusive: creates && self.below(4) == 0,
            truncate: write && self.below(3) == 0,
            no_follow: self.below(4) == 0,
            ..OpenRequest::default()
        }
    }
}

async fn by_library(user: &UserFiles, top: &str, call: &Call) -> Result<(), FsError> {
    let at = |path: &str| format!("{top}/{path}").into_bytes();
    let (yes, no) = (FollowLinks::Yes, FollowLinks::No);
    match call {
        Call::Stat(path, true) => user.stat(&at(path), yes).await.map(drop),
        Call::Stat(path, false) => user.stat(&at(path), no).await.map(drop),
        Call::Open(path, request) => {
            let file = user.open(&at(path), *request).await?;
            if request.write {
                file.write_at(0, "x".into()).await?;
            }
            file.close().await
        }
        Call::MakeDirectory(path, mode) => user.make_directory(&at(path), *mode).await.map(drop),
        Call::RemoveDirectory(path) => user.remove_directory(&at(path)).await,
        Call::RemoveFile(path) => user.remove_file(&at(path)).await,
        Call::Rename(from, to) => {
            let renamed = user.rename(&at(from), &at(to), RenameMode::Replace);
            renamed.await
        }
        Call::Link(from, to) => user.link(&at(from), &at(to)).await,
        Call::Symlink(target, path) => user.symlink(target.as_bytes(), &at(path)).await,
        Call::ReadLink(path) => user.read_link(&at(path)).await.map(drop),
        Call::SetMode(path, mode) => user.set_mode(&at(path), *mode, yes).await.map(drop),
        Call::SetOwner(path, uid, gid) => {
            let set = user.set_owner(&at(path), *uid, *gid, no);
            set.await.map(drop)
        }
        Call::Truncate(path) => user.truncate(&at(path), 7).await,
        Call::List(path) => user.list(&at(path), true).await.map(drop),
        Call::Access(path, want) => {
            let want = AccessMode::from_bits_truncate(*want);
            user.access(&at(path), want).await
        }
    }
}

/// The same call through the mount, on a thread of this user.
fn by_mount(user: TestUser, top: &Path, call: &Call) -> IoResult<()> {
    let (top, call) = (top.to_path_buf(), call.clone());
    let thread = std::thread::spawn(move || {
        become_user(user);
        call_mount(&top, &call)
    });
    thread.join().unwrap()
}

/// This thread alone: the C library's functions would change all threads.
fn become_user((uid, gid, groups): TestUser) {
    // SAFETY: system calls without memory but the groups, which live long enough. The thread ends soon.
    unsafe {
        let set = libc::syscall(libc::SYS_setgroups, groups.len(), groups.as_ptr());
        assert_eq!(set, 0);
        assert_eq!(libc::syscall(libc::SYS_setresgid, gid, gid, gid), 0);
        assert_eq!(libc::syscall(libc::SYS_setresuid, uid, uid, uid), 0);
    }
}

fn call_mount(top: &Path, call: &Call) -> IoResult<()> {
    // Not `join`: it would drop a trailing "/.".
    let at = |path: &str| PathBuf::from(format!("{}/{path}", top.display()));
    let text = |path: &str| CString::new(at(path).as_os_str().as_bytes()).unwrap();
    let done = |result: i32| match result {
        0 => Ok(()),
        _ => Err(Error::last_os_error()),
    };
    match call {
        Call::Stat(path, true) => fs::metadata(at(path)).map(drop),
        Call::Stat(path, false) => fs::symlink_metadata(at(path)).map(drop),
        Call::Open(path, request) => {
            let mut flags = libc::O_CLOEXEC;
            for (is_set, flag) in [
                (request.create.is_some(), libc::O_CREAT),
                (request.exclusive, libc::O_EXCL),
                (request.truncate, libc::O_TRUNC),
                (request.no_follow, libc::O_NOFOLLOW),
            ] {
                flags |= if is_set { flag } else { 0 };
            }
            let mut options = fs::OpenOptions::new();
            options.read(request.read).write(request.write);
            options.custom_flags(flags);
            options.mode(request.create.unwrap_or_default());
            let file = options.open(at(path))?;
            // A directory is a file for the kernel, and none for the library.
            if file.metadata()?.is_dir() {
                return Err(Error::from_raw_os_error(libc::EISDIR));
            }
            match request.write {
                true => std::os::unix::fs::FileExt::write_all_at(&file, b"x", 0),
                false => Ok(()),
            }
        }
        Call::MakeDirectory(path, mode) => {
            // SAFETY: the path is a C string.
            done(unsafe { libc::mkdir(text(path).as_ptr(), *mode) })
        }
        Call::RemoveDirectory(path) => fs::remove_dir(at(path)),
        Call::RemoveFile(path) => fs::remove_file(at(path)),
        Call::Rename(from, to) => fs::rename(at(from), at(to)),
        Call::Link(from, to) => fs::hard_link(at(from), at(to)),
        Call::Symlink(target, path) => symlink(target, at(path)),
        Call::ReadLink(path) => fs::read_link(at(path)).map(drop),
        Call::SetMode(path, mode) => {
            fs::set_permissions(at(path), fs::Permissions::from_mode(*mode))
        }
        Call::SetOwner(path, uid, gid) => lchown(at(path), *uid, *gid),
        Call::Truncate(path) => {
            // SAFETY: the path is a C string.
            done(unsafe { libc::truncate(text(path).as_ptr(), 7) })
        }
        Call::List(path) => fs::read_dir(at(path)).map(drop),
        Call::Access(path, want) => {
            // SAFETY: the path is a C string.
            done(unsafe {
                libc::faccessat(
                    libc::AT_FDCWD,
                    text(path).as_ptr(),
                    i32::from(*want),
                    libc::AT_EACCESS,
                )
            })
        }
    }
}

/// Each path below `top` with kind, mode, owner, group, links and size.
fn tree(top: &Path) -> BTreeMap<PathBuf, (u32, u32, u32, u64, u64)> {
    let (mut found, mut pending) = (BTreeMap::new(), vec![top.to_path_buf()]);
    while let Some(dir) = pending.pop() {
        for entry in fs::read_dir(&dir).unwrap() {
            let path = entry.unwrap().path();
            let attr = fs::symlink_metadata(&path).unwrap();
            let size = if attr.is_dir() { 0 } else { attr.size() };
            let below = path.strip_prefix(top).unwrap().to_path_buf();
            let shown = (attr.mode(), attr.uid(), attr.gid(), attr.nlink(), size);
            found.insert(below, shown);
            if attr.is_dir() {
                pending.push(path);
            }
        }
    }
    found
}

fn umask() -> u32 {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("Umask:"));
    u32::from_str_radix(line.unwrap().trim(), 8).unwrap()
}

#[test]
fn users_of_the_library_may_do_what_they_may_through_a_mount() {
    if !can_mount() {
        return;
    }
    let cluster = TestCluster::new(1, 1);
    let mount = cluster.mount_points().remove(0);
    for top in ["mount", "library"] {
        fs::create_dir(mount.join(top)).unwrap();
        for (dir, mode, uid, gid) in DIRECTORIES {
            let path = mount.join(top).join(dir);
            fs::create_dir(&path).unwrap();
            lchown(&path, Some(*uid), Some(*gid)).unwrap();
            fs::set_permissions(&path, fs::Permissions::from_mode(*mode)).unwrap();
        }
    }
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(1)
        .enable_all()
        .build()
        .unwrap();
    let files = runtime.block_on(ClusterFiles::connect(ConnectOptions {
        key: Some(cluster.key().into()),
        ..ConnectOptions::new(&cluster.at)
    }));
    let files = files.unwrap();
    let calls = std::env::var("GUPFS_LIBRARY_CALLS").map_or(3_000, |calls| calls.parse().unwrap());
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    let (mut done, mut refused) = (0, BTreeMap::new());
    for number in 0..calls {
        let user = random.of(USERS);
        let (uid, gid, groups) = user;
        let call = random.call();
        let mounted = by_mount(user, &mount.join("mount"), &call);
        let view = files.user(Caller::new(uid, gid, groups), umask());
        let library = runtime.block_on(by_library(&view, "/library", &call));
        let mounted = mounted.map_err(|error| error.raw_os_error().unwrap());
        let library = library.map_err(|error| errno_number(&error));
        assert_eq!(
            mounted,
            library,
            "call {number} of user {uid}: {call:?}, in {:?}",
            tree(&mount.join("library"))
        );
        match mounted {
            Ok(()) => done += 1,
            Err(errno) => *refused.entry(errno).or_insert(0) += 1,
        }
    }
    assert!(done > calls / 10, "only {done} of {calls} calls succeed");
    for errno in [
        libc::EACCES,
        libc::EPERM,
        libc::ENOENT,
        libc::EEXIST,
        libc::ENOTDIR,
    ] {
        assert!(refused.contains_key(&errno), "never {errno}: {refused:?}");
    }
    assert_eq!(tree(&mount.join("mount")), tree(&mount.join("library")));
    let known = files.client().status().known_inodes;
    assert_eq!(known, 0, "lookups are left");
    runtime
        .block_on(files.stop(Duration::from_secs(30)))
        .unwrap();
    drop(files);
    runtime.shutdown_timeout(Duration::from_secs(5));
    cluster.stop();
}
