//! Promises for several callers at once: one winner, no loss, no mixture.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = winners();
    checks.extend(no_loss());
    checks
}

const THREADS: usize = 8;

/// Run `work` in eight threads at once; the first failure is the answer.
#[track_caller]
pub(super) fn together(work: impl Fn(usize) -> Outcome + Sync) -> Outcome {
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..THREADS)
            .map(|number| {
                scope.spawn({
                    let work = &work;
                    move || work(number)
                })
            })
            .collect();
        threads.into_iter().try_for_each(|thread| {
            thread
                .join()
                .unwrap_or_else(|_| Err(failed("every thread ends", "one panicked")))
        })
    })
}

/// In 100 rounds, exactly one of eight callers succeeds; the others are told `loser`.
#[track_caller]
fn one_winner(
    loser: &'static [Errno],
    prepare: impl Fn(usize) -> Outcome,
    call: impl Fn(usize) -> Answer + Sync,
) -> Outcome {
    for round in 0..100 {
        prepare(round)?;
        let winners = AtomicU32::new(0);
        together(|_| match call(round) {
            Ok(()) => {
                winners.fetch_add(1, Ordering::Relaxed);
                Ok(())
            }
            answer => answer.says_one_of(loser),
        })?;
        same(
            &format!("winners of round {round}"),
            winners.into_inner(),
            1,
        )?;
    }
    Ok(())
}

fn winners() -> Vec<Check> {
    vec![
        check(
            "race/O_EXCL-has-one-winner",
            "Eight threads, 100 names.",
            |_| {
                one_winner(
                    &[EEXIST],
                    |_| Ok(()),
                    |round| open(format!("f{round}"), O_CREAT | O_EXCL | O_WRONLY, 0o644).map(drop),
                )?;
                same("names", names(".")?.len(), 100)
            },
        ),
        check(
            "race/mkdir-has-one-winner",
            "Eight threads, 100 names.",
            |_| {
                one_winner(
                    &[EEXIST],
                    |_| Ok(()),
                    |round| mkdir(format!("d{round}"), 0o755),
                )?;
                same("names", names(".")?.len(), 100)
            },
        ),
        check(
            "race/symlink-has-one-winner",
            "As lock files of old.",
            |_| {
                one_winner(
                    &[EEXIST],
                    |_| Ok(()),
                    |round| symlink("t", format!("l{round}")),
                )
            },
        ),
        check(
            "race/link-has-one-winner",
            "And the count is right.",
            |_| {
                file("f", b"")?;
                one_winner(
                    &[EEXIST],
                    |_| Ok(()),
                    |round| link("f", format!("l{round}")),
                )?;
                same("links", stat("f")?.nlink, 101)
            },
        ),
        check(
            "race/unlink-has-one-winner",
            "The others find nothing.",
            |_| {
                one_winner(
                    &[ENOENT],
                    |round| file(format!("f{round}"), b""),
                    |round| unlink(format!("f{round}")),
                )?;
                same("names", names(".")?.len(), 0)
            },
        ),
        check(
            "race/rmdir-has-one-winner",
            "The others find nothing.",
            |_| {
                one_winner(
                    &[ENOENT],
                    |round| dir(format!("d{round}")),
                    |round| rmdir(format!("d{round}")),
                )
            },
        ),
        check(
            "race/rename-away-has-one-winner",
            "A queue of files is taken by one each.",
            |_| {
                let taker = AtomicU32::new(0);
                one_winner(
                    &[ENOENT],
                    |round| file(format!("f{round}"), b""),
                    |round| {
                        let number = taker.fetch_add(1, Ordering::Relaxed);
                        rename(format!("f{round}"), format!("taken-{round}-{number}"))
                    },
                )?;
                same("names", names(".")?.len(), 100)
            },
        ),
        check(
            "race/rename-noreplace-has-one-winner",
            "Eight sources, one target.",
            |_| {
                for round in 0..50 {
                    let winners = AtomicU32::new(0);
                    together(|number| {
                        let source = format!("s{round}-{number}");
                        file(&source, source.as_bytes())?;
                        match rename_flags(&source, format!("t{round}"), RENAME_NOREPLACE) {
                            Ok(()) => {
                                winners.fetch_add(1, Ordering::Relaxed);
                                Ok(())
                            }
                            answer => answer.says(EEXIST),
                        }
                    })?;
                    same("winners", winners.into_inner(), 1)?;
                }
                Ok(())
            },
        ),
        check(
            "race/mkdir-against-rmdir-leaves-a-sound-parent",
            "Link count and listing agree at the end.",
            |_| {
                dir("p")?;
                let counted = stat("p")?.nlink == 2;
                together(|number| {
                    for round in 0..100 {
                        let name = format!("p/{}", (number + round) % 3);
                        match if round % 2 == 0 {
                            mkdir(&name, 0o755)
                        } else {
                            rmdir(&name)
                        } {
                            Ok(()) => {}
                            answer => answer.says_one_of(&[EEXIST, ENOENT])?,
                        }
                    }
                    Ok(())
                })?;
                let left = names("p")?;
                if counted {
                    same("links", stat("p")?.nlink, 2 + left.len() as u64)?;
                }
                for name in left {
                    rmdir(format!("p/{name}"))?;
                }
                Ok(rmdir("p")?)
            },
        ),
        check(
            "race/create-against-rmdir-never-loses-the-file",
            "Either the file or the removal wins.",
            |_| {
                for round in 0..100 {
                    let name = format!("d{round}");
                    dir(&name)?;
                    let made = AtomicBool::new(false);
                    let removed = AtomicBool::new(false);
                    together(|number| match number % 2 {
                        0 => match open(format!("{name}/f"), O_CREAT | O_WRONLY, 0o644) {
                            Ok(_) => {
                                made.store(true, Ordering::Relaxed);
                                Ok(())
                            }
                            answer => answer.says(ENOENT),
                        },
                        _ => match rmdir(&name) {
                            Ok(()) => {
                                removed.store(true, Ordering::Relaxed);
                                Ok(())
                            }
                            answer => answer.says_one_of(&[ENOTEMPTY, EEXIST, ENOENT]),
                        },
                    })?;
                    differs(
                        "both won",
                        (made.into_inner(), removed.into_inner()),
                        (true, true),
                    )?;
                }
                Ok(())
            },
        ),
    ]
}

