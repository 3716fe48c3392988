//! Connecting to the addresses of one name in parallel (RFC 8305, "Happy Eyeballs").

use futures_util::StreamExt;
use futures_util::stream::FuturesUnordered;
use std::io::{Error, ErrorKind, Result};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;

/// Connection Attempt Delay of RFC 8305: the time after which the next address is tried as well, with the recommended value.
const ATTEMPT_DELAY: Duration = Duration::from_millis(250);

/// The time after which an address that has not answered is tried once more, beside the former attempts: Linux repeats the packet of an
/// attempt only after 1, 3, 7 and 15 s, so it would notice the end of a silent partition up to 8 s late, and a session would end that could
/// have been renewed.
const REPEAT_DELAY: Duration = Duration::from_secs(2);

/// The order in which the addresses are tried: IPv6 and IPv4 alternate, since usually one of the two fails as a whole. The order
/// begins with the address that follows `after`.
pub fn connection_order(found: Vec<SocketAddr>, after: Option<&str>) -> Vec<SocketAddr> {
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
    let last_tried = after.and_then(|after| after.parse::<SocketAddr>().ok());
    if let Some(at) = order
        .iter()
        .position(|address| Some(*address) == last_tried)
    {
        order.rotate_left(at + 1);
    }
    order
}

/// A connection to the first address that accepts one.
///
/// # Errors
/// When no address accepts a connection, with the error of each.
pub async fn connect_first(addresses: Vec<SocketAddr>) -> Result<TcpStream> {
    connect_first_by(addresses, TcpStream::connect).await
}

async fn connect_first_by<T, F: Future<Output = Result<T>>>(
    mut addresses: Vec<SocketAddr>,
    connect: impl Fn(SocketAddr) -> F,
) -> Result<T> {
    let several = addresses.len() > 1;
    let mut left = addresses.clone().into_iter();
    let mut trying = FuturesUnordered::new();
    let mut failures: Vec<(SocketAddr, Error)> = Vec::new();
    loop {
        if let Some(address) = left.next() {
            let attempt = connect(address);
            trying.push(async move { (address, attempt.await) });
        }
        let delay = match left.len() {
            0 => REPEAT_DELAY,
            _ => ATTEMPT_DELAY,
        };
        let is_more = left.len() > 0 || !trying.is_empty();
        tokio::select! {
            biased;
            Some((address, outcome)) = trying.next() => match outcome {
                Ok(stream) => return Ok(stream),
                Err(error) => {
                    // Attempts to it that are still under way fail soon.
                    if addresses.contains(&address) {
                        failures.push((address, error));
                    }
                    addresses.retain(|other| *other != address);
                }
            },
            () = tokio::time::sleep(delay), if is_more => {
                if left.len() == 0 {
                    left = addresses.clone().into_iter();
                }
            }
            else => return Err(failure(failures, several)),
        }
    }
}

fn failure(mut failures: Vec<(SocketAddr, Error)>, several: bool) -> Error {
    match (failures.pop(), several) {
        (None, _) => Error::new(ErrorKind::NotFound, "the name has no address"),
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
        all.iter().map(|text| text.parse().unwrap()).collect()
    }

    #[test]
    fn address_families_alternate_and_the_excluded_address_comes_last() {
        let found = addresses(&["[::1]:1", "[::2]:1", "10.0.0.1:1", "[::1]:1", "10.0.0.2:1"]);
        let order = addresses(&["[::1]:1", "10.0.0.1:1", "[::2]:1", "10.0.0.2:1"]);
        assert_eq!(connection_order(found.clone(), None), order);
        let after = addresses(&["[::2]:1", "10.0.0.2:1", "[::1]:1", "10.0.0.1:1"]);
        assert_eq!(connection_order(found.clone(), Some("10.0.0.1:1")), after);
        assert_eq!(connection_order(found, Some("10.9.9.9:1")), order);
    }

    /// An address that drops every connection attempt: its accept queue is full, and no process accepts from it.
    fn unresponsive_address() -> (SocketAddr, Vec<OwnedFd>) {
        use rustix::net::{AddressFamily, SocketType};
        let socket = || rustix::net::socket(AddressFamily::INET, SocketType::STREAM, None).unwrap();
        let listener = socket();
        let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
        rustix::net::bind(&listener, &any).unwrap();
        rustix::net::listen(&listener, 0).unwrap();
        let at = SocketAddr::try_from(rustix::net::getsockname(&listener).unwrap()).unwrap();
        let mut held = vec![listener];
        // One connection waits in the queue; the kernel drops the first packet of the others.
        for _ in 0..4 {
            let other = socket();
            rustix::io::ioctl_fionbio(&other, true).unwrap();
            let _ = rustix::net::connect(&other, &at);
            held.push(other);
        }
        (at, held)
    }

    #[tokio::test]
    async fn an_unresponsive_address_does_not_delay_the_next_for_long() {
        let (dead, _sockets) = unresponsive_address();
        let alive = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let at = alive.local_addr().unwrap();
        // The kernel alone would try the first address for two minutes.
        let connecting =
            tokio::time::timeout(Duration::from_secs(60), connect_first(vec![dead, at]));
        let stream = connecting.await.unwrap().unwrap();
        assert_eq!(stream.peer_addr().unwrap(), at);
    }

    #[tokio::test(start_paused = true)]
    async fn an_address_that_does_not_answer_is_tried_again_beside_the_former_attempts() {
        let [silent, refusing] = ["10.0.0.1:1", "10.0.0.2:1"].map(|text| text.parse().unwrap());
        let attempts = std::cell::Cell::new(0);
        let connect = |address: SocketAddr| {
            attempts.set(attempts.get() + usize::from(address == silent));
            let number = attempts.get();
            async move {
                match number {
                    _ if address == refusing => Err(ErrorKind::ConnectionRefused.into()),
                    // The network is repaired before the fourth attempt.
                    1..4 => std::future::pending().await,
                    _ => Ok(number),
                }
            }
        };
        let begun = tokio::time::Instant::now();
        let connected = connect_first_by(vec![silent, refusing], connect).await;
        assert_eq!(connected.unwrap(), 4);
        let least = ATTEMPT_DELAY + 3 * REPEAT_DELAY;
        assert!((least..least + ATTEMPT_DELAY).contains(&begun.elapsed()));
    }

    #[tokio::test]
    async fn without_a_connection_the_error_names_each_address() {
        // Bound sockets that do not listen: a port that only was closed could be given to another test.
        let bound = || {
            let socket = tokio::net::TcpSocket::new_v4().unwrap();
            socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
            (socket.local_addr().unwrap(), socket)
        };
        let ((a, _a), (b, _b)) = (bound(), bound());
        let error = connect_first(vec![a, b]).await.unwrap_err().to_string();
        assert!(
            error.contains(&a.to_string()) && error.contains(&b.to_string()),
            "{error}"
        );
        let error = connect_first(vec![a]).await.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::ConnectionRefused);
        assert_eq!(
            connect_first(Vec::new()).await.unwrap_err().kind(),
            ErrorKind::NotFound
        );
    }
}
