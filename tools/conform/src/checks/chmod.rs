//! chmod(2), chown(2): permissions, and the bits that they clear.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    let mut checks = modes();
    checks.extend(mode_permissions());
    checks.extend(owners());
    checks.extend(owner_permissions());
    checks
}

fn modes() -> Vec<Check> {
    let mut checks: Vec<Check> = [
        Kind::File,
        Kind::Dir,
        Kind::Fifo,
        Kind::Socket,
        Kind::Char,
        Kind::Block,
    ]
    .into_iter()
    .map(|kind| {
        check(
            format!("chmod/all-twelve-bits-of-a-{}", kind.word()),
            "Every bit is kept, for every mode of a walk through them.",
            move |t| {
                t.needs_root()?;
                kind.make("x")?;
                for mode in (0..=0o7777)
                    .step_by(0o111)
                    .chain([0o7777, 0o1000, 0o2000, 0o4000])
                {
                    chmod("x", mode)?;
                    same_mode(stat("x")?.mode, kind.mode() | mode)?;
                }
                Ok(())
            },
        )
    })
    .collect();
    checks.extend([
        check(
            "chmod/follows-a-symlink",
            "The target changes, the link does not.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                chmod("l", 0o600)?;
                same("target", stat("f")?.permissions(), 0o600)?;
                same("link", lstat("l")?.permissions(), 0o777)
            },
        ),
        check(
            "chmod/a-symlink-itself-says-EOPNOTSUPP",
            "Links have no mode of their own.",
            |_| {
                file("f", b"")?;
                symlink("f", "l")?;
                fchmodat2(CWD, "l", 0o600, AT_SYMLINK_NOFOLLOW)
                    .says_one_of(&[EOPNOTSUPP, ENOSYS])?;
                same("target", stat("f")?.permissions(), 0o644)
            },
        ),
        check(
            "chmod/a-missing-name-says-ENOENT",
            "There is no file whose mode could change.",
            |_| chmod("nothing", 0o600).says(ENOENT),
        ),
        check(
            "fchmod/by-descriptor",
            "Whatever it was opened for.",
            |_| {
                file("f", b"")?;
                fchmod(reopen("f", O_RDONLY)?, 0o640)?;
                same_mode(stat("f")?.permissions(), 0o640)
            },
        ),
        check(
            "fchmodat/relative-to-a-descriptor",
            "The name starts there.",
            |_| {
                dir("d")?;
                file("d/f", b"")?;
                fchmodat(reopen("d", O_DIRECTORY)?, "f", 0o600)?;
                same_mode(stat("d/f")?.permissions(), 0o600)?;
                fchmodat(-1, "f", 0o600).says(EBADF)?;
                fchmodat(reopen("d/f", O_RDWR)?, "f", 0o600).says(ENOTDIR)
            },
        ),
        check(
            "chmod/type-bits-in-the-mode-are-ignored",
            "A file stays what it is.",
            |_| {
                file("f", b"")?;
                chmod("f", S_IFDIR | 0o600)?;
                same_mode(stat("f")?.mode, S_IFREG | 0o600)
            },
        ),
        check(
            "chmod/is-seen-through-every-name",
            "Mode belongs to the file.",
            |_| {
                file("a", b"")?;
                link("a", "b")?;
                let fd = reopen("a", O_RDONLY)?;
                chmod("b", 0o604)?;
                same("a", stat("a")?.permissions(), 0o604)?;
                same("fd", fstat(&fd)?.permissions(), 0o604)
            },
        ),
    ]);
    checks
}

