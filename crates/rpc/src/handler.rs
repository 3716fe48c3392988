//! Which handler processes which kind of message received over a connection.

use crate::connected_peer::ConnectedPeer;
use crate::peer::Service;
use bytes::Bytes;
use gupfs_proto::wire::{DecodeError, EncodedMessage, MessageKind, ReplyMessage};
use gupfs_proto::{FsError, RequestMessage, Role};
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// Like `Service`, for a handler that needs to know which connected peer sent the request.
pub trait PeerHandler<Q, A>: Send + Sync + 'static {
    fn handle(
        self: Arc<Self>,
        from: Arc<ConnectedPeer>,
        request: Q,
    ) -> impl Future<Output = A> + Send;
}

/// One handler for each message kind.
#[derive(Clone, Default)]
pub struct Handlers(BTreeMap<MessageKind, Arc<dyn ErasedHandler>>);

impl Handlers {
    /// No handler: the other side sends no requests over the connection.
    pub fn none() -> Handlers {
        Handlers::default()
    }

    /// Requests of this kind go to `service`.
    pub fn with_service<Q: RequestMessage, A: ReplyMessage, S: Service<Q, A>>(
        mut self,
        service: Arc<S>,
    ) -> Handlers {
        let erased = ErasedService(service, PhantomData::<fn(Q) -> A>);
        self.0.insert(Q::KIND, Arc::new(erased));
        self
    }

    /// Requests of this kind go to `handler`, with the peer that sent them.
    pub fn with_peer_handler<Q: RequestMessage, A: ReplyMessage, H: PeerHandler<Q, A>>(
        mut self,
        handler: Arc<H>,
    ) -> Handlers {
        let erased = ErasedPeerHandler(handler, PhantomData::<fn(Q) -> A>);
        self.0.insert(Q::KIND, Arc::new(erased));
        self
    }

    pub(crate) fn get(&self, kind: MessageKind) -> Option<&Arc<dyn ErasedHandler>> {
        self.0.get(&kind)
    }
}

pub(crate) type WireReplyFuture = Pin<Box<dyn Future<Output = EncodedMessage> + Send>>;

/// The peer that sent a request over a connection.
pub(crate) struct RequestSource {
    /// The peer proved this role in the handshake.
    pub role: Role,
    /// None for a server that sends a callback over our client connection.
    pub peer: Option<Arc<ConnectedPeer>>,
}

pub(crate) trait ErasedHandler: Send + Sync {
    /// Decodes the request and runs the handler. Replies with an error to a malformed request (a resent one would be no better)
    /// and to a request that the peer's role must not send.
    fn handle(&self, source: RequestSource, body: Bytes, payload: Bytes) -> WireReplyFuture;

    /// This error as an encoded reply of the handler's kind.
    fn error_reply(&self, why: FsError) -> EncodedMessage;
}

/// The reply to a malformed request. The log gets a line for the first one of a connection, the second, the fourth and so on: a
/// peer that sends many of them does not fill the log.
fn malformed_reply<A: ReplyMessage>(
    from: Option<&ConnectedPeer>,
    error: &DecodeError,
) -> EncodedMessage {
    let count = from.map_or(1, ConnectedPeer::count_malformed);
    if count.is_power_of_two() {
        let from = from.map_or("the server", ConnectedPeer::address);
        tracing::warn!(from, count, %error, "malformed request; replied with an error");
    }
    A::from_error(FsError::Malformed(error.to_string())).encode()
}

/// Decodes a request and checks that the peer's role may send it.
fn read_request<Q: RequestMessage, A: ReplyMessage>(
    source: &RequestSource,
    body: &[u8],
    payload: Bytes,
) -> Result<Q, EncodedMessage> {
    let request = Q::decode(body, payload)
        .map_err(|error| malformed_reply::<A>(source.peer.as_deref(), &error))?;
    match request.allowed_roles().contains(&source.role) {
        true => Ok(request),
        false => {
            let peer = source.peer.as_ref();
            if peer.is_none_or(|peer| peer.note_forbidden()) {
                let name = peer.map_or("a server", |peer| &peer.identity().name);
                let (role, kind) = (source.role.name(), Q::KIND.0);
                tracing::warn!(
                    name,
                    role,
                    kind,
                    "the peer sent a request that its role must not send; refused"
                );
            }
            Err(A::from_error(FsError::NotPermitted).encode())
        }
    }
}

struct ErasedService<S, Q, A>(Arc<S>, PhantomData<fn(Q) -> A>);

impl<S: Service<Q, A>, Q: RequestMessage, A: ReplyMessage> ErasedHandler
    for ErasedService<S, Q, A>
{
    fn handle(&self, source: RequestSource, body: Bytes, payload: Bytes) -> WireReplyFuture {
        let service = self.0.clone();
        Box::pin(async move {
            match read_request::<Q, A>(&source, &body, payload) {
                Ok(request) => service.handle(request).await.encode(),
                Err(refused) => refused,
            }
        })
    }

    fn error_reply(&self, why: FsError) -> EncodedMessage {
        A::from_error(why).encode()
    }
}

struct ErasedPeerHandler<H, Q, A>(Arc<H>, PhantomData<fn(Q) -> A>);

impl<H: PeerHandler<Q, A>, Q: RequestMessage, A: ReplyMessage> ErasedHandler
    for ErasedPeerHandler<H, Q, A>
{
    fn handle(&self, source: RequestSource, body: Bytes, payload: Bytes) -> WireReplyFuture {
        let handler = self.0.clone();
        Box::pin(async move {
            let request = match read_request::<Q, A>(&source, &body, payload) {
                Ok(request) => request,
                Err(refused) => return refused,
            };
            let Some(from) = source.peer else {
                let why = FsError::Malformed(
                    "a server sent this request over a client connection".into(),
                );
                return A::from_error(why).encode();
            };
            handler.handle(from, request).await.encode()
        })
    }

    fn error_reply(&self, why: FsError) -> EncodedMessage {
        A::from_error(why).encode()
    }
}
