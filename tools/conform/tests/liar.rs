//! Every check can fail: when the kernel lies about one family of system calls, all checks of that family notice.
//!
//! A seccomp filter makes the family's calls answer without being carried out, in one run with success and in another
//! with EIO. A check that passes under both lies tests nothing.

#![allow(clippy::disallowed_methods)] // These tests stand outside every simulated world, like the suite itself.

use std::collections::BTreeSet;
use std::io;
use std::os::unix::process::CommandExt;
use std::process::Command;

use libc::c_long;

const FCHMODAT2: c_long = 452;

/// Checks by the beginning of their name, and the calls that are theirs. Calls without which the suite itself or the
/// dynamic loader cannot work (open, unlink, stat, read, mmap) are not lied about.
const FAMILIES: &[(&[&str], &[c_long])] = &[
    (
        &["rename", "path/rename-"],
        &[libc::SYS_rename, libc::SYS_renameat, libc::SYS_renameat2],
    ),
    (
        &["link/", "path/link-"],
        &[libc::SYS_link, libc::SYS_linkat],
    ),
    (
        &["symlink/", "path/symlink-"],
        &[libc::SYS_symlink, libc::SYS_symlinkat],
    ),
    (
        &["readlink/", "path/readlink-"],
        &[libc::SYS_readlink, libc::SYS_readlinkat],
    ),
    (
        &["truncate/", "ftruncate/", "path/truncate-"],
        &[libc::SYS_truncate, libc::SYS_ftruncate],
    ),
    (
        &["chmod/", "fchmod", "path/chmod-"],
        &[
            libc::SYS_chmod,
            libc::SYS_fchmod,
            libc::SYS_fchmodat,
            FCHMODAT2,
        ],
    ),
    (
        &["chown/", "fchown", "path/chown-", "path/lchown-"],
        &[
            libc::SYS_chown,
            libc::SYS_fchown,
            libc::SYS_lchown,
            libc::SYS_fchownat,
        ],
    ),
    (
        &["utimensat/", "futimens/", "path/utimensat-"],
        &[libc::SYS_utimensat],
    ),
    (
        &["mknod/", "fifo/", "path/mknod-"],
        &[libc::SYS_mknod, libc::SYS_mknodat],
    ),
    (
        &[
            "xattr/",
            "acl/",
            "path/setxattr-",
            "path/getxattr-",
            "path/listxattr-",
            "path/removexattr-",
        ],
        &[
            libc::SYS_setxattr,
            libc::SYS_lsetxattr,
            libc::SYS_fsetxattr,
            libc::SYS_getxattr,
            libc::SYS_lgetxattr,
            libc::SYS_fgetxattr,
            libc::SYS_listxattr,
            libc::SYS_llistxattr,
            libc::SYS_flistxattr,
            libc::SYS_removexattr,
            libc::SYS_lremovexattr,
            libc::SYS_fremovexattr,
        ],
    ),
    (&["fallocate/"], &[libc::SYS_fallocate]),
    (&["copy_file_range/"], &[libc::SYS_copy_file_range]),
    (
        &["sendfile/", "splice/"],
        &[libc::SYS_sendfile, libc::SYS_splice],
    ),
    (&["flock/"], &[libc::SYS_flock]),
    (&["fcntl/", "ofd-lock/"], &[libc::SYS_fcntl]),
    (&["lseek/", "SEEK_"], &[libc::SYS_lseek]),
    (&["statx/", "path/statx-"], &[libc::SYS_statx]),
    (
        &["access/", "path/access-", "path/faccessat2-"],
        &[libc::SYS_faccessat, libc::SYS_faccessat2],
    ),
    (&["openat2/", "path/openat2-"], &[libc::SYS_openat2]),
    (
        &["fsync/", "sync_file_range/"],
        &[
            libc::SYS_fsync,
            libc::SYS_fdatasync,
            libc::SYS_syncfs,
            libc::SYS_sync_file_range,
        ],
    ),
    (&["pwrite/", "sparse/"], &[libc::SYS_pwrite64]),
    (
        &["writev/", "readv/", "pwritev2/"],
        &[
            libc::SYS_writev,
            libc::SYS_readv,
            libc::SYS_pwritev2,
            libc::SYS_preadv2,
        ],
    ),
    (
        &["inotify/", "path/inotify-"],
        &[libc::SYS_inotify_add_watch],
    ),
    (&["socket/"], &[libc::SYS_bind, libc::SYS_connect]),
    (&["read-only/", "mount/"], &[libc::SYS_mount]),
];

