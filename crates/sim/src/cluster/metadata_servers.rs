//! The metadata server of a simulated cluster: one host without copies, or several hosts of which one owns the metadata.

use super::MDS_ADDRESS;
use super::host::{Host, HostOptions};
use super::metadata_copies::MetadataCopies;
use super::metadata_host::MetadataHost;
use super::metadata_parts::ServedMetadata;
use super::owner_clocks::OwnerClocks;
use gupfs_mds::Mds;
use gupfs_namespace::FileBody;
use gupfs_proto::InodeId;
use std::sync::Arc;

/// Which metadata servers a cluster has.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum MetadataKind {
    /// One, without copies.
    Single,
    /// Three hosts have the metadata.
    Copies,
}

pub enum MetadataServers {
    Single(MetadataHost),
    Copies(MetadataCopies),
}

impl MetadataKind {
    /// The addresses of its hosts.
    pub fn addresses(self) -> Vec<String> {
        match self {
            MetadataKind::Single => vec![MDS_ADDRESS.to_string()],
            MetadataKind::Copies => (0..super::metadata_copies::COPIES)
                .map(|number| format!("mds{number}:7700"))
                .collect(),
        }
    }
}

impl MetadataServers {
    /// Starts them; no fault is injected yet.
    pub async fn start(kind: MetadataKind, options: &HostOptions) -> MetadataServers {
        match kind {
            MetadataKind::Single => {
                let host = MetadataHost::new(options);
                host.start().await.expect("no fault is injected yet");
                MetadataServers::Single(host)
            }
            MetadataKind::Copies => {
                let copies = MetadataCopies::new(options);
                copies.start().await;
                MetadataServers::Copies(copies)
            }
        }
    }

    /// None where it has copies.
    pub fn single(&self) -> Option<&MetadataHost> {
        match self {
            MetadataServers::Single(host) => Some(host),
            MetadataServers::Copies(_) => None,
        }
    }

    /// None where it has no copies.
    pub fn copies(&self) -> Option<&MetadataCopies> {
        match self {
            MetadataServers::Single(_) => None,
            MetadataServers::Copies(copies) => Some(copies),
        }
    }

    pub fn hosts(&self) -> Vec<&Host> {
        match self {
            MetadataServers::Single(host) => vec![&host.host],
            MetadataServers::Copies(copies) => copies.hosts.iter().map(|it| &it.host).collect(),
        }
    }

    pub fn host_names(&self) -> Vec<String> {
        let hosts = self.hosts().into_iter();
        hosts.map(|host| host.name.clone()).collect()
    }

    /// The clocks that say when capabilities expire.
    pub fn clocks(&self) -> Arc<OwnerClocks> {
        match self {
            MetadataServers::Single(host) => Arc::new(OwnerClocks::new(&host.host.clock)),
            MetadataServers::Copies(copies) => copies.clocks().clone(),
        }
    }

    /// The server that runs, and may answer.
    pub fn serving(&self) -> Option<ServedMetadata> {
        match self {
            MetadataServers::Single(host) => host.serving(),
            MetadataServers::Copies(copies) => copies.owner().map(|(_, owned)| owned.served),
        }
    }

    /// None while no server runs.
    pub fn mds(&self) -> Option<Arc<Mds>> {
        self.serving().map(|serving| serving.mds)
    }

    /// All regular files, as the running server's newest records have them; None while no server runs.
    pub fn files(&self) -> Option<Vec<(InodeId, FileBody)>> {
        self.serving()?.files()
    }

    /// The files that the running server must resync, by its records; None while no server runs.
    pub fn expected_resyncs(&self) -> Option<Vec<InodeId>> {
        self.serving()?.expected_resyncs()
    }
}
