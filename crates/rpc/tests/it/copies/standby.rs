//! What a standby tells clients, and the connections that it holds.

use super::*;

/// The client knows one address, of a copy that never becomes the owner.
#[tokio::test(start_paused = true)]
async fn a_client_learns_the_addresses_of_the_other_copies_from_a_standby() {
    let net = net();
    let copies = ["m1:1", "m2:1", "m3:1"];
    let _standby = ServerCopy::start(&net.host("m1"), "m1:1", SECOND, &copies).await;
    let third = ServerCopy::start(&net.host("m3"), "m3:1", SECOND, &copies).await;
    third.become_owner();
    let options = options(&net.host("a"), &["m1:1"]);
    let known = options.addresses.clone();
    let connection = ClientConnection::connect(options);
    let begun = Instant::now();
    assert!(calls(connection.peer(), 1).await - begun < SECOND + SECOND / 10);
    assert_eq!(known.all(), copies);
    // What it has learned is known when the connection ends, too.
    drop(third.server);
    net.kill("m3");
    let second = ServerCopy::start(&net.host("m2"), "m2:1", SECOND, &["m2:1"]).await;
    second.become_owner();
    calls(connection.peer(), 2).await;
    assert_eq!(*second.counting.handled.lock(), [2]);
    // The welcome names other copies.
    assert_eq!(known.all(), ["m1:1", "m2:1"]);
}

/// All requests of a fenced connection go to one process.
#[tokio::test(start_paused = true)]
async fn a_fenced_connection_learns_no_addresses() {
    let net = net();
    let only = ServerCopy::start(&net.host("m1"), "m1:1", SECOND, &["m1:1", "m2:1"]).await;
    only.become_owner();
    let mut options = options(&net.host("a"), &["m1:1"]);
    options.fence = true;
    let known = options.addresses.clone();
    let connection = ClientConnection::connect(options);
    calls(connection.peer(), 1).await;
    assert_eq!(known.all(), ["m1:1"]);
}

#[tokio::test(start_paused = true)]
async fn a_held_connection_frees_its_place_when_its_client_disconnects_or_connects_again() {
    let net = net();
    let standby = ServerCopy::start(&net.host("m1"), "m1:1", 9 * SECOND, &[]).await;
    let connect = || ClientConnection::connect(options(&net.host("a"), &["m1:1"]));
    let connection = connect();
    tokio::time::sleep(SECOND).await;
    let status = standby.server.status();
    assert_eq!((status.connections.len(), status.unauthenticated), (1, 0));
    assert!(!connection.status().connected);
    drop(connection);
    tokio::time::sleep(SECOND / 10).await;
    assert_eq!(standby.connections(), 0);
    // The client's connection breaks without the server noticing.
    let connection = connect();
    tokio::time::sleep(SECOND).await;
    net.partition_one_way("a", "m1");
    drop(connection);
    tokio::time::sleep(SECOND / 10).await;
    assert_eq!(standby.connections(), 1);
    net.heal_all();
    let connection = connect();
    standby.become_owner();
    calls(connection.peer(), 1).await;
    assert_eq!(standby.connections(), 1);
}

/// What waits for another connection is told when this one ends.
#[tokio::test(start_paused = true)]
async fn a_connection_to_an_address_that_the_server_does_not_name_any_more_ends_like_others() {
    let net = net();
    let standby = ServerCopy::start(&net.host("m1"), "m1:1", SECOND, &["m2:1"]).await;
    let second = ServerCopy::start(&net.host("m2"), "m2:1", SECOND, &["m3:1"]).await;
    second.become_owner();
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1"]));
    calls(connection.peer(), 1).await;
    assert_eq!(connection.status().address, "m2:1");
    let number = connection.connection_number();
    drop(second.server);
    net.kill("m2");
    let ended = tokio::time::timeout(SECOND, connection.wait_connection_changed(number));
    assert!(ended.await.is_ok());
    let error = connection.status().last_error.unwrap();
    assert!(!error.is_empty());
    standby.become_owner();
    calls(connection.peer(), 2).await;
}

/// A client that knows only this address waits longer for the verdict than the server holds it.
#[tokio::test(start_paused = true)]
async fn a_server_rejects_a_connection_that_its_admission_does_not_decide() {
    let net = net();
    let _standby = ServerCopy::start(&net.host("m1"), "m1:1", 60 * SECOND, &[]).await;
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1"]));
    let error = connection.wait_connected(5 * SECOND).await.unwrap_err();
    assert!(!error.is_permanent(), "{error}");
    let why = "the server rejected the connection: the server does not serve yet";
    assert_eq!(error.to_string(), why);
}

/// A copy is added while the client stays connected.
#[tokio::test(start_paused = true)]
async fn a_client_that_stays_connected_learns_of_new_copies() {
    let net = net();
    let first = ServerCopy::start(&net.host("m1"), "m1:1", SECOND, &["m1:1"]).await;
    first.become_owner();
    let options = options(&net.host("a"), &["m1:1"]);
    let known = options.addresses.clone();
    let connection = ClientConnection::connect(options);
    calls(connection.peer(), 1).await;
    let second = ServerCopy::start(&net.host("m2"), "m2:1", SECOND, &[]).await;
    *first.copies.lock() = vec!["m1:1".into(), "m2:1".into()];
    tokio::time::sleep(3 * SECOND).await;
    assert_eq!(known.all(), ["m1:1", "m2:1"]);
    second.become_owner();
    drop(first.server);
    net.kill("m1");
    calls(connection.peer(), 2).await;
    assert_eq!(*second.counting.handled.lock(), [2]);
}
