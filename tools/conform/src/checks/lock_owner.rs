//! fcntl locks: whose they are, how they are waited for, and those of open file descriptions.

use super::lock::{ground, others_find};
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = owners();
    checks.extend(waiting());
    checks.extend(descriptions());
    checks
}

fn owners() -> Vec<Check> {
    vec![
        check(
            "fcntl/closing-any-descriptor-frees-the-processs-locks",
            "POSIX's rule, wanted or not.",
            |_| {
                in_child(|| {
                    let fd = ground()?;
                    try_lock(&fd, F_WRLCK, WHOLE)?;
                    others_find(&[(F_WRLCK, 0, 0)])?;
                    drop(reopen("f", O_RDONLY)?);
                    others_find(&[])
                })
            },
        ),
        check(
            "fcntl/locks-end-with-the-process",
            "Also when it is killed.",
            |_| {
                ground()?;
                let mut other = Child::start(|line| {
                    try_lock(reopen("f", O_RDWR)?, F_WRLCK, WHOLE)?;
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, WHOLE)?;
                    line.say()?;
                    line.hear()
                })?;
                other.hear()?;
                others_find(&[(F_WRLCK, 0, 0)])?;
                other.kill()?;
                others_find(&[])
            },
        ),
        check(
            "fcntl/a-forked-child-does-not-inherit",
            "The lock is the parent's.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                in_child(|| {
                    try_lock(&fd, F_WRLCK, WHOLE).says_one_of(&[EAGAIN, EACCES])?;
                    // Nor does the child's unlocking free the parent's.
                    try_lock(&fd, F_UNLCK, WHOLE)?;
                    try_lock(&fd, F_WRLCK, WHOLE).says_one_of(&[EAGAIN, EACCES])
                })?;
                others_find(&[(F_WRLCK, 0, 0)])
            },
        ),
        check(
            "fcntl/a-childs-close-does-not-free-the-parents",
            "Its table is another.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                in_child(|| works(reopen("f", O_RDWR)))?;
                others_find(&[(F_WRLCK, 0, 0)])
            },
        ),
        check(
            "fcntl/locks-follow-the-file-not-the-name",
            "Rename and unlink keep them.",
            |_| {
                let fd = ground()?;
                link("f", "g")?;
                try_lock(&fd, F_WRLCK, range(0, 10))?;
                rename("f", "h")?;
                in_child(|| {
                    try_lock(reopen("g", O_RDWR)?, F_WRLCK, range(0, 1))
                        .says_one_of(&[EAGAIN, EACCES])?;
                    try_lock(reopen("h", O_RDWR)?, F_WRLCK, range(0, 1))
                        .says_one_of(&[EAGAIN, EACCES])
                })
            },
        ),
        check(
            "fcntl/locks-of-different-files-are-different",
            "The same range of another file is free.",
            |_| {
                let fd = ground()?;
                file("g", b"")?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                in_child(|| Ok(try_lock(reopen("g", O_RDWR)?, F_WRLCK, WHOLE)?))
            },
        ),
        check(
            "fcntl/locks-are-advice",
            "Reads, writes and truncation go on.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    pwrite(&fd, b"x", 0)?;
                    pread(&fd, 1, 0)?;
                    Ok(ftruncate(&fd, 10)?)
                })
            },
        ),
    ]
}

