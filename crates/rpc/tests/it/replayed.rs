//! What was heard on the wire does not let anybody in.

use crate::house::*;
use bytes::BytesMut;
use gupfs_rpc::*;
use gupfs_world::{Net, Stream};
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
    let counting = Counting::new(world(1));
    let server = server(&net.host("mds"), AT, &counting, key(9)).await;
    let heard = Heard::default();
    let between = tokio::spawn(listen_in(net.host("between"), heard.clone()));
    let mut options = line_options(&net.host("a"), &world(2), 20, key(9));
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
