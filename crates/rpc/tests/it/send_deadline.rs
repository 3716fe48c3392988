//! After its deadline a process sends nothing: a server to clients and object servers, a client to its server.

use crate::fixture::*;
use crate::tls::{Ca, Echo, write};
use bytes::BytesMut;
use gupfs_platform::fake::FakePlatform;
use gupfs_platform::{BootTime, Net, Platform, Stream};
use gupfs_proto::{FsError, data};
use gupfs_rpc::*;
use parking_lot::Mutex;
use std::io::IoSlice;
use std::sync::Arc;
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

fn in_seconds(platform: &Platform, seconds: u32) -> BootTime {
    platform.clock.boot() + SECOND * seconds
}

async fn server_until(
    net: &Net,
    counting: &Arc<CountingServer>,
    send_deadline: &SendDeadline,
) -> RpcServer {
    let options = RpcServerOptions {
        send_deadline: send_deadline.clone(),
        ..server_options(counting, key(9))
    };
    RpcServer::start(net.listen(ADDRESS).await.unwrap(), options)
}

/// A proxy for one connection, which counts the bytes that the server sends.
async fn count_bytes(net: Net, received: Arc<Mutex<usize>>) {
    let listener = net.listen("between:1").await.unwrap();
    let client = listener.accept().await.unwrap();
    let server = net.connect(ADDRESS).await.unwrap();
    tokio::join!(
        forward(client.clone(), server.clone(), None),
        forward(server, client, Some(received))
    );
    std::future::pending::<()>().await
}

async fn forward(from: Stream, to: Stream, count: Option<Arc<Mutex<usize>>>) {
    loop {
        let mut bytes = BytesMut::with_capacity(1 << 16);
        match from.read(&mut bytes).await {
            Ok(0) | Err(_) => return to.close(),
            Ok(_) => {}
        }
        if let Some(count) = &count {
            *count.lock() += bytes.len();
        }
        let _ = to.try_write(&[IoSlice::new(&bytes)]);
    }
}

#[tokio::test(start_paused = true)]
async fn no_byte_is_sent_after_the_deadline_and_an_extension_lets_a_new_connection_work() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let clock = counting.platform.clock.clone();
    let deadline = SendDeadline::until(clock.clone(), in_seconds(&counting.platform, 2));
    let server = server_until(&net.host("mds"), &counting, &deadline).await;
    let received = Arc::new(Mutex::new(0));
    let proxy = tokio::spawn(count_bytes(net.host("between"), received.clone()));
    let mut options = connection_options(&net.host("a"), &platform(2), 20, key(9));
    options.addresses = ServerAddresses::one("between:1");
    let connection = ClientConnection::connect(options);
    let peer: MdsPeer = connection.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    let late = tokio::spawn(async move { peer.call(request(2, 3_000)).await.result });
    clock.sleep_until(BootTime(2_000_000_000)).await;
    // What the server sent before the deadline arrives.
    tokio::time::sleep(Duration::from_millis(1)).await;
    let before = *received.lock();
    assert!(before > 0);
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(*received.lock(), before);
    assert!(!late.is_finished());
    assert_eq!(
        *counting.handled.lock(),
        [1, 2],
        "the server has handled the request"
    );
    proxy.abort();
    // Later connections get no welcome.
    let second =
        ClientConnection::connect(connection_options(&net.host("a"), &platform(3), 21, key(9)));
    let error = second.wait_connected(2 * SECOND).await.unwrap_err();
    assert!(!error.is_permanent(), "{error}");
    assert_eq!(server.status().connections.len(), 0);
    deadline.extend(in_seconds(&counting.platform, 5));
    second.wait_connected(SECOND).await.unwrap();
    let peer: MdsPeer = second.peer();
    assert!(peer.call(request(3, 0)).await.result.is_ok());
    // The end of the lease ends everything at once.
    deadline.end();
    let peer: MdsPeer = second.peer();
    let ended = tokio::time::timeout(SECOND, peer.call(request(4, 0)));
    assert!(ended.await.is_err());
    assert!(!second.status().connected);
}

/// Replies that are too long for the buffers on the way: most of their bytes are queued when the deadline passes.
#[tokio::test(start_paused = true)]
async fn the_server_drops_replies_that_are_queued_at_the_deadline() {
    for uses_tls in [false, true] {
        let (net, ca) = (net(), Ca::new());
        let tls = |own: &str| ca.tls(ca.own(own), false).filter(|_| uses_tls);
        let platform = platform(1);
        let deadline = SendDeadline::until(platform.clock.clone(), in_seconds(&platform, 1));
        let counting = CountingServer::new(platform.clone());
        let options = RpcServerOptions {
            tls: tls("mds"),
            handlers: Handlers::none().with_service(Arc::new(Echo)),
            send_deadline: deadline.clone(),
            ..server_options(&counting, key(9))
        };
        let listener = net.host("mds").listen(ADDRESS).await.unwrap();
        let server = RpcServer::start(listener, options);
        let mut options = connection_options(&net.host("a"), &platform, 20, key(9));
        options.tls = tls("client");
        let connection = ClientConnection::connect(options);
        connection.wait_connected(SECOND).await.unwrap();
        // Bytes of the server wait in the pipe.
        net.partition_one_way("mds", "a");
        let peer: Peer<data::DataRequest, data::DataReply> = connection.peer();
        let call = tokio::spawn(async move { peer.call(write(vec![7; 300 << 10])).await });
        // Before the client's first ping.
        tokio::time::sleep(3 * SECOND / 2).await;
        assert_eq!(
            server.status().connections.len(),
            1,
            "nothing was written since"
        );
        net.heal_all();
        tokio::time::sleep(SECOND).await;
        assert!(!call.is_finished(), "TLS: {uses_tls}");
        assert!(!connection.status().connected);
        assert_eq!(server.status().connections.len(), 0);
        deadline.extend(in_seconds(&platform, 9));
        let Ok(data::DataReplyBody::Data { data, .. }) = call.await.unwrap() else {
            panic!("no bytes");
        };
        assert_eq!(data.len(), 300 << 10);
    }
}

