//! # fuzzing: entry points for the programs of `fuzz/`
//!
//! Owns   sending any bytes over a connection whose handshake is over.
//! Never  part of a build that is neither a test nor made by cargo-fuzz.
//! Enter  at `after_handshake`.

use crate::frame::{Flags, FrameLimits, HEAD_LEN, pack};
use crate::framed_stream::{FrameReader, FramedStream};
use crate::handshake::{
    HandshakeOptions, LocalIdentity, Role, connect_handshake_with_versions, offered_versions,
};
use crate::limits::{FRAME_TIMEOUT, SILENCE_TIMEOUT};
use crate::{
    AcceptAllClientKeys, AdmitAll, Capacity, ClientConnection, ClientConnectionOptions, ClusterKey,
    Handlers, NoObserver, Peer, RpcServer, RpcServerOptions, SendDeadline, ServerAddresses,
    Service,
};
use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_platform::{Net, Platform};
use gupfs_proto::meta::{self, MetaOp};
use gupfs_proto::wire::{Message, MessageKind};
use gupfs_proto::{Caller, ClusterId, MapEpoch, OwnerEpoch, Seq, SessionId, data};
use std::sync::Arc;
use std::time::Duration;

const ADDRESS: &str = "server:1";

struct Anything;

impl Service<meta::MetaRequest, meta::MetaReply> for Anything {
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

impl Service<data::DataRequest, data::DataReply> for Anything {
    async fn handle(self: Arc<Self>, _: data::DataRequest) -> data::DataReply {
        Ok(data::DataReplyBody::Done)
    }
}

fn request() -> meta::MetaRequest {
    meta::MetaRequest {
        session: SessionId(1),
        slot_seq: None,
        caller: Caller::root(),
        job: gupfs_proto::JobId(0),
        instance: OwnerEpoch(0),
        last_seen: Seq(0),
        op: MetaOp::StatFs,
    }
}

fn identity(process_id: u128) -> LocalIdentity {
    LocalIdentity {
        process_id,
        role: Role::Client,
        name: format!("host{process_id}"),
    }
}

fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

/// Corrects the magic numbers and checksums of the frames in `bytes`: otherwise the checksum tests would reject nearly every
/// input. A body longer than the rest of the input is cut to it; the payload lengths stay.
pub fn recompute_checksums(bytes: &[u8]) -> Vec<u8> {
    let mut corrected = Vec::new();
    let mut rest = bytes;
    while let Some((head, tail)) = rest.split_first_chunk::<HEAD_LEN>() {
        let mut head = *head;
        let announced = u32::from_le_bytes([head[16], head[17], head[18], head[19]]) as usize;
        let (body, tail) = tail.split_at(announced.min(tail.len()));
        head[..4].copy_from_slice(b"gpf1");
        head[16..20].copy_from_slice(&(body.len() as u32).to_le_bytes());
        head[24..28].copy_from_slice(&crc32c::crc32c(body).to_le_bytes());
        let sum = crc32c::crc32c(&head[..28]);
        head[28..].copy_from_slice(&sum.to_le_bytes());
        corrected.extend_from_slice(&head);
        corrected.extend_from_slice(body);
        rest = tail;
    }
    corrected.extend_from_slice(rest);
    corrected
}

/// Sends these bytes as a peer with the key, and checks that the server serves another client meanwhile and afterwards. To be run
/// in paused time.
///
/// # Panics
/// The server does not serve another client, or it holds reserved bytes after the connection has closed.
pub async fn after_handshake(bytes: &[u8]) {
    let net = FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
    let platform = FakePlatform::new(1).platform();
    let server = start_server(&net, &platform).await;
    let net = net.host("a");
    let (framed, mut reader) = connect_without_macs(&net, &platform).await;
    framed.send_raw(bytes.to_vec());
    let beside = serves(&net, &platform, 6);
    let read_all = async { while reader.next(FrameLimits::AUTHENTICATED).await.is_ok() {} };
    let all = tokio::time::timeout(FRAME_TIMEOUT + SILENCE_TIMEOUT, read_all);
    tokio::join!(beside, async {
        tokio::select! {
            _ = all => {}
            () = framed.flush() => {}
        }
    });
    framed.close();
    serves(&net, &platform, 7).await;
    platform.clock.sleep(SILENCE_TIMEOUT * 2).await;
    let status = server.status();
    assert_eq!(
        (status.payload, status.requests, status.connections.len()),
        (0, 0, 0)
    );
}

async fn start_server(net: &FakeNet, platform: &Platform) -> RpcServer {
    let listener = net.host("server").listen(ADDRESS).await;
    let anything = Arc::new(Anything);
    let options = RpcServerOptions {
        platform: platform.clone(),
        identity: identity(1),
        cluster: ClusterId(7),
        key: Some(key()),
        client_keys: Arc::new(AcceptAllClientKeys),
        tls: None,
        handlers: Handlers::none()
            .with_service::<meta::MetaRequest, meta::MetaReply, _>(anything.clone())
            .with_service::<data::DataRequest, data::DataReply, _>(anything),
        observer: Arc::new(NoObserver),
        capacity: Capacity::for_clients(64),
        admission: Arc::new(AdmitAll),
        send_deadline: SendDeadline::none(),
    };
    RpcServer::start(listener.expect("the address is free"), options)
}

/// Connects as a peer of LINK version 1, whose frames have no MAC: the server would reject every input with a wrong MAC.
async fn connect_without_macs(net: &Net, platform: &Platform) -> (Arc<FramedStream>, FrameReader) {
    let stream = net.connect(ADDRESS).await.expect("the server listens");
    let framed = Arc::new(FramedStream::new(stream, platform.clock.clone()));
    let mut reader = framed.reader();
    let options = HandshakeOptions {
        number: 1,
        cluster: None,
        key: Some(&key().into()),
        fenced: false,
    };
    let former = |(kind, oldest, newest): (u16, u8, u8)| match MessageKind(kind) {
        MessageKind::LINK => (kind, 1, 1),
        _ => (kind, oldest, newest),
    };
    let offers = offered_versions().into_iter().map(former).collect();
    connect_handshake_with_versions(
        &framed,
        &mut reader,
        &platform.random,
        &identity(5),
        options,
        offers,
    )
    .await
    .expect("the server accepts a peer with the key");
    (framed, reader)
}

async fn serves(net: &Net, platform: &Platform, process_id: u128) {
    let connection = ClientConnection::connect(ClientConnectionOptions {
        addresses: ServerAddresses::one(ADDRESS),
        peer_name: "the server".into(),
        net: net.clone(),
        platform: platform.clone(),
        identity: identity(process_id),
        cluster: None,
        key: Some(key().into()),
        tls: None,
        request_timeout: Some(Duration::from_secs(20)),
        fence: false,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    });
    let peer: Peer<meta::MetaRequest, meta::MetaReply> = connection.peer();
    assert_eq!(
        peer.call(request()).await.result,
        Ok(meta::MetaReplyBody::Done)
    );
}

/// The fuzzing corpus: a request, two requests, a reply, a ping, no bytes.
pub fn samples() -> Vec<Vec<u8>> {
    let frame = |kind: MessageKind, flags| {
        let message = request().encode();
        let packed = pack(kind, flags, 1, message).expect("it is short");
        packed.head_and_body().to_vec()
    };
    let whole = frame(MessageKind::META, Flags::empty());
    let both = [whole.clone(), frame(MessageKind::DATA, Flags::empty())].concat();
    let reply = frame(MessageKind::META, Flags::REPLY);
    vec![
        whole,
        both,
        reply,
        frame(MessageKind::LINK, Flags::empty()),
        Vec::new(),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn the_server_still_serves_after_each_sample() {
        for sample in samples() {
            after_handshake(&sample).await;
            assert_eq!(recompute_checksums(&sample), sample);
        }
    }
}
