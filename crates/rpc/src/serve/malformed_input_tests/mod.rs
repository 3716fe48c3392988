//! Tests of the real server with bytes that no gupfs program sends.

mod before_verdict;
mod byte_limits;
mod fixture;
mod former_versions;

use crate::frame::{Flags, FrameLimits, HEAD_LEN, pack};
use crate::frame_mac::FRAME_MAC_LEN;
use crate::framed_stream::FramedStream;
use fixture::{ADDRESS, Fixture, frame, request, run};
use gupfs_proto::limits::{BODY_MAX, PAYLOAD_MAX};
use gupfs_proto::meta;
use gupfs_proto::wire::{EncodedMessage, Message, MessageKind};
use proptest::prelude::*;
use std::sync::Arc;

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
            ..EncodedMessage::default()
        };
        for message in [nonsense, request().encode()] {
            framed.send(pack(MessageKind::META, Flags::empty(), 1, message).unwrap());
        }
        let limits = FrameLimits::AUTHENTICATED;
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
