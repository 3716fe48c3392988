//! Probes of FORGET: how many lookups the kernel gives back, and when.

use std::time::Duration;

use gupfs_fuse::InitFlags;

use super::{CACHED, FILE, SHORT_WAIT, one_file, open_one_file};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::ProbeServer;

/// FORGET is sent in the background.
const FORGET_POLLS: u32 = 40;

/// Lookups given and forgotten, as soon as some are forgotten.
async fn lookups_after_forget(server: &ProbeServer) -> (u64, u64) {
    for _ in 0..FORGET_POLLS {
        if server.lookups(FILE).1 > 0 {
            break;
        }
        tokio::time::sleep(SHORT_WAIT).await;
    }
    server.lookups(FILE)
}

pub async fn a_forget_counts_every_reply_that_named_the_inode<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let server = one_file(CACHED);
    server.set_name_ttl(FILE, Duration::ZERO);
    let flags = InitFlagChanges::usual().without(InitFlags::READDIRPLUS_AUTO);
    let mount = kernel.mount(&server, flags).await?;
    mount.size("file").await?;
    mount.size("file").await?;
    mount.list().await?;
    mount.link("file", "other").await?;
    let (given, forgotten) = server.lookups(FILE);
    expect_before("lookups given: two, a listing and a link", given >= 4, true)?;
    expect_before("forgotten", forgotten, 0)?;
    mount.evict("other").await?;
    mount.evict("file").await?;
    let (given, forgotten) = lookups_after_forget(&server).await;
    expect_equal("lookups forgotten", forgotten, given)
}

pub async fn an_open_file_is_not_forgotten<L: KernelUnderTest>(kernel: &L) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, CACHED, ProbeOpenMode::Read).await?;
    mount.evict("file").await?;
    tokio::time::sleep(SHORT_WAIT).await;
    expect_equal("lookups forgotten", server.lookups(FILE).1, 0)?;
    file.close().await;
    let (given, forgotten) = lookups_after_forget(&server).await;
    expect_equal("lookups forgotten after close", forgotten, given)
}
