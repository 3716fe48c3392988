//! A network of named hosts: pipes with delay, links that are cut and healed, hosts that die.

use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::io::{Error, ErrorKind, IoSlice, Result};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, mpsc};
use tokio::time::Instant;

/// Bytes that a pipe takes before its writer must wait.
const PIPE: usize = 256 << 10;

/// Hosts on one tokio runtime, whose time is paused. Clones are the same.
#[derive(Clone)]
pub struct FakeNet(Arc<Inner>);

struct Inner {
    state: Mutex<State>,
    /// Something was cut, healed or killed.
    changed: Notify,
    dice: super::FakeDice,
}

struct State {
    listeners: BTreeMap<String, mpsc::UnboundedSender<FakeStream>>,
    streams: Vec<(String, String, std::sync::Weak<Both>)>,
    /// From whom to whom nothing passes.
    cuts: BTreeSet<(String, String)>,
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
                cuts: BTreeSet::new(),
                delay,
                port: 40_000,
            }),
            changed: Notify::new(),
            dice: super::FakeDice::new(seed),
        }))
    }

    /// The handle that the code of one host is given.
    pub fn host(&self, name: &str) -> crate::Net {
        crate::Net::fake(FakeHost {
            net: self.clone(),
            name: name.to_string(),
        })
    }

    /// Nothing passes between these hosts any more, and nobody is told: what is under way arrives after `heal`.
    pub fn cut(&self, a: &str, b: &str) {
        self.cut_way(a, b);
        self.cut_way(b, a);
    }

    /// The same in one direction: what `from` sends waits, what `to` sends arrives.
    pub fn cut_way(&self, from: &str, to: &str) {
        self.0.state.lock().cuts.insert(way(from, to));
        self.0.changed.notify_waiters();
    }

    /// In both directions, whichever were cut.
    pub fn heal(&self, a: &str, b: &str) {
        let mut state = self.0.state.lock();
        state.cuts.remove(&way(a, b));
        state.cuts.remove(&way(b, a));
        drop(state);
        self.0.changed.notify_waiters();
    }

    pub fn heal_all(&self) {
        self.0.state.lock().cuts.clear();
        self.0.changed.notify_waiters();
    }

    /// Every stream between these hosts breaks; what is under way is lost. New ones can be made at once.
    pub fn reset(&self, a: &str, b: &str) {
        self.break_those(|x, y| (x, y) == (a, b) || (x, y) == (b, a));
    }

    /// The host's process is gone: its streams break and its listeners are no more.
    pub fn kill(&self, host: &str) {
        self.break_those(|x, y| x == host || y == host);
        let mut state = self.0.state.lock();
        state.listeners.retain(|at, _| host_of(at) != host);
    }

    fn break_those(&self, which: impl Fn(&str, &str) -> bool) {
        let mut state = self.0.state.lock();
        state.streams.retain(|(a, b, both)| {
            let Some(both) = both.upgrade() else {
                return false;
            };
            if which(a, b) {
                both.reset();
                return false;
            }
            true
        });
    }

    fn is_cut(&self, from: &str, to: &str) -> bool {
        let state = self.0.state.lock();
        !state.cuts.is_empty() && state.cuts.contains(&way(from, to))
    }

    fn delay(&self) -> Duration {
        let (least, most) = self.0.state.lock().delay;
        let span = (most - least).as_nanos() as u64;
        match span {
            0 => least,
            _ => least + Duration::from_nanos(self.0.dice.u64() % span),
        }
    }

    /// Returns when what `from` sends arrives.
    async fn healed(&self, from: &str, to: &str) {
        loop {
            let mut changed = std::pin::pin!(self.0.changed.notified());
            changed.as_mut().enable();
            if !self.is_cut(from, to) {
                return;
            }
            changed.await;
        }
    }

    /// Returns when both hear each other.
    async fn healed_both(&self, a: &str, b: &str) {
        while self.is_cut(a, b) || self.is_cut(b, a) {
            self.healed(a, b).await;
            self.healed(b, a).await;
        }
    }
}

fn way(from: &str, to: &str) -> (String, String) {
    (from.to_string(), to.to_string())
}

fn host_of(address: &str) -> &str {
    address.rsplit_once(':').map_or(address, |(host, _)| host)
}

/// One host's way to the others.
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
            .is_some_and(|l| !l.is_closed())
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
        let there = host_of(to).to_string();
        self.net.healed_both(&self.name, &there).await;
        tokio::time::sleep(self.net.delay()).await;
        let mut state = self.net.0.state.lock();
        let Some(listener) = state.listeners.get(to).cloned() else {
            return Err(Error::from(ErrorKind::ConnectionRefused));
        };
        let both = Arc::new(Both::default());
        let end = |mine: String, other: String, first: bool| FakeStream {
            net: self.net.clone(),
            local: mine == other,
            mine,
            other,
            both: both.clone(),
            first,
        };
        let near = end(self.name.clone(), there.clone(), true);
        let far = end(there.clone(), self.name.clone(), false);
        let known = (self.name.clone(), there, Arc::downgrade(&both));
        state.streams.push(known);
        listener
            .send(far)
            .map_err(|_| Error::from(ErrorKind::ConnectionRefused))?;
        Ok(near)
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
            // The host was killed: its tasks are dropped in a moment.
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
    mine: String,
    other: String,
    local: bool,
    both: Arc<Both>,
    first: bool,
}

#[derive(Default)]
struct Both {
    there: Pipe,
    back: Pipe,
}

impl Both {
    fn reset(&self) {
        for pipe in [&self.there, &self.back] {
            let mut flow = pipe.flow.lock();
            flow.broken = true;
            flow.chunks.clear();
            drop(flow);
            pipe.readable.notify_waiters();
            pipe.writable.notify_waiters();
        }
    }
}

