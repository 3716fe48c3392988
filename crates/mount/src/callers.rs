//! On whose behalf the kernel asks.
//!
//! A request carries uid and gid, not the supplementary groups. Where the kernel has checked with all of them already
//! (default_permissions), the server checks again; so groups are read from /proc only where they change the answer:
//! when the server said no without them, or when membership decides what a change does. Where the server alone checks it
//! is told all groups at once: a mode may give a group less than others.

use crate::kernel::Kernel;
use gupfs_fuse::Call;
use gupfs_proto::{Caller, Refusal};
use std::future::Future;

/// The caller without supplementary groups, but for those that came with the request.
pub fn plain(call: &Call) -> Caller {
    Caller::new(call.uid, call.gid, call.groups.to_vec())
}

/// The caller with all groups the process has now. Root needs none.
pub fn with_groups(call: &Call) -> Caller {
    if call.uid == 0 {
        plain(call)
    } else {
        Caller::new(call.uid, call.gid, groups_of(call.pid))
    }
}

/// Asks in the caller's name. If the kernel has checked: without supplementary groups, and once more with them if that was
/// refused for want of rights.
pub async fn asking<T, F: Future<Output = Result<T, Refusal>>>(
    kernel: &Kernel,
    call: &Call,
    ask: impl Fn(Caller) -> F,
) -> Result<T, Refusal> {
    if !kernel.kernel_permissions {
        return ask(with_groups(call)).await;
    }
    match ask(plain(call)).await {
        Err(Refusal::Denied | Refusal::NotPermitted) if call.uid != 0 => {
            ask(with_groups(call)).await
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
