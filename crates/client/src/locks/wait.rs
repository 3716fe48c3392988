//! Taking a lock, and waiting for it.

use super::held::Standing;
use crate::calls::Whom;
use crate::file::OpenFile;
use crate::service::Client;
use gupfs_proto::lock::{Ask, Extent, Lock, Word};
use gupfs_proto::{Refusal, SessionId};
use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;

/// A place in the server's queue. Dropped, it is given up.
struct Place<'a> {
    client: &'a Arc<Client>,
    session: SessionId,
    take: u64,
    lock: Lock,
    is_over: bool,
}

impl Client {
    pub(super) async fn take_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        lock: Lock,
    ) -> Result<(), Refusal> {
        self.locks.goes_through(file.id(), lock.holder);
        let take = |order| Ask::Take {
            order,
            lock,
            waits: false,
        };
        self.ask_lock(take).await?;
        self.took(file, lock).await
    }

    pub(super) async fn wait_for_lock(
        self: &Arc<Self>,
        file: &OpenFile,
        lock: Lock,
        given_up: impl Future<Output = ()>,
    ) -> Result<(), Refusal> {
        self.locks.goes_through(file.id(), lock.holder);
        let mut given_up = pin!(given_up);
        let session = file.session();
        loop {
            let take = |order| Ask::Take {
                order,
                lock,
                waits: true,
            };
            let (take, word) = self.ask_lock(take).await?;
            let mut place = Place {
                client: self,
                session,
                take,
                lock,
                is_over: word != Word::Waits,
            };
            if place.is_over || place.wait(given_up.as_mut()).await? {
                return self.took(file, lock).await;
            }
        }
    }

    /// A file that was closed meanwhile, or lost, keeps no lock: nobody would free it.
    async fn took(self: &Arc<Self>, file: &OpenFile, lock: Lock) -> Result<(), Refusal> {
        if self.handles.get(file.id()).is_some() && self.must_count(file).is_ok() {
            return Ok(());
        }
        self.locks.went_through(file.id());
        self.free_lock(lock.holder, Extent::WHOLE).await?;
        Err(Refusal::Stale)
    }
}

impl Place<'_> {
    /// Whether it was granted; if not, it is to be asked for again.
    async fn wait(
        &mut self,
        mut given_up: Pin<&mut impl Future<Output = ()>>,
    ) -> Result<bool, Refusal> {
        let client = self.client;
        let call = client.call(Whom::Mds, "lock", Some(self.lock.holder.ino));
        let _listed = client.calls.begin(call);
        loop {
            let mut changed = pin!(client.locks.changed.notified());
            changed.as_mut().enable();
            if let Some(over) = self.look() {
                return over;
            }
            tokio::select! {
                biased;
                () = changed => {}
                () = given_up.as_mut() => return self.give_up().await,
            }
        }
    }

    fn look(&mut self) -> Option<Result<bool, Refusal>> {
        let over = match self.client.locks.standing(self.session, self.take) {
            Standing::Waits => return None,
            Standing::Granted => Ok(true),
            Standing::AskAgain => Ok(false),
            Standing::Lost => Err(Refusal::Stale),
        };
        // If it was asked for in a session that came after, it waits there still.
        self.is_over = over.is_ok();
        Some(over)
    }

    /// True if it was granted before.
    async fn give_up(&mut self) -> Result<bool, Refusal> {
        cancel(self.client, self.take).await?;
        match self.look() {
            Some(Ok(true)) => Ok(true),
            Some(Err(refusal)) => Err(refusal),
            Some(Ok(false)) | None => {
                self.is_over = true;
                Err(Refusal::Interrupted)
            }
        }
    }
}

async fn cancel(client: &Arc<Client>, take: u64) -> Result<(), Refusal> {
    let cancel = |order| Ask::Cancel { order, take };
    client.ask_lock(cancel).await.map(|_| ())
}

impl Drop for Place<'_> {
    fn drop(&mut self) {
        let (client, take, lock) = (self.client.clone(), self.take, self.lock);
        if self.is_over {
            client.locks.waits_no_more(take);
            return;
        }
        let tasks = client.platform.tasks.clone();
        tasks.spawn("give up waiting for a lock", async move {
            let cancelled = cancel(&client, take).await;
            let was_granted = client.locks.is_granted(take);
            client.locks.waits_no_more(take);
            let freed = match was_granted {
                true => client.free_lock(lock.holder, lock.extent).await,
                false => cancelled,
            };
            if let Err(refusal) = freed {
                tracing::warn!(%refusal, "a lock that nobody waits for any more could not be given up");
            }
        });
    }
}
