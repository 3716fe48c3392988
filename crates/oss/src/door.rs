//! Requests of other processes: let in when they show by what right they ask.

use crate::Oss;
use crate::gate::Admitted;
use gupfs_platform::Clock;
use gupfs_proto::Refusal;
use gupfs_proto::capability::{Fault, Warrant};
use gupfs_proto::data::{Reply, Request};
use gupfs_rpc::{Caller, Host, Service};
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
        let admitted = tokio::select! {
            biased;
            admitted = self.admit(&request) => admitted,
            // Its next connection is let in when nothing of this one is under way.
            () = from.gone() => return Err(Refusal::TimedOut("who asked is gone".into())),
        };
        // Held until the answer is made: whoever fences the session waits for it.
        let _admitted = match admitted {
            Ok(admitted) => admitted,
            Err(fault) => {
                if let Some(down) = self.is_no_fault(&request, fault) {
                    return Err(down);
                }
                self.tell(&from, &request, fault);
                return Err(Refusal::Capability(fault));
            }
        };
        self.oss.clone().answer(request).await
    }
}

impl Door {
    /// Whether this may be done, judged when the metadata server was heard on the target. Before that the gate may have no keys,
    /// and would refuse what is right: the metadata server and its clients know that a target serves before its server does,
    /// whose answer is still on the way.
    pub(crate) async fn admit(&self, request: &Request) -> Result<Admitted, Fault> {
        self.oss.wait_until_heard(request.ost).await;
        self.oss.gate().admit(request, self.clock.boot())
    }

    /// The gate has no key of a target that does not serve here: to the client every right to it looks expired, and it would
    /// get new ones and ask again. The metadata server does ask again: it may have heard of the target before this server has
    /// heard its answer.
    fn is_no_fault(&self, request: &Request, fault: Fault) -> Option<Refusal> {
        let by_client = matches!(request.warrant, Warrant::Client { .. });
        match fault {
            Fault::Expired if by_client => self.oss.objects(request.ost).err(),
            _ => None,
        }
    }

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
