//! Mounts, in a mount table of the check's own: read-only, mount points, borders; and inotify.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks: Vec<Check> = WRITES
        .iter()
        .map(|(word, call)| refused_read_only(word, *call))
        .collect();
    checks.extend(borders());
    checks.extend(events());
    checks
}

/// Run `work` in a thread with private mounts; they go with the thread.
#[track_caller]
fn with_mounts(t: &TestDirectory, work: impl FnOnce() -> Outcome + Send) -> Outcome {
    t.needs_root()?;
    std::thread::scope(|scope| {
        let visit = scope.spawn(|| {
            // A thread that shares its working directory with others may not leave their mounts.
            unshare_fs()?;
            unshare_mounts().or_skip(&[EPERM, ENOSYS], "private mounts are not allowed here")?;
            work()
        });
        visit
            .join()
            .unwrap_or_else(|_| Err(failed("the check runs to its end", "it panicked")))
    })
}

type Write = fn() -> Answer;

/// Calls that change something, on the tree `ro` with the file `ro/f`, the directory `ro/d` and the link `ro/l`.
const WRITES: &[(&str, Write)] = &[
    ("open-for-writing", || open("ro/f", O_WRONLY, 0).map(drop)),
    ("open-for-both", || open("ro/f", O_RDWR, 0).map(drop)),
    ("open-truncating", || {
        open("ro/f", O_RDONLY | O_TRUNC, 0).map(drop)
    }),
    ("open-creating", || {
        open("ro/new", O_CREAT | O_RDONLY, 0o644).map(drop)
    }),
    ("O_TMPFILE", || {
        open("ro", O_TMPFILE | O_RDWR, 0o644).map(drop)
    }),
    ("truncate", || truncate("ro/f", 0)),
    ("mkdir", || mkdir("ro/new", 0o755)),
    ("rmdir", || rmdir("ro/d")),
    ("unlink", || unlink("ro/f")),
    ("rename", || rename("ro/f", "ro/new")),
    ("exchange", || rename_flags("ro/f", "ro/d", RENAME_EXCHANGE)),
    ("link", || link("ro/f", "ro/new")),
    ("symlink", || symlink("t", "ro/new")),
    ("mknod", || mkfifo("ro/new", 0o644)),
    ("chmod", || chmod("ro/f", 0o600)),
    ("chown", || chown("ro/f", ALICE, ALICE)),
    ("lchown", || lchown("ro/l", ALICE, ALICE)),
    ("utimensat", || utimens("ro/f", EARLY, EARLY)),
    ("setxattr", || setxattr("ro/f", "user.a", b"1", 0)),
    ("removexattr", || removexattr("ro/f", "user.a")),
    ("access-W_OK", || access("ro/f", W_OK)),
    ("bind", || bind(unix_socket()?, "ro/new")),
];

fn refused_read_only(word: &'static str, call: Write) -> Check {
    check(
        format!("read-only/{word}-says-EROFS"),
        "Nothing changes on a file system that is mounted read-only; reading works.",
        move |t| {
            dir("rw")?;
            dir("ro")?;
            file("rw/f", b"x")?;
            dir("rw/d")?;
            symlink("f", "rw/l")?;
            with_mounts(t, || {
                bind_mount("rw", "ro")?;
                mount_flags(
                    "none",
                    "ro",
                    libc::MS_REMOUNT | libc::MS_BIND | libc::MS_RDONLY,
                )?;
                call().says(EROFS)?;
                holds("ro/f", b"x")?;
                same(
                    "names",
                    names("ro")?,
                    vec!["d".into(), "f".into(), "l".into()],
                )
            })
        },
    )
}

fn borders() -> Vec<Check> {
    vec![
        check(
            "mount/rename-and-link-across-say-EXDEV",
            "Even between two mounts of one file system.",
            |t| {
                dir("a")?;
                dir("b")?;
                file("a/f", b"x")?;
                with_mounts(t, || {
                    bind_mount("a", "b")?;
                    rename("a/f", "b/g").says(EXDEV)?;
                    link("a/f", "b/g").says(EXDEV)?;
                    holds("b/f", b"x")
                })
            },
        ),
        check(
            "mount/a-mount-point-says-EBUSY",
            "To rmdir, unlink and rename, as source and as target.",
            |t| {
                dir("a")?;
                dir("b")?;
                dir("c")?;
                file("f", b"")?;
                file("g", b"")?;
                with_mounts(t, || {
                    bind_mount("a", "b")?;
                    bind_mount("f", "g")?;
                    rmdir("b").says(EBUSY)?;
                    rename("b", "x").says(EBUSY)?;
                    rename("c", "b").says(EBUSY)?;
                    unlink("g").says(EBUSY)?;
                    rename("g", "x").says(EBUSY)
                })
            },
        ),
        check(
            "mount/a-bound-file-is-the-same-file",
            "Through either name.",
            |t| {
                file("f", b"one")?;
                file("g", b"hidden")?;
                with_mounts(t, || {
                    bind_mount("f", "g")?;
                    holds("g", b"one")?;
                    pwrite(reopen("g", O_WRONLY)?, b"two", 0)?;
                    holds("f", b"two")?;
                    same("identity", stat("g")?.identity(), stat("f")?.identity())
                })
            },
        ),
        check(
            "mount/dot-dot-of-a-mount-leads-out-of-it",
            "To where it is mounted.",
            |t| {
                dir("a")?;
                dir("p")?;
                dir("p/b")?;
                with_mounts(t, || {
                    bind_mount("a", "p/b")?;
                    same("dot-dot", stat("p/b/..")?.identity(), stat("p")?.identity())
                })
            },
        ),
    ]
}