fn waiting() -> Vec<Check> {
    vec![
        check(
            "fcntl/F_SETLKW-waits-until-the-lock-is-free",
            "When the holder frees it, the one that waits has it.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                let mut other = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    line.say()?;
                    wait_lock(&fd, F_WRLCK, WHOLE)?;
                    same_bytes("what the holder wrote first", &pread(&fd, 5, 0)?, b"first")
                })?;
                other.hear()?;
                sleep(Duration::from_millis(50));
                pwrite(&fd, b"first", 0)?;
                try_lock(&fd, F_UNLCK, WHOLE)?;
                other.finish()
            },
        ),
        check(
            "fcntl/F_SETLKW-is-interrupted-by-a-signal",
            "A wait that a signal handler interrupts ends with EINTR.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    interrupt_after(Duration::from_millis(50));
                    wait_lock(&fd, F_WRLCK, WHOLE).says(EINTR)
                })?;
                others_find(&[(F_WRLCK, 0, 0)])
            },
        ),
        check(
            "fcntl/two-that-wait-for-each-other-say-EDEADLK",
            "Exactly one of them is refused, and the other gets its lock.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 1))?;
                let mut other = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, range(1, 1))?;
                    line.say()?;
                    match wait_lock(&fd, F_WRLCK, range(0, 1)) {
                        Ok(()) => Ok(()),
                        answer => answer
                            .says(EDEADLK)
                            .and_then(|()| file("the child was refused", b"")),
                    }
                })?;
                other.hear()?;
                let we_were_refused = match wait_lock(&fd, F_WRLCK, range(1, 1)) {
                    Ok(()) => false,
                    answer => answer.says(EDEADLK).map(|()| true)?,
                };
                try_lock(&fd, F_UNLCK, WHOLE)?;
                other.finish()?;
                differs(
                    "who was refused",
                    stat("the child was refused").is_ok(),
                    we_were_refused,
                )
            },
        ),
        check(
            "fcntl/a-waiter-that-is-killed-takes-nothing",
            "The lock goes to nobody.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, WHOLE)?;
                let mut other = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    line.say()?;
                    Ok(wait_lock(&fd, F_WRLCK, WHOLE)?)
                })?;
                other.hear()?;
                sleep(Duration::from_millis(50));
                other.kill()?;
                try_lock(&fd, F_UNLCK, WHOLE)?;
                others_find(&[])
            },
        ),
        check(
            "fcntl/a-holders-end-wakes-the-waiter",
            "The death of the holder frees its locks.",
            |_| {
                ground()?;
                let mut holder = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, WHOLE)?;
                    line.say()?;
                    line.hear()
                })?;
                holder.hear()?;
                let mut waiter = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    line.say()?;
                    Ok(wait_lock(&fd, F_WRLCK, WHOLE)?)
                })?;
                waiter.hear()?;
                sleep(Duration::from_millis(50));
                holder.kill()?;
                waiter.finish()
            },
        ),
        check(
            "fcntl/a-counter-under-a-lock-loses-nothing",
            "Four processes add one 50 times each.",
            |_| {
                file("f", 0u32.to_le_bytes())?;
                let count = || -> Outcome {
                    let fd = reopen("f", O_RDWR)?;
                    for _ in 0..50 {
                        wait_lock(&fd, F_WRLCK, WHOLE)?;
                        let bytes = pread(&fd, 4, 0)?;
                        let value = u32::from_le_bytes(bytes.try_into().unwrap_or_default());
                        pwrite(&fd, (value + 1).to_le_bytes(), 0)?;
                        try_lock(&fd, F_UNLCK, WHOLE)?;
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

fn descriptions() -> Vec<Check> {
    vec![
        check(
            "ofd-lock/belongs-to-the-open-file-description",
            "Two opens of one process conflict.",
            |_| {
                let one = ground()?;
                let two = reopen("f", O_RDWR)?;
                try_ofd_lock(&one, F_WRLCK, range(0, 10))?;
                try_ofd_lock(&two, F_WRLCK, range(5, 1)).says(EAGAIN)?;
                try_ofd_lock(&two, F_WRLCK, range(10, 1))?;
                Ok(())
            },
        ),
        check(
            "ofd-lock/a-duplicate-and-a-child-share-it",
            "They have the same description.",
            |_| {
                let one = ground()?;
                try_ofd_lock(&one, F_WRLCK, WHOLE)?;
                try_ofd_lock(dup(&one)?, F_RDLCK, WHOLE)?;
                in_child(|| Ok(try_ofd_lock(&one, F_WRLCK, WHOLE)?))
            },
        ),
        check(
            "ofd-lock/closing-another-descriptor-does-not-free-it",
            "Only the last close of its own.",
            |_| {
                let one = ground()?;
                try_ofd_lock(&one, F_WRLCK, WHOLE)?;
                drop(reopen("f", O_RDWR)?);
                let two = reopen("f", O_RDWR)?;
                try_ofd_lock(&two, F_RDLCK, WHOLE).says(EAGAIN)?;
                let copy = dup(&one)?;
                drop(one);
                try_ofd_lock(&two, F_RDLCK, WHOLE).says(EAGAIN)?;
                drop(copy);
                try_ofd_lock(&two, F_RDLCK, WHOLE)?;
                Ok(())
            },
        ),
        check(
            "ofd-lock/conflicts-with-a-processs-lock",
            "The two kinds know each other.",
            |_| {
                let one = ground()?;
                try_ofd_lock(&one, F_WRLCK, range(0, 10))?;
                try_lock(reopen("f", O_RDWR)?, F_WRLCK, range(0, 10)).says_one_of(&[EAGAIN, EACCES])
            },
        ),
        check(
            "ofd-lock/F_OFD_GETLK-tells-the-range-and-pid-minus-1",
            "A description has no process.",
            |_| {
                let one = ground()?;
                try_ofd_lock(&one, F_WRLCK, range(3, 4))?;
                let found = ofd_lock_in_the_way(reopen("f", O_RDWR)?, F_RDLCK, WHOLE)?;
                same(
                    "holder",
                    found,
                    Some(Holder {
                        kind: F_WRLCK,
                        start: 3,
                        length: 4,
                        pid: -1,
                    }),
                )
            },
        ),
        check(
            "ofd-lock/F_OFD_SETLKW-waits",
            "Between threads too.",
            |_| {
                let one = ground()?;
                try_ofd_lock(&one, F_WRLCK, WHOLE)?;
                std::thread::scope(|scope| {
                    let waiter =
                        scope.spawn(|| wait_ofd_lock(reopen("f", O_RDWR)?, F_WRLCK, WHOLE));
                    sleep(Duration::from_millis(50));
                    truth("it waits", !waiter.is_finished())?;
                    try_ofd_lock(&one, F_UNLCK, WHOLE)?;
                    match waiter.join() {
                        Ok(answer) => Ok(answer?),
                        Err(_) => Err(failed("the waiter gets the lock", "it panicked")),
                    }
                })
            },
        ),
    ]
}
