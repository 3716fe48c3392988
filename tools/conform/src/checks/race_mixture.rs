//! Concurrent readers see the old bytes or the new, never a mixture.

use std::sync::atomic::{AtomicBool, Ordering};

use super::race::together;
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    no_mixture()
}

fn no_mixture() -> Vec<Check> {
    vec![
        check(
            "race/a-name-is-there-at-every-moment-of-renames-onto-it",
            "rename(2) replaces in one step.",
            |_| {
                file("name", b"0")?;
                let done = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| -> Outcome {
                        for round in 0..500 {
                            file("next", round.to_string())?;
                            rename("next", "name")?;
                        }
                        Ok(())
                    });
                    let reader = scope.spawn(|| -> Outcome {
                        while !done.load(Ordering::Relaxed) {
                            stat("name")?;
                            truth("the file is never empty", !contents("name")?.is_empty())?;
                        }
                        Ok(())
                    });
                    let panicked = |_| Err(failed("every thread ends", "one panicked"));
                    let written = writer.join().unwrap_or_else(panicked);
                    done.store(true, Ordering::Relaxed);
                    written.and(reader.join().unwrap_or_else(panicked))
                })
            },
        ),
        check(
            "race/exchanges-leave-both-names-at-every-moment",
            "RENAME_EXCHANGE in one step.",
            |_| {
                file("a", b"1")?;
                dir("b")?;
                rename_flags("a", "b", RENAME_EXCHANGE)
                    .or_skip(&[EINVAL], "RENAME_EXCHANGE is optional")?;
                let done = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| -> Outcome {
                        for _ in 0..500 {
                            rename_flags("a", "b", RENAME_EXCHANGE)?;
                        }
                        Ok(())
                    });
                    let reader = scope.spawn(|| -> Outcome {
                        while !done.load(Ordering::Relaxed) {
                            stat("a")?;
                            stat("b")?;
                        }
                        Ok(())
                    });
                    let panicked = |_| Err(failed("every thread ends", "one panicked"));
                    let written = writer.join().unwrap_or_else(panicked);
                    done.store(true, Ordering::Relaxed);
                    written.and(reader.join().unwrap_or_else(panicked))
                })?;
                Kind::Dir.is_at("a")
            },
        ),
        check(
            "race/a-4-KiB-block-is-read-old-or-new",
            "Never half of each, where reads and writes exclude.",
            |_| {
                const BLOCK: usize = 4096;
                file("f", vec![0; BLOCK])?;
                let done = AtomicBool::new(false);
                std::thread::scope(|scope| {
                    let writer = scope.spawn(|| -> Outcome {
                        let fd = reopen("f", O_WRONLY)?;
                        for round in 0..2000u32 {
                            pwrite(&fd, [round as u8; BLOCK], 0)?;
                        }
                        Ok(())
                    });
                    let reader = scope.spawn(|| -> Outcome {
                        let fd = reopen("f", O_RDONLY)?;
                        while !done.load(Ordering::Relaxed) {
                            let found = pread(&fd, BLOCK, 0)?;
                            truth(
                                "all bytes of the block are equal",
                                found.iter().all(|byte| *byte == found[0]),
                            )?;
                        }
                        Ok(())
                    });
                    let panicked = |_| Err(failed("every thread ends", "one panicked"));
                    let written = writer.join().unwrap_or_else(panicked);
                    done.store(true, Ordering::Relaxed);
                    written.and(reader.join().unwrap_or_else(panicked))
                })
            },
        ),
        check(
            "race/two-writers-of-one-block-leave-one-of-both",
            "The block is one writer's, never a mixture.",
            |_| {
                const BLOCK: usize = 4096;
                file("f", vec![0; BLOCK])?;
                for _ in 0..100 {
                    together(|number| {
                        pwrite(reopen("f", O_WRONLY)?, [number as u8 + 1; BLOCK], 0)?;
                        Ok(())
                    })?;
                    let found = contents("f")?;
                    truth(
                        "all bytes are one writer's",
                        found.len() == BLOCK && found.iter().all(|b| *b == found[0]),
                    )?;
                }
                Ok(())
            },
        ),
        check(
            "race/renames-of-directories-into-each-other-make-no-loop",
            "At most one of two wins.",
            |_| {
                for _ in 0..50 {
                    dir("a")?;
                    dir("b")?;
                    together(|number| {
                        let answer = match number % 2 {
                            0 => rename("a", "b/a"),
                            _ => rename("b", "a/b"),
                        };
                        match answer {
                            Ok(()) => Ok(()),
                            answer => answer.says_one_of(&[ENOENT, EINVAL]),
                        }
                    })?;
                    let (top, inner) = match names(".")?.as_slice() {
                        [one] if one == "a" => ("a", "a/b"),
                        [one] if one == "b" => ("b", "b/a"),
                        other => {
                            return Err(failed(
                                "one directory remains on top",
                                format!("{other:?}"),
                            ));
                        }
                    };
                    rmdir(inner)?;
                    rmdir(top)?;
                }
                Ok(())
            },
        ),
        check(
            "race/many-threads-in-one-tree-leave-it-sound",
            "Make, move, link, remove at random; then remove all.",
            |_| {
                for name in ["a", "b", "c"] {
                    dir(name)?;
                }
                together(|thread| {
                    let mut dice = thread as u32 * 7919 + 1;
                    let mut roll = |sides: u32| {
                        dice = dice.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        (dice >> 16) % sides
                    };
                    for _ in 0..300 {
                        let from = format!("{}/{}", ["a", "b", "c"][roll(3) as usize], roll(10));
                        let to = format!("{}/{}", ["a", "b", "c"][roll(3) as usize], roll(10));
                        let answer = match roll(6) {
                            0 => open(&from, O_CREAT | O_WRONLY, 0o644).map(drop),
                            1 => mkdir(&from, 0o755),
                            2 => rename(&from, &to),
                            3 => link(&from, &to),
                            4 => unlink(&from),
                            _ => rmdir(&from),
                        };
                        match answer {
                            Ok(()) => {}
                            answer => answer.says_one_of(&[
                                ENOENT, EEXIST, EISDIR, ENOTDIR, ENOTEMPTY, EPERM, EINVAL, EBUSY,
                            ])?,
                        }
                    }
                    Ok(())
                })?;
                for name in ["a", "b", "c"] {
                    let mut subdirectories = 0;
                    for entry in entries(name)?
                        .iter()
                        .filter(|e| e.name != b"." && e.name != b"..")
                    {
                        let path = [name.as_bytes(), b"/", &entry.name].concat();
                        let facts = lstat(&path)?;
                        same("number", facts.ino, entry.ino)?;
                        subdirectories += u64::from(facts.kind() == S_IFDIR);
                    }
                    let links = stat(name)?.nlink;
                    truth(format!("{links} links are 1 or 2 + {subdirectories}"), {
                        links == 1 || links == 2 + subdirectories
                    })?;
                }
                Ok(())
            },
        ),
    ]
}
