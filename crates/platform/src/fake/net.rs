//! A network of named hosts: pipes with delay, partitions, hosts that die.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Capacity of a pipe in bytes: when it is full, the writer must wait.
const PIPE: usize = 256 << 10;

/// Hosts on one tokio runtime with paused time. Clones share the network.
#[derive(Clone)]
pub struct FakeNet(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// A partition began or ended.
    changed: Notify,
    random: super::FakeRandom,
}

struct State {
    listeners: BTreeMap<String, mpsc::UnboundedSender<FakeStream>>,
    streams: Vec<(String, String, std::sync::Weak<Duplex>)>,
    /// Directions (sender, receiver) that are partitioned.
    partitions: BTreeSet<(String, String)>,
    delay: (Duration, Duration),
    port: u16,
}

impl FakeNet {
    /// Each message takes between `delay.0` and `delay.1`; messages of one direction keep their order.
    pub fn new(seed: u64, delay: (Duration, Duration)) -> FakeNet {
        FakeNet(Arc::new(Inner {
            state: Mutex::new(State {
                listeners: BTreeMap::new(),
                streams: Vec::new(),
                partitions: BTreeSet::new(),
                delay,
                port: 40_000,
            }),
            changed: Notify::new(),
            random: super::FakeRandom::new(seed),
        }))
    }

    /// The handle for the code of one host.
    pub fn host(&self, name: &str) -> crate::Net {
        crate::Net::fake(FakeHost {
            net: self.clone(),
            name: name.to_string(),
        })
    }

    /// Partitions two hosts: no bytes pass between them, and neither gets an error. Bytes under way arrive after `heal`.
    pub fn partition(&self, a: &str, b: &str) {
        self.partition_one_way(a, b);
        self.partition_one_way(b, a);
    }

    /// The same in one direction: bytes that `from` sends wait, bytes that `to` sends arrive.
    pub fn partition_one_way(&self, from: &str, to: &str) {
        self.0.state.lock().partitions.insert(direction(from, to));
        self.0.changed.notify_waiters();
    }

    /// Ends the partition of two hosts in both directions.
    pub fn heal(&self, a: &str, b: &str) {
        let mut state = self.0.state.lock();
        state.partitions.remove(&direction(a, b));
        state.partitions.remove(&direction(b, a));
        drop(state);
        self.0.changed.notify_waiters();
    }

    pub fn heal_all(&self) {
        self.0.state.lock().partitions.clear();
        self.0.changed.notify_waiters();
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

    fn is_partitioned(&self, from: &str, to: &str) -> bool {
        let state = self.0.state.lock();
        !state.partitions.is_empty() && state.partitions.contains(&direction(from, to))
    }

    fn delay(&self) -> Duration {
        let (least, most) = self.0.state.lock().delay;
        let span = (most - least).as_nanos() as u64;
        match span {
            0 => least,
            _ => least + Duration::from_nanos(self.0.random.u64() % span),
        }
    }

    /// Returns when the direction is not partitioned.
    async fn wait_until_healed(&self, from: &str, to: &str) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if !self.is_partitioned(from, to) {
                return;
            }
            changed.await;
        }
    }

    /// Returns when neither direction is partitioned.
    async fn wait_until_both_healed(&self, a: &str, b: &str) {
        while self.is_partitioned(a, b) || self.is_partitioned(b, a) {
            self.wait_until_healed(a, b).await;
            self.wait_until_healed(b, a).await;
        }
    }
}

