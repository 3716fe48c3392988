//! # attacker: a host of the cluster that shows object servers credentials which it was not given
//!
//! Owns   forged credentials, replays of those that other clients showed, and of those of its own session after its end.
//! Never  decides whether a replayed credential may be accepted: `access_check` does, at the object server's request handler.
//!        (A forged credential must be refused.)
//! Enter  at `work`.

use super::CLUSTER;
use super::access_check::ShownCredentials;
use super::call_arguments::{caller, create_mode, no_flags, read_write};
use super::client_host::ClientHost;
use super::object_host::HostedTarget;
use super::simulated_cluster::SimulatedCluster;
use bytes::Bytes;
use gupfs_client::{Client, WriteOptions};
use gupfs_platform::fake::FakeRandom;
use gupfs_proto::capability::{DataCredentials, ObjectCapability, Rights, SessionCapability};
use gupfs_proto::data::{
    self, BlockChecksums, ChecksumCheck, DataOp, ObjectExistence, ObjectOwner,
};
use gupfs_proto::meta::WritePosition;
use gupfs_proto::{FsError, MapEpoch, Name, ObjectOffset, SessionId};
use gupfs_rpc::{DialOss as _, OssConnections, Peer, Role};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Longest pause between two requests, in microseconds.
const PAUSE_MAX: u64 = 1_200_000;

/// Timeout of a request to an object server; after it, the attacker treats the server as down.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(2);

/// Duration of the attacker's own session, and of the replays after its end, in milliseconds.
const SESSION_TIME: u64 = 4_000;
const REPLAY_TIME: u64 = 15_000;

type Ost = Peer<data::DataRequest, data::DataReply>;

pub async fn work(
    cluster: Arc<SimulatedCluster>,
    client_host: Arc<ClientHost>,
    random: FakeRandom,
) {
    let identity = client_host.host.identity(&client_host.host.platform());
    let oss_connections_as = |role| {
        let local_identity = identity.local_identity(role, "attacker");
        OssConnections::new(&identity, local_identity, CLUSTER, "")
    };
    let attacker = Attacker {
        cluster,
        as_client: oss_connections_as(Role::Client),
        as_server: oss_connections_as(Role::Mds),
        peers: Mutex::default(),
        random,
    };
    while !attacker.cluster.is_over() {
        client_host.start();
        let (_, client) = client_host.wait_for_client().await;
        let session = client.session();
        attacker.use_session(&client).await;
        attacker.attack_for(SESSION_TIME, None).await;
        let stopped = client.stop().await;
        (attacker.cluster).record(format_args!("the attacker's {session} ends: {stopped:?}"));
        drop(client);
        client_host.end().await;
        attacker.attack_for(REPLAY_TIME, Some(session)).await;
    }
}

/// A request to an object server, sent in the role of a client or of a metadata server.
struct AttackRequest {
    as_server: bool,
    session: SessionId,
    credentials: DataCredentials,
    op: DataOp,
}

struct Attacker {
    cluster: Arc<SimulatedCluster>,
    as_client: Arc<OssConnections>,
    /// The attacker's host has the cluster key, so a server accepts the connection in a server's role and checks the
    /// credentials.
    as_server: Arc<OssConnections>,
    /// The open connections, by (in a server's role, address).
    peers: Mutex<BTreeMap<(bool, String), Ost>>,
    random: FakeRandom,
}

impl Attacker {
    /// Writes a file, so that the session has a capability to write it.
    async fn use_session(&self, client: &Arc<Client>) {
        let name = format!("intruder{}", self.cluster.event_number());
        let name = Name::new(name.as_bytes()).expect("a short name");
        let (caller, root) = (caller(), client.root());
        let made = client.create(
            &caller,
            root,
            &name,
            create_mode(),
            true,
            read_write(),
            no_flags(),
        );
        let Ok(made) = made.await else { return };
        let bytes = Bytes::from(vec![7; 20_000]);
        // The result does not matter: without a capability there is nothing to replay.
        let at = WritePosition::Offset(0);
        let _ = client
            .write(&made.file, at, bytes, WriteOptions::default())
            .await;
        let _ = client.release(made.file.id()).await;
    }

    /// Sends replayed and forged credentials for at most this many milliseconds, mostly those of the ended session.
    async fn attack_for(&self, millis_max: u64, ended: Option<SessionId>) {
        let until = self.cluster.millis() + millis_max / 2 + self.random.below(millis_max / 2);
        while self.cluster.millis() < until && !self.cluster.is_over() {
            let pause = Duration::from_micros(self.random.below(PAUSE_MAX));
            self.cluster.sleep(pause).await;
            let shown = self.cluster.monitor.shown_credentials();
            let own: Vec<&ShownCredentials> = (shown.iter())
                .filter(|shown| Some(shown.session) == ended)
                .collect();
            let any_index = self.random.below(shown.len().max(1) as u64) as usize;
            let own_index = self.random.below(own.len().max(1) as u64) as usize;
            match (own.get(own_index), shown.get(any_index)) {
                (Some(own), _) if !self.random.one_in(4) => self.replay_credentials(own).await,
                (_, Some(other)) if self.random.one_in(2) => self.replay_credentials(other).await,
                (_, Some(other)) => self.send_forged(other).await,
                (_, None) => {}
            }
        }
    }

