//! POSIX access control lists (1003.1e draft 17, as Linux has them).

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = keeping();
    checks.extend(mode_and_mask());
    checks.extend(refusals());
    checks
}

/// Give a file an ACL; skips where there are none.
#[track_caller]
pub(super) fn set(name: &str, attribute: &str, text: &str) -> Outcome {
    setxattr(name, attribute, acl(text), 0)
        .or_skip(&[EOPNOTSUPP], "ACLs are optional (or not mounted)")
}

#[track_caller]
pub(super) fn is(name: &str, attribute: &str, text: &str) -> Outcome {
    same(
        attribute,
        acl_text(&getxattr(name, attribute)?),
        text.to_string(),
    )
}

/// No ACL beyond the mode: the attribute is absent.
#[track_caller]
pub(super) fn has_none(name: &str, attribute: &str) -> Outcome {
    getxattr(name, attribute).says(ENODATA)?;
    let listed = listxattr(name)?.contains(&attribute.as_bytes().to_vec());
    truth(format!("{attribute} is not listed"), !listed)
}

fn keeping() -> Vec<Check> {
    vec![
        check(
            "acl/an-access-acl-comes-back",
            "Every entry, in order, and it is listed.",
            |_| {
                file("f", b"")?;
                let text = "u::rw- u:65532:r-- u:65533:rw- g::r-- g:65531:-wx m::rwx o::---";
                set("f", ACCESS, text)?;
                is("f", ACCESS, text)?;
                truth(
                    "it is listed",
                    listxattr("f")?.contains(&ACCESS.as_bytes().to_vec()),
                )
            },
        ),
        check(
            "acl/an-acl-as-plain-as-a-mode-is-not-kept",
            "Three entries are the mode itself.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- g::r-x o::--x")?;
                has_none("f", ACCESS)?;
                same_mode(stat("f")?.permissions(), 0o651)
            },
        ),
        check(
            "acl/a-default-acl-comes-back",
            "On a directory; the mode stays.",
            |_| {
                dir("d")?;
                let text = "u::rwx u:65533:rw- g::r-x m::rwx o::---";
                set("d", DEFAULT, text)?;
                is("d", DEFAULT, text)?;
                same_mode(stat("d")?.permissions(), 0o755)?;
                has_none("d", ACCESS)
            },
        ),
        check(
            "acl/a-plain-default-acl-is-kept",
            "Three entries mean something there.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, "u::rwx g::r-x o::---")?;
                is("d", DEFAULT, "u::rwx g::r-x o::---")
            },
        ),
        check(
            "acl/removing-leaves-the-mode",
            "The mask stays as the group's bits.",
            |_| {
                file_with_mode("f", b"", 0o640)?;
                set("f", ACCESS, "u::rw- u:65533:rw- g::r-- m::rw- o::---")?;
                removexattr("f", ACCESS)?;
                has_none("f", ACCESS)?;
                let mode = stat("f")?.permissions();
                truth(
                    format!("mode {mode:o} is 640 or 660"),
                    [0o640, 0o660].contains(&mode),
                )
            },
        ),
        check(
            "acl/removing-a-default-acl-ends-inheritance",
            "New files get their mode again.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, "u::rwx u:65533:rwx g::--- m::rwx o::---")?;
                removexattr("d", DEFAULT)?;
                has_none("d", DEFAULT)?;
                open("d/f", O_CREAT | O_WRONLY, 0o644)?;
                same_mode(stat("d/f")?.permissions(), 0o644)?;
                has_none("d/f", ACCESS)
            },
        ),
        check(
            "acl/an-empty-value-removes",
            "Setting an ACL of no entries.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, "u::rwx g::r-x o::---")?;
                setxattr("d", DEFAULT, b"", 0)?;
                has_none("d", DEFAULT)
            },
        ),
        check("acl/100-named-users", "Lists may be long.", |_| {
            file("f", b"")?;
            let named: Vec<String> = (0..100)
                .map(|number| format!("u:{}:r--", 60_000 + number))
                .collect();
            let text = format!("u::rw- {} g::r-- m::r-- o::---", named.join(" "));
            match setxattr("f", ACCESS, acl(&text), 0) {
                Err(refused) if refused.errno == ENOSPC => {
                    return skipped("no room for so long a list");
                }
                answer => answer.or_skip(&[EOPNOTSUPP], "ACLs are optional")?,
            }
            is("f", ACCESS, &text)
        }),
        check("acl/marks-ctime", "It is a change of permissions.", |_| {
            file("f", b"")?;
            let before = stat("f")?;
            let_the_clock_tick();
            set("f", ACCESS, "u::rw- u:65533:r-- g::r-- m::r-- o::---")?;
            let after = stat("f")?;
            truth("ctime advances", after.ctime > before.ctime)?;
            same("mtime", after.mtime, before.mtime)
        }),
    ]
}

