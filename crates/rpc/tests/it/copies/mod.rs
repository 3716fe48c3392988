//! The promises of a client connection to a server that has copies on several hosts, of which one serves at a time.

mod failures;
mod standby;
mod take_over;

use crate::fixture::*;
use gupfs_platform::{Net, Platform};
use gupfs_rpc::*;
use parking_lot::Mutex;
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
    /// The addresses that it names.
    copies: Arc<Mutex<Vec<String>>>,
}

/// Holds the connections of clients for some time.
struct Standby {
    is_owner: Arc<watch::Sender<bool>>,
    platform: Platform,
    hold: Duration,
    copies: Arc<Mutex<Vec<String>>>,
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
        self.copies.lock().clone()
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
        let copies: Vec<String> = copies.iter().map(|copy| copy.to_string()).collect();
        let copies = Arc::new(Mutex::new(copies));
        let admission = Standby {
            is_owner: is_owner.clone(),
            platform: counting.platform.clone(),
            hold,
            copies: copies.clone(),
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
            copies,
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
    let reply = tokio::time::timeout(60 * SECOND, peer.call(request(job, 0))).await;
    assert!(reply.expect("a reply within a minute").result.is_ok());
    Instant::now()
}
