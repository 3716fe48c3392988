//! Extended attributes: names, permissions, and the rules of each name space.

use super::xattr::{NONE, listxattr_user, set};
use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = names_of_attributes();
    checks.extend(permissions());
    checks.extend(spaces());
    checks
}

fn names_of_attributes() -> Vec<Check> {
    vec![
        check(
            "xattr/a-name-of-255-bytes-works-and-256-say-ERANGE",
            "XATTR_NAME_MAX with its prefix.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                let longest = format!("user.{}", "n".repeat(250));
                setxattr("f", &longest, b"1", 0)?;
                same("value", getxattr("f", &longest)?, b"1".to_vec())?;
                setxattr("f", format!("{longest}n"), b"1", 0).says(ERANGE)?;
                getxattr("f", format!("{longest}n")).says(ERANGE)
            },
        ),
        check(
            "xattr/names-are-bytes-and-case-matters",
            "user.A is not user.a.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                set("f", "user.A", b"2")?;
                setxattr("f", b"user.\xff\x80 \n", b"3", 0)?;
                same("a", getxattr("f", "user.a")?, b"1".to_vec())?;
                same("A", getxattr("f", "user.A")?, b"2".to_vec())?;
                same("bytes", getxattr("f", b"user.\xff\x80 \n")?, b"3".to_vec())
            },
        ),
        check(
            "xattr/an-empty-name-says-ERANGE",
            "A name has 1 to 255 bytes.",
            |_| {
                file("f", b"")?;
                setxattr("f", "", b"1", 0).says(ERANGE)?;
                getxattr("f", "").says(ERANGE)
            },
        ),
        check(
            "xattr/an-unknown-namespace-says-EOPNOTSUPP",
            "Only user, trusted, security and system exist.",
            |_| {
                file("f", b"")?;
                setxattr("f", "nobody.a", b"1", 0).says(EOPNOTSUPP)?;
                setxattr("f", "noprefix", b"1", 0).says(EOPNOTSUPP)?;
                getxattr("f", "nobody.a").says(EOPNOTSUPP)
            },
        ),
        check(
            "xattr/a-prefix-without-a-name-is-refused",
            "\"user.\" alone names nothing.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                setxattr("f", "user.", b"1", 0).says_one_of(&[EINVAL, EOPNOTSUPP])
            },
        ),
    ]
}

fn permissions() -> Vec<Check> {
    let mut checks: Vec<Check> = [Kind::Symlink, Kind::Fifo, Kind::Socket, Kind::Char]
        .into_iter()
        .map(|kind| {
            check(
                format!("xattr/user-attributes-on-a-{}-say-EPERM", kind.word()),
                "Only regular files and directories carry user attributes.",
                move |_| {
                    file("f", b"")?;
                    set("f", "user.a", b"1")?;
                    kind.make("x")?;
                    lsetxattr("x", "user.a", b"1", 0).says(EPERM)?;
                    lgetxattr("x", "user.a").says_one_of(&[ENODATA, EPERM])
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "xattr/setting-follows-a-symlink",
            "The target carries it.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                set("l", "user.a", b"1")?;
                same("value", getxattr("f", "user.a")?, b"1".to_vec())?;
                let on_link = llistxattr("l")?;
                truth(
                    "the link itself lists none",
                    !on_link.contains(&b"user.a".to_vec()),
                )
            },
        ),
        check(
            "xattr/setting-needs-write-permission",
            "Without it EACCES.",
            |_| {
                file_with_mode("f", b"", 0o644)?;
                set("f", "user.a", b"1")?;
                as_alice(|| {
                    setxattr("f", "user.a", b"2", 0).says(EACCES)?;
                    removexattr("f", "user.a").says(EACCES)?;
                    same("value", getxattr("f", "user.a")?, b"1".to_vec())
                })
            },
        ),
        check(
            "xattr/reading-needs-read-permission",
            "Else EACCES; listing needs none.",
            |_| {
                file_with_mode("f", b"", 0o600)?;
                set("f", "user.a", b"1")?;
                as_alice(|| {
                    getxattr("f", "user.a").says(EACCES)?;
                    same("names", listxattr_user("f")?, vec!["user.a".to_string()])
                })
            },
        ),
        check(
            "xattr/a-sticky-directorys-belong-to-its-owner",
            "Others say EPERM, even if it is writable.",
            |_| {
                file("f", b"")?;
                set("f", "user.a", b"1")?;
                dir_with_mode("d", 0o1777)?;
                alice_gets(|| setxattr("d", "user.a", b"1", 0))?.says(EPERM)?;
                dir_with_mode("e", 0o777)?;
                alice_gets(|| setxattr("e", "user.a", b"1", 0))??;
                Ok(())
            },
        ),
    ]);
    checks
}

