//! The limits on the bytes that frames reserve.

use super::fixture::{Fixture, frame, request, run};
use crate::frame::{Flags, FrameLimits, HEAD_LEN, pack};
use crate::frame_mac::FRAME_MAC_LEN;
use crate::limits::{BYTES_PER_HOST_MAX, FRAME_TIMEOUT, SILENCE_TIMEOUT};
use bytes::Bytes;
use gupfs_proto::limits::PAYLOAD_MAX;
use gupfs_proto::wire::{EncodedMessage, Message, MessageKind};
use std::time::Duration;

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
        let most = BYTES_PER_HOST_MAX / announced;
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
        let patience = FRAME_TIMEOUT + SILENCE_TIMEOUT;
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
                is_payload_checksummed: false,
            };
            pack(MessageKind::META, Flags::empty(), 9, message).unwrap()
        };
        let mut connections = Vec::new();
        let most = BYTES_PER_HOST_MAX / PAYLOAD_MAX.0 as usize;
        for process_id in 0..most as u128 {
            let (framed, reader) = fixture.connect_as(100 + process_id).await;
            framed.send_raw(unfinished());
            connections.push((framed, reader));
        }
        let (framed, mut reader) = fixture.connect_as(99).await;
        framed.send(whole(100));
        let flushing = framed.clone();
        let flushing = tokio::spawn(async move { flushing.flush().await });
        let limits = FrameLimits::AUTHENTICATED;
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
