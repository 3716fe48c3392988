//! Probes of INC_EPOCH: all names expire at once.

use std::sync::Arc;

use gupfs_fuse::InitFlags;

use super::{ALL_REQUESTS, CACHED, FILE, one_file, run_both};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount};
use crate::probe_server::ProbeServer;

pub async fn inc_epoch_waits_for_no_lock_and_expires_all_names<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.size("file").await?;
    let gate = server.hold_replies("create");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(KernelNotification::Epoch).await?;
        mount.notify(KernelNotification::attributes(1)).await?;
        gate.release_replies(1);
        Ok(())
    };
    run_both(mount.create("new"), concurrent_events).await?;
    server.take_log();
    mount.size("file").await?;
    expect_equal(
        "LOOKUPs of the name",
        server.count_requests("lookup", "file"),
        1,
    )
}

/// Names in a listing reply that arrives after the new epoch count as of that epoch, though the server read them before.
pub async fn names_of_a_listing_in_flight_survive_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    let gate = server.hold_replies("readdirplus");
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(KernelNotification::Epoch).await?;
        gate.release_replies(ALL_REQUESTS);
        Ok(())
    };
    let found = run_both(mount.list(), concurrent_events).await?;
    expect_before("names", found, vec!["file".to_owned()])?;
    server.take_log();
    mount.size("file").await?;
    expect_equal(
        "LOOKUPs of a listed name",
        server.count_requests("lookup", "file"),
        0,
    )?;
    mount.notify(KernelNotification::Epoch).await?;
    mount.size("file").await?;
    expect_equal(
        "LOOKUPs after another INC_EPOCH",
        server.count_requests("lookup", "file"),
        1,
    )
}

pub async fn inc_epoch_unmounts_file_systems_mounted_inside_the_mount<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = Arc::new(ProbeServer::default().with(FILE, "dir", 0o040_777, CACHED));
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    mount.cover("dir").await?;
    expect_before("covered", mount.is_covered("dir").await, true)?;
    mount.notify(KernelNotification::Epoch).await?;
    expect_equal(
        "covered after INC_EPOCH",
        mount.is_covered("dir").await,
        false,
    )
}
