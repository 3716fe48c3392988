//! Path resolution: what every call that takes a name says about a bad one.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for (word, call) in CALLS {
        checks.extend(every_call(word, *call));
    }
    checks.extend(walks());
    checks.extend(null_paths());
    checks
}

type Call = fn(&[u8]) -> Answer;

/// Each call with the name under trial; where it takes two, the other one is harmless.
const CALLS: &[(&str, Call)] = &[
    ("open", |name| open(name, O_RDONLY, 0).map(drop)),
    ("open-creating", |name| {
        open(name, O_CREAT | O_WRONLY, 0o644).map(drop)
    }),
    ("open-path", |name| open(name, O_PATH, 0).map(drop)),
    ("openat2", |name| {
        openat2(CWD, name, O_RDONLY, 0, 0).map(drop)
    }),
    ("stat", |name| stat(name).map(drop)),
    ("lstat", |name| lstat(name).map(drop)),
    ("statx", |name| {
        statx(CWD, name, 0, libc::STATX_BASIC_STATS).map(drop)
    }),
    ("access", |name| access(name, F_OK)),
    ("faccessat2", |name| faccessat2(CWD, name, F_OK, AT_EACCESS)),
    ("chmod", |name| chmod(name, 0o600)),
    ("chown", |name| chown(name, KEEP, KEEP)),
    ("lchown", |name| lchown(name, KEEP, KEEP)),
    ("utimensat", |name| utimens(name, EARLY, EARLY)),
    ("truncate", |name| truncate(name, 0)),
    ("mkdir", |name| mkdir(name, 0o755)),
    ("rmdir", |name| rmdir(name)),
    ("unlink", |name| unlink(name)),
    ("rename-from", |name| rename(name, "to")),
    ("rename-to", |name| rename("a-file", name)),
    ("link-from", |name| link(name, "to")),
    ("link-to", |name| link("a-file", name)),
    ("symlink", |name| symlink("x", name)),
    ("readlink", |name| readlink(name).map(drop)),
    ("mknod", |name| mkfifo(name, 0o644)),
    ("statfs", |name| statfs(name).map(drop)),
    ("chdir", |name| chdir(name)),
    ("getxattr", |name| getxattr(name, "user.x").map(drop)),
    ("setxattr", |name| setxattr(name, "user.x", "1", 0)),
    ("listxattr", |name| listxattr(name).map(drop)),
    ("removexattr", |name| removexattr(name, "user.x")),
    ("inotify", |name| {
        inotify_watch(inotify()?, name, libc::IN_CREATE).map(drop)
    }),
    ("execve", execute_in_place),
];

/// execve of something that cannot be executed, so that this process stays what it is: the path fails first.
fn execute_in_place(name: &[u8]) -> Answer {
    execute(name)
}

fn every_call(word: &'static str, call: Call) -> Vec<Check> {
    let name = |rest: &str| format!("path/{word}-{rest}");
    vec![
        check(
            name("below-a-missing-directory-says-ENOENT"),
            "A component of the prefix does not exist.",
            move |_| {
                file("a-file", b"")?;
                call(b"nothing/x").says(ENOENT)
            },
        ),
        check(
            name("empty-says-ENOENT"),
            "The empty string names nothing.",
            move |_| {
                file("a-file", b"")?;
                call(b"").says(ENOENT)
            },
        ),
        check(
            name("below-a-file-says-ENOTDIR"),
            "A component of the prefix is not a directory.",
            move |_| {
                file("a-file", b"")?;
                file("f", b"")?;
                call(b"f/x").says(ENOTDIR)
            },
        ),
        check(
            name("of-256-bytes-says-ENAMETOOLONG"),
            "A component is longer than NAME_MAX.",
            move |_| {
                file("a-file", b"")?;
                call("n".repeat(256).as_bytes()).says(ENAMETOOLONG)
            },
        ),
        check(
            name("below-256-bytes-says-ENAMETOOLONG"),
            "A prefix component is longer than NAME_MAX.",
            move |_| {
                file("a-file", b"")?;
                call(format!("{}/x", "n".repeat(256)).as_bytes()).says(ENAMETOOLONG)
            },
        ),
        check(
            name("of-4096-bytes-says-ENAMETOOLONG"),
            "With its NUL the path is longer than PATH_MAX.",
            move |_| {
                file("a-file", b"")?;
                call("./".repeat(2048).as_bytes()).says(ENAMETOOLONG)
            },
        ),
        check(
            name("below-a-loop-says-ELOOP"),
            "Links that lead to each other never end.",
            move |_| {
                file("a-file", b"")?;
                symlink("b", "a")?;
                symlink("a", "b")?;
                call(b"a/x").says(ELOOP)
            },
        ),
        check(
            name("below-a-closed-directory-says-EACCES"),
            "Each prefix component needs search permission.",
            move |_| {
                file("a-file", b"")?;
                chmod("a-file", 0o777)?;
                dir("d")?;
                dir("d/e")?;
                file("d/e/x", b"")?;
                chmod("d/e/x", 0o666)?;
                chmod("d/e", 0o777)?;
                chmod("d", 0o666)?;
                alice_gets(|| call(b"d/e/x"))?.says(EACCES)
            },
        ),
    ]
}

