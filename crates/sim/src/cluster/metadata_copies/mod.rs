//! # metadata_copies: three hosts that have the metadata, one of which owns it
//!
//! Owns   the hosts, their arbiter, the record of the owners so far.
//! Never  injects a fault: `faults` does. Starts a process again that ended by itself, as systemd does.
//! Enter  at `MetadataCopies::start`; the running owner is `MetadataCopies::owner`.

mod copy_host;
mod copy_store;
mod membership;
mod owners;
mod process;
mod rest;
mod standby;

pub use copy_host::CopyHost;
pub use membership::SeenMembership;
use owners::Owners;
pub use owners::{CopiesObserver, NewOwner};
use process::Owned;

use super::host::HostOptions;
use super::owner_clocks::OwnerClocks;
use gupfs_platform::Clock;
use gupfs_platform::fake::{FakeArbiter, FakeClock};
use gupfs_proto::copy::CopyLogState;
use std::sync::Arc;
use std::time::Duration;

/// Number of hosts that have the metadata.
pub const COPIES: usize = 3;

const POLL_INTERVAL: Duration = Duration::from_millis(10);

pub struct MetadataCopies {
    pub hosts: Vec<Arc<CopyHost>>,
    pub arbiter: FakeArbiter,
    owners: Arc<Owners>,
}

impl MetadataCopies {
    pub fn new(options: &HostOptions) -> MetadataCopies {
        let random = options.random.fork();
        let arbiter = FakeArbiter::new(random.u64(), Clock::fake(FakeClock::of_runtime()));
        let owners = Arc::new(Owners::new(&options.monitor));
        let host = |number| Arc::new(CopyHost::new(options, number, &arbiter, &owners));
        MetadataCopies {
            hosts: (0..COPIES).map(host).collect(),
            arbiter,
            owners,
        }
    }

    /// Starts the first host's process, which makes the metadata, then the others. Returns when all count.
    pub async fn start(&self) {
        let clock = self.hosts[0].host.platform().platform().clock;
        for host in &self.hosts {
            host.start().await;
            while self.owner().is_none() {
                clock.sleep(POLL_INTERVAL).await;
            }
        }
        while !self.is_whole() {
            clock.sleep(POLL_INTERVAL).await;
        }
    }

    /// The clocks of the owners: an owner's clock says when the capabilities expire that it has issued.
    pub fn clocks(&self) -> &Arc<OwnerClocks> {
        &self.owners.clocks
    }

    /// From now on this observer sees what the processes do.
    pub fn set_observer(&self, observer: impl CopiesObserver) {
        self.owners.set_observer(Box::new(observer));
    }

    /// The host whose process owns the metadata and may answer now, and what it owns.
    pub fn owner(&self) -> Option<(&Arc<CopyHost>, Owned)> {
        let owned = self.hosts.iter().filter_map(|host| {
            let process = host.process().filter(|process| process.may_answer())?;
            Some((host, process.owned()?))
        });
        owned.max_by_key(|(_, owned)| owned.epoch)
    }

    /// Whether all processes count, by what the owner knows of the register.
    pub fn is_whole(&self) -> bool {
        self.counting().len() == COPIES
    }

    /// The hosts whose running processes count, by what the owner knows of the register.
    pub fn counting(&self) -> Vec<Arc<CopyHost>> {
        let register = self
            .owner()
            .and_then(|(host, _)| host.process()?.copy.register());
        let Some(register) = register else {
            return Vec::new();
        };
        let counts = |host: &&Arc<CopyHost>| {
            let process = host.process();
            process.is_some_and(|process| {
                let mut counting = register.counting();
                counting.any(|member| member.id == host.id() && member.run == process.run)
            })
        };
        self.hosts.iter().filter(counts).cloned().collect()
    }

    /// For the message of a failure.
    pub fn describe(&self) -> Vec<String> {
        let text = |host: &Arc<CopyHost>| match host.process() {
            Some(process) => {
                let state = process.copy.host().state();
                let is_owner = matches!(state.log, CopyLogState::Owner);
                let register = process.copy.register();
                format!(
                    "{}: owner {is_owner}, {state:?}, knows {register:?}",
                    host.host.name
                )
            }
            None => format!("{}: no process", host.host.name),
        };
        self.hosts.iter().map(text).collect()
    }
}
