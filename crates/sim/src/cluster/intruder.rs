//! An attacker on a host of the cluster. It shows object servers credentials that it was not
//! given: forged ones, those that other clients showed, and those of its own session after that has ended.
//!
//! An object server must refuse a forged credential. A replayed credential is used to read a byte: `rights` decides, at the
//! object server's request handler, whether the server may accept that.

use super::arguments::{both_ways, flags, make, me};
use super::machine::Machine;
use super::objects::OneTarget;
use super::rights::Shown;
use super::site::Site;
use super::{CLUSTER, MDS_ADDRESS};
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
const THINK: u64 = 1_200_000;

/// Timeout of a request to an object server: after it the attacker treats the server as down.
const PATIENCE: Duration = Duration::from_secs(2);

/// How long the attacker's own session lives, and how long it replays the credentials of a session that has ended, in
/// milliseconds.
const LIVES: u64 = 4_000;
const SHOWS: u64 = 15_000;

type Ost = Peer<data::DataRequest, data::DataReply>;

pub async fn work(site: Arc<Site>, machine: Arc<Machine>, random: FakeRandom) {
    let identity = machine.host.identity(&machine.host.platform());
    let lines_as = |role| {
        let me = identity.local_identity(role, "intruder");
        OssConnections::new(&identity, me, CLUSTER, MDS_ADDRESS)
    };
    let intruder = Intruder {
        site,
        as_client: lines_as(Role::Client),
        as_server: lines_as(Role::Mds),
        known: Mutex::default(),
        random,
    };
    while !intruder.site.ends() {
        machine.start();
        let (_, client) = machine.alive().await;
        let session = client.session();
        intruder.use_session(&client).await;
        intruder.shows_until(LIVES, None).await;
        let stopped = client.stop().await;
        (intruder.site).say(format_args!("the intruder's {session} ends: {stopped:?}"));
        drop(client);
        machine.end().await;
        intruder.shows_until(SHOWS, Some(session)).await;
    }
}

/// A request to an object server, sent in the role of a client or of a metadata server.
struct Ask {
    as_server: bool,
    session: SessionId,
    warrant: DataCredentials,
    op: DataOp,
}

struct Intruder {
    site: Arc<Site>,
    as_client: Arc<OssConnections>,
    /// The attacker's host has the cluster key, so a request in a server's role gets as far as the check of its
    /// credentials.
    as_server: Arc<OssConnections>,
    /// Keeps the connections open: key is (in a server's role, address).
    known: Mutex<BTreeMap<(bool, String), Ost>>,
    random: FakeRandom,
}

impl Intruder {
    /// Writes a file, so that the session has a capability to write it.
    async fn use_session(&self, client: &Arc<Client>) {
        let name = format!("intruder{}", self.site.moment());
        let name = Name::new(name.as_bytes()).expect("a short name");
        let (me, root) = (me(), client.root());
        let made = client.create(&me, root, &name, make(), true, both_ways(), flags());
        let Ok(made) = made.await else { return };
        let bytes = Bytes::from(vec![7; 20_000]);
        // Any result will do: either the client showed a capability, or there is none to replay.
        let at = WritePosition::Offset(0);
        let _ = client
            .write(&made.file, at, bytes, WriteOptions::default())
            .await;
        let _ = client.release(made.file.id()).await;
    }

    /// Replays credentials for at most this many milliseconds; mostly those of the session that has ended.
    async fn shows_until(&self, most: u64, ended: Option<SessionId>) {
        let until = self.site.millis() + most / 2 + self.random.below(most / 2);
        while self.site.millis() < until && !self.site.ends() {
            let think = Duration::from_micros(self.random.below(THINK));
            self.site.sleep(think).await;
            let shown = self.site.watch.shown();
            let own: Vec<&Shown> = (shown.iter())
                .filter(|shown| Some(shown.session) == ended)
                .collect();
            let any = self.random.below(shown.len().max(1) as u64) as usize;
            let own_one = self.random.below(own.len().max(1) as u64) as usize;
            match (own.get(own_one), shown.get(any)) {
                (Some(own), _) if !self.random.one_in(4) => self.show_again(own).await,
                (_, Some(other)) if self.random.one_in(2) => self.show_again(other).await,
                (_, Some(other)) => self.forge(other).await,
                (_, None) => {}
            }
        }
    }

