//! Errors at some or all of the addresses.

use super::*;
use gupfs_proto::FsError;

#[tokio::test(start_paused = true)]
async fn a_permanent_error_at_one_address_does_not_stop_the_others() {
    let net = net();
    let foreign = ServerCopy::with_key(&net.host("m1"), "m1:1", SECOND, &[], 8).await;
    let own = ServerCopy::start(&net.host("m2"), "m2:1", SECOND, &[]).await;
    foreign.become_owner();
    own.become_owner();
    let mut options = options(&net.host("a"), &["m1:1", "m2:1"]);
    options.request_timeout = Some(3 * SECOND);
    let connection = ClientConnection::connect(options);
    calls(connection.peer(), 1).await;
    // The other one may come back.
    drop(own.server);
    net.kill("m2");
    let begun = Instant::now();
    let peer: MdsPeer = connection.peer();
    let Err(FsError::TimedOut(why)) = peer.call(request(2, 0)).await.result else {
        panic!("a reply");
    };
    assert!(begun.elapsed() >= 3 * SECOND);
    assert_eq!(
        why,
        "the metadata server at m1:1: the server did not prove that it has the key of this cluster; \
         at m2:1: cannot connect: connection refused"
    );
    let status = connection.status();
    assert_eq!(
        (status.address, status.connected),
        ("m1:1, m2:1".into(), false)
    );
}

#[tokio::test(start_paused = true)]
async fn permanent_errors_at_all_addresses_are_a_permanent_error() {
    let net = net();
    let _first = ServerCopy::with_key(&net.host("m1"), "m1:1", SECOND, &[], 8).await;
    let _second = ServerCopy::with_key(&net.host("m2"), "m2:1", SECOND, &[], 8).await;
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1", "m2:1"]));
    let peer: MdsPeer = connection.peer();
    let begun = Instant::now();
    let error = connection.wait_connected(5 * SECOND).await.unwrap_err();
    assert!(error.is_permanent(), "{error}");
    let result = peer.call(request(1, 0)).await.result;
    assert!(matches!(result, Err(FsError::TimedOut(_))), "{result:?}");
    assert!(begun.elapsed() < SECOND);
}

/// A copy whose host crashed does not reply at all; one whose host crashes while it holds the connection does not decide any more.
#[tokio::test(start_paused = true)]
async fn an_attempt_at_one_of_several_addresses_has_time_limits() {
    let net = net();
    let _standby = ServerCopy::start(&net.host("m1"), "m1:1", 9 * SECOND, &[]).await;
    net.partition("a", "m2");
    let connection = ClientConnection::connect(options(&net.host("a"), &["m1:1", "m2:1"]));
    tokio::time::sleep(SECOND).await;
    net.partition("a", "m1");
    tokio::time::sleep(3 * SECOND / 2).await;
    let silent = "at m2:1: the server does not respond";
    assert_eq!(connection.status().last_error.as_deref(), Some(silent));
    tokio::time::sleep(3 * SECOND).await;
    let undecided = "at m1:1: the server has proved its key, but does not say whether it accepts the connection";
    let error = connection.status().last_error.unwrap();
    assert_eq!(error, format!("{undecided}; {silent}"));
}
