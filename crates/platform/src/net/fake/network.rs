//! A network of named hosts that can die; its listeners and connections.

use super::links::Links;
use super::stream::{Duplex, FakeStream};
use parking_lot::Mutex;
use std::collections::BTreeMap;
use std::io::{Error, ErrorKind, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::mpsc;

/// Hosts on one tokio runtime with paused time. Clones share the network.
#[derive(Clone)]
pub struct FakeNet(Arc<Inner>);

struct Inner {
    links: Arc<Links>,
    state: Mutex<State>,
}

struct State {
    listeners: BTreeMap<String, mpsc::UnboundedSender<FakeStream>>,
    streams: Vec<(String, String, std::sync::Weak<Duplex>)>,
    port: u16,
}

impl FakeNet {
    /// Each message takes between `delay.0` and `delay.1`; messages of one direction keep their order.
    pub fn new(seed: u64, delay: (Duration, Duration)) -> FakeNet {
        FakeNet(Arc::new(Inner {
            links: Arc::new(Links::new(seed, delay)),
            state: Mutex::new(State {
                listeners: BTreeMap::new(),
                streams: Vec::new(),
                port: 40_000,
            }),
        }))
    }

    pub(in crate::net) fn fake_host(&self, name: &str) -> FakeHost {
        FakeHost {
            net: self.clone(),
            name: name.to_string(),
        }
    }

    /// Partitions two hosts: no bytes pass between them, and neither gets an error. Bytes under way arrive after `heal`.
    pub fn partition(&self, a: &str, b: &str) {
        self.partition_one_way(a, b);
        self.partition_one_way(b, a);
    }

    /// The same in one direction: bytes that `from` sends wait, bytes that `to` sends arrive.
    pub fn partition_one_way(&self, from: &str, to: &str) {
        self.0.links.partition_one_way(from, to);
    }

    /// Ends the partition of two hosts in both directions.
    pub fn heal(&self, a: &str, b: &str) {
        self.0.links.heal(a, b);
    }

    pub fn heal_all(&self) {
        self.0.links.heal_all();
    }

    /// Breaks all connections between these hosts; bytes under way are lost. New connections are possible at once.
    pub fn reset(&self, a: &str, b: &str) {
        self.break_streams(|x, y| (x, y) == (a, b) || (x, y) == (b, a));
    }

    /// Kills the host's process: its connections break and its listeners are closed.
    pub fn kill(&self, host: &str) {
        self.break_streams(|x, y| x == host || y == host);
        let mut state = self.0.state.lock();
        state.listeners.retain(|at, _| host_of(at) != host);
    }

    fn break_streams(&self, which: impl Fn(&str, &str) -> bool) {
        let mut state = self.0.state.lock();
        state.streams.retain(|(a, b, duplex)| {
            let Some(duplex) = duplex.upgrade() else {
                return false;
            };
            if which(a, b) {
                duplex.reset();
                return false;
            }
            true
        });
    }
}

fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// One host's access to the network.
#[derive(Clone)]
pub struct FakeHost {
    net: FakeNet,
    name: String,
}

impl FakeHost {
    pub(in crate::net) fn listen(&self, address: &str) -> Result<FakeListener> {
        let (sender, receiver) = mpsc::unbounded_channel();
        let mut state = self.net.0.state.lock();
        let address = match address.strip_suffix(":0") {
            Some(host) => {
                state.port += 1;
                format!("{host}:{}", state.port)
            }
            None => address.to_string(),
        };
        if host_of(&address) != self.name {
            return Err(Error::from(ErrorKind::AddrNotAvailable));
        }
        if state
            .listeners
            .get(&address)
            .is_some_and(|sender| !sender.is_closed())
        {
            return Err(Error::from(ErrorKind::AddrInUse));
        }
        state.listeners.insert(address.clone(), sender);
        Ok(FakeListener {
            address,
            receiver: tokio::sync::Mutex::new(receiver),
        })
    }

    pub(in crate::net) async fn connect(&self, to: &str) -> Result<FakeStream> {
        let peer = host_of(to).to_string();
        let links = &self.net.0.links;
        links.wait_until_both_healed(&self.name, &peer).await;
        tokio::time::sleep(links.delay()).await;
        let mut state = self.net.0.state.lock();
        let Some(listener) = state.listeners.get(to).cloned() else {
            return Err(Error::from(ErrorKind::ConnectionRefused));
        };
        let duplex = Arc::new(Duplex::default());
        let stream = |local_host: String, peer_host: String, is_client: bool| FakeStream {
            links: links.clone(),
            is_local: local_host == peer_host,
            local_host,
            peer_host,
            duplex: duplex.clone(),
            is_client,
        };
        let client = stream(self.name.clone(), peer.clone(), true);
        let server = stream(peer.clone(), self.name.clone(), false);
        let entry = (self.name.clone(), peer, Arc::downgrade(&duplex));
        state.streams.push(entry);
        listener
            .send(server)
            .map_err(|_| Error::from(ErrorKind::ConnectionRefused))?;
        Ok(client)
    }
}

pub struct FakeListener {
    address: String,
    receiver: tokio::sync::Mutex<mpsc::UnboundedReceiver<FakeStream>>,
}

impl FakeListener {
    pub(in crate::net) async fn accept(&self) -> Result<FakeStream> {
        match self.receiver.lock().await.recv().await {
            Some(stream) => Ok(stream),
            // The host was killed: the runtime drops its tasks when it runs next.
            None => std::future::pending().await,
        }
    }

    pub(in crate::net) fn address(&self) -> String {
        self.address.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::super::stream::PIPE;
    use super::*;
    use bytes::BytesMut;
    use std::io::IoSlice;
    use tokio::time::Instant;

    async fn connected(net: &FakeNet) -> (crate::net::Stream, crate::net::Stream) {
        let listener = net.host("b").listen("b:1").await.unwrap();
        let host = net.host("a");
        let (near, far) = tokio::join!(host.connect("b:1"), listener.accept());
        (near.unwrap(), far.unwrap())
    }

    fn slow() -> FakeNet {
        FakeNet::new(1, (Duration::from_millis(1), Duration::from_millis(3)))
    }

    #[tokio::test(start_paused = true)]
    async fn bytes_arrive_in_order_after_a_delay() {
        let net = slow();
        let (near, far) = connected(&net).await;
        let before = Instant::now();
        near.try_write(&[IoSlice::new(b"one"), IoSlice::new(b"two")])
            .unwrap();
        near.try_write(&[IoSlice::new(b"three")]).unwrap();
        let mut got = BytesMut::with_capacity(100);
        while got.len() < 11 {
            far.read(&mut got).await.unwrap();
        }
        assert_eq!(&got[..], b"onetwothree");
        assert!(before.elapsed() >= Duration::from_millis(1));
        near.close();
        assert_eq!(far.read(&mut got).await.unwrap(), 0);
    }

    #[tokio::test(start_paused = true)]
    async fn a_partition_delays_bytes_and_a_killed_host_breaks_connections() {
        let net = slow();
        let (near, far) = connected(&net).await;
        net.partition("a", "b");
        near.try_write(&[IoSlice::new(b"x")]).unwrap();
        let mut got = BytesMut::with_capacity(100);
        let early = tokio::time::timeout(Duration::from_secs(60), far.read(&mut got)).await;
        assert!(early.is_err());
        net.heal("b", "a");
        assert_eq!(far.read(&mut got).await.unwrap(), 1);
        net.kill("b");
        assert!(near.read(&mut got).await.is_err());
        assert!(net.host("a").connect("b:1").await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_one_way_partition_leaves_the_other_direction_and_hides_a_close() {
        let net = slow();
        let (near, far) = connected(&net).await;
        net.partition_one_way("a", "b");
        far.try_write(&[IoSlice::new(b"y")]).unwrap();
        let mut got = BytesMut::with_capacity(100);
        assert_eq!(near.read(&mut got).await.unwrap(), 1);
        near.close();
        assert_eq!(near.read(&mut got).await.unwrap(), 0);
        let early = tokio::time::timeout(Duration::from_secs(60), far.read(&mut got)).await;
        assert!(early.is_err());
        assert!(far.try_write(&[IoSlice::new(b"z")]).is_ok());
        net.heal("a", "b");
        assert_eq!(far.read(&mut got).await.unwrap(), 0);
        assert!(far.try_write(&[IoSlice::new(b"z")]).is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn a_writer_waits_while_the_peer_does_not_read() {
        let net = slow();
        let (near, far) = connected(&net).await;
        let much = vec![7; PIPE];
        assert_eq!(near.try_write(&[IoSlice::new(&much)]).unwrap(), PIPE);
        let error = near.try_write(&[IoSlice::new(b"x")]).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::WouldBlock);
        let mut got = BytesMut::with_capacity(PIPE);
        let (read, writable) = tokio::join!(far.read(&mut got), near.writable());
        assert!(read.unwrap() > 0 && writable.is_ok());
    }
}
