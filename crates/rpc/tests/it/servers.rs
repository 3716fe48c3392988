//! The promises of a server: one connection per process, and no effect of a previous fenced connection's requests after a request
//! of the next one.

use crate::fixture::*;
use gupfs_rpc::*;
use std::time::Duration;

#[tokio::test(start_paused = true)]
async fn a_fenced_connection_waits_for_the_requests_of_its_predecessor() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    (options.addresses, options.fence) = (ServerAddresses::one("oss:1"), true);
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    // The client cancels the request while the server handles it...
    let slow = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 2_000)));
    assert!(slow.await.is_err());
    // ... and it takes effect before the next request, never after it.
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert_eq!(*counting.handled.lock(), [1, 2]);
    assert_eq!(connection.status().connections, 2);
}

#[tokio::test(start_paused = true)]
async fn an_unfenced_connection_sends_requests_at_once() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
    let peer: MdsPeer = connection.peer();
    let slow = tokio::spawn({
        let peer = peer.clone();
        async move { peer.call(request(1, 2_000)).await }
    });
    tokio::time::sleep(Duration::from_millis(100)).await;
    net.reset("a", "mds");
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert_eq!(*counting.handled.lock(), [2]);
    assert!(slow.await.unwrap().result.is_ok());
}

#[tokio::test(start_paused = true)]
async fn a_long_request_delays_the_next_fenced_connection_until_it_ends() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    (options.addresses, options.fence) = (ServerAddresses::one("oss:1"), true);
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    let stuck = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 60_000)));
    assert!(stuck.await.is_err());
    let begun = tokio::time::Instant::now();
    assert!(peer.call(request(2, 0)).await.result.is_ok());
    assert!(
        begun.elapsed() > Duration::from_secs(55),
        "{:?}",
        begun.elapsed()
    );
    assert_eq!(*counting.handled.lock(), [1, 2]);
    drop(server);
}

#[tokio::test(start_paused = true)]
async fn requests_beyond_the_server_limit_are_resent_and_get_replies() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let mut connections = Vec::new();
    let mut calls = Vec::new();
    for process_id in 0..40 {
        let connection = ClientConnection::connect(connection_options(
            &net.host("a"),
            &platform(2),
            100 + process_id,
            key(9),
        ));
        for job in 0..300 {
            let peer: MdsPeer = connection.peer();
            calls.push(tokio::spawn(
                async move { peer.call(request(job, 1_000)).await },
            ));
        }
        connections.push(connection);
    }
    for call in calls {
        assert!(call.await.unwrap().result.is_ok());
    }
    assert_eq!(counting.handled.lock().len(), 40 * 300);
    let status = server.status();
    assert!(status.busy > 0);
    assert_eq!((status.requests, status.connections.len()), (0, 40));
}

/// The second connection ends before the server accepted it; the third one must still wait for the first one's requests.
#[tokio::test(start_paused = true)]
async fn a_fenced_connection_waits_for_the_requests_of_all_its_predecessors() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("oss"), "oss:1", &counting, key(9)).await;
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    (options.addresses, options.fence) = (ServerAddresses::one("oss:1"), true);
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    let slow = tokio::time::timeout(Duration::from_millis(100), peer.call(request(1, 5_000)));
    assert!(slow.await.is_err());
    let next = tokio::spawn(async move { peer.call(request(2, 0)).await });
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(400)).await;
        net.reset("a", "oss");
    }
    assert!(next.await.unwrap().result.is_ok());
    assert_eq!(*counting.handled.lock(), [1, 2]);
}
