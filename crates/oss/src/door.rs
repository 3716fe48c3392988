//! Requests of other processes: let in when they show by what right they ask.

use crate::Oss;
use gupfs_proto::Refusal;
use gupfs_proto::capability::Fault;
use gupfs_proto::data::{Reply, Request};
use gupfs_rpc::{Caller, Host, Service};
use gupfs_world::Clock;
use std::sync::Arc;

/// Calls within a process go past it, straight to `Oss`.
pub struct Door {
    oss: Arc<Oss>,
    clock: Clock,
}

impl Door {
    pub fn of(oss: &Arc<Oss>, clock: &Clock) -> Arc<Door> {
        Arc::new(Door {
            oss: oss.clone(),
            clock: clock.clone(),
        })
    }
}

impl Host<Request, Reply> for Door {
    async fn answer(self: Arc<Self>, from: Arc<Caller>, request: Request) -> Reply {
        // Held until the answer is made: whoever fences the session waits for it.
        let _admitted = match self.oss.gate().admit(&request, self.clock.boot()) {
            Ok(admitted) => admitted,
            Err(fault) => {
                self.tell(&from, &request, fault);
                return Err(Refusal::Capability(fault));
            }
        };
        self.oss.clone().answer(request).await
    }
}

impl Door {
    fn tell(&self, from: &Caller, request: &Request, fault: Fault) {
        let (op, ost, session) = (request.op.name(), request.ost, request.session);
        let (name, at) = (&from.met().name, from.from());
        if fault == Fault::Expired {
            // Whoever was cut off for a while renews it.
            tracing::info!(%ost, %session, op, name, at, %fault, "refused");
            return;
        }
        tracing::warn!(%ost, %session, op, name, at, %fault, "refused");
        let who = format!("{name} at {at}, session {session}, {op} on ost{ost}: {fault}");
        self.oss.gate().note_refused(who);
    }
}