fn mode_permissions() -> Vec<Check> {
    vec![
        check(
            "chmod/by-a-stranger-says-EPERM",
            "Only the owner and root may.",
            |_| {
                file_with_mode("f", b"", 0o666)?;
                as_alice(|| {
                    chmod("f", 0o777).says(EPERM)?;
                    fchmod(reopen("f", O_RDWR)?, 0o777).says(EPERM)
                })?;
                same_mode(stat("f")?.permissions(), 0o666)
            },
        ),
        check("chmod/by-the-owner", "Without any permission bits.", |_| {
            file_of(ALICE, "f", b"", 0o000)?;
            alice_gets(|| chmod("f", 0o640))??;
            same_mode(stat("f")?.permissions(), 0o640)
        }),
        check(
            "chmod/setgid-for-a-foreign-group-is-dropped",
            "The owner must be a member (not root).",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o644)?;
                chown("f", ALICE, OTHER_GROUP)?;
                alice_gets(|| chmod("f", 0o2755))??;
                same("not a member", stat("f")?.permissions(), 0o755)?;
                User::new(ALICE)
                    .with_group(OTHER_GROUP)
                    .does(|| Ok(chmod("f", 0o2755)?))?;
                same("a member", stat("f")?.permissions(), 0o2755)
            },
        ),
        check(
            "chmod/setgid-of-a-directory-for-a-foreign-group-is-dropped",
            "As with files.",
            |t| {
                t.needs_root()?;
                dir_of(ALICE, "d", 0o755)?;
                chown("d", ALICE, OTHER_GROUP)?;
                alice_gets(|| chmod("d", 0o2755))??;
                same_mode(stat("d")?.permissions(), 0o755)
            },
        ),
        check(
            "chmod/sticky-on-a-file-by-its-owner",
            "Linux lets anyone set it on their files.",
            |_| {
                file_of(ALICE, "f", b"", 0o644)?;
                alice_gets(|| chmod("f", 0o1644))??;
                same_mode(stat("f")?.permissions(), 0o1644)
            },
        ),
        check(
            "chmod/setuid-by-the-owner",
            "One's own program may be setuid.",
            |_| {
                file_of(ALICE, "f", b"", 0o755)?;
                alice_gets(|| chmod("f", 0o4755))??;
                same_mode(stat("f")?.permissions(), 0o4755)
            },
        ),
    ]
}

