//! Servers of former versions of gupfs.

use super::{ClientConnection, ClientConnectionOptions};
use crate::client_key::AcceptAllClientKeys;
use crate::frame::{Flags, FrameLimits, pack};
use crate::framed_stream::FramedStream;
use crate::handler::Handlers;
use crate::handshake::{Acceptor, LocalIdentity, Role, send_welcome, supported_versions};
use crate::peer::Peer;
use crate::send_deadline::SendDeadline;
use crate::server_addresses::ServerAddresses;
use bytes::Bytes;
use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_platform::{Listener, Net, Platform};
use gupfs_proto::capability::DataCredentials;
use gupfs_proto::data::{
    BlockChecksums, DataOp, DataReply, DataReplyBody, DataRequest, ObjectExistence, ObjectOwner,
    WriteNumber,
};
use gupfs_proto::wire::{Message, MessageKind};
use gupfs_proto::{
    ClusterId, FsError, Generation, InodeId, MapEpoch, ObjectId, ObjectOffset, OstId, SessionId,
};
use std::sync::Arc;
use std::time::Duration;

const ADDRESS: &str = "server:1";

fn identity(role: Role) -> LocalIdentity {
    LocalIdentity {
        process_id: role as u128,
        role,
        name: String::new(),
    }
}

/// An object server that supports no newer version of DATA than `data_max`. It serves one connection; returns the versions in the
/// heads of the requests.
async fn serve_connection(listener: &Listener, platform: &Platform, data_max: u8) -> Vec<u8> {
    let stream = listener.accept().await.unwrap();
    let framed = Arc::new(FramedStream::new(stream, platform.clock.clone()));
    let mut reader = framed.reader();
    let acceptor = Acceptor {
        identity: identity(Role::Oss),
        cluster: ClusterId(7),
        key: None,
        client_keys: Arc::new(AcceptAllClientKeys),
    };
    let former = |(kind, oldest, newest): (u16, u8, u8)| match MessageKind(kind) {
        MessageKind::DATA => (kind, oldest, newest.min(data_max)),
        _ => (kind, oldest, newest),
    };
    let supported: Vec<_> = supported_versions().into_iter().map(former).collect();
    let accepted =
        acceptor.accept_handshake_with_versions(&framed, &mut reader, &platform.random, &supported);
    let accepted = accepted.await.unwrap();
    send_welcome(&framed, &accepted, &[]);
    let mut versions = Vec::new();
    while let Ok(frame) = reader.next(FrameLimits::AUTHENTICATED).await {
        let (kind, id) = (frame.head.kind, frame.head.id);
        if kind == MessageKind::LINK {
            continue;
        }
        versions.push(frame.head.version);
        let reply: DataReply = Ok(DataReplyBody::Done);
        framed.send(pack(kind, Flags::REPLY, id, reply.encode()).unwrap());
        if versions.len() == 2 {
            break;
        }
    }
    versions
}

fn write(number: Option<WriteNumber>) -> DataRequest {
    let plain = DataOp::Write {
        object: ObjectId {
            ino: InodeId(9),
            generation: Generation(1),
            stripe: 0,
        },
        at: ObjectOffset(0),
        data: Bytes::from_static(b"bytes"),
        checksums: BlockChecksums::default(),
        existence: ObjectExistence::MayExist,
        owner: ObjectOwner::default(),
    };
    DataRequest {
        session: SessionId(7),
        map_epoch: MapEpoch(1),
        job: gupfs_proto::JobId(0),
        ost: OstId(3),
        credentials: DataCredentials::None,
        op: match number {
            Some(number) => plain.with_number(number),
            None => plain,
        },
    }
}

fn connect(net: &Net, platform: &Platform) -> Peer<DataRequest, DataReply> {
    let connection = ClientConnection::connect(ClientConnectionOptions {
        addresses: ServerAddresses::one(ADDRESS),
        peer_name: "an object server".into(),
        net: net.clone(),
        platform: platform.clone(),
        identity: identity(Role::Client),
        cluster: Some(ClusterId(7)),
        key: None,
        tls: None,
        request_timeout: None,
        fence: true,
        handlers: Handlers::none(),
        send_deadline: SendDeadline::none(),
    });
    connection.peer()
}

#[tokio::test(start_paused = true)]
async fn a_numbered_write_fails_at_a_server_that_does_not_know_it_and_a_plain_one_arrives() {
    let number = WriteNumber { slot: 0, number: 1 };
    for (data_max, numbered, arrived) in [
        (3, Err(FsError::NotSupported), vec![3, 3]),
        (4, Ok(DataReplyBody::Done), vec![4, 3]),
    ] {
        let net = FakeNet::new(3, (Duration::from_micros(50), Duration::from_micros(300)));
        let platform = FakePlatform::new(1).platform();
        let listener = net.host("server").listen(ADDRESS).await.unwrap();
        let peer = connect(&net.host("a"), &platform);
        let calls = async {
            // The first call begins before the handshake, the second after it.
            let first = peer.call(write(Some(number))).await;
            let second = peer.call(write(None)).await;
            if data_max == 3 {
                assert_eq!(peer.call(write(Some(number))).await, numbered);
                assert_eq!(peer.call(write(None)).await, Ok(DataReplyBody::Done));
            }
            (first, second)
        };
        let (versions, (first, second)) =
            tokio::join!(serve_connection(&listener, &platform, data_max), calls);
        assert_eq!(first, numbered);
        assert_eq!(second, Ok(DataReplyBody::Done));
        assert_eq!(versions, arrived);
    }
}
