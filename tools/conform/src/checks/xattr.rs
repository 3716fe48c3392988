//! Extended attributes: setxattr(2) and its family.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = values();
    checks.extend(flags());
    checks
}

pub(super) const NONE: &str = "this attribute is optional";

/// The first use of user attributes in a check: skips where the file system has none.
#[track_caller]
pub(super) fn set(file: &str, name: &str, value: &[u8]) -> Outcome {
    setxattr(file, name, value, 0).or_skip(&[EOPNOTSUPP], NONE)
}

fn values() -> Vec<Check> {
    let mut checks: Vec<Check> = [0usize, 1, 31, 255, 1024, 3000, 16_384, 65_535, 65_536]
        .into_iter()
        .map(|length| {
            check(
                format!("xattr/a-value-of-{length}-bytes-comes-back"),
                "Values are bytes, up to 64 KiB if the file system has the room.",
                move |_| {
                    file("f", b"")?;
                    let value = pattern(1, length);
                    match setxattr("f", "user.value", &value, 0) {
                        Err(refused)
                            if [ENOSPC, E2BIG, ERANGE].contains(&refused.errno)
                                && length > 2048 =>
                        {
                            return skipped(format!(
                                "no room for so large a value: {}",
                                refused.errno
                            ));
                        }
                        answer => answer.or_skip(&[EOPNOTSUPP], NONE)?,
                    }
                    same_bytes("value", &getxattr("f", "user.value")?, &value)?;
                    same_bytes(
                        "by descriptor",
                        &fgetxattr(reopen("f", O_RDONLY)?, "user.value")?,
                        &value,
                    )?;
                    same("length", getxattr_into("f", "user.value", &mut [])?, length)
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "xattr/more-than-64-KiB-says-E2BIG",
            "XATTR_SIZE_MAX bytes are the most that a value may have.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                setxattr("f", "user.value", vec![1; 65_537], 0).says(E2BIG)
            },
        ),
        check(
            "xattr/a-value-is-replaced",
            "By shorter and longer ones.",
            |_| {
                file("f", b"")?;
                for length in [10usize, 100, 5, 0, 50] {
                    let value = pattern(length as u8 | 1, length);
                    set("f", "user.a", &value)?;
                    same_bytes("value", &getxattr("f", "user.a")?, &value)?;
                }
                same("names", listxattr_user("f")?, vec!["user.a".to_string()])
            },
        ),
        check(
            "xattr/a-small-buffer-says-ERANGE",
            "The value is not cut.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"12345")?;
                getxattr_into("f", "user.a", &mut [0; 4]).says(ERANGE)?;
                same("exact", getxattr_into("f", "user.a", &mut [0; 5])?, 5)
            },
        ),
        check(
            "xattr/a-missing-attribute-says-ENODATA",
            "To read and to remove.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                getxattr("f", "user.b").says(ENODATA)?;
                removexattr("f", "user.b").says(ENODATA)
            },
        ),
        check(
            "xattr/removed-is-gone",
            "By name and by descriptor.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                set("f", "user.b", b"2")?;
                removexattr("f", "user.a")?;
                getxattr("f", "user.a").says(ENODATA)?;
                fremovexattr(reopen("f", O_RDONLY)?, "user.b")?;
                same("names", listxattr_user("f")?, vec![])?;
                removexattr("f", "user.a").says(ENODATA)
            },
        ),
        check(
            "xattr/survives-rename-and-is-shared-by-links",
            "It belongs to the file.",
            |_| {
                file("a", b"")?;
                set("a", "user.a", b"1")?;
                link("a", "b")?;
                rename("a", "c")?;
                same("link", getxattr("b", "user.a")?, b"1".to_vec())?;
                set("b", "user.a", b"2")?;
                same("renamed", getxattr("c", "user.a")?, b"2".to_vec())
            },
        ),
        check(
            "xattr/on-a-directory",
            "Directories carry user attributes too.",
            |_| {
                dir("d")?;
                set("d", "user.a", b"1")?;
                same("value", getxattr("d", "user.a")?, b"1".to_vec())?;
                dir("d/e")?;
                getxattr("d/e", "user.a").says(ENODATA)
            },
        ),
        check(
            "xattr/of-an-unlinked-open-file",
            "As long as it is open.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                let fd = reopen("f", O_RDWR)?;
                unlink("f")?;
                same("value", fgetxattr(&fd, "user.a")?, b"1".to_vec())?;
                fsetxattr(&fd, "user.b", b"2", 0)?;
                same("value", fgetxattr(&fd, "user.b")?, b"2".to_vec())
            },
        ),
        check(
            "xattr/a-new-file-of-the-same-name-has-none",
            "Attributes go with the file.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                unlink("f")?;
                file("f", b"")?;
                getxattr("f", "user.a").says(ENODATA)
            },
        ),
        check(
            "xattr/20-attributes-on-one-file",
            "All are listed and readable.",
            |_| {
                file("f", b"")?;
                let mut expected = Vec::new();
                for number in 0..20 {
                    let name = format!("user.number-{number:02}");
                    set("f", &name, format!("value {number}").as_bytes())?;
                    expected.push(name);
                }
                same("names", listxattr_user("f")?, expected)?;
                same(
                    "value",
                    getxattr("f", "user.number-13")?,
                    b"value 13".to_vec(),
                )
            },
        ),
    ]);
    checks
}

