//! The server that a request goes to, in this process or behind a connection.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// A handler of requests `Q` with replies `A`. Handling may wait; the caller decides on which task it runs.
pub trait Service<Q, A>: Send + Sync + 'static {
    fn handle(self: Arc<Self>, request: Q) -> impl Future<Output = A> + Send;
}

/// A handle to one server, in this process or behind a connection. Clones refer to the same server.
pub struct Peer<Q, A> {
    transport: Arc<dyn Transport<Q, A>>,
    /// The newest version of the requests that the server understands.
    newest_version: u8,
}

impl<Q, A> Clone for Peer<Q, A> {
    fn clone(&self) -> Self {
        Peer {
            transport: self.transport.clone(),
            newest_version: self.newest_version,
        }
    }
}

impl<Q, A> fmt::Debug for Peer<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

impl<Q: Send + 'static, A: Send + 'static> Peer<Q, A> {
    /// A server in this process: a call runs on the caller's task.
    pub fn local<S: Service<Q, A>>(server: Arc<S>) -> Peer<Q, A> {
        Peer {
            transport: Arc::new(LocalTransport(server)),
            newest_version: u8::MAX,
        }
    }

    pub(crate) fn with_transport(transport: Arc<dyn Transport<Q, A>>) -> Peer<Q, A> {
        Peer {
            transport,
            newest_version: u8::MAX,
        }
    }

    /// The same, for a server that may be of a former version.
    pub(crate) fn with_newest_version(self, newest_version: u8) -> Peer<Q, A> {
        Peer {
            newest_version,
            ..self
        }
    }

    /// Whether the server understands requests of this version.
    pub fn accepts_version(&self, version: u8) -> bool {
        version <= self.newest_version
    }

    /// Sends a request and returns its reply. A failure of the connection is an error inside the reply.
    pub async fn call(&self, request: Q) -> A {
        self.transport.call(request).await
    }
}

pub(crate) type ReplyFuture<A> = Pin<Box<dyn Future<Output = A> + Send>>;

/// How `Peer` delivers a request: `LocalTransport` in this file, client connections and callbacks over server connections
/// elsewhere.
pub(crate) trait Transport<Q, A>: Send + Sync {
    fn call(&self, request: Q) -> ReplyFuture<A>;
}

struct LocalTransport<S>(Arc<S>);

impl<S: Service<Q, A>, Q: Send + 'static, A: Send + 'static> Transport<Q, A> for LocalTransport<S> {
    fn call(&self, request: Q) -> ReplyFuture<A> {
        let server = self.0.clone();
        Box::pin(async move { server.handle(request).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Adder;
    impl Service<(u32, u32), u32> for Adder {
        async fn handle(self: Arc<Self>, (a, b): (u32, u32)) -> u32 {
            a + b
        }
    }

    #[tokio::test]
    async fn a_local_peer_replies_without_waiting() {
        let peer = Peer::local(Arc::new(Adder));
        assert_eq!(peer.clone().call((1, 2)).await, 3);
    }
}
