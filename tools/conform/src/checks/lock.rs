//! Locks: fcntl records (of processes and of open file descriptions) and flock.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    records()
}

/// A file of 1,000 bytes, open for both.
#[track_caller]
pub(super) fn ground() -> Outcome<Fd> {
    file("f", pattern(1, 1000))?;
    Ok(reopen("f", O_RDWR)?)
}

/// Another process finds exactly these ranges locked against it, as (kind, start, length).
#[track_caller]
pub(super) fn others_find(expected: &[(i32, i64, i64)]) -> Outcome {
    let expected = expected.to_vec();
    in_child(move || {
        let fd = reopen("f", O_RDWR)?;
        let mut found = Vec::new();
        let mut at = 0;
        while let Some(holder) = lock_in_the_way(&fd, F_WRLCK, range(at, 0))? {
            found.push((holder.kind, holder.start, holder.length));
            if holder.length == 0 || found.len() > 20 {
                break;
            }
            at = holder.start + holder.length;
        }
        // F_GETLK tells any lock in the way, not the first: ask only where order does not matter.
        found.sort_by_key(|lock| lock.1);
        same("locks", found, expected)
    })
}

fn records() -> Vec<Check> {
    vec![
        check(
            "fcntl/a-write-lock-excludes-others",
            "Both kinds say EAGAIN or EACCES.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 10))?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, range(0, 10)).says_one_of(&[EAGAIN, EACCES])?;
                    try_lock(&fd, F_RDLCK, range(9, 1)).says_one_of(&[EAGAIN, EACCES])
                })
            },
        ),
        check(
            "fcntl/read-locks-are-shared",
            "Writers are excluded.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_RDLCK, range(0, 10))?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_RDLCK, range(0, 10))?;
                    try_lock(&fd, F_WRLCK, range(5, 1)).says_one_of(&[EAGAIN, EACCES])
                })
            },
        ),
        check(
            "fcntl/ranges-that-do-not-touch-do-not-conflict",
            "Locks are exact to the byte.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(10, 10))?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, range(0, 10))?;
                    try_lock(&fd, F_WRLCK, range(20, 10))?;
                    try_lock(&fd, F_WRLCK, range(19, 1)).says_one_of(&[EAGAIN, EACCES])?;
                    try_lock(&fd, F_WRLCK, range(0, 11)).says_one_of(&[EAGAIN, EACCES])
                })
            },
        ),
        check(
            "fcntl/F_GETLK-names-the-holder",
            "Kind, range and process.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(100, 50))?;
                let holder = getpid();
                in_child(move || {
                    let fd = reopen("f", O_RDWR)?;
                    let found = lock_in_the_way(&fd, F_RDLCK, range(0, 0))?;
                    same(
                        "holder",
                        found,
                        Some(Holder {
                            kind: F_WRLCK,
                            start: 100,
                            length: 50,
                            pid: holder,
                        }),
                    )?;
                    same("free", lock_in_the_way(&fd, F_WRLCK, range(0, 100))?, None)
                })
            },
        ),
        check(
            "fcntl/length-0-reaches-beyond-every-end",
            "Also bytes that do not exist yet.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(500, 0))?;
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_WRLCK, range(i64::MAX - 1, 1))
                        .says_one_of(&[EAGAIN, EACCES])?;
                    try_lock(&fd, F_WRLCK, range(0, 500))?;
                    Ok(())
                })?;
                others_find(&[(F_WRLCK, 500, 0)])
            },
        ),
        check(
            "fcntl/a-negative-length-lies-before-the-start",
            "start − length to start − 1.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(100, -50))?;
                others_find(&[(F_WRLCK, 50, 50)])?;
                try_lock(&fd, F_WRLCK, range(10, -11)).says(EINVAL)
            },
        ),
        check(
            "fcntl/ranges-may-start-at-the-offset-or-the-end",
            "l_whence as in lseek.",
            |_| {
                let fd = ground()?;
                lseek(&fd, 300, SEEK_SET)?;
                try_lock(
                    &fd,
                    F_WRLCK,
                    Range {
                        start: 5,
                        length: 5,
                        whence: SEEK_CUR,
                    },
                )?;
                try_lock(
                    &fd,
                    F_WRLCK,
                    Range {
                        start: -10,
                        length: 5,
                        whence: SEEK_END,
                    },
                )?;
                others_find(&[(F_WRLCK, 305, 5), (F_WRLCK, 990, 5)])
            },
        ),
        check(
            "fcntl/unlocking-the-middle-splits",
            "Two locks remain around the freed range.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 100))?;
                try_lock(&fd, F_UNLCK, range(40, 20))?;
                others_find(&[(F_WRLCK, 0, 40), (F_WRLCK, 60, 40)])
            },
        ),
        check(
            "fcntl/a-lock-inside-changes-the-kind-there",
            "Write becomes read in the middle.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 100))?;
                try_lock(&fd, F_RDLCK, range(40, 20))?;
                others_find(&[(F_WRLCK, 0, 40), (F_RDLCK, 40, 20), (F_WRLCK, 60, 40)])
            },
        ),
        check(
            "fcntl/neighbours-of-one-kind-join",
            "One unlock frees both.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 10))?;
                try_lock(&fd, F_WRLCK, range(10, 10))?;
                others_find(&[(F_WRLCK, 0, 20)])?;
                try_lock(&fd, F_UNLCK, range(0, 20))?;
                others_find(&[])
            },
        ),
        check(
            "fcntl/ones-own-locks-never-conflict",
            "A new lock of the same process replaces the old one.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_WRLCK, range(0, 100))?;
                try_lock(&fd, F_RDLCK, range(0, 100))?;
                try_lock(reopen("f", O_RDWR)?, F_UNLCK, range(200, 1))?;
                Ok(())
            },
        ),
        check(
            "fcntl/an-upgrade-waits-for-other-readers",
            "EAGAIN while another reads.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, F_RDLCK, range(0, 10))?;
                let mut other = Child::start(|line| {
                    let fd = reopen("f", O_RDWR)?;
                    try_lock(&fd, F_RDLCK, range(5, 10))?;
                    line.say()?;
                    line.hear()
                })?;
                other.hear()?;
                try_lock(&fd, F_WRLCK, range(0, 10)).says_one_of(&[EAGAIN, EACCES])?;
                try_lock(&fd, F_WRLCK, range(0, 5))?;
                other.say()?;
                other.finish()?;
                try_lock(&fd, F_WRLCK, range(0, 10))?;
                Ok(())
            },
        ),
        check(
            "fcntl/a-read-lock-needs-a-readable-descriptor",
            "And a write lock a writable one: EBADF.",
            |_| {
                ground()?;
                try_lock(reopen("f", O_WRONLY)?, F_RDLCK, WHOLE).says(EBADF)?;
                try_lock(reopen("f", O_RDONLY)?, F_WRLCK, WHOLE).says(EBADF)
            },
        ),
        check(
            "fcntl/bad-arguments-say-EINVAL",
            "An unknown kind, a start before the file.",
            |_| {
                let fd = ground()?;
                try_lock(&fd, 77, WHOLE).says(EINVAL)?;
                try_lock(&fd, F_WRLCK, range(-1, 1)).says(EINVAL)?;
                lock_in_the_way(&fd, F_UNLCK, WHOLE).says(EINVAL)?;
                try_lock(&fd, F_WRLCK, range(i64::MAX, 2)).says_one_of(&[EOVERFLOW, EINVAL])
            },
        ),
        check(
            "fcntl/100-locks-in-one-file",
            "Each is found, all are freed at once.",
            |_| {
                let fd = ground()?;
                for number in 0..100 {
                    try_lock(&fd, F_WRLCK, range(number * 10, 5))?;
                }
                in_child(|| {
                    let fd = reopen("f", O_RDWR)?;
                    for number in 0..100 {
                        try_lock(&fd, F_RDLCK, range(number * 10, 5))
                            .says_one_of(&[EAGAIN, EACCES])?;
                        try_lock(&fd, F_RDLCK, range(number * 10 + 5, 5))?;
                    }
                    Ok(())
                })?;
                try_lock(&fd, F_UNLCK, WHOLE)?;
                others_find(&[])
            },
        ),
    ]
}
