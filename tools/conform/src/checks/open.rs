//! open(2): what each flag promises on the mount.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = creating();
    checks.extend(by_kind());
    checks
}

fn creating() -> Vec<Check> {
    vec![
        check(
            "open/O_CREAT-makes-an-empty-file",
            "Size 0, one link, the type of a regular file.",
            |_| {
                open("f", O_CREAT | O_WRONLY, 0o644)?;
                let facts = stat("f")?;
                same(
                    "kind, links, size",
                    (facts.kind(), facts.nlink, facts.size),
                    (S_IFREG, 1, 0),
                )
            },
        ),
        check(
            "open/O_CREAT-mode-is-as-asked-with-umask-0",
            "Permission bits come from the mode.",
            |_| {
                for mode in [0o644, 0o600, 0o000, 0o777, 0o111] {
                    open("f", O_CREAT | O_EXCL | O_WRONLY, mode)?;
                    same_mode(stat("f")?.permissions(), mode)?;
                    unlink("f")?;
                }
                Ok(())
            },
        ),
        check(
            "open/O_CREAT-umask-takes-bits-away",
            "Bits of the umask are cleared.",
            |_| {
                umask(0o137);
                open("f", O_CREAT | O_WRONLY, 0o666)?;
                same_mode(stat("f")?.permissions(), 0o640)
            },
        ),
        check(
            "open/O_CREAT-gives-the-asked-access-even-to-mode-0",
            "The mode binds later opens only.",
            |_| {
                as_alice(|| {
                    let fd = open("f", O_CREAT | O_RDWR, 0o000)?;
                    write_all(&fd, b"x")?;
                    same_bytes("bytes", &contents_of(&fd)?, b"x")?;
                    open("f", O_RDONLY, 0).says(EACCES)
                })
            },
        ),
        check(
            "open/O_CREAT-keeps-setuid-setgid-and-sticky-for-root",
            "All twelve bits are the mode.",
            |t| {
                t.needs_root()?;
                open("f", O_CREAT | O_WRONLY, 0o7755)?;
                same_mode(stat("f")?.permissions(), 0o7755)
            },
        ),
        check(
            "open/O_CREAT-on-an-existing-file-opens-it",
            "Bytes and mode stay.",
            |_| {
                file_with_mode("f", b"abc", 0o640)?;
                let fd = open("f", O_CREAT | O_RDONLY, 0o777)?;
                same_bytes("bytes", &contents_of(&fd)?, b"abc")?;
                same_mode(stat("f")?.permissions(), 0o640)
            },
        ),
        check(
            "open/O_CREAT-belongs-to-the-maker",
            "Owner and group are the effective ids.",
            |_| {
                as_alice(|| {
                    open("f", O_CREAT | O_WRONLY, 0o644)?;
                    let facts = stat("f")?;
                    same("owner and group", (facts.uid, facts.gid), (ALICE, ALICE))
                })
            },
        ),
        check(
            "open/O_CREAT-of-a-directory-says-EISDIR",
            "A directory is not opened for creating.",
            |_| {
                dir("d")?;
                open("d", O_CREAT | O_RDONLY, 0o644).says(EISDIR)?;
                open("d", O_CREAT | O_WRONLY, 0o644).says(EISDIR)
            },
        ),
        check(
            "open/O_CREAT-with-a-trailing-slash-says-EISDIR",
            "A slash asks for a directory.",
            |_| {
                open("f/", O_CREAT | O_WRONLY, 0o644).says(EISDIR)?;
                gone("f")
            },
        ),
        check(
            "open/O_CREAT-in-an-unwritable-directory-says-EACCES",
            "A new name needs permission.",
            |_| {
                dir_with_mode("d", 0o755)?;
                alice_gets(|| open("d/f", O_CREAT | O_WRONLY, 0o644))?.says(EACCES)?;
                gone("d/f")
            },
        ),
        check(
            "open/O_CREAT-of-an-existing-file-needs-no-directory-permission",
            "No name is made.",
            |_| {
                dir_with_mode("d", 0o755)?;
                file_with_mode("d/f", b"x", 0o666)?;
                as_alice(|| {
                    open("d/f", O_CREAT | O_RDWR, 0o644)?;
                    Ok(())
                })
            },
        ),
        check(
            "open/O_EXCL-onto-a-dangling-link-says-EEXIST",
            "The link is the name; it is not followed.",
            |_| {
                symlink("nowhere", "l")?;
                open("l", O_CREAT | O_EXCL | O_WRONLY, 0o644).says(EEXIST)?;
                gone("nowhere")
            },
        ),
        check(
            "open/O_EXCL-an-existing-name-says-EEXIST-without-permission",
            "EEXIST comes first.",
            |_| {
                dir_with_mode("d", 0o755)?;
                file_with_mode("d/f", b"x", 0o600)?;
                alice_gets(|| open("d/f", O_CREAT | O_EXCL | O_WRONLY, 0o644))?.says(EEXIST)
            },
        ),
        check(
            "open/O_CREAT-in-a-removed-directory-says-ENOENT",
            "It takes no names.",
            |_| {
                dir("d")?;
                let d = reopen("d", O_DIRECTORY)?;
                rmdir("d")?;
                openat(&d, "f", O_CREAT | O_WRONLY, 0o644).says(ENOENT)
            },
        ),
        check(
            "open/a-missing-name-says-ENOENT",
            "Without O_CREAT there must be a file.",
            |_| {
                open("nothing", O_RDONLY, 0).says(ENOENT)?;
                open("nothing", O_RDWR | O_TRUNC, 0).says(ENOENT)
            },
        ),
    ]
}