#[derive(Default)]
struct Pipe {
    flow: Mutex<Flow>,
    readable: Notify,
    writable: Notify,
}

#[derive(Default)]
struct Flow {
    chunks: VecDeque<(Instant, Bytes)>,
    bytes: usize,
    /// Its writer has closed it: its reader hears that behind all that was sent.
    ended: bool,
    /// Its reader has closed it, and knows so at once.
    left: bool,
    broken: bool,
}

impl FakeStream {
    fn inwards(&self) -> &Pipe {
        if self.first {
            &self.both.back
        } else {
            &self.both.there
        }
    }

    fn outwards(&self) -> &Pipe {
        if self.first {
            &self.both.there
        } else {
            &self.both.back
        }
    }

    pub(crate) async fn read(&self, into: &mut BytesMut) -> Result<usize> {
        let pipe = self.inwards();
        loop {
            let mut more = std::pin::pin!(pipe.readable.notified());
            more.as_mut().enable();
            let due = {
                let flow = pipe.flow.lock();
                if flow.broken {
                    return Err(Error::from(ErrorKind::ConnectionReset));
                }
                match flow.chunks.front() {
                    _ if flow.left => return Ok(0),
                    Some((due, _)) => Some(*due),
                    // Not even the end passes a cut.
                    None if flow.ended => match self.net.is_cut(&self.other, &self.mine) {
                        true => Some(Instant::now()),
                        false => return Ok(0),
                    },
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
                Some(_) if self.net.is_cut(&self.other, &self.mine) => tokio::select! {
                    biased;
                    () = more => {}
                    () = self.net.healed(&self.other, &self.mine) => {}
                },
                Some(_) => return Ok(take(pipe, into)),
            }
        }
    }

    pub(crate) fn try_write(&self, parts: &[IoSlice<'_>]) -> Result<usize> {
        let due = Instant::now() + self.net.delay();
        let mut flow = self.outwards().flow.lock();
        // That the other side has left is told by what it sends back.
        let told = flow.left && !self.net.is_cut(&self.other, &self.mine);
        if flow.broken || flow.ended || told {
            return Err(Error::from(ErrorKind::BrokenPipe));
        }
        if flow.left {
            return Ok(parts.iter().map(|part| part.len()).sum());
        }
        let room = PIPE.saturating_sub(flow.bytes);
        if room == 0 {
            return Err(Error::from(ErrorKind::WouldBlock));
        }
        let mut chunk = BytesMut::new();
        for part in parts {
            let take = part.len().min(room - chunk.len());
            chunk.extend_from_slice(&part[..take]);
        }
        let taken = chunk.len();
        // In order: none arrives before the one that was sent before it.
        let due = flow.chunks.back().map_or(due, |(last, _)| due.max(*last));
        flow.bytes += taken;
        flow.chunks.push_back((due, chunk.freeze()));
        drop(flow);
        self.outwards().readable.notify_waiters();
        Ok(taken)
    }

    pub(crate) async fn writable(&self) -> Result<()> {
        let pipe = self.outwards();
        loop {
            let mut room = std::pin::pin!(pipe.writable.notified());
            room.as_mut().enable();
            {
                let flow = pipe.flow.lock();
                if flow.broken || flow.ended || flow.left || flow.bytes < PIPE {
                    return Ok(());
                }
            }
            room.await;
        }
    }

    pub(crate) fn close(&self) {
        let mut flow = self.outwards().flow.lock();
        flow.ended = true;
        drop(flow);
        self.outwards().readable.notify_waiters();
        self.outwards().writable.notify_waiters();
        let mut flow = self.inwards().flow.lock();
        flow.left = true;
        flow.chunks.clear();
        flow.bytes = 0;
        drop(flow);
        self.inwards().readable.notify_waiters();
        self.inwards().writable.notify_waiters();
    }

    pub(crate) fn peer(&self) -> &str {
        &self.other
    }

    pub(crate) fn near(&self) -> &str {
        &self.mine
    }

    pub(crate) fn is_local(&self) -> bool {
        self.local
    }
}

/// Moves what is there into the room that `into` has, at least one byte.
fn take(pipe: &Pipe, into: &mut BytesMut) -> usize {
    let mut flow = pipe.flow.lock();
    let now = Instant::now();
    let room = (into.capacity() - into.len()).max(1);
    let mut taken = 0;
    while taken < room
        && let Some((due, chunk)) = flow.chunks.front_mut()
        && *due <= now
    {
        let some = chunk.split_to(chunk.len().min(room - taken));
        into.extend_from_slice(&some);
        taken += some.len();
        if chunk.is_empty() {
            flow.chunks.pop_front();
        }
    }
    flow.bytes -= taken;
    drop(flow);
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
    async fn bytes_arrive_in_order_and_late() {
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
    async fn a_cut_holds_back_and_a_dead_host_breaks() {
        let net = slow();
        let (near, far) = connected(&net).await;
        net.cut("a", "b");
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
    async fn a_cut_of_one_way_leaves_the_other_and_hides_an_end() {
        let net = slow();
        let (near, far) = connected(&net).await;
        net.cut_way("a", "b");
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
    async fn a_writer_that_nobody_reads_must_wait() {
        let net = slow();
        let (near, far) = connected(&net).await;
        let much = vec![7; PIPE];
        assert_eq!(near.try_write(&[IoSlice::new(&much)]).unwrap(), PIPE);
        let refused = near.try_write(&[IoSlice::new(b"x")]).unwrap_err();
        assert_eq!(refused.kind(), ErrorKind::WouldBlock);
        let mut got = BytesMut::with_capacity(PIPE);
        let (read, room) = tokio::join!(far.read(&mut got), near.writable());
        assert!(read.unwrap() > 0 && room.is_ok());
    }
}