/// The user attributes' names, sorted; security modules may add others.
#[track_caller]
pub(super) fn listxattr_user(file: &str) -> Answer<Vec<String>> {
    Ok(listxattr(file)?
        .into_iter()
        .map(|name| String::from_utf8_lossy(&name).into_owned())
        .filter(|name| name.starts_with("user."))
        .collect())
}

fn flags() -> Vec<Check> {
    vec![
        check(
            "xattr/XATTR_CREATE-of-an-existing-one-says-EEXIST",
            "The value stays.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                setxattr("f", "user.a", b"2", XATTR_CREATE).says(EEXIST)?;
                same("value", getxattr("f", "user.a")?, b"1".to_vec())?;
                setxattr("f", "user.b", b"2", XATTR_CREATE)?;
                same("value", getxattr("f", "user.b")?, b"2".to_vec())
            },
        ),
        check(
            "xattr/XATTR_REPLACE-of-a-missing-one-says-ENODATA",
            "Nothing is made.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                setxattr("f", "user.b", b"2", XATTR_REPLACE).says(ENODATA)?;
                getxattr("f", "user.b").says(ENODATA)?;
                setxattr("f", "user.a", b"2", XATTR_REPLACE)?;
                same("value", getxattr("f", "user.a")?, b"2".to_vec())
            },
        ),
        check(
            "xattr/unknown-flags-say-EINVAL",
            "They are not ignored.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                setxattr("f", "user.b", b"1", 1 << 10).says(EINVAL)
            },
        ),
        check(
            "xattr/listing-with-a-small-buffer-says-ERANGE",
            "And with none tells the length.",
            |_| {
                file("f", b"")?;
                set("f", "user.some-name", b"1")?;
                let length = listxattr_into("f", &mut [])?;
                truth(
                    "the length covers the name and its NUL",
                    length > "user.some-name".len(),
                )?;
                listxattr_into("f", &mut [0; 5]).says(ERANGE)?;
                same("exact", listxattr_into("f", &mut vec![0; length])?, length)
            },
        ),
        check(
            "xattr/by-descriptor",
            "fsetxattr, flistxattr; read-only descriptors may set.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                let fd = reopen("f", O_RDONLY)?;
                fsetxattr(&fd, "user.b", b"2", 0)?;
                truth("both are listed", {
                    let names = flistxattr(&fd)?;
                    names.contains(&b"user.a".to_vec()) && names.contains(&b"user.b".to_vec())
                })?;
                fgetxattr(-1, "user.a").says(EBADF)?;
                fsetxattr(-1, "user.a", b"", 0).says(EBADF)
            },
        ),
    ]
}
