//! Who answers which kind of message that comes over a connection.

use crate::peer::Service;
use crate::serve::Caller;
use bytes::Bytes;
use gupfs_proto::wire::{Kind, Reply, Unreadable, Written};
use gupfs_proto::{Question, Refusal, Role};
use std::collections::BTreeMap;
use std::future::Future;
use std::marker::PhantomData;
use std::pin::Pin;
use std::sync::Arc;

/// Like `Service`, for who wants to know where a question came from.
pub trait Host<Q, A>: Send + Sync + 'static {
    fn answer(self: Arc<Self>, from: Arc<Caller>, question: Q) -> impl Future<Output = A> + Send;
}

/// One answerer for each kind.
#[derive(Clone, Default)]
pub struct Hosts(BTreeMap<Kind, Arc<dyn Erased>>);

impl Hosts {
    pub fn none() -> Hosts {
        Hosts::default()
    }

    /// Questions of this kind go to `service`.
    pub fn with<Q: Question, A: Reply, S: Service<Q, A>>(mut self, service: Arc<S>) -> Hosts {
        let erased = OfService(service, PhantomData::<fn(Q) -> A>);
        self.0.insert(Q::KIND, Arc::new(erased));
        self
    }

    /// The same, told who asks.
    pub fn with_host<Q: Question, A: Reply, H: Host<Q, A>>(mut self, host: Arc<H>) -> Hosts {
        let erased = OfHost(host, PhantomData::<fn(Q) -> A>);
        self.0.insert(Q::KIND, Arc::new(erased));
        self
    }

    pub(crate) fn get(&self, kind: Kind) -> Option<&Arc<dyn Erased>> {
        self.0.get(&kind)
    }
}

pub(crate) type Answered = Pin<Box<dyn Future<Output = Written> + Send>>;

/// Who asks over a connection.
pub(crate) struct Asker {
    /// Proved in the handshake.
    pub role: Role,
    /// None for a server that asks us over our line.
    pub caller: Option<Arc<Caller>>,
}

pub(crate) trait Erased: Send + Sync {
    /// What cannot be read is refused: asked again it would be no better. So is what the asker's role may not ask.
    fn answer(&self, asker: Asker, body: Bytes, payload: Bytes) -> Answered;

    /// A refusal in the form of these answers.
    fn refuse(&self, why: Refusal) -> Written;
}

/// The log has a line for the first of a connection, the second, the fourth and so on: whoever sends them does not fill it.
fn unread<A: Reply>(from: Option<&Caller>, error: &Unreadable) -> Written {
    let count = from.map_or(1, Caller::sent_unreadable);
    if count.is_power_of_two() {
        let from = from.map_or("the server", Caller::from);
        tracing::warn!(from, count, %error, "a question that cannot be read");
    }
    A::refused(Refusal::Malformed(error.to_string())).write()
}

/// The question, if this asker may ask it.
fn admit<Q: Question, A: Reply>(asker: &Asker, body: &[u8], payload: Bytes) -> Result<Q, Written> {
    let question =
        Q::read(body, payload).map_err(|error| unread::<A>(asker.caller.as_deref(), &error))?;
    match question.askers().contains(&asker.role) {
        true => Ok(question),
        false => {
            let caller = asker.caller.as_ref();
            if caller.is_none_or(|caller| caller.asks_wrongly()) {
                let name = caller.map_or("a server", |caller| &caller.met().name);
                let (role, kind) = (asker.role.name(), Q::KIND.0);
                tracing::warn!(name, role, kind, "it asks what its role may not; refused");
            }
            Err(A::refused(Refusal::NotPermitted).write())
        }
    }
}

struct OfService<S, Q, A>(Arc<S>, PhantomData<fn(Q) -> A>);

impl<S: Service<Q, A>, Q: Question, A: Reply> Erased for OfService<S, Q, A> {
    fn answer(&self, asker: Asker, body: Bytes, payload: Bytes) -> Answered {
        let service = self.0.clone();
        Box::pin(async move {
            match admit::<Q, A>(&asker, &body, payload) {
                Ok(question) => service.answer(question).await.write(),
                Err(refused) => refused,
            }
        })
    }

    fn refuse(&self, why: Refusal) -> Written {
        A::refused(why).write()
    }
}

struct OfHost<H, Q, A>(Arc<H>, PhantomData<fn(Q) -> A>);

impl<H: Host<Q, A>, Q: Question, A: Reply> Erased for OfHost<H, Q, A> {
    fn answer(&self, asker: Asker, body: Bytes, payload: Bytes) -> Answered {
        let host = self.0.clone();
        Box::pin(async move {
            let question = match admit::<Q, A>(&asker, &body, payload) {
                Ok(question) => question,
                Err(refused) => return refused,
            };
            let Some(from) = asker.caller else {
                let why = Refusal::Malformed("asked the wrong way round".into());
                return A::refused(why).write();
            };
            host.answer(from, question).await.write()
        })
    }

    fn refuse(&self, why: Refusal) -> Written {
        A::refused(why).write()
    }
}
