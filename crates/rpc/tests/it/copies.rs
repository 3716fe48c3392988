//! The promises of a client connection to a server that has copies on several hosts, of which one serves at a time.

use crate::fixture::*;
use gupfs_platform::fake::FakePlatform;
use gupfs_platform::{Net, Platform};
use gupfs_proto::FsError;
use gupfs_rpc::*;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::watch;
use tokio::time::Instant;

const SECOND: Duration = Duration::from_secs(1);

/// One copy of the server: a standby until it is the owner.
struct ServerCopy {
    counting: Arc<CountingServer>,
    server: RpcServer,
    is_owner: Arc<watch::Sender<bool>>,
}

/// Holds the connections of clients for some time.
struct Standby {
    is_owner: Arc<watch::Sender<bool>>,
    platform: Platform,
    hold: Duration,
    copies: Vec<String>,
}

impl Admission for Standby {
    fn admit(&self, _: &PeerIdentity) -> AdmissionFuture {
        let (mut is_owner, hold) = (self.is_owner.subscribe(), self.hold);
        let clock = self.platform.clock.clone();
        Box::pin(async move {
            tokio::select! {
                biased;
                _ = is_owner.wait_for(|is_owner| *is_owner) => Admitted::Welcome,
                () = clock.sleep(hold) => Admitted::Rejected { why: "a standby".into() },
            }
        })
    }

    fn addresses(&self) -> Vec<String> {
        self.copies.clone()
    }
}

impl ServerCopy {
    async fn start(net: &Net, address: &str, hold: Duration, copies: &[&str]) -> ServerCopy {
        ServerCopy::with_key(net, address, hold, copies, 9).await
    }

    async fn with_key(
        net: &Net,
        address: &str,
        hold: Duration,
        copies: &[&str],
        secret: u8,
    ) -> ServerCopy {
        let counting = CountingServer::new(platform(1));
        let is_owner = Arc::new(watch::Sender::new(false));
        let admission = Standby {
            is_owner: is_owner.clone(),
            platform: counting.platform.clone(),
            hold,
            copies: copies.iter().map(|copy| copy.to_string()).collect(),
        };
        let options = RpcServerOptions {
            admission: Arc::new(admission),
            ..server_options(&counting, key(secret))
        };
        let server = RpcServer::start(net.listen(address).await.unwrap(), options);
        ServerCopy {
            counting,
            server,
            is_owner,
        }
    }

    fn become_owner(&self) {
        self.is_owner.send_replace(true);
    }

    fn connections(&self) -> usize {
        self.server.status().connections.len()
    }
}

fn addresses(of: &[&str]) -> Arc<ServerAddresses> {
    ServerAddresses::new(of.iter().map(|address| address.to_string()).collect())
}

fn options(net: &Net, of: &[&str]) -> ClientConnectionOptions {
    ClientConnectionOptions {
        addresses: addresses(of),
        ..connection_options(net, &platform(2), 20, key(9))
    }
}

async fn calls(peer: MdsPeer, job: u64) -> Instant {
    assert!(peer.call(request(job, 0)).await.result.is_ok());
    Instant::now()
}

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
