//! Tests of the real server with bytes that no gupfs program sends.

use super::*;
use crate::AcceptAllClientKeys;
use crate::frame::{Flags, HEAD_LEN, pack};
use crate::frame_mac::FRAME_MAC_LEN;
use crate::framed_stream::{FrameReader, FramedStream};
use crate::handshake::{HandshakeOptions, Role, connect_handshake_with_versions, offered_versions};
use crate::limits::SILENCE_TIMEOUT;
use crate::{ClientConnection, ClientConnectionOptions};
use bytes::Bytes;
use gupfs_platform::Net;
use gupfs_platform::fake::{FakeNet, FakePlatform};
use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use gupfs_proto::meta::{self, MetaOp};
use gupfs_proto::wire::{EncodedMessage, Message, MessageKind};
use gupfs_proto::{MapEpoch, Seq, SessionId};
use proptest::prelude::*;
use std::time::Duration;

const ADDRESS: &str = "server:1";

struct Responder;

impl crate::Service<meta::MetaRequest, meta::MetaReply> for Responder {
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

fn key() -> ClusterKey {
    ClusterKey::new([9; 32])
}

fn identity(process_id: u128) -> LocalIdentity {
    let (role, name) = (Role::Client, format!("host{process_id}"));
    LocalIdentity {
        process_id,
        role,
        name,
    }
}

fn request() -> meta::MetaRequest {
    meta::MetaRequest {
        session: SessionId(1),
        slot_seq: None,
        caller: gupfs_proto::Caller::root(),
        job: 0,
        instance: gupfs_proto::OwnerEpoch(0),
        last_seen: Seq(0),
        op: MetaOp::StatFs,
    }
}

/// A server, and a host that sends malformed input to it.
struct Fixture {
    platform: Platform,
    net: Net,
    server: RpcServer,
    /// Connections that the host has made.
    made: u64,
}

impl Fixture {
    async fn new() -> Fixture {
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
    async fn connect(&mut self) -> (Arc<FramedStream>, FrameReader) {
        self.connect_as(5).await
    }

    async fn connect_as(&mut self, process_id: u128) -> (Arc<FramedStream>, FrameReader) {
        self.connect_with_versions(process_id, offered_versions())
            .await
    }

    async fn connect_with_versions(
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
    async fn wait_end(&self, framed: &FramedStream, reader: &mut FrameReader) {
        let ended = async {
            while reader
                .next(crate::frame::FrameLimits::AUTHENTICATED)
                .await
                .is_ok()
            {}
        };
        tokio::time::timeout(SILENCE_TIMEOUT * 2, ended)
            .await
            .unwrap();
        framed.close();
    }

    /// Checks that the server still serves another client.
    async fn serves_others(&self) {
        let connection = ClientConnection::connect(ClientConnectionOptions {
            address: ADDRESS.into(),
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
        });
        let reply: meta::MetaReply = connection.peer().call(request()).await;
        assert_eq!(reply.result, Ok(meta::MetaReplyBody::Done));
    }
}

/// A valid frame with a changed head, and the head's checksum recomputed. The caller appends the MAC.
fn frame(change: impl FnOnce(&mut [u8])) -> Vec<u8> {
    let packed = pack(MessageKind::META, Flags::empty(), 1, request().encode()).unwrap();
    let mut bytes = packed.write_head_and_body(FRAME_MAC_LEN).to_vec();
    change(&mut bytes);
    let sum = crc32c::crc32c(&bytes[..28]);
    bytes[28..HEAD_LEN].copy_from_slice(&sum.to_le_bytes());
    bytes
}

fn run(test: impl Future<Output = ()>) {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .start_paused(true)
        .build()
        .unwrap();
    runtime.block_on(test);
}

#[test]
fn frames_of_wrong_version_length_or_kind_close_the_connection_with_a_reason() {
    run(async {
        let mut fixture = Fixture::new().await;
        let longer = |max: u64| (max as u32 + 1).to_le_bytes();
        let (body, payload) = (
            longer(BODY_MAX.0 + FRAME_MAC_LEN as u64),
            longer(PAYLOAD_MAX.0),
        );
        let newer = format!("in version {}, which", MessageKind::META.newest() + 1);
        let tried: [(Vec<u8>, &str); 7] = [
            (frame(|it| it[4] = MessageKind::META.newest() + 1), &newer),
            (frame(|it| it[4] = 1), "in version 1, which"),
            (frame(|it| it[6] = 99), "kind 99"),
            (frame(|it| it[5] = 0x80), "unknown flags"),
            (
                frame(|it| it[16..20].copy_from_slice(&body)),
                "the frame's body has",
            ),
            (
                frame(|it| it[20..24].copy_from_slice(&payload)),
                "the frame's payload has",
            ),
            (frame(|it| it[24] ^= 1), "the checksum of the frame's body"),
        ];
        for (number, (bytes, why)) in tried.into_iter().enumerate() {
            let (framed, mut reader) = fixture.connect().await;
            framed.send_with_mac(bytes);
            fixture.wait_end(&framed, &mut reader).await;
            let status = fixture.server.status();
            let last = status.last_protocol_error.unwrap_or_default();
            assert!(last.contains(why), "{last} instead of {why}");
            assert_eq!(status.protocol_errors, number as u64 + 1);
        }
        fixture.serves_others().await;
    });
}

#[test]
fn a_malformed_body_gets_an_error_and_the_next_request_a_reply() {
    run(async {
        let mut fixture = Fixture::new().await;
        let (framed, mut reader) = fixture.connect().await;
        let nonsense = EncodedMessage {
            min_version: 6,
            body: vec![0xff; 1_000],
            payload: Bytes::new(),
        };
        for message in [nonsense, request().encode()] {
            framed.send(pack(MessageKind::META, Flags::empty(), 1, message).unwrap());
        }
        let limits = crate::frame::FrameLimits::AUTHENTICATED;
        let refused = reader.next(limits).await.unwrap();
        let reply = meta::MetaReply::decode(&refused.body, refused.payload).unwrap();
        let malformed = matches!(reply.result, Err(gupfs_proto::FsError::Malformed(_)));
        assert!(malformed, "{reply:?}");
        let replied = reader.next(limits).await.unwrap();
        let reply = meta::MetaReply::decode(&replied.body, replied.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::MetaReplyBody::Done));
    });
}

#[test]
fn a_peer_of_a_former_version_gets_replies_in_that_version() {
    run(async {
        let mut fixture = Fixture::new().await;
        let former = |(kind, oldest, newest): (u16, u8, u8)| match MessageKind(kind) {
            MessageKind::META => (kind, 6, 6),
            _ => (kind, oldest, newest),
        };
        let offers = offered_versions().into_iter().map(former).collect();
        let (framed, mut reader) = fixture.connect_with_versions(5, offers).await;
        framed.send(pack(MessageKind::META, Flags::empty(), 1, request().encode()).unwrap());
        let replied = reader
            .next(crate::frame::FrameLimits::AUTHENTICATED)
            .await
            .unwrap();
        assert_eq!((replied.head.version, replied.head.id), (6, 1));
        let reply = meta::MetaReply::decode(&replied.body, replied.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::MetaReplyBody::Done));
        // The peer must not use a newer version than it offered either.
        framed.send_with_mac(frame(|it| it[4] = 7));
        fixture.wait_end(&framed, &mut reader).await;
        let last = fixture
            .server
            .status()
            .last_protocol_error
            .unwrap_or_default();
        assert!(last.contains("in version 7, which"), "{last}");
    });
}

/// The first bytes of a frame of the largest length.
fn unfinished() -> Vec<u8> {
    let payload = PAYLOAD_MAX.0 as u32;
    let mut bytes = frame(|it| {
        it[20..24].copy_from_slice(&payload.to_le_bytes());
    });
    bytes.resize(bytes.len() + 1_000, 0);
    bytes
}

#[test]
fn bytes_count_from_the_frame_head_and_an_unfinished_frame_closes_the_connection() {
    run(async {
        let mut fixture = Fixture::new().await;
        let mut connections = Vec::new();
        let announced =
            unfinished().len() - 1_000 - HEAD_LEN + FRAME_MAC_LEN + PAYLOAD_MAX.0 as usize;
        // More than one host may reserve: a connection whose frame exceeds the limit stays open, and holds no bytes.
        let most = crate::limits::BYTES_PER_HOST_MAX / announced;
        for process_id in 0..most as u128 + 10 {
            let (framed, reader) = fixture.connect_as(100 + process_id).await;
            framed.send_raw(unfinished());
            connections.push((framed, reader));
        }
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.server.status().payload, most * announced);
        fixture.serves_others().await;
        // More bytes of the same frame do not keep such a connection open.
        let more = async {
            loop {
                tokio::time::sleep(Duration::from_secs(2)).await;
                connections
                    .iter()
                    .for_each(|(framed, _)| framed.send_raw(vec![0; 10]));
            }
        };
        let patience = crate::limits::FRAME_TIMEOUT + SILENCE_TIMEOUT;
        let _ = tokio::time::timeout(patience, more).await;
        let status = fixture.server.status();
        assert_eq!((status.payload, status.connections.len()), (0, 0));
    });
}

