//! mknod(2), fifos, unix sockets: files that are names for something else.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = making();
    checks.extend(fifos());
    checks.extend(sockets());
    checks
}

fn making() -> Vec<Check> {
    let mut checks = Vec::new();
    for kind in Kind::ALL {
        checks.push(check(
            format!("mknod/onto-{}-says-EEXIST", kind.word()),
            "An existing name is never replaced; a symbolic link is not followed.",
            move |_| {
                kind.make("x")?;
                mkfifo("x", 0o644).says(EEXIST)?;
                mknod("x", S_IFREG | 0o644, 0).says(EEXIST)?;
                kind.is_at("x")
            },
        ));
    }
    checks.extend([
        check(
            "mknod/a-regular-file",
            "It is empty; type bits 0 mean the same.",
            |_| {
                mknod("f", S_IFREG | 0o640, 0)?;
                mknod("g", 0o600, 0)?;
                same_mode(stat("f")?.mode, S_IFREG | 0o640)?;
                same_mode(stat("g")?.mode, S_IFREG | 0o600)?;
                same("size", stat("f")?.size, 0)
            },
        ),
        check(
            "mknod/a-directory-says-EPERM",
            "Or EINVAL: mkdir makes directories.",
            |_| {
                mknod("d", S_IFDIR | 0o755, 0).says_one_of(&[EPERM, EINVAL])?;
                mknod("l", S_IFLNK | 0o777, 0).says_one_of(&[EINVAL, EPERM])?;
                gone("d")
            },
        ),
        check(
            "mknod/a-device-needs-privilege",
            "EPERM for others; fifo, socket and file need none.",
            |_| {
                as_alice(|| {
                    mknod("c", S_IFCHR | 0o644, makedev(1, 3)).says(EPERM)?;
                    mknod("b", S_IFBLK | 0o644, makedev(0, 77)).says(EPERM)?;
                    mknod("s", S_IFSOCK | 0o644, 0)?;
                    mknod("p", S_IFIFO | 0o644, 0)?;
                    mknod("f", S_IFREG | 0o644, 0)?;
                    same("owner", (stat("p")?.uid, stat("p")?.gid), (ALICE, ALICE))
                })
            },
        ),
        check(
            "mknod/device-numbers-come-back",
            "Major up to 4095, minor up to 2^20 − 1.",
            |t| {
                t.needs_root()?;
                let numbers = [
                    (0, 0),
                    (0, 77),
                    (1, 3),
                    (8, 255),
                    (255, 256),
                    (4095, 1_048_575),
                    (300, 70_000),
                ];
                for (major, minor) in numbers {
                    mknod("x", S_IFBLK | 0o600, makedev(major, minor))?;
                    same("device", lstat("x")?.rdev, makedev(major, minor))?;
                    unlink("x")?;
                }
                Ok(())
            },
        ),
        check(
            "mknod/umask-and-mode",
            "Bits of the umask are cleared.",
            |_| {
                umask(0o022);
                mkfifo("p", 0o666)?;
                same_mode(stat("p")?.permissions(), 0o644)
            },
        ),
        check(
            "mknod/without-write-permission-says-EACCES",
            "The directory must be writable.",
            |_| {
                dir_with_mode("d", 0o755)?;
                alice_gets(|| mkfifo("d/p", 0o644))?.says(EACCES)
            },
        ),
        check(
            "mknod/relative-to-a-descriptor",
            "The name starts there.",
            |_| {
                dir("d")?;
                mknodat(reopen("d", O_DIRECTORY)?, "p", S_IFIFO | 0o644, 0)?;
                Kind::Fifo.is_at("d/p")?;
                mknodat(-1, "p", S_IFIFO | 0o644, 0).says(EBADF)
            },
        ),
        check(
            "mknod/an-unknown-type-says-EINVAL",
            "There are five it makes.",
            |t| {
                t.needs_root()?;
                mknod("x", 0o030_000 | 0o644, 0).says(EINVAL)
            },
        ),
    ]);
    checks
}