fn direction(from: &str, to: &str) -> (String, String) {
    (from.to_string(), to.to_string())
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
    pub(crate) fn listen(&self, address: &str) -> Result<FakeListener> {
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

    pub(crate) async fn connect(&self, to: &str) -> Result<FakeStream> {
        let peer = host_of(to).to_string();
        self.net.wait_until_both_healed(&self.name, &peer).await;
        tokio::time::sleep(self.net.delay()).await;
        let mut state = self.net.0.state.lock();
        let Some(listener) = state.listeners.get(to).cloned() else {
            return Err(Error::from(ErrorKind::ConnectionRefused));
        };
        let duplex = Arc::new(Duplex::default());
        let stream = |local_host: String, peer_host: String, is_client: bool| FakeStream {
            net: self.net.clone(),
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
    pub(crate) async fn accept(&self) -> Result<FakeStream> {
        match self.receiver.lock().await.recv().await {
            Some(stream) => Ok(stream),
            // The host was killed: the runtime drops its tasks when it runs next.
            None => std::future::pending().await,
        }
    }

    pub(crate) fn address(&self) -> String {
        self.address.clone()
    }
}

/// One end of a connection.
#[derive(Clone)]
pub struct FakeStream {
    net: FakeNet,
    local_host: String,
    peer_host: String,
    is_local: bool,
    duplex: Arc<Duplex>,
    is_client: bool,
}

#[derive(Default)]
struct Duplex {
    forward: Pipe,
    backward: Pipe,
}

impl Duplex {
    fn reset(&self) {
        for pipe in [&self.forward, &self.backward] {
            let mut pipe_state = pipe.state.lock();
            pipe_state.broken = true;
            pipe_state.chunks.clear();
            drop(pipe_state);
            pipe.readable.notify_waiters();
            pipe.writable.notify_waiters();
        }
    }
}

#[derive(Default)]
struct Pipe {
    state: Mutex<PipeState>,
    readable: Notify,
    writable: Notify,
}

#[derive(Default)]
struct PipeState {
    chunks: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// The writer has closed it: the reader gets the end of the stream after all bytes.
    closed_by_writer: bool,
    /// The reader has closed it, and reads no more bytes.
    closed_by_reader: bool,
    broken: bool,
}

impl FakeStream {
    fn inwards(&self) -> &Pipe {
        if self.is_client {
            &self.duplex.backward
        } else {
            &self.duplex.forward
        }
    }

    fn outwards(&self) -> &Pipe {
        if self.is_client {
            &self.duplex.forward
        } else {
            &self.duplex.backward
        }
    }

    pub(crate) async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        let pipe = self.inwards();
        loop {
            let mut more = std::pin::pin!(pipe.readable.notified());
            more.as_mut().enable();
            let due = {
                let pipe_state = pipe.state.lock();
                if pipe_state.broken {
                    return Err(Error::from(ErrorKind::ConnectionReset));
                }
                match pipe_state.chunks.front() {
                    _ if pipe_state.closed_by_reader => return Ok(0),
                    Some((due, _)) => Some(*due),
                    // The end of the stream does not pass a partition either.
                    None if pipe_state.closed_by_writer => {
                        match self.net.is_partitioned(&self.peer_host, &self.local_host) {
                            true => Some(Instant::now()),
                            false => return Ok(0),
                        }
                    }
                    None => None,
                }
            };
            match due {
                None => more.await,
                Some(due) if due > Instant::now() => tokio::select! {
                    biased;
                    () = more => {}
                    () = tokio::time::sleep_until(due) => {}
                },
                Some(_) if self.net.is_partitioned(&self.peer_host, &self.local_host) => {
                    tokio::select! {
                        biased;
                        () = more => {}
                        () = self.net.wait_until_healed(&self.peer_host, &self.local_host) => {}
                    }
                }
                Some(_) => return Ok(take(pipe, into)),
            }
        }
    }

    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        let due = Instant::now() + self.net.delay();
        let mut pipe_state = self.outwards().state.lock();
        // The peer reports that it has closed the stream in the opposite direction, which may be partitioned.
        let closed = pipe_state.closed_by_reader
            && !self.net.is_partitioned(&self.peer_host, &self.local_host);
        if pipe_state.broken || pipe_state.closed_by_writer || closed {
            return Err(Error::from(ErrorKind::BrokenPipe));
        }
        if pipe_state.closed_by_reader {
            return Ok(parts.iter().map(|part| part.len()).sum());
        }
        let free = PIPE.saturating_sub(pipe_state.bytes);
        if free == 0 {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        let mut chunk = BytesMut::new();
        for part in parts {
            let take = part.len().min(free - chunk.len());
            chunk.extend_from_slice(&part[..take]);
        }
        let taken = chunk.len();
        // In order: no chunk arrives before an earlier one.
        let due = pipe_state
            .chunks
            .back()
            .map_or(due, |(last, _)| due.max(*last));
        pipe_state.bytes += taken;
        pipe_state.chunks.push_back((due, chunk.freeze()));
        drop(pipe_state);
        self.outwards().readable.notify_waiters();
        Ok(taken)
    }

    pub(crate) async fn writable(&self) -> Result<()> {
        let pipe = self.outwards();
        loop {
            let mut writable = std::pin::pin!(pipe.writable.notified());
            writable.as_mut().enable();
            {
                let pipe_state = pipe.state.lock();
                if pipe_state.broken
                    || pipe_state.closed_by_writer
                    || pipe_state.closed_by_reader
                    || pipe_state.bytes < PIPE
                {
                    return Ok(());
                }
            }
            writable.await;
        }
    }

    pub(crate) fn close(&self) {
        let mut pipe_state = self.outwards().state.lock();
        pipe_state.closed_by_writer = true;
        drop(pipe_state);
        self.outwards().readable.notify_waiters();
        self.outwards().writable.notify_waiters();
        let mut pipe_state = self.inwards().state.lock();
        pipe_state.closed_by_reader = true;
        pipe_state.chunks.clear();
        pipe_state.bytes = 0;
        drop(pipe_state);
        self.inwards().readable.notify_waiters();
        self.inwards().writable.notify_waiters();
    }

    pub(crate) fn peer_address(&self) -> &str {
        &self.peer_host
    }

    pub(crate) fn local_address(&self) -> &str {
        &self.local_host
    }

    pub(crate) fn is_local(&self) -> bool {
        self.is_local
    }
}

/// Moves bytes that have arrived into the spare capacity of `into`, at least one byte.
fn take(pipe: &Pipe, into: &mut BytesMut) -> usize {
    let mut pipe_state = pipe.state.lock();
    let now = Instant::now();
    let spare = (into.capacity() - into.len()).max(1);
    let mut taken = 0;
    while taken < spare
        && let Some((due, chunk)) = pipe_state.chunks.front_mut()
        && *due <= now
    {
        let some = chunk.split_to(chunk.len().min(spare - taken));
        into.extend_from_slice(&some);
        taken += some.len();
        if chunk.is_empty() {
            pipe_state.chunks.pop_front();
        }
    }
    pipe_state.bytes -= taken;
    drop(pipe_state);
    pipe.writable.notify_waiters();
    taken
}

#[cfg(test)]
mod tests {
    use super::*;

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
