//! A client finds the copy that serves, and leaves one that does not any more.

use super::*;
use gupfs_platform::fake::FakePlatform;

#[tokio::test(start_paused = true)]
async fn the_copy_that_admits_answers_requests() {
    for owner in 0..2 {
        let net = net();
        let copies = [
            ServerCopy::start(&net.host("m1"), "m1:1", 3 * SECOND, &[]).await,
            ServerCopy::start(&net.host("m2"), "m2:1", 3 * SECOND, &[]).await,
        ];
        copies[owner].become_owner();
        // The host of a third copy is down: no packet of it arrives.
        net.partition("a", "m3");
        let begun = Instant::now();
        let options = options(&net.host("a"), &["m3:1", "m1:1", "m2:1"]);
        let connection = ClientConnection::connect(options);
        assert!(calls(connection.peer(), 1).await - begun < Duration::from_millis(10));
        assert_eq!(*copies[owner].counting.handled.lock(), [1]);
        let status = connection.status();
        assert_eq!(status.address, ["m1:1", "m2:1"][owner]);
        // The client has ended its attempt at the standby.
        tokio::time::sleep(SECOND).await;
        assert_eq!(copies[1 - owner].connections(), 0);
    }
}

/// The standby holds the connection until it is the owner, or rejects it several times before.
#[tokio::test(start_paused = true)]
async fn the_copy_that_takes_over_answers_the_pending_requests() {
    for hold in [
        Duration::ZERO,
        Duration::from_millis(300),
        3 * SECOND,
        9 * SECOND,
    ] {
        let net = net();
        let first = ServerCopy::start(&net.host("m1"), "m1:1", hold, &[]).await;
        let second = ServerCopy::start(&net.host("m2"), "m2:1", hold, &[]).await;
        first.become_owner();
        let options = options(&net.host("a"), &["m1:1", "m2:1"]);
        let connection = ClientConnection::connect(options);
        calls(connection.peer(), 1).await;
        // The owner dies before it has answered this one.
        let peer: MdsPeer = connection.peer();
        let pending = tokio::spawn(async move {
            assert!(peer.call(request(2, 500)).await.result.is_ok());
            Instant::now()
        });
        tokio::time::sleep(SECOND / 10).await;
        drop(first.server);
        net.kill("m1");
        tokio::time::sleep(2 * SECOND).await;
        assert_eq!(*second.counting.handled.lock(), [0; 0]);
        second.become_owner();
        let admitted = Instant::now();
        let next = calls(connection.peer(), 3).await;
        assert!(next - admitted < SECOND / 3, "{hold:?}");
        assert!(pending.await.unwrap() - admitted < SECOND, "{hold:?}");
        assert_eq!(*second.counting.handled.lock(), [3, 2]);
        assert_eq!(connection.status().address, "m2:1");
    }
}

#[tokio::test(start_paused = true)]
async fn a_client_leaves_a_silent_copy_within_two_and_a_half_seconds() {
    let net = net();
    let first = ServerCopy::start(&net.host("m1"), "m1:1", 3 * SECOND, &[]).await;
    let second = ServerCopy::start(&net.host("m2"), "m2:1", 3 * SECOND, &[]).await;
    first.become_owner();
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1", "m2:1"]));
    calls(connection.peer(), 1).await;
    tokio::time::sleep(10 * SECOND).await;
    net.partition("a", "m1");
    second.become_owner();
    let begun = Instant::now();
    let taken = calls(connection.peer(), 2).await - begun;
    assert!(taken < 5 * SECOND / 2, "{taken:?}");
    assert_eq!(*second.counting.handled.lock(), [2]);
}

/// With one address the client waits for the server's host for 8 seconds.
#[tokio::test(start_paused = true)]
async fn a_client_leaves_the_only_copy_not_so_soon() {
    let net = net();
    let only = ServerCopy::start(&net.host("m1"), "m1:1", 3 * SECOND, &[]).await;
    only.become_owner();
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1"]));
    calls(connection.peer(), 1).await;
    net.partition("a", "m1");
    tokio::time::sleep(5 * SECOND).await;
    net.heal_all();
    calls(connection.peer(), 2).await;
    assert_eq!(connection.status().connections, 1);
}

#[tokio::test(start_paused = true)]
async fn an_idle_connection_to_one_of_several_copies_stays_up() {
    let net = net();
    let first = ServerCopy::start(&net.host("m1"), "m1:1", 3 * SECOND, &[]).await;
    let _second = ServerCopy::start(&net.host("m2"), "m2:1", 3 * SECOND, &[]).await;
    first.become_owner();
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1", "m2:1"]));
    calls(connection.peer(), 1).await;
    let number = connection.connection_number();
    let ended = tokio::time::timeout(60 * SECOND, connection.wait_connection_changed(number));
    assert!(ended.await.is_err());
}

/// SIGSTOP: the client sends no pings meanwhile, so the server replies to none.
#[tokio::test(start_paused = true)]
async fn a_client_that_was_stopped_does_not_take_the_server_for_silent() {
    for stopped in [2 * SECOND, 5 * SECOND, 7 * SECOND] {
        let net = net();
        let first = ServerCopy::start(&net.host("m1"), "m1:1", 3 * SECOND, &[]).await;
        let _second = ServerCopy::start(&net.host("m2"), "m2:1", 3 * SECOND, &[]).await;
        first.become_owner();
        let client = FakePlatform::new(2);
        let connection = ClientConnection::connect(ClientConnectionOptions {
            platform: client.platform(),
            ..options(&net.host("a"), &["m1:1", "m2:1"])
        });
        calls(connection.peer(), 1).await;
        tokio::time::sleep(10 * SECOND + Duration::from_millis(900)).await;
        let number = connection.connection_number();
        client.tasks.freeze();
        tokio::time::sleep(stopped).await;
        client.tasks.thaw();
        tokio::time::sleep(5 * SECOND).await;
        assert_eq!(connection.connection_number(), number);
        // A server that is silent then is still noticed.
        net.partition("a", "m1");
        tokio::time::sleep(5 * SECOND / 2).await;
        assert_eq!(connection.connection_number(), 0);
    }
}
