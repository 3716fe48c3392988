//! A server, and a host that sends frames to it byte by byte.

use crate::client::{ClientConnection, ClientConnectionOptions};
use crate::client_key::AcceptAllClientKeys;
use crate::frame::{Flags, FrameLimits, HEAD_LEN, pack};
use crate::frame_mac::FRAME_MAC_LEN;
use crate::framed_stream::{FrameReader, FramedStream};
use crate::handler::Handlers;
use crate::handshake::{
    HandshakeOptions, LocalIdentity, Role, connect_handshake_with_versions, offered_versions,
};
use crate::key::ClusterKey;
use crate::limits::SILENCE_TIMEOUT;
use crate::peer::Service;
use crate::send_deadline::SendDeadline;
use crate::serve::{Admission, AdmitAll, Capacity, NoObserver, RpcServer, RpcServerOptions};
use crate::server_addresses::ServerAddresses;
use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_platform::{Net, Platform};
use gupfs_proto::meta::{self, MetaOp};
use gupfs_proto::wire::{Message, MessageKind};
use gupfs_proto::{ClusterId, MapEpoch, Seq, SessionId};
use std::sync::Arc;
use std::time::Duration;

pub(super) const ADDRESS: &str = "server:1";

struct Responder;

impl Service<meta::MetaRequest, meta::MetaReply> for Responder {
    async fn handle(self: Arc<Self>, _: meta::MetaRequest) -> meta::MetaReply {
        meta::MetaReply {
            seq: Seq(1),
            durable: Seq(1),
            map_epoch: MapEpoch(1),
            change: None,
            result: Ok(meta::MetaReplyBody::Done),
        }
    }
}

pub(super) fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

pub(super) fn identity(process_id: u128) -> LocalIdentity {
    let (role, name) = (Role::Client, format!("host{process_id}"));
    LocalIdentity {
        process_id,
        role,
        name,
    }
}

pub(super) fn request() -> meta::MetaRequest {
    meta::MetaRequest {
        session: SessionId(1),
        slot_seq: None,
        caller: gupfs_proto::Caller::root(),
        job: gupfs_proto::JobId(0),
        instance: gupfs_proto::OwnerEpoch(0),
        last_seen: Seq(0),
        op: MetaOp::StatFs,
    }
}

/// A server, and a host that sends malformed input to it.
pub(super) struct Fixture {
    pub platform: Platform,
    pub net: Net,
    pub server: RpcServer,
    /// Connections that the host has made.
    made: u64,
}

impl Fixture {
    pub async fn new() -> Fixture {
        Fixture::with_admission(Arc::new(AdmitAll)).await
    }

    pub async fn with_admission(admission: Arc<dyn Admission>) -> Fixture {
        let net = FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
        let platform = FakePlatform::new(1).platform();
        let options = RpcServerOptions {
            platform: platform.clone(),
            identity: identity(1),
            cluster: ClusterId(7),
            key: Some(key()),
            client_keys: Arc::new(AcceptAllClientKeys),
            tls: None,
            handlers: Handlers::none().with_service(Arc::new(Responder)),
            observer: Arc::new(NoObserver),
            capacity: Capacity::for_clients(1_000),
            admission,
            send_deadline: SendDeadline::none(),
        };
        let listener = net.host("server").listen(ADDRESS).await.unwrap();
        Fixture {
            platform,
            net: net.host("a"),
            server: RpcServer::start(listener, options),
            made: 0,
        }
    }

    /// A peer with the key, after its handshake.
    pub async fn connect(&mut self) -> (Arc<FramedStream>, FrameReader) {
        self.connect_as(5).await
    }

    pub async fn connect_as(&mut self, process_id: u128) -> (Arc<FramedStream>, FrameReader) {
        self.connect_with_versions(process_id, offered_versions())
            .await
    }

    pub async fn connect_with_versions(
        &mut self,
        process_id: u128,
        offers: Vec<(u16, u8, u8)>,
    ) -> (Arc<FramedStream>, FrameReader) {
        self.made += 1;
        let stream = self.net.connect(ADDRESS).await.unwrap();
        let framed = Arc::new(FramedStream::new(stream, self.platform.clock.clone()));
        let mut reader = framed.reader();
        let options = HandshakeOptions {
            number: self.made,
            cluster: None,
            key: Some(&key().into()),
            fenced: false,
        };
        let dice = &self.platform.random;
        (connect_handshake_with_versions(
            &framed,
            &mut reader,
            dice,
            &identity(process_id),
            options,
            offers,
        )
        .await)
            .unwrap();
        (framed, reader)
    }

    /// Waits until the server closes the connection, at most twice the silence timeout.
    pub async fn wait_end(&self, framed: &FramedStream, reader: &mut FrameReader) {
        let ended = async { while reader.next(FrameLimits::AUTHENTICATED).await.is_ok() {} };
        tokio::time::timeout(SILENCE_TIMEOUT * 2, ended)
            .await
            .unwrap();
        framed.close();
    }

    /// Checks that the server still serves another client.
    pub async fn serves_others(&self) {
        let connection = ClientConnection::connect(ClientConnectionOptions {
            addresses: ServerAddresses::one(ADDRESS),
            peer_name: "the server".into(),
            net: self.net.clone(),
            platform: self.platform.clone(),
            identity: identity(6),
            cluster: None,
            key: Some(key().into()),
            tls: None,
            request_timeout: Some(Duration::from_secs(20)),
            fence: false,
            handlers: Handlers::none(),
            send_deadline: SendDeadline::none(),
        });
        let reply: meta::MetaReply = connection.peer().call(request()).await;
        assert_eq!(reply.result, Ok(meta::MetaReplyBody::Done));
    }
}

/// A valid frame with a changed head, and the head's checksum recomputed. The caller appends the MAC.
pub(super) fn frame(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let packed = pack(MessageKind::META, Flags::empty(), 1, request().encode()).unwrap();
    let mut bytes = packed
        .write_head_and_body(Flags::empty(), FRAME_MAC_LEN)
        .to_vec();
    change(&mut bytes);
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..HEAD_LEN].copy_from_slice(&sum.to_le_bytes());
    bytes
}

pub(super) fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}
