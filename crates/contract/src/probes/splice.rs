//! Probes of splice(2) and sendfile(2), which read through the page cache whatever the file is opened for.

use std::time::Duration;

use gupfs_fuse::OpenReplyFlags;

use super::{CACHED, DIRECT, FILE, SHORT, expect_no_requests, one_file, open_one_file};
use crate::behaviour::{ProbeFailure, ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
    ProbePipe,
};
use crate::probe_server::INITIAL_BYTE;

/// The first byte that splice(2) moves into a pipe.
async fn spliced(file: &impl ProbeFile) -> Result<u8, ProbeFailure> {
    Ok(file.splice_into_pipe().await?.first()?)
}

pub async fn splice_reads_again_after_an_invalidation<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    for flags in [CACHED, DIRECT] {
        let (server, mount, file) = open_one_file(kernel, flags, ProbeOpenMode::Read).await?;
        expect_before("spliced byte", spliced(&file).await?, INITIAL_BYTE)?;
        server.change_content(FILE, b'b');
        expect_before("spliced byte, again", spliced(&file).await?, INITIAL_BYTE)?;
        mount.notify(KernelNotification::pages(FILE)).await?;
        expect_equal("spliced byte", spliced(&file).await?, b'b')?;
    }
    Ok(())
}

pub async fn sendfile_reads_again_after_an_invalidation<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    for flags in [CACHED, DIRECT] {
        let (server, mount, file) = open_one_file(kernel, flags, ProbeOpenMode::Read).await?;
        expect_before("sent byte", file.send().await?, INITIAL_BYTE)?;
        server.change_content(FILE, b'b');
        expect_before("sent byte, again", file.send().await?, INITIAL_BYTE)?;
        mount.notify(KernelNotification::pages(FILE)).await?;
        expect_equal("sent byte", file.send().await?, b'b')?;
    }
    Ok(())
}

/// What was spliced before was read before.
pub async fn a_pipe_keeps_bytes_that_were_spliced_before_an_invalidation<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    let pipe = file.splice_into_pipe().await?;
    server.change_content(FILE, b'b');
    mount.notify(KernelNotification::pages(FILE)).await?;
    expect_equal("byte in the pipe", pipe.first(), Ok(INITIAL_BYTE))
}

/// No lifetime ends a page for splice: only a notification does. Without one, `flags` decide nothing.
async fn is_stale_after_change<L: KernelUnderTest>(
    kernel: &L,
    flags: OpenReplyFlags,
) -> ProbeResult {
    let server = one_file(flags);
    server.set_attr_ttl(FILE, Duration::ZERO);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("spliced byte", spliced(&file).await?, INITIAL_BYTE)?;
    server.change(FILE, 12_000, b'b');
    server.take_log();
    expect_equal("spliced byte", spliced(&file).await?, INITIAL_BYTE)?;
    expect_no_requests(&server)
}

pub async fn splice_asks_for_no_attributes<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    is_stale_after_change(kernel, CACHED).await
}

pub async fn splice_of_a_direct_file_asks_for_no_attributes<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    is_stale_after_change(kernel, DIRECT).await
}

pub async fn spliced_pages_of_an_aborted_connection_outlive_their_lifetime<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_attr_ttl(FILE, SHORT);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    let file = mount.open("file", ProbeOpenMode::Read).await?;
    expect_before("spliced byte", spliced(&file).await?, INITIAL_BYTE)?;
    mount.abort().await?;
    tokio::time::sleep(2 * SHORT).await;
    expect_equal("spliced byte", spliced(&file).await?, INITIAL_BYTE)
}
