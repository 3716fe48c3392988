//! One attempt to connect to one address of the server.

use super::{ConnectError, Shared};
use crate::framed_stream::{FrameReader, FramedStream};
use crate::handshake::{HandshakeOptions, PeerIdentity, connect_handshake};
use crate::limits::{CHALLENGE_TIMEOUT, CONNECT_TIMEOUT, VERDICT_TIMEOUT};
use crate::tls::MaybeTlsStream;
use gupfs_platform::{BootTime, Clock, Stream};
use std::sync::Arc;

/// A connection that the server has welcomed.
pub(super) struct EstablishedConnection {
    pub address: String,
    pub framed: CloseOnDrop,
    pub reader: FrameReader,
    pub number: u64,
    pub server: PeerIdentity,
}

/// Closes the stream on every path out of its connection.
pub(super) struct CloseOnDrop(pub Arc<FramedStream>);

impl Drop for CloseOnDrop {
    fn drop(&mut self) {
        self.0.close();
    }
}

/// Connects to this address and performs the handshake, within `CONNECT_TIMEOUT`. Of several addresses each must prove its key sooner: a
/// client that has found the live ones waits only for their verdicts.
///
/// # Errors
/// The server did not accept a connection, did not perform the handshake, or took too long.
pub(super) async fn establish(
    shared: &Shared,
    address: &str,
) -> Result<EstablishedConnection, ConnectError> {
    let clock = &shared.options.platform.clock;
    let several = shared.options.addresses.are_several();
    let limit = several.then(|| clock.boot() + CHALLENGE_TIMEOUT);
    let attempt = async {
        let connected = within(clock, limit, connect(shared, address)).await;
        let stream = connected.ok_or(ConnectError::TimedOut)??;
        perform_handshake(shared, address, stream, limit).await
    };
    tokio::select! {
        biased;
        established = attempt => established,
        () = clock.sleep(CONNECT_TIMEOUT) => Err(ConnectError::TimedOut),
    }
}

/// The output of the future; None if the time comes before.
async fn within<T>(
    clock: &Clock,
    limit: Option<BootTime>,
    future: impl Future<Output = T>,
) -> Option<T> {
    let Some(limit) = limit else {
        return Some(future.await);
    };
    tokio::select! {
        biased;
        output = future => Some(output),
        () = clock.sleep_until(limit) => None,
    }
}

async fn connect(shared: &Shared, address: &str) -> Result<Stream, ConnectError> {
    if !shared.options.send_deadline.may_send() {
        return Err(ConnectError::MayNotSend);
    }
    // An address whose handshake failed is tried after the other addresses of the host name.
    let failed = shared.state.lock().failed_addresses.remove(address);
    let stream = (shared.options.net)
        .connect_after(address, failed.as_deref())
        .await
        .map_err(ConnectError::Connect)?;
    let used = stream.peer_address().to_string();
    (shared.state.lock().failed_addresses).insert(address.to_string(), used);
    Ok(stream)
}

async fn perform_handshake(
    shared: &Shared,
    address: &str,
    stream: Stream,
    challenge_limit: Option<BootTime>,
) -> Result<EstablishedConnection, ConnectError> {
    let options = &shared.options;
    let clock = &options.platform.clock;
    let stream = match &options.tls {
        Some(tls) => MaybeTlsStream::tls(stream, tls.connect(address)?),
        None => stream.into(),
    };
    let framed = CloseOnDrop(Arc::new(FramedStream::new(stream, clock.clone())));
    framed.0.set_send_deadline(&options.send_deadline);
    let number = {
        let mut state = shared.state.lock();
        state.number += 1;
        state.number
    };
    let mut reader = framed.0.reader();
    let handshake = async {
        let proofs = connect_handshake(
            &framed.0,
            &mut reader,
            &options.platform.random,
            &options.identity,
            HandshakeOptions {
                number,
                cluster: options.cluster,
                key: options.key.as_ref(),
                fenced: options.fence,
            },
        );
        let proven = within(clock, challenge_limit, proofs).await;
        let proven = proven.ok_or(ConnectError::TimedOut)??;
        let verdict = proven.receive_verdict(&framed.0, &mut reader, &options.addresses);
        let verdict_limit = challenge_limit.map(|_| clock.boot() + VERDICT_TIMEOUT);
        let server = within(clock, verdict_limit, verdict).await;
        Ok(server.ok_or(ConnectError::NoVerdict)??)
    };
    // Handshake messages may wait for space in the socket buffer too.
    let server: Result<PeerIdentity, ConnectError> = tokio::select! {
        biased;
        server = handshake => server,
        () = framed.0.flush() => Err(ConnectError::Lost("the connection ended".into())),
    };
    Ok(EstablishedConnection {
        address: address.to_string(),
        server: server?,
        framed,
        reader,
        number,
    })
}