#[test]
fn a_frame_beyond_the_byte_limit_is_skipped_and_gets_the_reply_busy() {
    run(async {
        let mut fixture = Fixture::new().await;
        let whole = |length: usize| {
            let message = EncodedMessage {
                min_version: 6,
                body: vec![0xff; length],
                payload: Bytes::from(vec![7; PAYLOAD_MAX.0 as usize]),
            };
            pack(MessageKind::META, Flags::empty(), 9, message).unwrap()
        };
        let mut connections = Vec::new();
        let most = crate::limits::BYTES_PER_HOST_MAX / PAYLOAD_MAX.0 as usize;
        for process_id in 0..most as u128 {
            let (framed, reader) = fixture.connect_as(100 + process_id).await;
            framed.send_raw(unfinished());
            connections.push((framed, reader));
        }
        let (framed, mut reader) = fixture.connect_as(99).await;
        framed.send(whole(100));
        let flushing = framed.clone();
        let flushing = tokio::spawn(async move { flushing.flush().await });
        let limits = crate::frame::FrameLimits::AUTHENTICATED;
        let busy = reader.next(limits).await.unwrap();
        assert_eq!(
            (busy.head.flags, busy.head.id),
            (Flags::REPLY | Flags::BUSY, 9)
        );
        framed.send(pack(MessageKind::META, Flags::empty(), 10, request().encode()).unwrap());
        let replied = reader.next(limits).await.unwrap();
        assert_eq!((replied.head.flags, replied.head.id), (Flags::REPLY, 10));
        flushing.abort();
    });
}

