//! What was heard on the wire does not let anybody in, and what is put between does not count.

use crate::house::*;
use bytes::BytesMut;
use gupfs_platform::{Net, Stream};
use gupfs_rpc::*;
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

type Heard = Arc<Mutex<Vec<u8>>>;

/// Passes on what comes, and keeps what the client said.
async fn listen_in(net: Net, heard: Heard) {
    let listener = net.listen("between:1").await.unwrap();
    let client = listener.accept().await.unwrap();
    let server = net.connect(AT).await.unwrap();
    tokio::join!(
        pass(client.clone(), server.clone(), Some(heard)),
        pass(server, client, None)
    );
}

async fn pass(from: Stream, to: Stream, heard: Option<Heard>) {
    loop {
        let mut bytes = BytesMut::with_capacity(1 << 16);
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return to.close(),
            Ok(_) => {}
        }
        if let Some(heard) = &heard {
            heard.lock().extend_from_slice(&bytes);
        }
        if to.try_write(&[IoSlice::new(&bytes)]).is_err() {
            return;
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_handshake_that_is_played_again_lets_nobody_in() {
    let net = net();
    let counting = Counting::new(platform(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let heard = Heard::default();
    let between = tokio::spawn(listen_in(net.host("between"), heard.clone()));
    let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
    options.to = "between:1".into();
    let line = Line::open(options);
    line.ready(Duration::from_secs(5)).await.unwrap();
    let mds: Mds = line.peer();
    assert!(mds.call(request(1, 0)).await.result.is_ok());
    drop(line);
    between.abort();
    tokio::time::sleep(Duration::from_secs(10)).await;
    assert_eq!(server.status().connections.len(), 0);
    let before = server.status().turned_away;
    // The same bytes, from hello to question, to a server that is waiting for just this client.
    let said = heard.lock().clone();
    let stream = net.host("thief").connect(AT).await.unwrap();
    stream.try_write(&[IoSlice::new(&said)]).unwrap();
    let mut answer = BytesMut::with_capacity(1 << 16);
    while stream.read(&mut answer).await.is_ok_and(|count| count > 0) {}
    assert_eq!(*counting.had.lock(), [1], "the question was asked once");
    let status = server.status();
    assert_eq!(status.turned_away, before + 1);
    let why = status.last_turned_away.unwrap();
    assert!(why.contains("its key is not the cluster's"), "{why}");
}

/// Passes on what comes, but for what it does to the first question of the first connection.
async fn meddle(net: Net, how: Meddling) {
    let listener = net.listen("between:1").await.unwrap();
    for number in 0.. {
        let client = listener.accept().await.unwrap();
        let server = net.connect(AT).await.unwrap();
        let how = (number == 0).then_some(how);
        tokio::spawn(pass_changed(client.clone(), server.clone(), how));
        tokio::spawn(pass(server, client, None));
    }
}

#[derive(Clone, Copy, Debug)]
enum Meddling {
    Change,
    Repeat,
    LeaveOut,
}

/// Bytes of a frame's head, and where in it stand the kind, and the lengths of body and payload.
const HEAD: usize = 32;

async fn pass_changed(from: Stream, to: Stream, mut how: Option<Meddling>) {
    let mut bytes = BytesMut::with_capacity(1 << 16);
    loop {
        if !from.read(&mut bytes).await.is_ok_and(|count| count > 0) {
            return to.close();
        }
        while bytes.len() >= HEAD {
            let number = |at: usize| u32::from_le_bytes(bytes[at..at + 4].try_into().unwrap());
            let length = HEAD + (number(16) + number(20)) as usize;
            if bytes.len() < length {
                break;
            }
            let mut frame = bytes.split_to(length);
            let is_question = u16::from_le_bytes([frame[6], frame[7]]) == 1;
            let times = match how.filter(|_| is_question) {
                None => 1,
                Some(Meddling::Change) => {
                    // The job of the request: whoever changes the body makes its checksum right again.
                    frame[HEAD] ^= 1;
                    let sum = crc32c(&frame[HEAD..length - 16]);
                    frame[24..28].copy_from_slice(&sum.to_le_bytes());
                    let sum = crc32c(&frame[..28]);
                    frame[28..32].copy_from_slice(&sum.to_le_bytes());
                    1
                }
                Some(Meddling::Repeat) => 2,
                Some(Meddling::LeaveOut) => 0,
            };
            if is_question {
                how = None;
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
async fn a_frame_that_is_changed_repeated_or_left_out_ends_the_connection_and_the_call_is_repeated()
{
    for how in [Meddling::Change, Meddling::Repeat, Meddling::LeaveOut] {
        let net = net();
        let counting = Counting::new(platform(1));
        let server = server(&net.host("mds"), AT, &counting, key(9)).await;
        let between = tokio::spawn(meddle(net.host("between"), how));
        let mut options = line_options(&net.host("a"), &platform(2), 20, key(9));
        options.to = "between:1".into();
        let line = Line::open(options);
        let mds: Mds = line.peer();
        let (first, second) = tokio::join!(mds.call(request(1, 0)), mds.call(request(2, 0)));
        assert!(first.result.is_ok() && second.result.is_ok(), "{how:?}");
        let last = server.status().last_misspoken.unwrap_or_default();
        assert!(last.contains("its code is wrong"), "{how:?}: {last}");
        assert_eq!(line.status().connections, 2, "{how:?}");
        let had = counting.had.lock().clone();
        // A repeated question was asked in its first form; the answer of the first connection was lost with it.
        assert!(
            had.iter().all(|job| [1, 2].contains(job)),
            "{how:?}: {had:?}"
        );
        between.abort();
    }
}