    async fn replay_credentials(&self, shown: &ShownCredentials) {
        let credentials = DataCredentials::Client {
            session_capability: shown.session_capability,
            object_capability: Some(shown.object_capability),
        };
        let request = AttackRequest {
            as_server: false,
            session: shown.session,
            credentials,
            op: read(shown),
        };
        self.send(shown, request).await;
    }

    async fn send_forged(&self, shown: &ShownCredentials) {
        let request = self.forged_request(shown);
        let (name, credentials) = (request.op.name(), request.credentials);
        let is_of_another_role =
            !request.as_server && matches!(credentials, DataCredentials::Server { .. });
        let Some(reply) = self.send(shown, request).await else {
            return;
        };
        match reply {
            Err(FsError::Capability(_)) => self.cluster.monitor.count("forged request refused"),
            Err(FsError::NotPermitted) if is_of_another_role => self
                .cluster
                .monitor
                .count("request in a wrong role refused"),
            other => {
                let violation = format!(
                    "an object server answered a {name} with credentials {credentials:?} with {other:?}"
                );
                self.cluster.monitor.note_broken_promise(violation);
            }
        }
    }

    /// A request with credentials that differ from the shown ones in one respect, or that do not allow the request.
    fn forged_request(&self, shown: &ShownCredentials) -> AttackRequest {
        let (session, session_capability, object_capability) = (
            shown.session,
            shown.session_capability,
            shown.object_capability,
        );
        let client = |session_capability, object_capability| DataCredentials::Client {
            session_capability,
            object_capability: Some(object_capability),
        };
        let longer = SessionCapability {
            until: session_capability.until + 100_000,
            ..session_capability
        };
        let more = ObjectCapability {
            rights: Rights::all(),
            ..object_capability
        };
        let may_write = object_capability.rights.contains(Rights::WRITE);
        let server = DataCredentials::Server {
            epoch: object_capability.epoch,
            mac: object_capability.mac,
        };
        let fence = DataOp::Fence { session };
        let (as_server, session, credentials, op) = match self.random.below(7) {
            0 => (
                false,
                SessionId(session.0 + 1),
                client(session_capability, object_capability),
                read(shown),
            ),
            1 => (
                false,
                session,
                client(longer, object_capability),
                write(shown),
            ),
            2 if !may_write => (
                false,
                session,
                client(session_capability, more),
                write(shown),
            ),
            3 => (true, session, server, fence),
            4 => (
                false,
                session,
                client(session_capability, object_capability),
                fence,
            ),
            5 => (false, session, server, fence),
            _ => (false, session, DataCredentials::None, write(shown)),
        };
        AttackRequest {
            as_server,
            session,
            credentials,
            op,
        }
    }

    /// Returns None if the object server is down or refuses the connection.
    async fn send(
        &self,
        shown: &ShownCredentials,
        attack: AttackRequest,
    ) -> Option<data::DataReply> {
        let is_target = |target: &HostedTarget| target.ost == shown.ost;
        let mut hosts = self.cluster.osses.iter();
        let host = hosts.find(|host| host.targets.iter().any(is_target))?;
        let request = data::DataRequest {
            session: attack.session,
            map_epoch: MapEpoch(0),
            job: gupfs_proto::JobId(0),
            ost: shown.ost,
            credentials: attack.credentials,
            op: attack.op,
        };
        let peer = {
            let mut peers = self.peers.lock();
            let address = host.address();
            let oss_connections = match attack.as_server {
                true => &self.as_server,
                false => &self.as_client,
            };
            let peer = peers.entry((attack.as_server, address.clone()));
            peer.or_insert_with(|| oss_connections.dial(&address))
                .clone()
        };
        tokio::select! {
            biased;
            reply = peer.call(request) => Some(reply),
            () = self.cluster.sleep(REQUEST_TIMEOUT) => None,
        }
    }
}

fn read(shown: &ShownCredentials) -> DataOp {
    DataOp::Read {
        object: shown.object,
        at: ObjectOffset(0),
        len: 1,
        existence: ObjectExistence::MayExist,
        checksum_check: ChecksumCheck::ByRequester,
    }
}

fn write(shown: &ShownCredentials) -> DataOp {
    DataOp::Write {
        object: shown.object,
        at: ObjectOffset(0),
        data: Bytes::from_static(b"an attacker's"),
        checksums: BlockChecksums::default(),
        existence: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    }
}
