//! Credentials of the process that made a request.
//!
//! A FUSE request carries uid and gid, not the supplementary groups. Where the kernel has already checked permissions with all
//! groups (default_permissions), the server checks again, so this module reads the groups from /proc only where they change the
//! result: when the server refused without them, or when membership decides what a change does. Where only the server checks,
//! it gets all groups at once: a mode may give a group fewer rights than others.

use crate::filesystem::GupfsFileSystem;
use gupfs_fuse::Call;
use gupfs_proto::{Caller, FsError};
use std::future::Future;

/// The caller without supplementary groups, except those that came with the request.
pub fn caller_without_groups(call: &Call) -> Caller {
    Caller::new(call.uid, call.gid, call.groups.to_vec())
}

/// The caller with all groups that the process has now. Root needs none.
pub fn caller_with_groups(call: &Call) -> Caller {
    if call.uid == 0 {
        caller_without_groups(call)
    } else {
        Caller::new(call.uid, call.gid, groups_of(call.pid))
    }
}

/// Runs a request with the caller's credentials. If the kernel has checked permissions: first without supplementary groups, and
/// again with them if the server denied it.
pub async fn as_caller<T, F: Future<Output = Result<T, FsError>>>(
    fs: &GupfsFileSystem,
    call: &Call,
    ask: impl Fn(Caller) -> F,
) -> Result<T, FsError> {
    if !fs.kernel_permissions {
        return ask(caller_with_groups(call)).await;
    }
    match ask(caller_without_groups(call)).await {
        Err(FsError::Denied | FsError::NotPermitted) if call.uid != 0 => {
            ask(caller_with_groups(call)).await
        }
        other => other,
    }
}

/// Supplementary groups of a thread; none if it has ended or lives in another pid namespace.
fn groups_of(pid: u32) -> Vec<u32> {
    let Ok(status) = std::fs::read_to_string(format!("/proc/{pid}/status")) else {
        return Vec::new();
    };
    parse_groups(&status)
}

fn parse_groups(status: &str) -> Vec<u32> {
    let line = status
        .lines()
        .find_map(|line| line.strip_prefix("Groups:"))
        .unwrap_or("");
    line.split_ascii_whitespace()
        .filter_map(|group| group.parse().ok())
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn groups_are_read_from_the_status_of_a_process() {
        assert_eq!(
            parse_groups("Name:\tsh\nUid:\t1\t1\t1\t1\nGroups:\t4 24 1000 \nNStgid:\t5\n"),
            [4, 24, 1000]
        );
        assert_eq!(parse_groups("Name:\tsh\n"), Vec::<u32>::new());
    }
}
