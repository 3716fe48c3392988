//! Probes of open(2): which opens drop pages, and O_TRUNC.

use gupfs_fuse::OpenReplyFlags;

use super::{CACHED, FILE, open_one_file};
use crate::behaviour::{ProbeResult, expect_before, expect_equal};
use crate::kernel_under_test::{KernelUnderTest, ProbeFile, ProbeMount, ProbeOpenMode};
use crate::probe_server::INITIAL_BYTE;

const KEEP: OpenReplyFlags = OpenReplyFlags::KEEP_CACHE;

/// The byte that a reader of cached pages sees after another open with `flags`.
async fn byte_after_open<L: KernelUnderTest>(
    kernel: &L,
    flags: OpenReplyFlags,
) -> Result<Option<u8>, crate::ProbeFailure> {
    let (server, mount, file) = open_one_file(kernel, KEEP, ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.change_content(FILE, b'b');
    expect_before("first byte, again", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.set_open_flags(FILE, flags);
    let _other = mount.open("file", ProbeOpenMode::Read).await?;
    Ok(file.read(0).await?)
}

pub async fn an_open_without_keep_cache_drops_the_pages<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let found = byte_after_open(kernel, CACHED).await?;
    expect_equal("first byte after another open", found, Some(b'b'))
}

pub async fn an_open_with_keep_cache_keeps_the_pages<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let found = byte_after_open(kernel, KEEP).await?;
    expect_equal("first byte after another open", found, Some(INITIAL_BYTE))
}

/// So a truncating open is one request, which the server answers after it has revoked.
pub async fn an_open_with_o_trunc_is_one_request_and_drops_pages_and_size<L: KernelUnderTest>(
    kernel: &L,
) -> ProbeResult {
    let (server, mount, file) = open_one_file(kernel, KEEP, ProbeOpenMode::Read).await?;
    expect_before("first byte", file.read(0).await?, Some(INITIAL_BYTE))?;
    server.take_log();
    let _truncating = mount.open_truncating("file").await?;
    let log = server.take_log();
    let opens = log
        .iter()
        .any(|request| *request == format!("open {FILE} truncating"));
    let cuts = log.iter().any(|request| request.starts_with("setattr "));
    expect_equal("O_TRUNC came with OPEN", opens, true)?;
    expect_equal("SETATTR was sent", cuts, false)?;
    expect_equal("size", mount.size("file").await?, 0)?;
    expect_equal("first byte", file.read(0).await?, None)
}