fn fifos() -> Vec<Check> {
    vec![
        check(
            "fifo/carries-bytes-between-processes",
            "In order, until the writer closes.",
            |_| {
                mkfifo("p", 0o644)?;
                let writer = Child::start(|_| {
                    let p = open("p", O_WRONLY, 0)?;
                    for number in 0..100u8 {
                        write(&p, [number; 100])?;
                    }
                    Ok(())
                })?;
                let p = open("p", O_RDONLY, 0)?;
                let mut found = Vec::new();
                loop {
                    let some = read(&p, 4096)?;
                    if some.is_empty() {
                        break;
                    }
                    found.extend(some);
                }
                writer.finish()?;
                let expected: Vec<u8> = (0..100u8).flat_map(|number| [number; 100]).collect();
                same_bytes("bytes", &found, &expected)
            },
        ),
        check(
            "fifo/an-empty-one-says-EAGAIN-when-not-waiting",
            "With a writer present; else end of file.",
            |_| {
                mkfifo("p", 0o644)?;
                let reader = open("p", O_RDONLY | O_NONBLOCK, 0)?;
                same("no writer", read(&reader, 10)?, vec![])?;
                let writer = open("p", O_WRONLY | O_NONBLOCK, 0)?;
                read(&reader, 10).says(EAGAIN)?;
                write(&writer, b"hello")?;
                same("bytes", read(&reader, 10)?, b"hello".to_vec())?;
                drop(writer);
                same("writer gone", read(&reader, 10)?, vec![])
            },
        ),
        check(
            "fifo/writing-without-a-reader-says-EPIPE",
            "After the last reader closed.",
            |_| {
                mkfifo("p", 0o644)?;
                in_child(|| {
                    ignore_signal(libc::SIGPIPE);
                    let reader = open("p", O_RDONLY | O_NONBLOCK, 0)?;
                    let writer = open("p", O_WRONLY | O_NONBLOCK, 0)?;
                    drop(reader);
                    write(&writer, b"x").says(EPIPE)
                })
            },
        ),
        check(
            "fifo/opening-waits-for-the-other-side-and-a-signal-ends-it",
            "A wait that a signal handler interrupts ends with EINTR.",
            |_| {
                mkfifo("p", 0o644)?;
                in_child(|| {
                    interrupt_after(Duration::from_millis(50));
                    open("p", O_RDONLY, 0).says(EINTR)?;
                    open("p", O_WRONLY, 0).says(EINTR)
                })
            },
        ),
        check(
            "fifo/bytes-do-not-stay-in-the-file",
            "When both sides are closed they are gone.",
            |_| {
                mkfifo("p", 0o644)?;
                {
                    let p = open("p", O_RDWR | O_NONBLOCK, 0)?;
                    write(&p, b"lost")?;
                }
                let p = open("p", O_RDWR | O_NONBLOCK, 0)?;
                read(&p, 10).says(EAGAIN)?;
                same("size", stat("p")?.size, 0)
            },
        ),
        check(
            "fifo/two-names-are-one-fifo",
            "It is the file that counts.",
            |_| {
                mkfifo("p", 0o644)?;
                link("p", "q")?;
                let reader = open("p", O_RDONLY | O_NONBLOCK, 0)?;
                let writer = open("q", O_WRONLY | O_NONBLOCK, 0)?;
                write(&writer, b"through")?;
                same("bytes", read(&reader, 10)?, b"through".to_vec())
            },
        ),
        check("fifo/permissions-bind-opening", "As with files.", |_| {
            mkfifo("p", 0o600)?;
            alice_gets(|| open("p", O_RDONLY | O_NONBLOCK, 0))?.says(EACCES)?;
            chmod("p", 0o644)?;
            as_alice(|| {
                open("p", O_RDONLY | O_NONBLOCK, 0)?;
                open("p", O_WRONLY | O_NONBLOCK, 0).says(EACCES)
            })
        }),
    ]
}

fn sockets() -> Vec<Check> {
    vec![
        check(
            "socket/bind-makes-a-name",
            "Of type socket, with the umask's mode.",
            |_| {
                umask(0o027);
                let server = unix_socket()?;
                bind(&server, "s")?;
                same_mode(lstat("s")?.mode, S_IFSOCK | 0o750)
            },
        ),
        check(
            "socket/connect-finds-the-server-by-name",
            "Also through a link and after a rename.",
            |_| {
                let server = unix_socket()?;
                bind(&server, "s")?;
                listen(&server)?;
                symlink("s", "l")?;
                for name in ["s", "l"] {
                    let client = unix_socket()?;
                    connect(&client, name)?;
                    write(&client, b"hello")?;
                    same("bytes", read(accept(&server)?, 10)?, b"hello".to_vec())?;
                }
                rename("s", "t")?;
                connect(unix_socket()?, "t")?;
                Ok(())
            },
        ),
        check(
            "socket/binding-an-existing-name-says-EADDRINUSE",
            "Whatever kind of file has the name.",
            |_| {
                file("s", b"")?;
                bind(unix_socket()?, "s").says(EADDRINUSE)
            },
        ),
        check(
            "socket/connecting-without-a-server-says-ECONNREFUSED",
            "The name alone answers nothing.",
            |_| {
                mknod("s", S_IFSOCK | 0o777, 0)?;
                connect(unix_socket()?, "s").says(ECONNREFUSED)?;
                file("f", b"")?;
                connect(unix_socket()?, "f").says(ECONNREFUSED)?;
                connect(unix_socket()?, "nothing").says(ENOENT)
            },
        ),
        check(
            "socket/connecting-needs-write-permission",
            "The name's bits guard the way to the server.",
            |_| {
                let server = unix_socket()?;
                bind(&server, "s")?;
                listen(&server)?;
                chmod("s", 0o755)?;
                alice_gets(|| connect(unix_socket()?, "s"))?.says(EACCES)?;
                chmod("s", 0o777)?;
                alice_gets(|| connect(unix_socket()?, "s"))??;
                Ok(())
            },
        ),
        check(
            "socket/the-name-stays-when-the-server-ends",
            "Until it is unlinked.",
            |_| {
                {
                    bind(unix_socket()?, "s")?;
                }
                Kind::Socket.is_at("s")?;
                bind(unix_socket()?, "s").says(EADDRINUSE)?;
                unlink("s")?;
                bind(unix_socket()?, "s")?;
                Ok(())
            },
        ),
    ]
}
