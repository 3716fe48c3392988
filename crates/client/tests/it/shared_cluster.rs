//! Real servers with several shared clients, and what their tests do again and again.

use crate::real_servers::{ClusterDisks, Servers, lay_out_small};
use crate::user::User;
use bytes::Bytes;
use gupfs_client::{MdsPeer, OpenFile, SessionOptions, WriteOptions};
use gupfs_platform::fake::{FakePlatform, FakeTasks};
use gupfs_proto::meta::WritePosition;
use gupfs_rpc::Peer;
use std::time::Duration;

/// Real servers, and several shared clients.
pub struct SharedCluster {
    pub disks: ClusterDisks,
    pub servers: Servers,
    pub users: Vec<User>,
}

impl SharedCluster {
    /// As for clients of other hosts: their sessions expire, so the server grants leases on metadata.
    pub async fn new(seed: u64, clients: usize) -> SharedCluster {
        SharedCluster::with(seed, clients, true).await
    }

    /// The sessions have no term, so the server grants no leases on metadata.
    pub async fn without_leases(seed: u64, clients: usize) -> SharedCluster {
        SharedCluster::with(seed, clients, false).await
    }

    async fn with(seed: u64, clients: usize, leases: bool) -> SharedCluster {
        let disks = ClusterDisks::new(seed).await;
        let servers = disks
            .servers(|options| options.keep_sessions = leases)
            .await;
        let mut cluster = SharedCluster {
            disks,
            servers,
            users: Vec::new(),
        };
        for _ in 0..clients {
            let user = cluster.client().await;
            cluster.users.push(user);
        }
        lay_out_small(&cluster.users[0]).await;
        cluster
    }

    /// Connects one more client.
    pub async fn client(&self) -> User {
        self.client_by(Peer::local(self.servers.mds.clone())).await
    }

    /// Connects a client through the given metadata peer.
    pub async fn client_by(&self, mds: MdsPeer) -> User {
        self.client_on(self.servers.platform.clone(), mds).await
    }

    /// Connects a client whose tasks can end while those of the servers go on.
    pub async fn mortal_client(&self) -> User {
        let platform = FakePlatform {
            tasks: FakeTasks::new(),
            ..self.servers.platform.clone()
        };
        self.client_on(platform, Peer::local(self.servers.mds.clone()))
            .await
    }

    async fn client_on(&self, platform: FakePlatform, mds: MdsPeer) -> User {
        let options = SessionOptions {
            shared: true,
            write_behind: true,
            ..SessionOptions::default()
        };
        let user = self.servers.connect_on(platform, mds, options).await;
        self.attach(&user);
        user
    }

    pub fn attach(&self, user: &User) {
        let back = Peer::local(user.client.clone());
        self.servers.mds.attach(user.client.session(), back);
    }

    pub fn clients(&self) -> (&User, &User) {
        (&self.users[0], &self.users[1])
    }

    pub async fn waits(&self) -> Vec<String> {
        let status = self.servers.mds.status().await;
        status
            .waits
            .into_iter()
            .map(|wait| wait.waits_for)
            .collect()
    }
}

pub async fn append(user: &User, file: &OpenFile, bytes: &[u8]) -> u64 {
    let bytes = Bytes::copy_from_slice(bytes);
    let done = user
        .client
        .write(file, WritePosition::End, bytes, WriteOptions::default())
        .await;
    done.unwrap().offset
}

pub async fn pause() {
    tokio::time::sleep(Duration::from_millis(100)).await;
}