#[test]
fn every_check_fails_when_the_kernel_lies_about_its_calls() {
    let mut fooled = BTreeSet::new();
    for (checks, calls) in FAMILIES {
        let (tried, by_success) = passing(checks, calls, 0);
        assert!(tried > 0, "{checks:?} names no check");
        let (_, by_failure) = passing(checks, calls, libc::EIO);
        fooled.extend(by_success.intersection(&by_failure).cloned());
    }
    assert!(
        fooled.is_empty(),
        "these checks pass whatever the kernel does: {fooled:#?}"
    );
}

/// How many checks were tried, and those that pass although the calls are not carried out and answer `errno` (0 is
/// success).
fn passing(checks: &[&str], calls: &[c_long], errno: i32) -> (usize, BTreeSet<String>) {
    let directory = tempfile::tempdir().unwrap();
    let mut program = filter(calls, errno);
    let mut command = Command::new(env!("CARGO_BIN_EXE_conform"));
    command.arg(directory.path()).arg("--json");
    for name in checks {
        command.args(["--filter", name]);
    }
    // SAFETY: between fork and exec only one system call is made; the filter lies in memory that the child has too.
    unsafe { command.pre_exec(move || install(&mut program)) };
    let output = command.output().unwrap();
    let report: serde_json::Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
            panic!(
                "no report ({error}): {}",
                String::from_utf8_lossy(&output.stderr)
            )
        });
    let tried: Vec<_> = report["checks"]
        .as_array()
        .unwrap()
        .iter()
        .map(|check| {
            (
                check["name"].as_str().unwrap(),
                check["verdict"].as_str().unwrap(),
            )
        })
        .filter(|(name, _)| checks.iter().any(|start| name.starts_with(start)))
        .collect();
    let passed = tried
        .iter()
        .filter(|(_, verdict)| *verdict == "passed")
        .map(|(name, _)| name.to_string());
    (tried.len(), passed.collect())
}

/// Classic BPF: the listed calls answer `errno`, all others are carried out.
fn filter(calls: &[c_long], errno: i32) -> Vec<libc::sock_filter> {
    const LOAD_NUMBER: u16 = (libc::BPF_LD | libc::BPF_W | libc::BPF_ABS) as u16;
    const JUMP_EQUAL: u16 = (libc::BPF_JMP | libc::BPF_JEQ | libc::BPF_K) as u16;
    const RETURN: u16 = (libc::BPF_RET | libc::BPF_K) as u16;
    let step = |code, jt, jf, k| libc::sock_filter { code, jt, jf, k };
    let mut program = vec![step(LOAD_NUMBER, 0, 0, 0)];
    for call in calls {
        program.push(step(JUMP_EQUAL, 0, 1, *call as u32));
        program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ERRNO | errno as u32));
    }
    program.push(step(RETURN, 0, 0, libc::SECCOMP_RET_ALLOW));
    program
}

fn install(program: &mut [libc::sock_filter]) -> io::Result<()> {
    // Without root a filter needs the promise that no program gains privileges.
    // SAFETY: plain numbers.
    unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) };
    let filter = libc::sock_fprog {
        len: program.len() as u16,
        filter: program.as_mut_ptr(),
    };
    // SAFETY: the kernel copies the program before the call returns.
    match unsafe {
        libc::syscall(
            libc::SYS_seccomp,
            libc::SECCOMP_SET_MODE_FILTER,
            0,
            &raw const filter,
        )
    } {
        0 => Ok(()),
        _ => Err(io::Error::last_os_error()),
    }
}
