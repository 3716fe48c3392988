//! Probes of INC_EPOCH: all names expire at once.

use gupfs_fuse::{Errno, InitFlags};

use super::directories::mount_covered_directory;
use super::{
    ALL_REQUESTS, CACHED, SHORT_WAIT, expect_no_requests, mount_one_file, notification_passes,
    one_file, open_one_file, run_both,
};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::{INITIAL_BYTE, INITIAL_SIZE};
use crate::request_gate::RequestGate;

pub async fn inc_epoch_waits_for_no_lock_and_expires_all_names<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
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

/// INC_EPOCH while the reply to `program` waits at `gate`.
async fn epoch_during<T, E: Into<ProbeFailure>>(
    mount: &impl ProbeMount,
    gate: &RequestGate,
    program: impl Future<Output = Result<T, E>>,
) -> Result<T, ProbeFailure> {
    notification_passes(mount, KernelNotification::Epoch, gate, program).await
}

/// Names in a listing reply that arrives after the new epoch count as of that epoch, though the server read them before.
pub async fn names_of_a_listing_in_flight_survive_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    let gate = server.hold_replies("readdirplus");
    let found = epoch_during(&mount, &gate, mount.list()).await?;
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
    let mount = mount_covered_directory(kernel).await?;
    mount.notify(KernelNotification::Epoch).await?;
    expect_equal(
        "covered after INC_EPOCH",
        mount.is_covered("dir").await,
        false,
    )
}

/// Also the name of a reply that there is no such file.
pub async fn names_of_a_lookup_in_flight_expire_with_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    for (name, expected) in [("file", Ok(INITIAL_SIZE)), ("none", Err(Errno::ENOENT))] {
        let (server, mount) = mount_one_file(kernel, CACHED).await?;
        let gate = server.hold_replies("lookup");
        let program = async { expect_before("size", mount.size(name).await, expected) };
        epoch_during(&mount, &gate, program).await?;
        server.take_log();
        expect_before("size", mount.size(name).await, expected)?;
        expect_equal("LOOKUPs", server.count_requests("lookup", name), 1)?;
    }
    Ok(())
}

pub async fn the_name_of_a_create_in_flight_expires_with_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let gate = server.hold_replies("create");
    epoch_during(&mount, &gate, mount.create("new")).await?;
    server.take_log();
    mount.size("new").await?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "new"), 1)
}

pub async fn the_name_of_a_link_in_flight_expires_with_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let gate = server.hold_replies("link");
    epoch_during(&mount, &gate, mount.link("file", "other")).await?;
    server.take_log();
    // The server has made no such name: only a cached one is found.
    let found = mount.size("other").await;
    expect_equal("size of the new name", found, Err(Errno::ENOENT))?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "other"), 1)
}

pub async fn the_name_of_a_mkdir_in_flight_expires_with_inc_epoch<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    let gate = server.hold_replies("mkdir");
    epoch_during(&mount, &gate, mount.make_directory("new")).await?;
    server.take_log();
    mount.size("new").await?;
    expect_equal("LOOKUPs", server.count_requests("lookup", "new"), 1)
}

pub async fn inc_epoch_keeps_attributes_and_pages<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    mount.notify(KernelNotification::Epoch).await?;
    server.take_log();
    expect_before("first byte, again", file.read(0).await?, Some(INITIAL_BYTE))?;
    expect_no_requests(&server)
}

/// So a revocation that waits for a directory's lock can still expire the name.
pub async fn inc_epoch_passes_a_name_invalidation_that_waits<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount) = mount_one_file(kernel, CACHED).await?;
    mount.size("file").await?;
    let gate = server.hold_replies("create");
    let waits = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(KernelNotification::name("file")).await?;
        Ok::<(), ProbeFailure>(())
    };
    let passes = async {
        gate.wait_until_waiting(1).await?;
        // The invalidation waits for the directory's lock by now.
        tokio::time::sleep(SHORT_WAIT).await;
        let epoch = mount.notify(KernelNotification::Epoch);
        let passed = tokio::time::timeout(10 * SHORT_WAIT, epoch).await;
        gate.release_replies(ALL_REQUESTS);
        expect_equal("INC_EPOCH meanwhile", passed.ok(), Some(Ok(())))
    };
    run_both(run_both(mount.create("new"), waits), passes).await?;
    Ok(())
}
