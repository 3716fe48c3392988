//! Whom a question goes to, wherever that is.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

/// Who answers questions `Q` with `A`. Answering may wait; whoever asks decides on which task.
pub trait Service<Q, A>: Send + Sync + 'static {
    fn answer(self: Arc<Self>, question: Q) -> impl Future<Output = A> + Send;
}

/// A handle to one server, wherever it is. Clones are the same peer.
pub struct Peer<Q, A> {
    way: Arc<dyn Way<Q, A>>,
}

impl<Q, A> Clone for Peer<Q, A> {
    fn clone(&self) -> Self {
        Peer {
            way: self.way.clone(),
        }
    }
}

impl<Q, A> fmt::Debug for Peer<Q, A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Peer")
    }
}

impl<Q: Send + 'static, A: Send + 'static> Peer<Q, A> {
    /// A server in this process: the call runs on the caller's task, as far as it goes without waiting.
    pub fn local<S: Service<Q, A>>(server: Arc<S>) -> Peer<Q, A> {
        Peer {
            way: Arc::new(Local(server)),
        }
    }

    pub(crate) fn over(way: Arc<dyn Way<Q, A>>) -> Peer<Q, A> {
        Peer { way }
    }

    pub async fn call(&self, question: Q) -> A {
        self.way.call(question).await
    }
}

pub(crate) type Answering<A> = Pin<Box<dyn Future<Output = A> + Send>>;

/// The seam behind `Peer`: `Local` here, lines and connections beside it.
pub(crate) trait Way<Q, A>: Send + Sync {
    fn call(&self, question: Q) -> Answering<A>;
}

struct Local<S>(Arc<S>);

impl<S: Service<Q, A>, Q: Send + 'static, A: Send + 'static> Way<Q, A> for Local<S> {
    fn call(&self, question: Q) -> Answering<A> {
        let server = self.0.clone();
        Box::pin(async move { server.answer(question).await })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Adder;
    impl Service<(u32, u32), u32> for Adder {
        async fn answer(self: Arc<Self>, (a, b): (u32, u32)) -> u32 {
            a + b
        }
    }

    #[tokio::test]
    async fn a_local_peer_answers_without_waiting() {
        let peer = Peer::local(Arc::new(Adder));
        assert_eq!(peer.clone().call((1, 2)).await, 3);
    }
}