fn walks() -> Vec<Check> {
    vec![
        check(
            "path/of-4095-bytes-works",
            "PATH_MAX counts the terminating NUL.",
            |_| {
                file("f", b"x")?;
                let path = format!("{}f", "./".repeat(2047));
                same("length", path.len(), 4095)?;
                holds(path, b"x")
            },
        ),
        check("path/repeated-slashes-are-one", "a//b is a/b.", |_| {
            dir("d")?;
            file("d/f", b"x")?;
            holds("d////f", b"x")?;
            holds(".//d/.///f", b"x")
        }),
        check(
            "path/dots-and-dot-dots-walk",
            "Dot stays, dot-dot goes up.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                file("f", b"x")?;
                holds("d/e/../../f", b"x")?;
                holds("d/./e/./.././../f", b"x")
            },
        ),
        check(
            "path/dot-dot-of-a-missing-name-says-ENOENT",
            "A component is looked up before dot-dot.",
            |_| {
                file("f", b"x")?;
                open("nothing/../f", O_RDONLY, 0).says(ENOENT)
            },
        ),
        check(
            "path/dot-dot-of-a-file-says-ENOTDIR",
            "Dot-dot exists only in directories.",
            |_| {
                file("f", b"x")?;
                open("f/..", O_RDONLY, 0).says(ENOTDIR)?;
                open("f/.", O_RDONLY, 0).says(ENOTDIR)?;
                open("f/", O_RDONLY, 0).says(ENOTDIR)
            },
        ),
        check(
            "path/dot-dot-after-a-link-goes-up-from-its-target",
            "Links are resolved before dot-dot.",
            |_| {
                dir("a")?;
                dir("a/b")?;
                file("a/f", b"inside")?;
                file("f", b"outside")?;
                symlink("a/b", "l")?;
                holds("l/../f", b"inside")
            },
        ),
        check(
            "path/40-links-are-followed",
            "Linux follows 40 symbolic links in one path.",
            |_| {
                file("f", b"x")?;
                symlink("f", "l1")?;
                for number in 2..=40 {
                    symlink(format!("l{}", number - 1), format!("l{number}"))?;
                }
                holds("l40", b"x")
            },
        ),
        check(
            "path/41-links-say-ELOOP",
            "More than 40 links in one path are taken for a loop.",
            |_| {
                file("f", b"x")?;
                symlink("f", "l1")?;
                for number in 2..=41 {
                    symlink(format!("l{}", number - 1), format!("l{number}"))?;
                }
                open("l41", O_RDONLY, 0).says(ELOOP)
            },
        ),
        check(
            "path/links-in-the-prefix-are-followed",
            "Also relative ones, also for calls that do not follow.",
            |_| {
                dir("d")?;
                symlink("d", "l")?;
                symlink("../d", "d/up")?;
                file("l/f", b"x")?;
                holds("d/up/up/f", b"x")?;
                same("kind", lstat("l/f")?.kind(), S_IFREG)?;
                unlink("l/up/f")?;
                gone("d/f")
            },
        ),
        check(
            "path/lstat-with-a-trailing-slash-follows",
            "link/ names the link's directory.",
            |_| {
                dir("d")?;
                symlink("d", "l")?;
                same("identity", lstat("l/")?.identity(), stat("d")?.identity())?;
                same("kind", lstat("l")?.kind(), S_IFLNK)
            },
        ),
        check(
            "path/an-absolute-link-starts-at-the-root",
            "A target that begins with a slash.",
            |_| {
                symlink("/", "l")?;
                same("identity", stat("l")?.identity(), stat("/")?.identity())
            },
        ),
        check(
            "path/search-permission-suffices-to-pass",
            "Passing needs x, not r.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                chmod("d", 0o711)?;
                as_alice(|| {
                    holds("d/f", b"x")?;
                    open("d", O_RDONLY | O_DIRECTORY, 0).says(EACCES)
                })
            },
        ),
        check(
            "path/read-permission-does-not-suffice-to-pass",
            "Names can be listed, not looked up.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                chmod("d", 0o744)?;
                as_alice(|| {
                    same("names", names("d")?, vec!["f".into()])?;
                    stat("d/f").says(EACCES)?;
                    open("d/f", O_RDONLY, 0).says(EACCES)?;
                    stat("d/nothing").says(EACCES)
                })
            },
        ),
        check(
            "path/dot-needs-search-permission",
            "d/. looks dot up in d.",
            |_| {
                dir("d")?;
                chmod("d", 0o644)?;
                as_alice(|| {
                    stat("d/.").says(EACCES)?;
                    stat("d")?;
                    Ok(())
                })
            },
        ),
        check(
            "path/root-passes-closed-directories",
            "The superuser needs no search permission.",
            |t| {
                t.needs_root()?;
                dir("d")?;
                file("d/f", b"x")?;
                chmod("d", 0o000)?;
                holds("d/f", b"x")
            },
        ),
        check(
            "path/a-closed-directory-closes-the-tree-at-once",
            "chmod works on names that were just looked up.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                file("d/e/f", b"x")?;
                as_alice(|| holds("d/e/f", b"x"))?;
                chmod("d", 0o700)?;
                alice_gets(|| contents("d/e/f"))?.says(EACCES)?;
                chmod("d", 0o755)?;
                as_alice(|| holds("d/e/f", b"x"))
            },
        ),
        check(
            "path/a-descriptor-passes-a-closed-prefix",
            "An open directory is used without its prefix.",
            |_| {
                dir("d")?;
                dir("d/e")?;
                file("d/e/f", b"x")?;
                let e = reopen("d/e", O_DIRECTORY)?;
                chmod("d", 0o700)?;
                as_alice(|| same("size", statat(&e, "f", 0)?.size, 1))
            },
        ),
    ]
}

fn null_paths() -> Vec<Check> {
    [
        "open", "stat", "mkdir", "unlink", "rmdir", "rename", "link", "symlink", "readlink",
        "mknod", "chmod", "chown", "truncate", "access", "getxattr", "statfs",
    ]
    .into_iter()
    .map(|call| {
        check(
            format!("path/{call}-of-no-memory-says-EFAULT"),
            "A name outside the address space cannot be read.",
            move |_| nowhere_path(call).says(EFAULT),
        )
    })
    .collect()
}
