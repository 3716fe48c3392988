//! The promises of a client connection when its streams break.

use crate::fixture::*;
use gupfs_proto::{FsError, InodeId, callback};
use gupfs_rpc::*;
use std::sync::Arc;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn requests_are_handled_concurrently() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    assert_eq!(
        connection
            .wait_connected(Duration::from_secs(5))
            .await
            .unwrap()
            .role,
        Role::Mds
    );
    let peer: MdsPeer = connection.peer();
    let (slow, quick) = tokio::join!(peer.call(request(1, 500)), peer.call(request(2, 0)));
    assert_eq!((quick.seq.0, slow.seq.0), (1, 2));
    assert_eq!(*counting.handled.lock(), [2, 1]);
    assert_eq!(connection.status().pending_requests, 0);
}

#[tokio::test(start_paused = true)]
async fn a_request_is_resent_after_a_connection_broke() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: MdsPeer = connection.peer();
    let call = tokio::spawn(async move { peer.call(request(5, 300)).await });
    tokio::time::sleep(Duration::from_millis(100)).await;
    net.reset("a", "mds");
    let reply = call.await.unwrap();
    assert!(reply.result.is_ok());
    // The server receives it twice: slots and replay records make the effect happen once, above this crate.
    tokio::time::sleep(Duration::from_secs(1)).await;
    assert_eq!(*counting.handled.lock(), [5, 5]);
    assert_eq!(connection.status().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn a_request_waits_for_a_server_that_starts_later() {
    let net = net();
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: MdsPeer = connection.peer();
    let call = tokio::spawn(async move { peer.call(request(5, 0)).await });
    tokio::time::sleep(Duration::from_secs(7)).await;
    assert!(connection.status().last_error.unwrap().contains("refused"));
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    assert!(call.await.unwrap().result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_request_timeout_names_the_server_and_the_reason() {
    let net = net();
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    options.request_timeout = Some(Duration::from_secs(3));
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    let reply = peer.call(request(5, 0)).await;
    let Err(FsError::TimedOut(what)) = reply.result else {
        panic!("{reply:?}");
    };
    assert!(
        what.contains("the metadata server at mds:1: cannot connect"),
        "{what}"
    );
}

#[tokio::test(start_paused = true)]
async fn a_silent_network_partition_is_detected_and_the_client_reconnects_after_it() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    connection
        .wait_connected(Duration::from_secs(5))
        .await
        .unwrap();
    net.partition("a", "mds");
    let peer: MdsPeer = connection.peer();
    let call = tokio::spawn(async move { peer.call(request(5, 0)).await });
    tokio::time::sleep(Duration::from_secs(30)).await;
    assert!(!connection.status().connected);
    net.heal_all();
    let begun = tokio::time::Instant::now();
    assert!(call.await.unwrap().result.is_ok());
    assert!(
        begun.elapsed() < Duration::from_secs(3),
        "{:?}",
        begun.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn a_server_sends_callbacks_over_the_same_connection() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let holder = Arc::new(LeaseHolder(Default::default()));
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    options.handlers = Handlers::none().with_service(holder.clone());
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    let connected_peer = counting.peers.lock()[0].clone();
    let back: Peer<callback::CallbackRequest, callback::CallbackReply> = connected_peer.peer();
    let revoke = |ino| callback::CallbackRequest::Revoke { ino: InodeId(ino) };
    assert_eq!(
        back.call(revoke(77)).await,
        Ok(callback::CallbackReplyBody::Done)
    );
    assert_eq!(*holder.0.lock(), [77]);
    // After the client has disconnected a callback fails instead of waiting.
    drop((connection, peer));
    tokio::time::sleep(Duration::from_secs(1)).await;
    let ended = back.call(revoke(78)).await;
    assert!(matches!(ended, Err(FsError::TimedOut(_))), "{ended:?}");
}

#[tokio::test(start_paused = true)]
async fn a_pending_callback_to_a_vanished_client_fails() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: MdsPeer = connection.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    let connected_peer = counting.peers.lock()[0].clone();
    let back: Peer<callback::CallbackRequest, callback::CallbackReply> = connected_peer.peer();
    net.partition("a", "mds");
    let begun = tokio::time::Instant::now();
    let ended = back
        .call(callback::CallbackRequest::Glimpse { ino: InodeId(1) })
        .await;
    assert!(matches!(ended, Err(FsError::TimedOut(_))), "{ended:?}");
    assert!(begun.elapsed() < Duration::from_secs(15));
}