#[test]
fn a_peer_of_link_version_1_is_a_client_whose_root_is_squashed() {
    run(async {
        let mut fixture = Fixture::new().await;
        let former: Vec<_> = (offered_versions().into_iter())
            .map(|(kind, oldest, newest)| match MessageKind(kind) {
                MessageKind::LINK => (kind, 1, 1),
                _ => (kind, oldest, newest),
            })
            .collect();
        let (framed, mut reader) = fixture.connect_with_versions(5, former.clone()).await;
        framed.send(pack(MessageKind::META, Flags::empty(), 1, request().encode()).unwrap());
        let replied = reader
            .next(crate::frame::FrameLimits::AUTHENTICATED)
            .await
            .unwrap();
        let reply = meta::MetaReply::decode(&replied.body, replied.payload).unwrap();
        assert_eq!(reply.result, Ok(meta::MetaReplyBody::Done));
        let server = fixture.server.peers()[0].identity().clone();
        assert_eq!(
            (&server.key, server.key.is_root_trusted()),
            (&crate::ProvenKey::ClusterWithoutRole, false)
        );
        for role in [Role::Mds, Role::Oss] {
            let stream = fixture.net.connect(ADDRESS).await.unwrap();
            let framed = Arc::new(FramedStream::new(stream, fixture.platform.clock.clone()));
            let key = key().into();
            let options = HandshakeOptions {
                number: 9,
                cluster: None,
                key: Some(&key),
                fenced: false,
            };
            let (dice, client) = (
                &fixture.platform.random,
                LocalIdentity {
                    role,
                    ..identity(5)
                },
            );
            let server = connect_handshake_with_versions(
                &framed,
                &mut framed.reader(),
                dice,
                &client,
                options,
                former.clone(),
            )
            .await;
            let why = server.unwrap_err().to_string();
            assert!(why.contains("must prove the cluster key"), "{why}");
        }
    });
}

