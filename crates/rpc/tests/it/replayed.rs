//! An attacker on the network cannot connect with recorded bytes, and cannot change, repeat or drop frames undetected.

use crate::fixture::*;
use bytes::BytesMut;
use gupfs_platform::{Net, Stream};
use gupfs_rpc::*;
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

type Recorded = Arc<Mutex<Vec<u8>>>;

/// A proxy that records what the client sends.
async fn record(net: Net, recorded: Recorded) {
    let listener = net.listen("between:1").await.unwrap();
    let client = listener.accept().await.unwrap();
    let server = net.connect(ADDRESS).await.unwrap();
    tokio::join!(
        forward(client.clone(), server.clone(), Some(recorded)),
        forward(server, client, None)
    );
}

async fn forward(from: Stream, to: Stream, recorded: Option<Recorded>) {
    loop {
        let mut bytes = BytesMut::with_capacity(1 << 16);
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return to.close(),
            Ok(_) => {}
        }
        if let Some(recorded) = &recorded {
            recorded.lock().extend_from_slice(&bytes);
        }
        if to.try_write(&[IoSlice::new(&bytes)]).is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_replayed_handshake_is_rejected() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let recorded = Recorded::default();
    let between = tokio::spawn(record(net.host("between"), recorded.clone()));
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    options.addresses = ServerAddresses::one("between:1");
    let connection = ClientConnection::connect(options);
    connection
        .wait_connected(Duration::from_secs(5))
        .await
        .unwrap();
    let mds: MdsPeer = connection.peer();
    assert!(mds.call(request(1, 0)).await.result.is_ok());
    drop(connection);
    between.abort();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.status().connections.len(), 0);
    let before = server.status().rejected;
    // Replay the same bytes, from the hello to the request, to the server, which has no connection of this client now.
    let recorded_bytes = recorded.lock().clone();
    let stream = net.host("thief").connect(ADDRESS).await.unwrap();
    stream.try_write(&[IoSlice::new(&recorded_bytes)]).unwrap();
    let mut reply = BytesMut::with_capacity(1 << 16);
    while stream.read(&mut reply).await.is_ok_and(|count| count > 0) {}
    assert_eq!(
        *counting.handled.lock(),
        [1],
        "the request was handled once"
    );
    let status = server.status();
    assert_eq!(status.rejected, before + 1);
    let why = status.last_rejected.unwrap();
    assert!(
        why.contains("the peer's key is neither the cluster key"),
        "{why}"
    );
}

/// A proxy that changes, repeats or drops the first request of the first connection.
async fn tamper(net: Net, tampering: Tampering) {
    let listener = net.listen("between:1").await.unwrap();
    for number in 0.. {
        let client = listener.accept().await.unwrap();
        let server = net.connect(ADDRESS).await.unwrap();
        let tampering = (number == 0).then_some(tampering);
        tokio::spawn(forward_changed(client.clone(), server.clone(), tampering));
        tokio::spawn(forward(server, client, None));
    }
}

#[derive(Clone, Copy, Debug)]
enum Tampering {
    Change,
    Repeat,
    Drop,
}

/// Length of a frame's head.
const HEAD_LEN: usize = 32;

async fn forward_changed(from: Stream, to: Stream, mut tampering: Option<Tampering>) {
    let mut bytes = BytesMut::with_capacity(1 << 16);
    loop {
        if !from.read(&mut bytes).await.is_ok_and(|count| count > 0) {
            return to.close();
        }
        while bytes.len() >= HEAD_LEN {
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let length = HEAD_LEN + (number(16) + number(20)) as usize;
            if bytes.len() < length {
                break;
            }
            let mut frame = bytes.split_to(length);
            let is_request = u16::from_le_bytes([frame[6], frame[7]]) == 1;
            let times = match tampering.filter(|_| is_request) {
                None => 1,
                Some(Tampering::Change) => {
                    // Changes the job of the request. The attacker recomputes the checksums.
                    frame[HEAD_LEN] ^= 1;
                    let sum = crc32c(&frame[HEAD_LEN..length - 16]);
                    frame[24..28].copy_from_slice(&sum.to_le_bytes());
                    let sum = crc32c(&frame[..28]);
                    frame[28..32].copy_from_slice(&sum.to_le_bytes());
                    1
                }
                Some(Tampering::Repeat) => 2,
                Some(Tampering::Drop) => 0,
            };
            if is_request {
                tampering = None;
            }
            for _ in 0..times {
                if to.try_write(&[IoSlice::new(&frame)]).is_err() {
                    return;
                }
            }
        }
    }
}

fn crc32c(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| match crc & 1 {
            1 => crc >> 1 ^ 0x82F6_3B78,
            _ => crc >> 1,
        })
    })
}

#[tokio::test(start_paused = true)]
async fn a_changed_repeated_or_dropped_frame_closes_the_connection_and_the_request_is_resent() {
    for tampering in [Tampering::Change, Tampering::Repeat, Tampering::Drop] {
        let net = net();
        let counting = CountingServer::new(platform(1));
        let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
        let between = tokio::spawn(tamper(net.host("between"), tampering));
        let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
        options.addresses = ServerAddresses::one("between:1");
        let connection = ClientConnection::connect(options);
        let mds: MdsPeer = connection.peer();
        let (first, second) = tokio::join!(mds.call(request(1, 0)), mds.call(request(2, 0)));
        assert!(
            first.result.is_ok() && second.result.is_ok(),
            "{tampering:?}"
        );
        let last = server.status().last_protocol_error.unwrap_or_default();
        assert!(
            last.contains("the frame's MAC is wrong"),
            "{tampering:?}: {last}"
        );
        assert_eq!(connection.status().connections, 2, "{tampering:?}");
        let handled = counting.handled.lock().clone();
        // The server may handle a repeated request once more: the reply over the first connection was lost with the connection.
        assert!(
            handled.iter().all(|job| [1, 2].contains(job)),
            "{tampering:?}: {handled:?}"
        );
        between.abort();
    }
}
