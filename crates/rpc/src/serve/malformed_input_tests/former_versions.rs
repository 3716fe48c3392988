//! Peers of former versions of gupfs.

use super::fixture::{ADDRESS, Fixture, frame, identity, key, request, run};
use crate::frame::{Flags, FrameLimits, pack};
use crate::framed_stream::FramedStream;
use crate::handshake::{
    HandshakeOptions, LocalIdentity, Role, connect_handshake_with_versions, offered_versions,
};
use gupfs_proto::meta;
use gupfs_proto::wire::{Message, MessageKind};
use std::sync::Arc;

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
        let replied = reader.next(FrameLimits::AUTHENTICATED).await.unwrap();
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
        let replied = reader.next(FrameLimits::AUTHENTICATED).await.unwrap();
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