#[test]
fn frames_without_the_mac_of_their_number_close_the_connection() {
    run(async {
        let mut fixture = Fixture::new().await;
        // The frame numbers of the MACs of each sequence of frames; None for a frame without a MAC.
        let tried: [&[Option<u64>]; 5] = [
            &[None],
            &[Some(1)],
            &[Some(0), Some(0)],
            &[Some(0), Some(2)],
            &[Some(0), None],
        ];
        for (at, numbers) in tried.into_iter().enumerate() {
            let (framed, mut reader) = fixture.connect().await;
            let frames = numbers.iter().flat_map(|number| match number {
                Some(number) => framed.with_mac(*number, frame(|_| {})),
                None => pack(MessageKind::META, Flags::empty(), 1, request().encode())
                    .unwrap()
                    .head_and_body()
                    .to_vec(),
            });
            framed.send_raw(frames.collect());
            fixture.wait_end(&framed, &mut reader).await;
            let status = fixture.server.status();
            let last = status.last_protocol_error.unwrap_or_default();
            assert!(
                last.contains("the frame's MAC is wrong"),
                "{numbers:?}: {last}"
            );
            assert_eq!(status.protocol_errors, at as u64 + 1);
        }
        // A MAC of one connection does not verify on another one.
        let (first, _) = fixture.connect().await;
        let theirs = first.with_mac(0, frame(|_| {}));
        let (framed, mut reader) = fixture.connect().await;
        framed.send_raw(theirs);
        fixture.wait_end(&framed, &mut reader).await;
        assert_eq!(
            fixture.server.status().protocol_errors,
            tried.len() as u64 + 1
        );
        fixture.serves_others().await;
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(cases()))]

    /// Before the handshake, and after it.
    #[test]
    fn random_bytes_close_their_connection_and_nothing_else(
        is_known: bool,
        start in 0usize..3,
        bytes in proptest::collection::vec(any::<u8>(), 0..600),
        flips in proptest::collection::vec((0usize..400, any::<u8>()), 0..6),
        cut in 0usize..400,
    ) {
        run(async {
            let mut fixture = Fixture::new().await;
            let (framed, mut reader) = match is_known {
                true => fixture.connect().await,
                false => {
                    let stream = fixture.net.connect(ADDRESS).await.unwrap();
                    let framed = Arc::new(FramedStream::new(stream, fixture.platform.clock.clone()));
                    let reader = framed.reader();
                    (framed, reader)
                }
            };
            // Random bytes, a valid frame with changes, a valid head followed by random bytes.
            let mut sent = match start {
                0 => bytes.clone(),
                1 => frame(|_| {}),
                _ => frame(|it| it[16..18].copy_from_slice(&[bytes.len() as u8, (bytes.len() >> 8) as u8])),
            };
            match start {
                0 => {}
                1 => {
                    for (at, by) in flips {
                        let length = sent.len();
                        sent[at % length] ^= by;
                    }
                    sent.truncate(cut.max(1));
                }
                _ => {
                    sent.truncate(HEAD_LEN);
                    sent.extend_from_slice(&bytes);
                }
            }
            framed.send_raw(sent);
            fixture.wait_end(&framed, &mut reader).await;
            fixture.serves_others().await;
        });
    }
}

/// GUPFS_HOSTILE_CASES sets a larger number of cases: `scripts/fuzz.sh wire`.
fn cases() -> u32 {
    let set = std::env::var("GUPFS_HOSTILE_CASES");
    set.map_or(64, |set| set.parse().expect("a number"))
}