fn no_loss() -> Vec<Check> {
    vec![
        check(
            "race/appends-of-four-processes-lose-nothing",
            "1,000 records of 100 bytes each, whole and in order.",
            |_| {
                file("log", b"")?;
                let writers = (0..4u8)
                    .map(|writer| {
                        Child::start(move |_| {
                            let fd = reopen("log", O_WRONLY | O_APPEND)?;
                            for number in 0..1000 {
                                let record = format!("{writer} {number:04} {}\n", "x".repeat(92));
                                same("taken", write(&fd, record)?, 100)?;
                            }
                            Ok(())
                        })
                    })
                    .collect::<Outcome<Vec<_>>>()?;
                for writer in writers {
                    writer.finish()?;
                }
                let log = contents("log")?;
                same("size", log.len(), 400_000)?;
                let mut next = [0u32; 4];
                for record in log.chunks(100) {
                    let writer = usize::from(record[0] - b'0');
                    let expected = format!("{writer} {:04} {}\n", next[writer], "x".repeat(92));
                    same_bytes("record", record, expected.as_bytes())?;
                    next[writer] += 1;
                }
                Ok(())
            },
        ),
        check(
            "race/appends-of-threads-through-one-descriptor-lose-nothing",
            "They share offset and end.",
            |_| {
                let fd = open("log", O_CREAT | O_WRONLY | O_APPEND, 0o644)?;
                together(|number| {
                    for _ in 0..200 {
                        same("taken", write(&fd, [number as u8; 33])?, 33)?;
                    }
                    Ok(())
                })?;
                let log = contents("log")?;
                same("size", log.len(), THREADS * 200 * 33)?;
                truth(
                    "every record is whole",
                    log.chunks(33)
                        .all(|record| record.iter().all(|b| *b == record[0])),
                )
            },
        ),
        check(
            "race/writes-through-one-descriptor-share-the-offset",
            "No two land in one place.",
            |_| {
                let fd = open("f", O_CREAT | O_WRONLY, 0o644)?;
                together(|number| {
                    for _ in 0..200 {
                        same("taken", write(&fd, [number as u8 + 1; 64])?, 64)?;
                    }
                    Ok(())
                })?;
                let found = contents("f")?;
                same("size", found.len(), THREADS * 200 * 64)?;
                truth(
                    "every record is whole",
                    found
                        .chunks(64)
                        .all(|record| record.iter().all(|b| *b == record[0])),
                )
            },
        ),
        check(
            "race/creates-in-one-directory-are-all-there",
            "Eight threads, 250 names each.",
            |_| {
                dir("d")?;
                together(|thread| {
                    for number in 0..250 {
                        file(format!("d/{thread}-{number}"), b"")?;
                    }
                    Ok(())
                })?;
                same("names", names("d")?.len(), 2000)
            },
        ),
        check(
            "race/links-and-unlinks-keep-the-count",
            "The count is the number of names.",
            |_| {
                file("f", b"")?;
                together(|thread| {
                    for number in 0..100 {
                        link("f", format!("{thread}-{number}"))?;
                        if number % 2 == 0 {
                            unlink(format!("{thread}-{number}"))?;
                        }
                    }
                    Ok(())
                })?;
                same("links", stat("f")?.nlink, names(".")?.len() as u64)
            },
        ),
        check(
            "race/writes-to-neighbouring-blocks-lose-nothing",
            "Eight writers, interleaved odd-sized records.",
            |_| {
                file("f", b"")?;
                const RECORD: usize = 1000;
                together(|thread| {
                    let fd = reopen("f", O_WRONLY)?;
                    for number in 0..100 {
                        let at = (number * THREADS + thread) * RECORD;
                        pwrite(&fd, [thread as u8 + 1; RECORD], at as i64)?;
                    }
                    Ok(())
                })?;
                let found = contents("f")?;
                same("size", found.len(), 100 * THREADS * RECORD)?;
                for (number, record) in found.chunks(RECORD).enumerate() {
                    let expected = (number % THREADS) as u8 + 1;
                    truth(
                        format!("record {number} holds {expected} only"),
                        record.iter().all(|b| *b == expected),
                    )?;
                }
                Ok(())
            },
        ),
    ]
}
