//! getdents64(2) while names come and go, and what it refuses.

use std::collections::BTreeMap;

use super::readdir::crowd;
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = changing();
    checks.extend(refusals());
    checks
}

fn changing() -> Vec<Check> {
    vec![
        check(
            "readdir/removing-while-reading-leaves-none-behind",
            "rm -r: read some, remove them, read on.",
            |_| {
                crowd(1_500)?;
                let d = reopen("d", O_DIRECTORY)?;
                loop {
                    let some = getdents(&d, 2048)?;
                    if some.is_empty() {
                        break;
                    }
                    for entry in some.iter().filter(|entry| entry.kind != DT_DIR) {
                        unlinkat(&d, &entry.name, 0)?;
                    }
                }
                same("names left", names("d")?, vec![])?;
                rmdir("d")?;
                Ok(())
            },
        ),
        check(
            "readdir/survivors-appear-once-while-others-come-and-go",
            "What stays the whole time is listed.",
            |_| {
                let stays: Vec<String> = (0..400).map(|number| format!("stays{number}")).collect();
                dir("d")?;
                for name in &stays {
                    file(format!("d/{name}"), b"")?;
                    file(format!("d/goes{name}"), b"")?;
                }
                let d = reopen("d", O_DIRECTORY)?;
                let mut found: BTreeMap<String, usize> = BTreeMap::new();
                let mut step = 0;
                loop {
                    let some = getdents(&d, 1024)?;
                    if some.is_empty() {
                        break;
                    }
                    for entry in some {
                        *found
                            .entry(String::from_utf8_lossy(&entry.name).into_owned())
                            .or_default() += 1;
                    }
                    for number in step * 20..(step + 1) * 20 {
                        if number < 400 {
                            unlink(format!("d/goesstays{number}"))?;
                            file(format!("d/comes{number}"), b"")?;
                        }
                    }
                    step += 1;
                }
                for name in &stays {
                    same(name, found.get(name).copied(), Some(1))?;
                }
                Ok(())
            },
        ),
        check(
            "readdir/a-renamed-name-is-not-lost-from-a-new-stream",
            "After 500 renames all are there.",
            |_| {
                let names_before = crowd(500)?;
                for name in &names_before {
                    rename(format!("d/{name}"), format!("d/r{name}"))?;
                }
                let mut expected: Vec<String> =
                    names_before.iter().map(|name| format!("r{name}")).collect();
                expected.sort();
                truth(
                    "the listing shows exactly the new names",
                    names("d")? == expected,
                )
            },
        ),
        check(
            "readdir/a-name-made-by-another-process-appears",
            "In a stream opened afterwards.",
            |_| {
                dir("d")?;
                same("before", names("d")?, vec![])?;
                in_child(|| file("d/new", b""))?;
                same("after", names("d")?, vec!["new".into()])?;
                in_child(|| Ok(unlink("d/new")?))?;
                same("at last", names("d")?, vec![])
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "readdir/a-file-says-ENOTDIR",
            "Only directories have entries.",
            |_| {
                file("f", b"")?;
                getdents(reopen("f", O_RDONLY)?, 4096).says(ENOTDIR)
            },
        ),
        check(
            "readdir/a-buffer-too-small-says-EINVAL",
            "Not one entry fits.",
            |_| {
                crowd(10)?;
                getdents(reopen("d", O_DIRECTORY)?, 8).says(EINVAL)
            },
        ),
        check(
            "readdir/a-cookie-that-nobody-gave-does-no-harm",
            "The seek is refused, or what follows is some of the names; the stream works again after a rewind.",
            |_| {
                let names = crowd(50)?;
                let d = reopen("d", O_DIRECTORY)?;
                for cookie in [1, 7, 1 << 20, 0x1234_5678_9abc, i64::MAX] {
                    if lseek(&d, cookie, SEEK_SET).is_err() {
                        continue;
                    }
                    match getdents(&d, 4096) {
                        Ok(some) => truth(
                            "only names of the directory",
                            some.iter().all(|entry| {
                                entry.name.starts_with(b".")
                                    || names.contains(
                                        &String::from_utf8_lossy(&entry.name).into_owned(),
                                    )
                            }),
                        )?,
                        answer => answer.says_one_of(&[EINVAL, ENOENT])?,
                    }
                }
                lseek(&d, 0, SEEK_SET)?;
                same("entries", rest_of(&d)?.len(), names.len() + 2)
            },
        ),
        check(
            "readdir/needs-read-permission-at-open",
            "Search permission is not enough.",
            |_| {
                dir_with_mode("d", 0o711)?;
                alice_gets(|| open("d", O_RDONLY | O_DIRECTORY, 0))?.says(EACCES)
            },
        ),
        check(
            "readdir/keeps-working-after-permission-is-gone",
            "Access was decided at open.",
            |_| {
                as_alice(|| {
                    let names = crowd(20)?;
                    let d = reopen("d", O_DIRECTORY)?;
                    chmod("d", 0o000)?;
                    same("entries", rest_of(&d)?.len(), names.len() + 2)
                })
            },
        ),
    ]
}
