//! The addresses of one name, side by side (RFC 8305, "Happy Eyeballs").

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// How long one address has alone before the next is tried beside it: what RFC 8305 recommends.
const ALONE: Duration = Duration::from_millis(250);

/// The order in which they are tried: IPv6 and IPv4 by turns, since mostly one of the two fails as a whole; from the one
/// behind `after` on.
pub fn in_turn(found: Vec<SocketAddr>, after: Option<&str>) -> Vec<SocketAddr> {
    let first_is_v6 = found.first().is_some_and(SocketAddr::is_ipv6);
    let (first, second): (Vec<_>, Vec<_>) = found
        .into_iter()
        .partition(|address| address.is_ipv6() == first_is_v6);
    let mut order = Vec::new();
    let (mut first, mut second) = (first.into_iter(), second.into_iter());
    loop {
        let pair = [first.next(), second.next()];
        if pair == [None, None] {
            break;
        }
        for address in pair.into_iter().flatten() {
            if !order.contains(&address) {
                order.push(address);
            }
        }
    }
    let useless = after.and_then(|after| after.parse::<SocketAddr>().ok());
    if let Some(at) = order.iter().position(|address| Some(*address) == useless) {
        order.rotate_left(at + 1);
    }
    order
}

/// A connection to whichever answers first.
///
/// # Errors
/// When none can be connected to, with what each said.
pub async fn first_of(addresses: Vec<SocketAddr>) -> Result<TcpStream> {
    let several = addresses.len() > 1;
    let mut left = addresses.into_iter();
    let mut trying = FuturesUnordered::new();
    let mut failures: Vec<(SocketAddr, Error)> = Vec::new();
    loop {
        if let Some(address) = left.next() {
            trying.push(async move { (address, TcpStream::connect(address).await) });
        }
        let is_more = left.len() > 0;
        tokio::select! {
            biased;
            Some((address, outcome)) = trying.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => failures.push((address, error)),
            },
            () = tokio::time::sleep(ALONE), if is_more => {}
            else => return Err(failure(failures, several)),
        }
    }
}

fn failure(mut failures: Vec<(SocketAddr, Error)>, several: bool) -> Error {
    match (failures.pop(), several) {
        (None, _) => Error::new(ErrorKind::NotFound, "its name has no address"),
        (Some((_, error)), false) => error,
        (Some((address, error)), true) => {
            let kind = error.kind();
            failures.push((address, error));
            let each: Vec<String> = failures
                .iter()
                .map(|(address, error)| format!("{address}: {error}"))
                .collect();
            Error::new(kind, each.join("; "))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::fd::OwnedFd;

    fn addresses(all: &[&str]) -> Vec<SocketAddr> {
        all.iter().map(|it| it.parse().unwrap()).collect()
    }

    #[test]
    fn families_take_turns_and_one_of_no_use_comes_last() {
        let found = addresses(&["[::1]:1", "[::2]:1", "10.0.0.1:1", "[::1]:1", "10.0.0.2:1"]);
        let order = addresses(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1"]);
        assert_eq!(in_turn(found.clone(), None), order);
        let after = addresses(&["[::2]:1", "10.0.0.2:1", "[::1]:1", "10.0.0.1:1"]);
        assert_eq!(in_turn(found.clone(), Some("10.0.0.1:1")), after);
        assert_eq!(in_turn(found, Some("10.9.9.9:1")), order);
    }

    /// An address that swallows every attempt to connect: its queue is full, and nobody takes from it.
    fn swallows() -> (SocketAddr, Vec<OwnedFd>) {
        use rustix::net::{AddressFamily, SocketType};
        let socket = || rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let listener = socket();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        rustix::net::bind(&listener, &any).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let at = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let mut held = vec![listener];
        // One waits in the queue; of others the kernel drops the first packet.
        for _ in 0..4 {
            let other = socket();
            rustix::io::ioctl_fionbio(&other, true).unwrap();
            let _ = rustix::net::connect(&other, &at);
            held.push(other);
        }
        (at, held)
    }

    #[tokio::test]
    async fn an_address_that_swallows_packets_keeps_nobody_from_the_next() {
        let (dead, _held) = swallows();
        let alive = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = alive.local_addr().unwrap();
        // The kernel alone would try the first for two minutes.
        let connecting = tokio::time::timeout(Duration::from_secs(60), first_of(vec![dead, at]));
        let stream = connecting.await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), at);
    }

    #[tokio::test]
    async fn none_that_answers_is_told_with_what_each_said() {
        let closed = || async {
            let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
            listener.local_addr().unwrap()
        };
        let (a, b) = (closed().await, closed().await);
        let error = first_of(vec![a, b]).await.unwrap_err().to_string();
        assert!(
            error.contains(&a.to_string()) && error.contains(&b.to_string()),
            "{error}"
        );
        let error = first_of(vec![a]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(
            first_of(Vec::new()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}
