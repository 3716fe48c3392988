//! The last message of a handshake: the server's verdict, and the addresses of all copies of the server behind it.

use super::messages::{Challenge, Rejected, ServerList, Verdict};
use super::{receive_body, send_message, unreadable};
use crate::framed_stream::{FrameReader, FramedStream, FramedStreamError};
use crate::limits::{HANDSHAKE_BODY_MAX, SERVER_ADDRESS_MAX, SERVER_ADDRESSES_MAX};

/// Sends a rejection, without TLS, to a peer that uses TLS while this server does not, or the reverse.
pub fn send_transport_rejection(framed: &FramedStream, why: &str) {
    framed.stream().stop_encrypting();
    let rejected = Rejected {
        why: why.to_string(),
        is_permanent: true,
    };
    send_message(framed, &Challenge::Rejected(rejected));
}

/// Sends the verdict "rejected", and the addresses of all copies of this server. With `is_permanent` the peer does not try again.
pub fn send_rejection(framed: &FramedStream, why: &str, is_permanent: bool, addresses: &[String]) {
    let rejected = Rejected {
        why: why.to_string(),
        is_permanent,
    };
    send_verdict(framed, &Verdict::Rejected(rejected), addresses);
}

/// Sends a verdict, and as many of the addresses as fit.
pub(super) fn send_verdict(framed: &FramedStream, verdict: &Verdict, addresses: &[String]) {
    let verdict_len = postcard::to_stdvec(verdict).map_or(0, |encoded| encoded.len());
    let list = ServerList::that_fits(addresses, verdict_len);
    match list.addresses.is_empty() {
        true => send_message(framed, verdict),
        false => send_message(framed, &(verdict, list)),
    };
}

/// Receives the verdict, and the addresses that follow it.
pub(super) async fn receive_verdict(
    reader: &mut FrameReader,
) -> Result<(Verdict, Vec<String>), FramedStreamError> {
    let body = receive_body(reader).await?;
    let (verdict, rest) = postcard::take_from_bytes(&body).map_err(|_| unreadable())?;
    Ok((verdict, ServerList::read(rest)))
}

/// The addresses of all copies of a server as the body of a ping; empty if there are none.
pub fn pack_addresses(addresses: &[String]) -> Vec<u8> {
    let list = ServerList::that_fits(addresses, 0);
    match list.addresses.is_empty() {
        true => Vec::new(),
        false => postcard::to_stdvec(&list).expect("a list is plain data"),
    }
}

/// The addresses in the body of a ping; none if it has none, or is not valid.
pub fn addresses_in(body: &[u8]) -> Vec<String> {
    ServerList::read(body)
}

impl ServerList {
    /// As many of the addresses as fit into the body behind a verdict of this length.
    fn that_fits(addresses: &[String], verdict_len: usize) -> ServerList {
        // The number of the addresses takes one byte, the length of one at most two.
        let mut free = (HANDSHAKE_BODY_MAX as usize).saturating_sub(verdict_len + 1);
        let short = addresses
            .iter()
            .filter(|address| address.len() <= SERVER_ADDRESS_MAX);
        let fits = |address: &&String| {
            let left = free.checked_sub(address.len() + 2);
            free = left.unwrap_or(0);
            left.is_some()
        };
        ServerList {
            addresses: short
                .take(SERVER_ADDRESSES_MAX)
                .take_while(fits)
                .cloned()
                .collect(),
        }
    }

    /// The addresses in the bytes after a verdict. None if there are too many, one is too long, or the bytes are something else: the
    /// verdict is valid without them.
    fn read(bytes: &[u8]) -> Vec<String> {
        let list = postcard::take_from_bytes::<ServerList>(bytes);
        let addresses = list.map_or_else(|_| Vec::new(), |(list, _)| list.addresses);
        let is_valid = addresses.len() <= SERVER_ADDRESSES_MAX
            && (addresses.iter()).all(|address| address.len() <= SERVER_ADDRESS_MAX);
        match is_valid {
            true => addresses,
            false => Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn encoded(addresses: Vec<String>) -> Vec<u8> {
        postcard::to_stdvec(&ServerList { addresses }).unwrap()
    }

    fn addresses(count: usize, length: usize) -> Vec<String> {
        let address = |number: usize| format!("{number:0length$}");
        (0..count).map(address).collect()
    }

    /// `receive_message` decodes messages with this function, also in former versions.
    #[test]
    fn a_peer_of_a_former_version_ignores_the_addresses_behind_a_verdict() {
        let rejected = Verdict::Rejected(Rejected {
            why: "later".into(),
            is_permanent: false,
        });
        for verdict in [Verdict::Welcome, rejected] {
            let mut body = postcard::to_stdvec(&verdict).unwrap();
            body.extend(encoded(addresses(3, 20)));
            assert_eq!(postcard::from_bytes::<Verdict>(&body), Ok(verdict));
        }
    }

    #[test]
    fn a_list_that_is_too_long_or_unreadable_is_ignored() {
        assert_eq!(ServerList::read(&encoded(addresses(16, 256))).len(), 16);
        for bytes in [
            encoded(addresses(17, 20)),
            encoded(addresses(1, 257)),
            vec![200, 1, 7],
            Vec::new(),
        ] {
            assert_eq!(ServerList::read(&bytes), [""; 0]);
        }
        // What a later version may append.
        let longer = [encoded(addresses(2, 9)), vec![9; 9]].concat();
        assert_eq!(ServerList::read(&longer), addresses(2, 9));
    }

    #[test]
    fn the_addresses_fit_into_the_body_of_a_handshake_message() {
        for (verdict, address, fit) in [(1, 20, 16), (1, 256, 15), (300, 256, 14), (5_000, 20, 0)] {
            let list = ServerList::that_fits(&addresses(20, address), verdict);
            assert_eq!(list.addresses.len(), fit);
            let length = verdict + encoded(list.addresses).len();
            assert!(length <= HANDSHAKE_BODY_MAX as usize || fit == 0);
        }
        let mixed = [addresses(1, 300), addresses(2, 5)].concat();
        assert_eq!(ServerList::that_fits(&mixed, 1).addresses, addresses(2, 5));
    }
}
