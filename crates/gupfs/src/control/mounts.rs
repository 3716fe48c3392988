//! The directories for the control sockets of mounts whose servers are on other hosts.

use crate::exit::{CliError, CliResult, Exit, OrCliError};
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The directories that may hold control sockets of this user's mounts; new mounts use the first. For root it is /run/gupfs, for
/// others a directory in XDG_RUNTIME_DIR, or in /tmp if that is not set, as in batch jobs.
fn bases() -> Vec<PathBuf> {
    let user = rustix::process::geteuid();
    if user.is_root() {
        return vec![PathBuf::from("/run/gupfs")];
    }
    let own = std::env::var_os("XDG_RUNTIME_DIR").map(|own| PathBuf::from(own).join("gupfs"));
    let in_tmp = PathBuf::from(format!("/tmp/gupfs-{}", user.as_raw()));
    own.into_iter().chain([in_tmp]).collect()
}

/// A file name for a path; different paths have different names.
fn name_of(point: &Path) -> String {
    let point = point.to_string_lossy();
    point.replace('%', "%25").replace('/', "%2F")
}

/// The directory of a mount point's control socket.
///
/// # Errors
/// If another user could have created it.
pub fn run_of_mount(point: &Path) -> CliResult<PathBuf> {
    let name = name_of(point);
    let bases = bases();
    let found = bases.iter().find(|base| base.join(&name).exists());
    let base = found.unwrap_or(&bases[0]);
    if base.symlink_metadata().is_ok() {
        check_owner(base)?;
    }
    Ok(base.join(name))
}

/// # Errors
/// If the directory cannot be created, or another user could have created it.
pub fn make_base_of_mounts() -> CliResult<PathBuf> {
    let base = bases().remove(0);
    make(&base)?;
    Ok(base)
}

/// # Errors
/// If the directory cannot be created, or another user could have created it.
pub fn make_run_of_mount(point: &Path) -> CliResult<PathBuf> {
    let run = make_base_of_mounts()?.join(name_of(point));
    make(&run)?;
    Ok(run)
}

fn make(dir: &Path) -> CliResult<()> {
    std::fs::DirBuilder::new()
        .recursive(true)
        .mode(0o700)
        .create(dir)
        .or_cli_error(|| format!("cannot make the directory '{}'", dir.display()))?;
    check_owner(dir)
}

/// Refuses a directory that another user owns or can write to: that user could put a socket there and receive this user's requests.
/// In /tmp every user can create any name first.
fn check_owner(dir: &Path) -> CliResult<()> {
    let at = dir.display();
    let found = dir
        .symlink_metadata()
        .or_cli_error(|| format!("cannot get the attributes of '{at}'"))?;
    let user = rustix::process::geteuid().as_raw();
    let why = if found.uid() != user {
        format!("it belongs to user {}", found.uid())
    } else if !found.is_dir() {
        "it is not a directory".into()
    } else if found.mode() & 0o077 != 0 {
        format!(
            "other users can access it (mode {:04o})",
            found.mode() & 0o7777
        )
    } else {
        return Ok(());
    };
    Err(CliError::new(format!(
        "the control socket of this mount cannot be in '{at}': {why}"
    ))
    .todo(format!(
        "set XDG_RUNTIME_DIR to a directory of your own (0700), or ask the administrator to remove '{at}', and try again"
    ))
    .exit(Exit::Unusable))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn two_mount_points_never_share_a_directory() {
        let names: Vec<String> = ["/mnt/a/b", "/mnt/a%2Fb", "/mnt/a", "/mnt/a%b"]
            .iter()
            .map(|point| name_of(Path::new(point)))
            .collect();
        for (index, name) in names.iter().enumerate() {
            assert!(!names[..index].contains(name), "{name:?}");
        }
    }

    #[test]
    fn a_directory_that_another_user_can_write_to_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let own = dir.path().join("own/deep");
        make(&own).unwrap();
        assert_eq!(std::fs::metadata(&own).unwrap().mode() & 0o777, 0o700);
        make(&own).unwrap();
        // Another user created it for everybody; a symbolic link.
        let open = dir.path().join("open");
        std::fs::create_dir(&open).unwrap();
        std::fs::set_permissions(&open, PermissionsExt::from_mode(0o777)).unwrap();
        let link = dir.path().join("link");
        std::os::unix::fs::symlink(&own, &link).unwrap();
        let refused = |at: &Path| make(at).unwrap_err().to_string();
        assert!(refused(&open).contains("other users can access it"));
        assert!(refused(&link).contains("it is not a directory"));
        if rustix::process::geteuid().is_root() {
            let other = dir.path().join("other");
            make(&other).unwrap();
            std::os::unix::fs::chown(&other, Some(54_321), None).unwrap();
            assert!(refused(&other).contains("it belongs to user 54321"));
        } else {
            gupfs_skips::skip(
                gupfs_skips::Need::Root,
                "only root can change the owner of a directory",
            );
        }
    }
}