/// SIGSTOP: another process owns the lease when this one goes on.
#[tokio::test(start_paused = true)]
async fn a_server_that_was_stopped_sends_nothing_when_it_goes_on_after_the_deadline() {
    for deadline_in in [2, 10] {
        let net = net();
        let process = FakePlatform::new(1);
        let counting = CountingServer::new(process.platform());
        let clock = counting.platform.clock.clone();
        let deadline = SendDeadline::until(clock, in_seconds(&counting.platform, deadline_in));
        let _server = server_until(&net.host("mds"), &counting, &deadline).await;
        let connection =
            ClientConnection::connect(connection_options(&net.host("a"), &platform(2), 20, key(9)));
        connection.wait_connected(SECOND).await.unwrap();
        let peer: MdsPeer = connection.peer();
        let call = tokio::spawn(async move { peer.call(request(1, 500)).await.result });
        tokio::time::sleep(SECOND / 10).await;
        process.tasks.freeze();
        tokio::time::sleep(4 * SECOND).await;
        process.tasks.thaw();
        tokio::time::sleep(SECOND / 10).await;
        assert_eq!(*counting.handled.lock(), [1]);
        let is_sent = deadline_in > 4;
        assert_eq!(
            (call.is_finished(), connection.status().connected),
            (is_sent, is_sent)
        );
    }
}

#[tokio::test(start_paused = true)]
async fn a_metadata_server_gets_replies_after_the_deadline() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let clock = counting.platform.clock.clone();
    let deadline = SendDeadline::until(clock, BootTime(0));
    let _server = server_until(&net.host("mds"), &counting, &deadline).await;
    for (role, gets_reply) in [
        (Role::Mds, true),
        (Role::Client, false),
        (Role::Oss, false),
        (Role::Visitor, true),
    ] {
        let mut options = connection_options(&net.host("a"), &platform(2), role as u128, key(9));
        options.identity = identity(30 + role as u128, role);
        let connection = ClientConnection::connect(options);
        let peer: MdsPeer = connection.peer();
        let reply = tokio::time::timeout(SECOND, peer.call(request(1, 0))).await;
        let result = reply.ok().map(|reply| reply.result);
        // Its role may not send this request, and it learns that.
        let refused = gets_reply.then_some(Err(FsError::NotPermitted));
        assert_eq!(result, refused, "{}", role.name());
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_sends_no_request_after_its_deadline() {
    let net = net();
    let counting = CountingServer::new(platform(1));
    let server = server(&net.host("mds"), ADDRESS, &counting, key(9)).await;
    let client = platform(2);
    let deadline = SendDeadline::until(client.clock.clone(), in_seconds(&client, 2));
    let connection = ClientConnection::connect(ClientConnectionOptions {
        send_deadline: deadline.clone(),
        ..connection_options(&net.host("a"), &client, 20, key(9))
    });
    let peer: MdsPeer = connection.peer();
    assert!(peer.call(request(1, 0)).await.result.is_ok());
    client.clock.sleep_until(BootTime(2_000_000_000)).await;
    let call = tokio::spawn(async move { peer.call(request(2, 0)).await.result });
    tokio::time::sleep(10 * SECOND).await;
    assert_eq!(*counting.handled.lock(), [1]);
    let why = connection.status().last_error.unwrap();
    assert!(why.contains("may not send"), "{why}");
    assert_eq!(server.status().connections.len(), 0);
    deadline.extend(in_seconds(&client, 5));
    assert!(call.await.unwrap().is_ok());
    assert_eq!(*counting.handled.lock(), [1, 2]);
}

/// The requests of a metadata server that has lost its lease do not reach object servers.
#[tokio::test(start_paused = true)]
async fn connections_to_object_servers_have_the_deadline_of_their_process() {
    let net = net();
    let _server = crate::tls::echoing(&net.host("mds"), None).await;
    let platform = platform(2);
    let deadline = SendDeadline::until(platform.clock.clone(), in_seconds(&platform, 2));
    let auth_key = key(9).map(AuthKey::from);
    let process = ProcessIdentity::new(&platform, net.host("a"), "a".into(), auth_key)
        .with_send_deadline(deadline.clone())
        .with_new_process_id();
    let local = process.local_identity(Role::Client, "test");
    let connections = OssConnections::new(&process, local, CLUSTER, "");
    let oss = connections.dial(ADDRESS);
    assert!(oss.call(write(vec![1])).await.is_ok());
    deadline.end();
    let late = tokio::time::timeout(10 * SECOND, oss.call(write(vec![1])));
    assert!(late.await.is_err());
}
