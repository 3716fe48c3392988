//! Probes of file locks of the server: how it learns of their release.

use super::{CACHED, FILE, open_one_file};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_equal};
use crate::kernel_under_test::{KernelUnderTest, ProbeFile, ProbeOpenMode};

/// By an unlock request before RELEASE, or by a flag of RELEASE.
pub async fn closing_a_file_releases_its_flock<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    file.flock().await?;
    server.take_log();
    let gate = server.hold_replies("release");
    file.close().await;
    gate.wait_until_waiting(1).await?;
    let log = server.take_log();
    gate.release_replies(1);
    let by_release = format!("release {FILE} ReleaseFlags(FLOCK_UNLOCK)");
    let before = format!("setlk {FILE} Unlock");
    let given_back = log
        .iter()
        .any(|request| *request == by_release || *request == before);
    expect_equal("flock released", given_back, true)
}

/// The kernel sends no unlock, because it has no list of the locks: FLUSH carries the owner. It is not sent for a file opened
/// with NOFLUSH.
pub async fn a_close_names_the_owner_whose_posix_locks_it_releases<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, _mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::ReadWrite).await?;
    server.take_log();
    file.lock().await?;
    let locked = server.take_log();
    let prefix = format!("setlk {FILE} Write by ");
    let owner = locked
        .iter()
        .find_map(|request| request.strip_prefix(&prefix));
    let Some(owner) = owner else {
        return Err(ProbeFailure::Differs(format!(
            "the requests for a lock are {locked:?}"
        )));
    };
    let gate = server.hold_replies("release");
    file.close().await;
    gate.wait_until_waiting(1).await?;
    let log = server.take_log();
    gate.release_replies(1);
    let flush = format!("flush {FILE} by {owner}");
    let unlock = format!("setlk {FILE} Unlock by {owner}");
    let owner_sent = log.contains(&flush) || log.contains(&unlock);
    expect_equal("the close carried the lock owner", owner_sent, true)
}
