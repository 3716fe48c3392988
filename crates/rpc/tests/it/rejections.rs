//! Connections that the server rejects, and crowds of connections.

use crate::fixture::*;
use bytes::BytesMut;
use gupfs_platform::Net;
use gupfs_proto::ClusterId;
use gupfs_rpc::*;
use std::io::IoSlice;
use std::time::Duration;

async fn connect_error(options: ClientConnectionOptions) -> String {
    let connection = ClientConnection::connect(options);
    let error = connection
        .wait_connected(Duration::from_secs(5))
        .await
        .unwrap_err();
    assert!(error.is_permanent(), "{error}");
    error.to_string()
}

#[tokio::test(start_paused = true)]
async fn a_wrong_key_no_key_and_another_cluster_are_rejected_at_once() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let host = net.host("a");
    let wrong = connect_error(connection_options(&host, &platform(2), 20, key(8))).await;
    assert_eq!(
        wrong,
        "the server did not prove that it has the key of this cluster"
    );
    let none = connect_error(connection_options(&host, &platform(2), 21, None)).await;
    assert_eq!(
        none,
        "the server rejected the connection: this cluster requires a key, and this process gave none"
    );
    let mut foreign = connection_options(&host, &platform(2), 22, key(9));
    foreign.cluster = Some(ClusterId(8));
    let foreign = connect_error(foreign).await;
    assert!(foreign.contains("this is cluster"), "{foreign}");
    tokio::time::sleep(Duration::from_secs(1)).await;
    let status = server.status();
    assert!(status.rejected >= 2, "{status:?}");
    assert_eq!(status.connections.len(), 0);
    assert_eq!(*counting.handled.lock(), [0; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_client_with_a_key_sends_nothing_to_a_server_without_one() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let _server = server(&net.host("mds"), ADDRESS, &counting, None).await;
    let why = connect_error(connection_options(&net.host("a"), &platform(2), 20, key(9))).await;
    assert!(why.contains("the server has no key"), "{why}");
}

/// Sends bytes without a handshake and returns the number of received bytes at the end of the connection.
async fn send_and_read(net: &Net, sent: &[u8]) -> usize {
    let stream = net.connect(ADDRESS).await.unwrap();
    if !sent.is_empty() {
        stream.try_write(&[IoSlice::new(sent)]).unwrap();
    }
    let mut received = BytesMut::with_capacity(1 << 16);
    loop {
        match stream.read(&mut received).await {
            Ok(0) | Err(_) => return received.len(),
            Ok(_) => {}
        }
    }
}

#[tokio::test(start_paused = true)]
async fn bytes_that_are_not_a_handshake_close_the_connection() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let host = net.host("a");
    for sent in [
        &b"GET / HTTP/1.1\r\n\r\nGET / HTTP/1.1\r\n\r\n"[..],
        &[0; 100],
        &[0xff; 4000],
    ] {
        let begun = tokio::time::Instant::now();
        assert_eq!(send_and_read(&host, sent).await, 0);
        assert!(begun.elapsed() < Duration::from_secs(1));
    }
    // The server does not wait long for a peer that sends no complete frame.
    let begun = tokio::time::Instant::now();
    send_and_read(&host, b"gp").await;
    assert!(begun.elapsed() < Duration::from_secs(2));
    assert!(server.status().rejected >= 4);
}