fn spaces() -> Vec<Check> {
    vec![
        check(
            "xattr/trusted-is-for-root",
            "Others can neither set, read nor see it.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"", 0o666)?;
                setxattr("f", "trusted.a", b"1", 0).or_skip(&[EOPNOTSUPP], NONE)?;
                same("value", getxattr("f", "trusted.a")?, b"1".to_vec())?;
                truth(
                    "root sees it",
                    listxattr("f")?.contains(&b"trusted.a".to_vec()),
                )?;
                as_alice(|| {
                    setxattr("f", "trusted.a", b"2", 0).says(EPERM)?;
                    getxattr("f", "trusted.a").says(ENODATA)?;
                    removexattr("f", "trusted.a").says(EPERM)?;
                    truth(
                        "others do not see it",
                        !listxattr("f")?.contains(&b"trusted.a".to_vec()),
                    )
                })?;
                removexattr("f", "trusted.a")?;
                getxattr("f", "trusted.a").says(ENODATA)
            },
        ),
        check(
            "xattr/trusted-on-every-kind",
            "Unlike user attributes.",
            |t| {
                t.needs_root()?;
                for kind in Kind::ALL {
                    kind.make("x")?;
                    lsetxattr("x", "trusted.a", b"1", 0).or_skip(&[EOPNOTSUPP], NONE)?;
                    same(kind.word(), lgetxattr("x", "trusted.a")?, b"1".to_vec())?;
                    lremovexattr("x", "trusted.a")?;
                    lgetxattr("x", "trusted.a").says(ENODATA)?;
                    unlinkat(CWD, "x", if kind == Kind::Dir { AT_REMOVEDIR } else { 0 })?;
                }
                Ok(())
            },
        ),
        check(
            "xattr/security-is-readable-by-all-and-settable-by-root",
            "Without a module that claims it.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"", 0o666)?;
                setxattr("f", "security.conform", b"1", 0).or_skip(&[EOPNOTSUPP], NONE)?;
                as_alice(|| {
                    same("value", getxattr("f", "security.conform")?, b"1".to_vec())?;
                    setxattr("f", "security.conform", b"2", 0).says(EPERM)
                })?;
                removexattr("f", "security.conform")?;
                getxattr("f", "security.conform").says(ENODATA)
            },
        ),
        check(
            "xattr/file-capabilities-come-back",
            "security.capability, version 2.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"", 0o755)?;
                setxattr("f", "security.capability", NET_RAW, 0).or_skip(&[EOPNOTSUPP], NONE)?;
                same(
                    "value",
                    getxattr("f", "security.capability")?,
                    NET_RAW.to_vec(),
                )
            },
        ),
        check(
            "xattr/file-capabilities-fall-with-a-write",
            "Like setuid; a malformed one says EINVAL.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o755)?;
                setxattr("f", "security.capability", NET_RAW, 0).or_skip(&[EOPNOTSUPP], NONE)?;
                as_alice(|| works(write(reopen("f", O_WRONLY)?, b"x")))?;
                getxattr("f", "security.capability").says(ENODATA)?;
                setxattr("f", "security.capability", b"nonsense", 0).says(EINVAL)
            },
        ),
        check(
            "xattr/file-capabilities-fall-with-chown",
            "The new owner does not inherit them.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o755)?;
                setxattr("f", "security.capability", NET_RAW, 0).or_skip(&[EOPNOTSUPP], NONE)?;
                chown("f", BOB, BOB)?;
                getxattr("f", "security.capability").says(ENODATA)
            },
        ),
    ]
}

/// struct vfs_cap_data, revision 2, effective: permitted CAP_NET_RAW (13), nothing inheritable.
const NET_RAW: &[u8] = &[
    1, 0, 0, 2, 0, 0x20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0,
];