fn owners() -> Vec<Check> {
    let mut checks: Vec<Check> = Kind::ALL
        .into_iter()
        .map(|kind| {
            check(
                format!("chown/of-a-{}", kind.word()),
                "lchown gives every kind of file away; each id on its own with −1 for the other.",
                move |t| {
                    t.needs_root()?;
                    kind.make("x")?;
                    lchown("x", ALICE, BOB)?;
                    let owner = |facts: Stat| (facts.uid, facts.gid);
                    same("both", owner(lstat("x")?), (ALICE, BOB))?;
                    lchown("x", OTHER_GROUP, KEEP)?;
                    same("user only", owner(lstat("x")?), (OTHER_GROUP, BOB))?;
                    lchown("x", KEEP, ALICE)?;
                    same("group only", owner(lstat("x")?), (OTHER_GROUP, ALICE))?;
                    lchown("x", KEEP, KEEP)?;
                    same("neither", owner(lstat("x")?), (OTHER_GROUP, ALICE))
                },
            )
        })
        .collect();
    checks.extend([
        check(
            "chown/follows-a-symlink-and-lchown-does-not",
            "The link has an owner of its own.",
            |t| {
                t.needs_root()?;
                file("f", b"")?;
                symlink("f", "l")?;
                chown("l", ALICE, ALICE)?;
                same("target", stat("f")?.uid, ALICE)?;
                same("link", lstat("l")?.uid, geteuid())?;
                lchown("l", BOB, BOB)?;
                same("target", stat("f")?.uid, ALICE)?;
                same("link", lstat("l")?.uid, BOB)
            },
        ),
        check(
            "chown/large-ids-come-back",
            "Ids have 32 bits; only the largest value means \"leave it\".",
            |t| {
                t.needs_root()?;
                file("f", b"")?;
                chown("f", u32::MAX - 1, u32::MAX - 1)?;
                same(
                    "owner",
                    (stat("f")?.uid, stat("f")?.gid),
                    (u32::MAX - 1, u32::MAX - 1),
                )?;
                chown("f", 1 << 31, 65_536)?;
                same("owner", (stat("f")?.uid, stat("f")?.gid), (1 << 31, 65_536))
            },
        ),
        check(
            "fchown/by-descriptor",
            "Also through AT_EMPTY_PATH on O_PATH.",
            |t| {
                t.needs_root()?;
                file("f", b"")?;
                fchown(reopen("f", O_RDONLY)?, ALICE, BOB)?;
                same("owner", (stat("f")?.uid, stat("f")?.gid), (ALICE, BOB))?;
                fchownat(reopen("f", O_PATH)?, "", BOB, ALICE, AT_EMPTY_PATH)?;
                same("owner", (stat("f")?.uid, stat("f")?.gid), (BOB, ALICE))
            },
        ),
        check(
            "fchownat/relative-to-a-descriptor",
            "The name starts there.",
            |t| {
                t.needs_root()?;
                dir("d")?;
                file("d/f", b"")?;
                fchownat(reopen("d", O_DIRECTORY)?, "f", ALICE, ALICE, 0)?;
                same("owner", stat("d/f")?.uid, ALICE)?;
                fchownat(-1, "f", ALICE, ALICE, 0).says(EBADF)?;
                fchownat(CWD, "d/f", ALICE, ALICE, 0x4000_0000).says(EINVAL)
            },
        ),
        check(
            "chown/the-new-owner-decides-at-once",
            "Permissions follow the owner.",
            |t| {
                t.needs_root()?;
                file_with_mode("f", b"x", 0o600)?;
                alice_gets(|| open("f", O_RDONLY, 0))?.says(EACCES)?;
                chown("f", ALICE, KEEP)?;
                alice_gets(|| open("f", O_RDWR, 0))??;
                chown("f", BOB, KEEP)?;
                alice_gets(|| open("f", O_RDONLY, 0))?.says(EACCES)
            },
        ),
    ]);
    checks
}

fn owner_permissions() -> Vec<Check> {
    vec![
        check(
            "chown/giving-away-says-EPERM",
            "Only root changes a file's user.",
            |_| {
                file_of(ALICE, "f", b"", 0o666)?;
                as_alice(|| {
                    chown("f", BOB, KEEP).says(EPERM)?;
                    chown("f", 0, KEEP).says(EPERM)
                })?;
                same("owner", stat("f")?.uid, ALICE)
            },
        ),
        check(
            "chown/by-a-stranger-says-EPERM",
            "Also to oneself, also to nothing new.",
            |_| {
                file_of(BOB, "f", b"", 0o666)?;
                as_alice(|| {
                    chown("f", ALICE, KEEP).says(EPERM)?;
                    chown("f", KEEP, ALICE).says(EPERM)?;
                    chown("f", BOB, BOB).says(EPERM)
                })
            },
        ),
        check(
            "chown/to-a-group-of-ones-own",
            "The owner may choose among their groups.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o644)?;
                let alice = User::new(ALICE).with_group(OTHER_GROUP);
                alice.does(|| Ok(chown("f", KEEP, OTHER_GROUP)?))?;
                same("group", stat("f")?.gid, OTHER_GROUP)?;
                alice.does(|| chown("f", KEEP, BOB).says(EPERM))?;
                as_alice(|| Ok(chown("f", ALICE, ALICE)?))?;
                same("group", stat("f")?.gid, ALICE)
            },
        ),
        check(
            "chown/to-the-same-user-and-a-new-own-group",
            "Naming the present owner is allowed.",
            |t| {
                t.needs_root()?;
                file_of(ALICE, "f", b"", 0o644)?;
                User::new(ALICE)
                    .with_group(OTHER_GROUP)
                    .does(|| Ok(chown("f", ALICE, OTHER_GROUP)?))?;
                same("group", stat("f")?.gid, OTHER_GROUP)
            },
        ),
    ]
}