    async fn show_again(&self, shown: &Shown) {
        let warrant = DataCredentials::Client {
            session_capability: shown.pass,
            object_capability: Some(shown.grant),
        };
        let ask = Ask {
            as_server: false,
            session: shown.session,
            warrant,
            op: read(shown),
        };
        self.ask(shown, ask).await;
    }

    async fn forge(&self, shown: &Shown) {
        let (session, pass, grant) = (shown.session, shown.pass, shown.grant);
        let client = |pass, grant| DataCredentials::Client {
            session_capability: pass,
            object_capability: Some(grant),
        };
        let longer = SessionCapability {
            until: pass.until + 100_000,
            ..pass
        };
        let more = ObjectCapability {
            rights: Rights::all(),
            ..grant
        };
        let may_write = grant.rights.contains(Rights::WRITE);
        let server = DataCredentials::Server {
            epoch: grant.epoch,
            mac: grant.mac,
        };
        let fence = DataOp::Fence { session };
        let (as_server, session, warrant, op) = match self.random.below(7) {
            0 => (
                false,
                SessionId(session.0 + 1),
                client(pass, grant),
                read(shown),
            ),
            1 => (false, session, client(longer, grant), write(shown)),
            2 if !may_write => (false, session, client(pass, more), write(shown)),
            3 => (true, session, server, fence),
            4 => (false, session, client(pass, grant), fence),
            5 => (false, session, server, fence),
            _ => (false, session, DataCredentials::None, write(shown)),
        };
        let name = op.name();
        let is_of_another_role = !as_server && matches!(warrant, DataCredentials::Server { .. });
        let ask = Ask {
            as_server,
            session,
            warrant,
            op,
        };
        let Some(reply) = self.ask(shown, ask).await else {
            return;
        };
        match reply {
            Err(FsError::Capability(_)) => self.site.watch.count("forged request refused"),
            Err(FsError::NotPermitted) if is_of_another_role => {
                self.site.watch.count("request in a wrong role refused")
            }
            other => {
                let wrong = format!(
                    "an object server answered a {name} with credentials {warrant:?} with {other:?}"
                );
                self.site.watch.breaks(wrong);
            }
        }
    }

    /// None if the object server is down, or refuses the connection.
    async fn ask(&self, shown: &Shown, ask: Ask) -> Option<data::DataReply> {
        let has_it = |target: &OneTarget| target.ost == shown.ost;
        let mut hosts = self.site.osses.iter();
        let host = hosts.find(|host| host.targets.iter().any(has_it))?;
        let request = data::DataRequest {
            session: ask.session,
            map_epoch: MapEpoch(0),
            job: 0,
            ost: shown.ost,
            credentials: ask.warrant,
            op: ask.op,
        };
        let peer = {
            let mut known = self.known.lock();
            let address = host.address();
            let lines = match ask.as_server {
                true => &self.as_server,
                false => &self.as_client,
            };
            let peer = known.entry((ask.as_server, address.clone()));
            peer.or_insert_with(|| lines.dial(&address)).clone()
        };
        tokio::select! {
            biased;
            reply = peer.call(request) => Some(reply),
            () = self.site.sleep(PATIENCE) => None,
        }
    }
}

fn read(shown: &Shown) -> DataOp {
    DataOp::Read {
        object: shown.object,
        at: ObjectOffset(0),
        len: 1,
        existence: ObjectExistence::MayExist,
        checksum_check: ChecksumCheck::ByRequester,
    }
}

fn write(shown: &Shown) -> DataOp {
    DataOp::Write {
        object: shown.object,
        at: ObjectOffset(0),
        data: Bytes::from_static(b"an intruder's"),
        checksums: BlockChecksums::default(),
        existence: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    }
}