fn mode_and_mask() -> Vec<Check> {
    vec![
        check(
            "acl/sets-the-mode",
            "Owner, mask and other become the mode's classes.",
            |_| {
                file_with_mode("f", b"", 0o600)?;
                set("f", ACCESS, "u::r-x u:65533:rwx g::r-- m::rw- o::--x")?;
                same_mode(stat("f")?.permissions(), 0o561)
            },
        ),
        check(
            "acl/chmod-sets-owner-mask-and-other",
            "The group's own entry and the named ones stay.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- u:65533:rwx g::r-x m::rwx o::---")?;
                chmod("f", 0o714)?;
                is("f", ACCESS, "u::rwx u:65533:rwx g::r-x m::--x o::r--")?;
                same_mode(stat("f")?.permissions(), 0o714)
            },
        ),
        check(
            "acl/chmod-without-a-mask-sets-the-group",
            "Without named entries there is no ACL.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- g::r-x o::---")?;
                chmod("f", 0o640)?;
                has_none("f", ACCESS)?;
                same_mode(stat("f")?.permissions(), 0o640)
            },
        ),
        check(
            "acl/keeps-setuid-and-sticky",
            "They are not part of the list.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"", 0o5755)?;
                set("f", ACCESS, "u::rwx u:65533:rwx g::r-x m::rwx o::---")?;
                same_mode(stat("f")?.permissions(), 0o5770)
            },
        ),
        check(
            "acl/setting-drops-setgid-of-a-foreign-group",
            "As chmod does for an owner who is not a member.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o755)?;
                chown("f", ALICE, OTHER_GROUP)?;
                chmod("f", 0o2755)?;
                as_alice(|| set("f", ACCESS, "u::rwx u:65532:rwx g::r-x m::rwx o::---"))?;
                same_mode(stat("f")?.permissions(), 0o770)
            },
        ),
    ]
}

fn refusals() -> Vec<Check> {
    vec![
        check(
            "acl/a-default-on-a-file-says-EACCES",
            "Only directories bequeath.",
            |_| {
                dir("d")?;
                set("d", DEFAULT, "u::rwx g::r-x o::---")?;
                file("f", b"")?;
                setxattr("f", DEFAULT, acl("u::rwx g::r-x o::---"), 0).says(EACCES)
            },
        ),
        check(
            "acl/a-malformed-list-says-EINVAL",
            "Wrong version, cut, out of order, without a mask, with two masks.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- g::r-- o::r--")?;
                let mut version = acl("u::rw- g::r-- o::r--");
                version[0] = 9;
                setxattr("f", ACCESS, version, 0).says_one_of(&[EINVAL, EOPNOTSUPP])?;
                let cut = acl("u::rw- g::r-- o::r--");
                setxattr("f", ACCESS, &cut[..cut.len() - 3], 0).says(EINVAL)?;
                for text in [
                    "g::r-- u::rw- o::r--",
                    "u::rw- u:65533:r-- g::r-- o::r--",
                    "u::rw- u:65533:r-- u:65532:r-- g::r-- m::r-- m::r-- o::r--",
                    "u::rw- g::r--",
                    "u::rw- o::r--",
                ] {
                    setxattr("f", ACCESS, acl(text), 0).says(EINVAL)?;
                }
                has_none("f", ACCESS)
            },
        ),
        check(
            "acl/by-a-stranger-says-EPERM",
            "Only the owner and root may, like chmod.",
            |_| {
                file_with_mode("f", b"", 0o666)?;
                set("f", ACCESS, "u::rw- u:65532:rw- g::rw- m::rw- o::rw-")?;
                as_alice(|| {
                    setxattr(
                        "f",
                        ACCESS,
                        acl("u::rw- u:65533:rw- g::rw- m::rw- o::rw-"),
                        0,
                    )
                    .says(EPERM)?;
                    removexattr("f", ACCESS).says(EPERM)
                })
            },
        ),
        check(
            "acl/by-the-owner",
            "The owner may set a list without privileges, and it counts.",
            |_| {
                file_of(ALICE, "f", b"", 0o600)?;
                as_alice(|| set("f", ACCESS, "u::rw- u:65532:rw- g::--- m::rw- o::---"))?;
                as_bob(|| works(open("f", O_RDWR, 0)))
            },
        ),
        check(
            "acl/reading-needs-no-permission-on-the-file",
            "A list can be read like a mode.",
            |_| {
                file_with_mode("f", b"", 0o600)?;
                set("f", ACCESS, "u::rw- u:65532:rw- g::--- m::rw- o::---")?;
                as_alice(|| is("f", ACCESS, "u::rw- u:65532:rw- g::--- m::rw- o::---"))
            },
        ),
        check(
            "acl/on-a-symlink-is-refused",
            "Links have no permissions.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- g::r-- o::r--")?;
                symlink("f", "l")?;
                lsetxattr("l", ACCESS, acl("u::rw- g::r-- o::r--"), 0)
                    .says_one_of(&[EOPNOTSUPP, EPERM])
            },
        ),
        check(
            "acl/removing-what-is-not-there-is-no-error",
            "It succeeds or says ENODATA; nothing changes.",
            |_| {
                file("f", b"")?;
                set("f", ACCESS, "u::rw- g::r-- o::r--")?;
                match removexattr("f", ACCESS) {
                    Ok(()) => Ok(()),
                    answer => answer.says(ENODATA),
                }
            },
        ),
    ]
}
