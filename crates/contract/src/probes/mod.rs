//! The probes. Each is a function that tests one behaviour of a kernel; its name is the statement.

mod acl;
mod attributes;
mod directories;
mod epoch;
mod forgets;
mod locks;
mod mappings;
mod names;
mod opens;
mod overtaken;
mod pages;
mod splice;
mod table;
mod writes;

pub use table::ALL;

use std::cell::Cell;
use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use crate::behaviour::{KernelBehaviour, ProbeFailure, ProbeReport, ProbeResult, expect_equal};
use crate::kernel_under_test::{
    InitFlagChanges, KernelNotification, KernelUnderTest, ProbeMount, ProbeOpenMode,
};
use crate::probe_server::ProbeServer;
use crate::request_gate::RequestGate;
use gupfs_fuse::OpenReplyFlags;

/// A probe ends after this time; only one that hangs takes longer.
const TOO_LONG: Duration = Duration::from_secs(10);

/// How often a behaviour is probed before it counts as different.
const ATTEMPTS: usize = 3;

/// A lifetime that ends during a probe.
const SHORT: Duration = Duration::from_millis(50);

/// Long enough to observe that an operation waits.
const SHORT_WAIT: Duration = Duration::from_millis(50);

/// More requests than any probe sends.
const ALL_REQUESTS: usize = 100;

const CACHED: OpenReplyFlags = OpenReplyFlags::empty();
const DIRECT: OpenReplyFlags = OpenReplyFlags::DIRECT_IO;

/// The node of the file that most probes use.
const FILE: u64 = 9;

fn one_file(flags: OpenReplyFlags) -> Arc<ProbeServer> {
    Arc::new(ProbeServer::default().file(FILE, "file", flags))
}

/// One file, mounted with the usual flags.
async fn mount_one_file<L: KernelUnderTest>(
    kernel: &L,
    flags: OpenReplyFlags,
) -> Result<(Arc<ProbeServer>, L::Mount), ProbeFailure> {
    let server = one_file(flags);
    let mount = kernel.mount(&server, InitFlagChanges::usual()).await?;
    Ok((server, mount))
}

/// One file, mounted with the usual flags, and open.
async fn open_one_file<L: KernelUnderTest>(
    kernel: &L,
    flags: OpenReplyFlags,
    how: ProbeOpenMode,
) -> Result<(Arc<ProbeServer>, L::Mount, <L::Mount as ProbeMount>::File), ProbeFailure> {
    let (server, mount) = mount_one_file(kernel, flags).await?;
    let file = mount.open("file", how).await?;
    Ok((server, mount, file))
}

/// No request about the file since the log was taken.
fn expect_no_requests(server: &ProbeServer) -> ProbeResult {
    let (log, node) = (server.take_log(), format!(" {FILE}"));
    let about = log.iter().filter(|request| request.contains(&node));
    expect_equal("requests", about.collect::<Vec<_>>(), Vec::new())
}

/// Runs a program's operation and concurrent events; the first failure ends both.
async fn run_both<T, E: Into<ProbeFailure>>(
    program: impl Future<Output = Result<T, E>>,
    concurrent_events: impl Future<Output = ProbeResult>,
) -> Result<T, ProbeFailure> {
    let program = async { program.await.map_err(E::into) };
    Ok(tokio::try_join!(program, concurrent_events)?.0)
}

/// `program` sends the request that `gate` holds back; the notification, sent meanwhile, must return before the request is released.
async fn notification_passes<T, E: Into<ProbeFailure>>(
    mount: &impl ProbeMount,
    notification: KernelNotification,
    gate: &RequestGate,
    program: impl Future<Output = Result<T, E>>,
) -> Result<T, ProbeFailure> {
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(notification).await?;
        gate.release_replies(ALL_REQUESTS);
        Ok(())
    };
    run_both(program, concurrent_events).await
}

/// `program` sends the request that `gate` holds back; the notification, sent meanwhile, must return only after the request is
/// released.
async fn notification_waits<P, E: Into<ProbeFailure>>(
    mount: &impl ProbeMount,
    notification: KernelNotification,
    gate: &RequestGate,
    program: impl Future<Output = Result<P, E>>,
) -> ProbeResult {
    let has_returned = Cell::new(false);
    let notifying = async {
        gate.wait_until_waiting(1).await?;
        mount.notify(notification).await?;
        has_returned.set(true);
        Ok::<(), ProbeFailure>(())
    };
    let concurrent_events = async {
        gate.wait_until_waiting(1).await?;
        tokio::time::sleep(SHORT_WAIT).await;
        expect_equal(
            "notification returned while the reply was held back",
            has_returned.get(),
            false,
        )?;
        gate.release_replies(ALL_REQUESTS);
        Ok(())
    };
    run_both(run_both(program, concurrent_events), notifying).await?;
    expect_equal(
        "notification returned after the release",
        has_returned.get(),
        true,
    )
}

/// Probes the behaviours that `select` returns true for, one after the other.
pub async fn probe_all<L: KernelUnderTest>(
    kernel: &L,
    select: impl Fn(&KernelBehaviour) -> bool,
) -> Vec<ProbeReport> {
    let mut reports = Vec::new();
    for behaviour in ALL.iter().filter(|behaviour| select(behaviour)) {
        let result = probe_again(kernel, behaviour.name).await;
        reports.push(ProbeReport::of(behaviour, result));
    }
    reports
}

/// A single failure may be chance: under memory pressure the kernel drops caches, and a slow host is late. A behaviour
/// that is observed once holds; a failure must repeat.
async fn probe_again<L: KernelUnderTest>(kernel: &L, name: &str) -> ProbeResult {
    let mut result = Ok(());
    for _ in 0..ATTEMPTS {
        let once = tokio::time::timeout(TOO_LONG, table::probe_one(kernel, name)).await;
        let waits = |_| {
            ProbeFailure::Untested(
                "the test timed out: an operation hangs, or the host is too slow".into(),
            )
        };
        result = once.map_err(waits).flatten();
        if result.is_ok() {
            break;
        }
    }
    result
}
