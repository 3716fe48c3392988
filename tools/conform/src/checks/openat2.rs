//! openat2(2): limits on how a path is resolved.

use crate::prelude::*;

pub fn checks() -> Vec<Check> {
    vec![
        check(
            "openat2/RESOLVE_BENEATH-stays-inside",
            "Up and out, or an absolute name, says EXDEV.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                file("f", b"outside")?;
                symlink("../f", "d/out")?;
                symlink("/", "d/root")?;
                symlink("f", "d/in")?;
                let d = reopen("d", O_DIRECTORY)?;
                let beneath = |name: &str| openat2(&d, name, O_RDONLY, 0, RESOLVE_BENEATH);
                beneath("f")?;
                beneath("in")?;
                beneath("./../d/f").says(EXDEV)?;
                beneath("../f").says(EXDEV)?;
                beneath("out").says(EXDEV)?;
                beneath("root").says(EXDEV)?;
                beneath("/etc").says(EXDEV)
            },
        ),
        check(
            "openat2/RESOLVE_IN_ROOT-takes-the-descriptor-for-the-root",
            "Absolute names and dot-dot stay below it, as after chroot.",
            |_| {
                dir("d")?;
                file("d/f", b"inside")?;
                file("f", b"outside")?;
                symlink("/f", "d/absolute")?;
                symlink("../../f", "d/up")?;
                let d = reopen("d", O_DIRECTORY)?;
                for name in ["/f", "../f", "absolute", "up"] {
                    let fd = openat2(&d, name, O_RDONLY, 0, RESOLVE_IN_ROOT)?;
                    same_bytes(name, &contents_of(&fd)?, b"inside")?;
                }
                Ok(())
            },
        ),
        check(
            "openat2/RESOLVE_NO_SYMLINKS-says-ELOOP-at-a-link",
            "Anywhere in the path.",
            |_| {
                dir("d")?;
                file("d/f", b"x")?;
                symlink("d", "l")?;
                symlink("f", "d/m")?;
                openat2(CWD, "l/f", O_RDONLY, 0, RESOLVE_NO_SYMLINKS).says(ELOOP)?;
                openat2(CWD, "d/m", O_RDONLY, 0, RESOLVE_NO_SYMLINKS).says(ELOOP)?;
                openat2(CWD, "d/f", O_RDONLY, 0, RESOLVE_NO_SYMLINKS)?;
                Ok(())
            },
        ),
        check(
            "openat2/RESOLVE_NO_XDEV-says-EXDEV-at-a-mount",
            "The path stays in one mount.",
            |_| {
                file("f", b"x")?;
                openat2(CWD, "f", O_RDONLY, 0, RESOLVE_NO_XDEV)?;
                openat2(CWD, "/proc/self/stat", O_RDONLY, 0, RESOLVE_NO_XDEV).says(EXDEV)
            },
        ),
        check(
            "openat2/RESOLVE_NO_MAGICLINKS-says-ELOOP-at-proc-links",
            "Those jump past resolution.",
            |_| {
                file("f", b"x")?;
                let fd = reopen("f", O_RDONLY)?;
                openat2(CWD, proc_name(&fd), O_RDONLY, 0, RESOLVE_NO_MAGICLINKS).says(ELOOP)
            },
        ),
        check(
            "openat2/creates-with-a-mode",
            "O_CREAT and mode as with open.",
            |_| {
                openat2(CWD, "f", O_CREAT | O_WRONLY, 0o640, RESOLVE_BENEATH)?;
                same_mode(stat("f")?.permissions(), 0o640)
            },
        ),
        check(
            "openat2/a-mode-without-O_CREAT-says-EINVAL",
            "It is stricter than open.",
            |_| {
                file("f", b"")?;
                openat2(CWD, "f", O_RDONLY, 0o640, 0).says(EINVAL)
            },
        ),
        check(
            "openat2/unknown-flags-say-EINVAL",
            "It is stricter than open.",
            |_| {
                file("f", b"")?;
                let size = size_of::<libc::open_how>();
                openat2_sized(CWD, "f", 1 << 40, 0, 0, size).says(EINVAL)?;
                openat2_sized(CWD, "f", 0, 0, 1 << 40, size).says(EINVAL)
            },
        ),
        check(
            "openat2/a-structure-too-small-says-EINVAL",
            "The first version had 24 bytes.",
            |_| {
                file("f", b"")?;
                openat2_sized(CWD, "f", 0, 0, 0, 16).says(EINVAL)
            },
        ),
    ]
}