fn events() -> Vec<Check> {
    use libc::{
        IN_ATTRIB, IN_CLOSE_WRITE, IN_CREATE, IN_DELETE, IN_DELETE_SELF, IN_ISDIR, IN_MODIFY,
        IN_MOVED_FROM, IN_MOVED_TO, IN_OPEN,
    };
    type Row = (
        &'static str,
        u32,
        &'static str,
        fn() -> Outcome,
        u32,
        &'static [u8],
    );
    const ROWS: &[Row] = &[
        (
            "creating",
            IN_CREATE,
            "d",
            || file("d/new", b""),
            IN_CREATE,
            b"new",
        ),
        (
            "mkdir",
            IN_CREATE,
            "d",
            || Ok(mkdir("d/new", 0o755)?),
            IN_CREATE | IN_ISDIR,
            b"new",
        ),
        (
            "link",
            IN_CREATE,
            "d",
            || Ok(link("d/f", "d/new")?),
            IN_CREATE,
            b"new",
        ),
        (
            "symlink",
            IN_CREATE,
            "d",
            || Ok(symlink("t", "d/new")?),
            IN_CREATE,
            b"new",
        ),
        (
            "unlink",
            IN_DELETE,
            "d",
            || Ok(unlink("d/f")?),
            IN_DELETE,
            b"f",
        ),
        (
            "rmdir",
            IN_DELETE,
            "d",
            || Ok(rmdir("d/e")?),
            IN_DELETE | IN_ISDIR,
            b"e",
        ),
        (
            "writing",
            IN_MODIFY,
            "d",
            || works(pwrite(reopen("d/f", O_WRONLY)?, b"x", 0)),
            IN_MODIFY,
            b"f",
        ),
        (
            "truncating",
            IN_MODIFY,
            "d",
            || Ok(truncate("d/f", 0)?),
            IN_MODIFY,
            b"f",
        ),
        (
            "chmod",
            IN_ATTRIB,
            "d",
            || Ok(chmod("d/f", 0o600)?),
            IN_ATTRIB,
            b"f",
        ),
        (
            "opening",
            IN_OPEN,
            "d",
            || works(reopen("d/f", O_RDONLY)),
            IN_OPEN,
            b"f",
        ),
        (
            "closing",
            IN_CLOSE_WRITE,
            "d",
            || works(reopen("d/f", O_WRONLY)),
            IN_CLOSE_WRITE,
            b"f",
        ),
        (
            "deleting-itself",
            IN_DELETE_SELF,
            "d/f",
            || Ok(unlink("d/f")?),
            IN_DELETE_SELF,
            b"",
        ),
    ];
    let mut checks: Vec<Check> = ROWS
        .iter()
        .map(|(word, mask, watched, change, expected, name)| {
            check(
                format!("inotify/{word}-is-reported"),
                "A local change is told to who watches the directory or file.",
                move |_| {
                    dir("d")?;
                    dir("d/e")?;
                    file("d/f", b"bytes")?;
                    let queue = inotify()?;
                    inotify_watch(&queue, watched, *mask)?;
                    change()?;
                    let events = inotify_events(&queue)?;
                    let found = events
                        .iter()
                        .any(|(seen, _, about)| seen == expected && about == name);
                    match found {
                        true => Ok(()),
                        false => Err(failed(
                            format!("event {expected:#x} about {name:?}"),
                            format!("{events:?}"),
                        )),
                    }
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "inotify/rename-is-reported-on-both-sides-with-one-cookie",
            "From and to belong together.",
            |_| {
                dir("a")?;
                dir("b")?;
                file("a/f", b"")?;
                let queue = inotify()?;
                inotify_watch(&queue, "a", IN_MOVED_FROM)?;
                inotify_watch(&queue, "b", IN_MOVED_TO)?;
                rename("a/f", "b/g")?;
                match inotify_events(&queue)?.as_slice() {
                    [(IN_MOVED_FROM, one, from), (IN_MOVED_TO, two, to)] => {
                        same("cookies", one, two)?;
                        same("names", (&from[..], &to[..]), (&b"f"[..], &b"g"[..]))
                    }
                    other => Err(failed("moved from and moved to", format!("{other:?}"))),
                }
            },
        ),
        check(
            "inotify/silence-says-EAGAIN",
            "Nothing happened, nothing is told.",
            |_| {
                dir("d")?;
                let queue = inotify()?;
                inotify_watch(&queue, "d", IN_CREATE)?;
                file("elsewhere", b"")?;
                inotify_events(&queue).says(EAGAIN)
            },
        ),
        check(
            "inotify/watching-needs-read-permission",
            "Without it EACCES.",
            |_| {
                file_with_mode("f", b"", 0o600)?;
                alice_gets(|| inotify_watch(inotify()?, "f", IN_MODIFY))?.says(EACCES)
            },
        ),
    ]);
    checks
}
