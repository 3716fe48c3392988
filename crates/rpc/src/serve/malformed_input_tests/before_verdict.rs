//! Frames that a peer sends while the server has not decided yet whether it admits the peer.

use super::fixture::{ADDRESS, Fixture, identity, key, run};
use crate::framed_stream::FramedStream;
use crate::handshake::{HandshakeOptions, PeerIdentity, connect_handshake};
use crate::serve::{Admission, AdmissionFuture};
use std::sync::Arc;
use std::time::Duration;

/// Never decides.
struct Undecided;

impl Admission for Undecided {
    fn admit(&self, _: &PeerIdentity) -> AdmissionFuture {
        Box::pin(std::future::pending())
    }
}

#[test]
fn a_frame_before_the_verdict_closes_the_connection() {
    run(async {
        let fixture = Fixture::with_admission(Arc::new(Undecided)).await;
        let clock = &fixture.platform.clock;
        let stream = fixture.net.connect(ADDRESS).await.unwrap();
        let framed = Arc::new(FramedStream::new(stream, clock.clone()));
        let mut reader = framed.reader();
        let options = HandshakeOptions {
            number: 1,
            cluster: None,
            key: Some(&key().into()),
            fenced: false,
        };
        let random = &fixture.platform.random;
        let proven = connect_handshake(&framed, &mut reader, random, &identity(5), options).await;
        assert!(proven.is_ok());
        clock.sleep(Duration::from_secs(1)).await;
        assert_eq!(fixture.server.status().connections.len(), 1);
        framed.send_ping();
        clock.sleep(Duration::from_secs(1)).await;
        let status = fixture.server.status();
        assert_eq!(status.connections.len(), 0);
        let why = status.last_protocol_error.unwrap_or_default();
        assert!(why.contains("before the server's verdict"), "{why}");
    });
}