#[tokio::test(start_paused = true)]
async fn a_server_at_its_client_limit_tells_clients_so_and_accepts_other_roles() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, None).await;
    let host = net.host("a");
    let connection = |process_id: u128, role: Role| {
        let mut options = connection_options(&host, &platform(process_id as u64), process_id, None);
        options.identity = identity(process_id, role);
        ClientConnection::connect(options)
    };
    let soon = Duration::from_secs(5);
    let mut clients = Vec::new();
    for process_id in 0..CLIENTS_MAX as u128 {
        let client = connection(20 + process_id, Role::Client);
        client.wait_connected(soon).await.unwrap();
        clients.push(client);
    }
    let waiting = connection(100, Role::Client);
    let why = waiting.wait_connected(soon).await.unwrap_err();
    assert!(!why.is_permanent(), "{why}");
    assert!(
        why.to_string()
            .contains("the server has 64 client connections"),
        "{why}"
    );
    for role in [Role::Oss, Role::Visitor] {
        connection(110 + role as u128, role)
            .wait_connected(soon)
            .await
            .unwrap();
    }
    // A client that reconnects replaces its own connection, and a waiting client connects when another one disconnects.
    let same = connection(20, Role::Client);
    drop(clients.remove(0));
    same.wait_connected(soon).await.unwrap();
    drop(same);
    waiting.wait_connected(soon).await.unwrap();
    assert!(server.status().rejected > 0);
}

#[tokio::test(start_paused = true)]
async fn silent_unauthenticated_connections_do_not_block_other_peers() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection = |host: &str, process_id: u128, role: Role| {
        let mut options = connection_options(
            &net.host(host),
            &platform(process_id as u64),
            process_id,
            key(9),
        );
        options.identity = identity(process_id, role);
        ClientConnection::connect(options)
    };
    let soon = Duration::from_secs(5);
    let known = connection("a", 20, Role::Client);
    known.wait_connected(soon).await.unwrap();
    let silent: Vec<_> = (0..900)
        .map(|_| keep_connecting(net.host("silent")))
        .collect();
    tokio::time::sleep(Duration::from_secs(3)).await;
    assert!(server.status().unauthenticated >= 18);
    // A client whose connection broke, a new client, a monitoring command.
    net.reset("a", "mds");
    known.wait_connected(soon).await.unwrap();
    connection("b", 21, Role::Client)
        .wait_connected(soon)
        .await
        .unwrap();
    connection("a", 22, Role::Visitor)
        .wait_connected(soon)
        .await
        .unwrap();
    // A client on the same host as the silent connections.
    connection("silent", 23, Role::Client)
        .wait_connected(soon)
        .await
        .unwrap();
    assert!(server.status().rejected > 0);
    silent.into_iter().for_each(|connection| connection.abort());
}

/// A connection that sends nothing and reconnects when it is closed.
fn keep_connecting(net: Net) -> tokio::task::JoinHandle<()> {
    tokio::spawn(async move {
        loop {
            send_and_read(&net, b"").await;
        }
    })
}

#[tokio::test(start_paused = true)]
async fn many_mounts_reconnect_soon_after_a_server_restart() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let first = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let host = net.host("a");
    let connections: Vec<_> = (0..CLIENTS_MAX as u128)
        .map(|process_id| {
            ClientConnection::connect(connection_options(
                &host,
                &platform(process_id as u64),
                20 + process_id,
                key(9),
            ))
        })
        .collect();
    let soon = Duration::from_secs(5);
    for connection in &connections {
        connection.wait_connected(soon).await.unwrap();
    }
    drop(first);
    net.kill("mds");
    let _second = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    for connection in &connections {
        connection.wait_connected(soon).await.unwrap();
    }
}

#[tokio::test(start_paused = true)]
async fn monitoring_commands_that_stay_connected_do_not_block_other_peers() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let connection = |process_id: u128, role: Role| {
        let host = net.host("a");
        let mut options =
            connection_options(&host, &platform(process_id as u64), process_id, key(9));
        options.identity = identity(process_id, role);
        ClientConnection::connect(options)
    };
    let soon = Duration::from_secs(5);
    let others = Capacity::for_clients(CLIENTS_MAX).others;
    let mut visitors = Vec::new();
    for process_id in 0..2 * others as u128 {
        let visitor = connection(100 + process_id, Role::Visitor);
        visitor.wait_connected(soon).await.unwrap();
        visitors.push(visitor);
    }
    assert!(server.status().connections.len() <= 2 * others);
    connection(20, Role::Oss)
        .wait_connected(soon)
        .await
        .unwrap();
    connection(21, Role::Client)
        .wait_connected(soon)
        .await
        .unwrap();
}