fn by_kind() -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        checks.push(check(
            format!("open/O_EXCL-onto-{}-says-EEXIST", kind.word()),
            "O_CREAT|O_EXCL never opens what exists.",
            move |_| {
                kind.make("x")?;
                open("x", O_CREAT | O_EXCL | O_WRONLY, 0o644).says(EEXIST)?;
                kind.is_at("x")
            },
        ));
        if kind != Kind::Dir {
            checks.push(check(
                format!("open/O_DIRECTORY-of-{}-says-ENOTDIR", kind.word()),
                "O_DIRECTORY opens directories only.",
                move |_| {
                    kind.make("x")?;
                    let expected = if kind == Kind::Symlink {
                        ENOENT
                    } else {
                        ENOTDIR
                    };
                    open("x", O_RDONLY | O_DIRECTORY | O_NONBLOCK, 0).says(expected)
                },
            ));
        }
    }
    checks.extend([
        check(
            "open/a-socket-says-ENXIO",
            "A socket is not opened by name.",
            |_| {
                Kind::Socket.make("s")?;
                open("s", O_RDONLY, 0).says(ENXIO)?;
                open("s", O_RDWR, 0).says(ENXIO)
            },
        ),
        check(
            "open/a-fifo-for-writing-without-a-reader-says-ENXIO",
            "With O_NONBLOCK it does not wait.",
            |_| {
                mkfifo("p", 0o644)?;
                open("p", O_WRONLY | O_NONBLOCK, 0).says(ENXIO)
            },
        ),
        check(
            "open/a-device-without-a-driver-says-ENXIO",
            "Nothing answers at that number.",
            |t| {
                t.needs_root()?;
                if statvfs(".")?.f_flag & libc::ST_NODEV != 0 {
                    return skipped("mounted nodev");
                }
                // Character major 240 to 254 are for local use; a kernel without such a driver has none.
                mknod("c", S_IFCHR | 0o644, makedev(250, 77))?;
                open("c", O_RDONLY, 0).says_one_of(&[ENXIO, ENODEV])
            },
        ),
        check(
            "open/the-null-device-by-a-new-name",
            "A device node leads to its driver.",
            |t| {
                t.needs_root()?;
                if statvfs(".")?.f_flag & libc::ST_NODEV != 0 {
                    return skipped("mounted nodev");
                }
                Kind::Char.make("null")?;
                let null = open("null", O_RDWR, 0)?;
                same("taken", write(&null, b"12345")?, 5)?;
                same("given", read(&null, 10)?, vec![])
            },
        ),
        check(
            "open/a-directory-for-writing-says-EISDIR",
            "Directories are changed by their own calls.",
            |_| {
                dir("d")?;
                open("d", O_WRONLY, 0).says(EISDIR)?;
                open("d", O_RDWR, 0).says(EISDIR)?;
                open("d", O_RDONLY | O_TRUNC, 0).says(EISDIR)
            },
        ),
        check(
            "open/a-directory-for-reading-works-with-and-without-O_DIRECTORY",
            "Both open the same directory.",
            |_| {
                dir("d")?;
                let plain = open("d", O_RDONLY, 0)?;
                let asked = open("d", O_RDONLY | O_DIRECTORY, 0)?;
                same(
                    "identity",
                    fstat(&plain)?.identity(),
                    fstat(&asked)?.identity(),
                )
            },
        ),
    ]);
    checks
}
