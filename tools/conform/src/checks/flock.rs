//! flock(2): whole files, by open file description.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    vec![
        check(
            "flock/exclusive-excludes-all",
            "EWOULDBLOCK for others, in this process too.",
            |_| {
                file("f", b"")?;
                let (one, two) = (reopen("f", O_RDWR)?, reopen("f", O_RDONLY)?);
                flock(&one, LOCK_EX)?;
                flock(&two, LOCK_SH | LOCK_NB).says(EAGAIN)?;
                flock(&two, LOCK_EX | LOCK_NB).says(EAGAIN)?;
                in_child(|| flock(reopen("f", O_RDONLY)?, LOCK_SH | LOCK_NB).says(EAGAIN))
            },
        ),
        check("flock/shared-is-shared", "Writers are excluded.", |_| {
            file("f", b"")?;
            let (one, two) = (reopen("f", O_RDONLY)?, reopen("f", O_RDONLY)?);
            flock(&one, LOCK_SH)?;
            flock(&two, LOCK_SH | LOCK_NB)?;
            in_child(|| {
                let three = reopen("f", O_RDONLY)?;
                flock(&three, LOCK_SH | LOCK_NB)?;
                flock(&three, LOCK_EX | LOCK_NB).says(EAGAIN)
            })
        }),
        check(
            "flock/needs-no-access-mode",
            "A read-only descriptor may lock exclusively.",
            |_| {
                file("f", b"")?;
                flock(reopen("f", O_RDONLY)?, LOCK_EX | LOCK_NB)?;
                flock(reopen("f", O_WRONLY)?, LOCK_SH | LOCK_NB)?;
                Ok(())
            },
        ),
        check("flock/unlocking-frees", "And may be done twice.", |_| {
            file("f", b"")?;
            let (one, two) = (reopen("f", O_RDWR)?, reopen("f", O_RDWR)?);
            flock(&one, LOCK_EX)?;
            flock(&one, LOCK_UN)?;
            flock(&one, LOCK_UN)?;
            flock(&two, LOCK_EX | LOCK_NB)?;
            Ok(())
        }),
        check(
            "flock/converts-both-ways",
            "Shared to exclusive and back.",
            |_| {
                file("f", b"")?;
                let (one, two) = (reopen("f", O_RDWR)?, reopen("f", O_RDWR)?);
                flock(&one, LOCK_SH)?;
                flock(&one, LOCK_EX | LOCK_NB)?;
                flock(&two, LOCK_SH | LOCK_NB).says(EAGAIN)?;
                flock(&one, LOCK_SH | LOCK_NB)?;
                flock(&two, LOCK_SH | LOCK_NB)?;
                flock(&one, LOCK_EX | LOCK_NB).says(EAGAIN)
            },
        ),
        check(
            "flock/a-duplicate-shares-the-lock",
            "Either may free it; closing one does not.",
            |_| {
                file("f", b"")?;
                let one = reopen("f", O_RDWR)?;
                let copy = dup(&one)?;
                let two = reopen("f", O_RDWR)?;
                flock(&one, LOCK_EX)?;
                flock(&copy, LOCK_EX | LOCK_NB)?;
                drop(one);
                flock(&two, LOCK_EX | LOCK_NB).says(EAGAIN)?;
                flock(&copy, LOCK_UN)?;
                flock(&two, LOCK_EX | LOCK_NB)?;
                Ok(())
            },
        ),
        check(
            "flock/a-forked-child-shares-the-lock",
            "It lives until the last descriptor closes.",
            |_| {
                file("f", b"")?;
                let one = reopen("f", O_RDWR)?;
                flock(&one, LOCK_EX)?;
                let mut child = Child::start(|line| {
                    line.say()?;
                    line.hear()
                })?;
                child.hear()?;
                drop(one);
                let two = reopen("f", O_RDWR)?;
                flock(&two, LOCK_EX | LOCK_NB).says(EAGAIN)?;
                child.say()?;
                child.finish()?;
                flock(&two, LOCK_EX | LOCK_NB)?;
                Ok(())
            },
        ),
        check(
            "flock/ends-with-the-process",
            "Also when it is killed.",
            |_| {
                file("f", b"")?;
                let mut child = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    flock(&fd, LOCK_EX)?;
                    line.say()?;
                    line.hear()
                })?;
                child.hear()?;
                let fd = reopen("f", O_RDWR)?;
                flock(&fd, LOCK_EX | LOCK_NB).says(EAGAIN)?;
                child.kill()?;
                flock(&fd, LOCK_EX | LOCK_NB)?;
                Ok(())
            },
        ),
        check("flock/waits-until-free", "Then it has the lock.", |_| {
            file("f", b"")?;
            let one = reopen("f", O_RDWR)?;
            flock(&one, LOCK_EX)?;
            let mut child = Child::start(|line| {
                let fd = reopen("f", O_RDWR)?;
                line.say()?;
                flock(&fd, LOCK_EX)?;
                same_bytes("what the holder wrote first", &contents_of(&fd)?, b"first")
            })?;
            child.hear()?;
            sleep(Duration::from_millis(50));
            write(&one, b"first")?;
            flock(&one, LOCK_UN)?;
            // The child holds a copy of this descriptor: its lock is free, not only closed.
            child.finish()
        }),
        check(
            "flock/waiting-is-interrupted-by-a-signal",
            "A wait that a signal handler interrupts ends with EINTR.",
            |_| {
                file("f", b"")?;
                let one = reopen("f", O_RDWR)?;
                flock(&one, LOCK_EX)?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    interrupt_after(Duration::from_millis(50));
                    flock(&fd, LOCK_SH).says(EINTR)
                })
            },
        ),
        check(
            "flock/does-not-meet-fcntl-locks",
            "On a local file system the two are apart (NFS joins them).",
            |_| {
                file("f", b"")?;
                let one = reopen("f", O_RDWR)?;
                flock(&one, LOCK_EX)?;
                in_child(|| {
                    try_lock(reopen("f", O_RDWR)?, F_WRLCK, WHOLE).or_skip(
                        &[EAGAIN, EACCES],
                        "here flock and fcntl locks are one, as on NFS",
                    )
                })
            },
        ),
        check(
            "flock/a-directory-can-be-locked",
            "Any open file can.",
            |_| {
                dir("d")?;
                let (one, two) = (reopen("d", O_DIRECTORY)?, reopen("d", O_DIRECTORY)?);
                flock(&one, LOCK_EX)?;
                flock(&two, LOCK_SH | LOCK_NB).says(EAGAIN)
            },
        ),
        check(
            "flock/follows-the-file-not-the-name",
            "Any name of the file leads to the lock, also a new one.",
            |_| {
                file("f", b"")?;
                link("f", "g")?;
                let one = reopen("f", O_RDWR)?;
                flock(&one, LOCK_EX)?;
                rename("f", "h")?;
                flock(reopen("g", O_RDWR)?, LOCK_EX | LOCK_NB).says(EAGAIN)
            },
        ),
        check(
            "flock/bad-arguments",
            "Nothing asked for says EINVAL, a closed descriptor EBADF.",
            |_| {
                file("f", b"")?;
                let fd = reopen("f", O_RDWR)?;
                flock(&fd, 0).says(EINVAL)?;
                flock(&fd, LOCK_NB).says(EINVAL)?;
                flock(1_000_000, LOCK_SH).says(EBADF)?;
                flock(reopen("f", O_PATH)?, LOCK_SH).says(EBADF)
            },
        ),
        check(
            "flock/many-in-turn",
            "Four processes count to 200 together.",
            |_| {
                file("f", 0u32.to_le_bytes())?;
                let count = || -> Outcome {
                    let fd = reopen("f", O_RDWR)?;
                    for _ in 0..50 {
                        flock(&fd, LOCK_EX)?;
                        let value =
                            u32::from_le_bytes(pread(&fd, 4, 0)?.try_into().unwrap_or_default());
                        pwrite(&fd, (value + 1).to_le_bytes(), 0)?;
                        flock(&fd, LOCK_UN)?;
                    }
                    Ok(())
                };
                let children = (0..4)
                    .map(|_| Child::start(|_| count()))
                    .collect::<Outcome<Vec<_>>>()?;
                for child in children {
                    child.finish()?;
                }
                holds("f", 200u32.to_le_bytes())
            },
        ),
    ]
}
